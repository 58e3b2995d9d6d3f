"""All single-head ablations: the evaluation engine against plain loops over the masks.

The first loop runs one mask at a time over the same batches; the second also pads every example to
128 tokens, as published scripts do. The bound is what the layer count allows when a masked run
starts at the masked layer: 2 L / (L + 1) for L layers of equal cost.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time

import numpy as np
import torch
from transformers import BertForSequenceClassification

from headtool.data import load_data
from headtool.evaluation import evaluate, mask_gates
from headtool.heads import HeadMask
from headtool.models import load_model
from headtool.models.base import Examples, ModelAdapter
from headtool.models.gating import Gating
from headtool.models.huggingface import HuggingFaceModel

PADDED = 128


def plain(
    model: ModelAdapter, examples: Examples, masks: list[HeadMask], *, pad_to: int = 0
) -> np.ndarray:
    """Loss of every mask on every example, one mask at a time: [masks, examples]."""
    losses = np.zeros((len(masks), len(examples)))
    with torch.inference_mode():
        for index in examples.batches():
            batch = model.collate(examples, index)
            if pad_to:
                for name, tensor in batch.inputs.items():
                    missing = pad_to - tensor.shape[1]
                    batch.inputs[name] = torch.nn.functional.pad(tensor, (0, missing))
            for row, mask in enumerate(masks):
                with model.intercept(Gating(mask_gates(mask, model)), batch):
                    losses[row, index] = model.forward(batch).losses.double().cpu().numpy()
    return losses


def random_bert(like: ModelAdapter, shape: str) -> ModelAdapter:
    """A BERT classifier of another shape, with the tokenizer and labels of `like`."""
    layers, heads, width = map(int, shape.split("x"))
    config = copy.deepcopy(like.config)
    config.num_hidden_layers, config.num_attention_heads = layers, heads
    config.hidden_size, config.intermediate_size = width, 4 * width
    module = BertForSequenceClassification(config)
    return HuggingFaceModel(f"random {shape}", like.task, module, like.tokenizer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:nli")
    parser.add_argument("--data", default="builtin:nli/matched")
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--padded", action="store_true", help="also against padding to 128")
    parser.add_argument(
        "--random", metavar="LAYERSxHEADSxWIDTH", help="a BERT of this shape with random weights"
    )
    arguments = parser.parse_args()

    model = load_model(arguments.model)
    if arguments.random:
        model = random_bert(model, arguments.random)
    examples = model.encode(load_data(arguments.data)).head(arguments.examples)
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads]
    evaluate(model, examples.head(32), masks)  # warm-up
    ratios, padded = [], []
    for _ in range(arguments.repeats):
        started = time.perf_counter()
        fast = evaluate(model, examples, masks)
        seconds = time.perf_counter() - started
        started = time.perf_counter()
        slow = plain(model, examples, masks)
        ratios.append((time.perf_counter() - started) / seconds)
        if arguments.padded:
            started = time.perf_counter()
            plain(model, examples, masks, pad_to=PADDED)
            padded.append((time.perf_counter() - started) / seconds)
    difference = np.abs(fast.masked["loss"] - slow).max()
    layers = len(model.sites)
    print(
        f"{len(masks)} masks x {len(examples)} examples, {model.spec}: "
        f"{statistics.median(ratios):.2f}x a plain loop over the same batches "
        f"(from {min(ratios):.2f} to {max(ratios):.2f}; "
        f"{2 * layers / (layers + 1):.2f} from restarting at the layer alone); "
        f"largest difference of a loss {difference:.0e}"
    )
    if padded:
        print(f"against padding to {PADDED}: {statistics.median(padded):.2f}x")


if __name__ == "__main__":
    main()
