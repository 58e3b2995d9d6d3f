"""Single-head ablations: the evaluation engine against plain loops over the masks.

``python benchmarks/bench_ablation.py`` runs a classifier (BERT), an encoder-decoder (BART) and a
causal language model (GPT-2) with random weights, 6, 12 and 24 layers of about five million weights
in all, on batches of 64 to 4,096 tokens; one thread takes a few minutes.
The plain loop runs one mask at a time over the ordinary batches, which the engine may cut smaller,
and both sides take turns, layer by layer, in one process. What the engine tries once a model it
does in the warm-up. With one thread (OMP_NUM_THREADS=1) processor time is counted, so
that others on the machine matter less.

The bound counts the multiplications of linear layers: the whole model once, and for each mask what
stands at or above the projection that reads the masked head. For L equal layers and many masks it
comes near 2 L / (L + 1). It can be passed: masks of a decoder take the keys and values of the
encoder from the recorded pass, a classifier computes its first position alone after the last
attention, small batches share a pass, and logits are never all held at once.

``--against transformer-lens`` and ``--against nnsight`` race against what is written with these
libraries for the same purpose, by default on the shape of GPT-2 (12 x 12 x 768, 50,257 words, 8
examples of 128 tokens): a head set to zero, no gradient, a loss for each example. ``--masks 144``
runs all heads. ``--model SPEC --data SPEC`` takes a real model.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from ablation_rivals import RIVALS
from ablation_shapes import FAMILIES, random_model
from torch import nn
from transformers.pytorch_utils import Conv1D

from headtool.attention.gating import Gating
from headtool.data import load_data
from headtool.engine.evaluation import evaluate
from headtool.engine.passes import mask_gates
from headtool.engine.units import Unit, UnitResult
from headtool.heads import HeadMask
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

SIZES = ((6, 256), (12, 192), (24, 128))  # layers and width
MASKS = {64: 96, 256: 48, 1024: 16, 4096: 6}  # by tokens of the batch
BATCH_TOKENS = 4096

Plain = Callable[[HeadMask, Unit], np.ndarray]
"""Losses of a unit's examples under a mask, computed from nothing."""


def clock() -> float:
    """Processor time; with several threads, which wait busily, the time that passes."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


@dataclass
class Outcome:
    """What a race showed."""

    engine: float
    plain: float
    bound: float
    difference: float

    @property
    def ratio(self) -> float:
        """How many times as fast the engine is."""
        return self.plain / self.engine


class Race:
    """Runs the engine's units site by site, and the plain loop over the same masks in between.

    Taking turns so often, both sides see the same machine, whatever else it does meanwhile. The
    plain loop runs the ordinary batches; the engine may cut them smaller.
    """

    def __init__(self, masks: Sequence[HeadMask], examples: Examples, plain: Plain) -> None:
        self.masks = masks
        self.plain = plain
        self.seconds = 0.0
        self.losses = np.zeros((len(masks), len(examples)))
        every = range(len(masks))
        self.batches = [Unit(i, one, every) for i, one in enumerate(examples.batches())]

    def __call__(
        self, units: Sequence[Unit], work: Callable[[Unit], UnitResult]
    ) -> Iterator[tuple[Unit, UnitResult]]:
        """Run units as an executor of `evaluate`."""
        sites = [self._by_site(unit.masks) for unit in units]
        waiting = [(batch, mask) for batch in self.batches for mask in batch.masks]
        turns = sum(map(len, sites))
        total, turn = len(waiting), 0
        for unit, blocks in zip(units, sites, strict=True):
            parts = []
            for masks in blocks:
                parts.append(work(Unit(unit.number, unit.examples, masks)))
                started = clock()
                for batch, mask in waiting[total * turn // turns : total * (turn + 1) // turns]:
                    self.losses[mask, batch.examples] = self.plain(self.masks[mask], batch)
                self.seconds += clock() - started
                turn += 1
            first, *others = parts
            yield (
                unit,
                {n: np.concatenate([first[n], *(one[n][1:] for one in others)]) for n in first},
            )

    def _by_site(self, masks: range) -> list[range]:
        sites = [(head.kind, head.layer) for mask in masks for head in self.masks[mask].closed[:1]]
        starts = [i for i in range(len(sites)) if not i or sites[i] != sites[i - 1]]
        ends = [*starts[1:], len(sites)]
        return [masks[a:b] for a, b in zip(starts, ends, strict=True)]


def looped(model: ModelAdapter, examples: Examples) -> Plain:
    """A plain loop: the whole masked model, hooks on its projections."""

    def run(mask: HeadMask, unit: Unit) -> np.ndarray:
        with torch.inference_mode():
            batch = model.collate(examples, unit.examples)
            with model.intercept(Gating(mask_gates(mask, model)), batch):
                return model.forward(batch).losses.double().numpy()

    return run


def bound(model: ModelAdapter, examples: Examples, masks: Sequence[HeadMask]) -> float:
    """Ratio of multiplications, plain loop over engine, if a mask costs what it can change."""
    calls: list[tuple[nn.Module, float]] = []

    def count(part: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        calls.append((part, args[0].numel() / args[0].shape[-1] * part.weight.numel()))

    layers = [part for part in model.module.modules() if isinstance(part, nn.Linear | Conv1D)]
    hooks = [part.register_forward_hook(count) for part in layers]
    with torch.inference_mode():
        model.forward(model.collate(examples, examples.batches()[0][-1:]))
    for hook in hooks:
        hook.remove()
    costs = np.array([cost for _, cost in calls])
    place = {part: number for number, (part, _) in enumerate(calls)}
    projection = {(h.site.kind, h.site.layer): place[h.module] for h in model.handles}
    above = costs[::-1].cumsum()[::-1]
    needed = sum(
        above[min(projection[head.kind, head.layer] for head in mask.closed)] for mask in masks
    )
    return float(len(masks) * costs.sum() / (costs.sum() + needed))


def spread(model: ModelAdapter, count: int) -> list[HeadMask]:
    """Masks of so many single heads, evenly spread over the layers."""
    heads = model.sites.heads
    chosen = np.unique(np.linspace(0, len(heads) - 1, min(count, len(heads))).round().astype(int))
    return [HeadMask.without(model.sites, [heads[i]]) for i in chosen]


def race(model: ModelAdapter, examples: Examples, masks: list[HeadMask], plain: Plain) -> Outcome:
    """Run both sides."""
    first = Unit(0, examples.batches()[0], range(1))
    plain(masks[0], first)  # warm-up
    evaluate(model, examples.take(first.examples[:2]), masks[:1])
    runner = Race(masks, examples, plain)
    started = clock()
    fast = evaluate(model, examples, masks, execute=runner)
    seconds = clock() - started - runner.seconds
    difference = float(np.abs(fast.masked["loss"] - runner.losses).max())
    return Outcome(seconds, runner.seconds, bound(model, examples, masks), difference)


def table(repeats: int) -> None:
    """Race on every shape."""
    print(f"{'model':28} tokens masks  ratio  bound  share  difference")
    lowest = np.inf
    for family in FAMILIES:
        for layers, width in SIZES:
            for tokens, count in MASKS.items():
                length = min(128, tokens // 4)
                model, examples = random_model(
                    family, layers, width, tokens // length, length, batch_tokens=BATCH_TOKENS
                )
                masks = spread(model, count)
                found = [
                    race(model, examples, masks, looped(model, examples)) for _ in range(repeats)
                ]
                one = sorted(found, key=lambda outcome: outcome.ratio)[len(found) // 2]
                lowest = min(lowest, one.ratio / one.bound)
                name = f"{family}, {layers} x {width}"
                print(
                    f"{name:28} {tokens:6,} {len(masks):5}  {one.ratio:4.2f}x  {one.bound:4.2f}x  "
                    f"{one.ratio / one.bound:5.0%}  {one.difference:.0e}",
                    flush=True,
                )
    print(f"lowest share of the bound: {lowest:.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="race on this model alone, with --data")
    parser.add_argument("--data", default="builtin:nli/matched")
    parser.add_argument("--examples", type=int, default=200, help="of --data")
    parser.add_argument("--against", choices=list(RIVALS), help="another library in place of hooks")
    parser.add_argument("--masks", type=int, help="single heads, evenly spread; default all")
    parser.add_argument("--vocabulary", type=int, default=50257, help="words, with --against")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--batch-tokens", type=int, default=BATCH_TOKENS)
    arguments = parser.parse_args()
    if not arguments.model and not arguments.against:
        table(arguments.repeats)
        return
    if arguments.against:
        model, examples = random_model(
            "causal LM",
            12,
            768,
            8,
            128,
            vocabulary=arguments.vocabulary,
            batch_tokens=arguments.batch_tokens,
        )
        plain, name = RIVALS[arguments.against](model, examples), arguments.against
    else:
        model = load_model(arguments.model, device="cpu")
        data = load_data(arguments.data)
        examples = model.encode(data, batch_tokens=arguments.batch_tokens).head(arguments.examples)
        plain, name = looped(model, examples), "a plain loop"
    masks = spread(model, arguments.masks or model.sites.n_heads)
    for _ in range(arguments.repeats):
        one = race(model, examples, masks, plain)
        print(
            f"{len(masks)} masks x {len(examples)} examples, {model.spec}: {one.ratio:.2f}x {name} "
            f"({one.plain:.0f} s and {one.engine:.0f} s); bound against plain passes "
            f"{one.bound:.2f}x; largest difference of a loss {one.difference:.0e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
