"""Half of the heads removed: what that saves in time, beside what it saves in operations.

1. The attention of a 12-layer model of BERT-base's shape by itself.
2. The whole of that model, with masked-only as the control that must stay at 1.0x.
3. Decoding of a translation model, likewise.

All sides take turns in one process; ratios are medians over the turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
import transformers
from torch import nn

from headtool.heads import HeadMask
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.huggingface.model import HuggingFaceModel
from headtool.pruning.smaller import Pruned, prune
from headtool.pruning.speed import contenders, measure_speed
from headtool.surgery.tracing import unit_name


def bert_base() -> HuggingFaceModel:
    """A randomly initialised classifier of BERT-base's shape; the tokens do not matter."""
    torch.manual_seed(0)
    builtin = load_model("builtin:nli", device="cpu")
    assert isinstance(builtin, HuggingFaceModel)
    config = transformers.BertConfig(num_labels=3)
    module = transformers.BertForSequenceClassification(config)
    tokenizer = builtin.tokenizer
    tokenizer.model_max_length = 512
    return HuggingFaceModel("bert-base shape", "classification", module, tokenizer)


def without_half(model: ModelAdapter) -> Pruned:
    """Remove every other head of every layer."""
    is_open = np.array([head.index % 2 == 0 for head in model.sites.heads])
    return prune(model, HeadMask(model.sites, is_open))


def attention_ratio(
    whole: ModelAdapter, pruned: ModelAdapter, options: argparse.Namespace
) -> float:
    """How much faster the first layer's attention is by itself."""
    name = unit_name(whole.module, whole.handles[0])
    calls: list[Callable[[], object]] = []
    for model in (whole, pruned):
        part = model.module.get_submodule(name)
        captured: list[tuple[tuple[object, ...], dict[str, object]]] = []

        def keep(
            module: nn.Module,
            args: tuple[object, ...],
            kwargs: dict[str, object],
            captured: list[tuple[tuple[object, ...], dict[str, object]]] = captured,
        ) -> None:
            captured.append((args, kwargs))

        hook = part.register_forward_pre_hook(keep, with_kwargs=True)
        model.probe(model.module, batch=options.batch, source=options.length).run()
        hook.remove()
        args, kwargs = captured[0]
        calls.append(lambda part=part, args=args, kwargs=kwargs: part(*args, **kwargs))
    ratios = []
    clock = clock_of(options)
    for _ in range(3 * options.turns):
        seconds = []
        for call in calls:
            started = clock()
            call()
            seconds.append(clock() - started)
        ratios.append(seconds[0] / seconds[1])
    return statistics.median(ratios)


def clock_of(options: argparse.Namespace) -> Callable[[], float]:
    return time.process_time if options.process_time else time.perf_counter


def report(
    title: str, whole: ModelAdapter, pruned: Pruned, work: str, options: argparse.Namespace
) -> None:
    models = contenders(whole, pruned.model)
    frame = measure_speed(
        models,
        work=work,
        batch_sizes=[options.batch],
        length=options.length,
        repetitions=options.turns,
        warmup=1,
        clock=clock_of(options),
    )
    for _, row in frame.iterrows():
        rate = row["tokens_per_second"]
        print(f"{title}, {row['model']}: {rate:,.0f} tokens/s, {row['speedup']:.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument(
        "--process-time",
        action="store_true",
        help="count the process's own time: for a busy machine, with OMP_NUM_THREADS=1",
    )
    parser.add_argument("--translation", default="builtin:mt", help="a translation model")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    bert = bert_base()
    smaller = without_half(bert)
    share = smaller.before.attention_flops / smaller.after.attention_flops
    ratio = attention_ratio(bert, smaller.model, options)
    print(f"attention alone: {ratio:.2f}x faster, for {share:.2f}x fewer operations")
    share = smaller.before.flops / smaller.after.flops
    print(f"the whole model has {share:.2f}x fewer operations")
    report(f"BERT-base shape, batch {options.batch}", bert, smaller, "forward", options)
    translator = load_model(options.translation, device="cpu")
    report(
        f"{options.translation}, decoding, batch {options.batch}",
        translator,
        without_half(translator),
        "decode",
        options,
    )


if __name__ == "__main__":
    main()
