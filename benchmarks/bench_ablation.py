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
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from transformers import BertForSequenceClassification

from headtool.attention.gating import Gating
from headtool.data import load_data
from headtool.engine.evaluation import evaluate
from headtool.engine.passes import mask_gates
from headtool.engine.units import Unit, UnitResult
from headtool.heads import HeadMask
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.huggingface.model import HuggingFaceModel

PADDED = 128


class Race:
    """Runs the engine's units, and after each the plain loops over the same masks and batch.

    Taking turns so often, both sides see the same machine, whatever else it does meanwhile.
    """

    def __init__(
        self, model: ModelAdapter, examples: Examples, masks: list[HeadMask], *, padded: bool
    ) -> None:
        self.model = model
        self.examples = examples
        self.gates = [mask_gates(mask, model) for mask in masks]
        self.widths = [0, PADDED] if padded else [0]
        self.seconds = dict.fromkeys(self.widths, 0.0)
        self.losses = np.zeros((len(masks), len(examples)))

    def __call__(
        self, units: Sequence[Unit], work: Callable[[Unit], UnitResult]
    ) -> Iterator[tuple[Unit, UnitResult]]:
        """Run units as an executor of `evaluate`."""
        for unit in units:
            yield unit, work(unit)
            for width in self.widths:
                started = time.perf_counter()
                self._plain(unit, width)
                self.seconds[width] += time.perf_counter() - started

    def _plain(self, unit: Unit, width: int) -> None:
        """Run one mask at a time, every row padded to `width`."""
        with torch.inference_mode():
            batch = self.model.collate(self.examples, unit.examples)
            if width:
                for name, tensor in batch.inputs.items():
                    missing = width - tensor.shape[1]
                    batch.inputs[name] = torch.nn.functional.pad(tensor, (0, missing))
            for mask in unit.masks:
                with self.model.intercept(Gating(self.gates[mask]), batch):
                    losses = self.model.forward(batch).losses
                if not width:
                    self.losses[mask, unit.examples] = losses.double().cpu().numpy()


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
    evaluate(model, examples.head(8), masks[:2])  # warm-up
    ratios: dict[int, list[float]] = {}
    for _ in range(arguments.repeats):
        race = Race(model, examples, masks, padded=arguments.padded)
        started = time.perf_counter()
        fast = evaluate(model, examples, masks, execute=race)
        seconds = time.perf_counter() - started - sum(race.seconds.values())
        for width, spent in race.seconds.items():
            ratios.setdefault(width, []).append(spent / seconds)
    difference = np.abs(fast.masked["loss"] - race.losses).max()
    layers = len(model.sites)
    print(
        f"{len(masks)} masks x {len(examples)} examples, {model.spec}: "
        f"{shown(ratios[0])} a plain loop over the same batches "
        f"({2 * layers / (layers + 1):.2f} from restarting at the layer alone); "
        f"largest difference of a loss {difference:.0e}"
    )
    if arguments.padded:
        print(f"against padding to {PADDED}: {shown(ratios[PADDED])}")


def shown(ratios: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(ratios):.2f}x (from {min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    main()
