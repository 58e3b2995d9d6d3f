"""What headtool costs on large models, by its model of cost: the first table of docs/scale.md.

``python benchmarks/scale_model.py`` prints it. Nothing is run: a plan is made from the shapes of
the weights, and a GPU is taken to do so many operations a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from headtool.experiments.model_cost import ModelCost
from headtool.experiments.planning import Plan
from headtool.work import Passes, Phase

EXAMPLES, LENGTH, BATCH_TOKENS = 1_000, 256, 16_384
SPEED = 300e12  # operations a second that a GPU really does: 30% of an H100's 989e12 in bfloat16
SCREEN = 64


@dataclass(frozen=True)
class Shape:
    """A model of the Llama family."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int
    gpus: int  # that hold one copy

    @property
    def cost(self) -> ModelCost:
        """What a forward pass takes."""
        shared = self.hidden * self.kv_heads // self.heads
        layer = 2 * self.hidden**2 + 2 * self.hidden * shared + 3 * self.hidden * self.inner
        linear = layer * self.layers + self.hidden * self.vocabulary
        parameters = linear + self.hidden * self.vocabulary
        heads = self.heads * self.layers
        return ModelCost(
            spec=self.name,
            device="cuda",
            parameters=parameters,
            bytes=2 * parameters,
            linear=linear,
            width=self.hidden * self.layers,
            heads=heads,
            layers=self.layers,
            outputs=self.vocabulary,
        )


MODELS = (
    Shape("8B", 4096, 32, 32, 8, 14_336, 128_256, gpus=1),
    Shape("70B", 8192, 80, 64, 8, 28_672, 128_256, gpus=4),
)


def work(cost: ModelCost) -> dict[str, tuple[Passes, ...]]:
    """Passes of some commands over all examples."""
    share = (cost.layers + 1) / (2 * cost.layers)  # of a pass, on average over the layers
    once = Passes(forward=1, backward=1)
    whole = Passes(forward=1)
    few = Passes(forward=SCREEN, share=share)
    return {
        "`score --method gradient`": (once,),
        "`score --method integrated`": (once.times(10),),
        f"`ablate --screen {SCREEN}`": (once.times(0.5), whole.times(0.5), few.times(0.5)),
        "`ablate`": (whole, Passes(forward=cost.heads, share=share)),
    }


def rows() -> Iterator[list[str]]:
    """Passes, operations and time of each command, by number of GPUs."""
    tokens = EXAMPLES * LENGTH
    units = math.ceil(tokens / BATCH_TOKENS)
    for shape in MODELS:
        cost = shape.cost
        for name, parts in work(cost).items():
            phases = tuple(
                Phase(
                    name,
                    part,
                    EXAMPLES,
                    tokens,
                    float(LENGTH),
                    units * max(1, math.ceil(part.forward / 64)),
                )
                for part in parts
            )
            plan = Plan("", cost, phases, BATCH_TOKENS, speed=SPEED / cost.flops(LENGTH))
            times = []
            for gpus in (1, 8, 64):
                copies = gpus // shape.gpus
                if not copies:
                    times.append("does not fit")
                    continue
                times.append(time(replace(plan, workers=copies).total["seconds_most"]))
            passes = sum(part.weight for part in parts)
            total = plan.total
            flops = total["forward_flops"] + total["backward_flops"]
            yield [shape.name, name, f"{passes:,.1f}", f"{flops:.1e}", *times]


def time(seconds: float) -> str:
    """A time in its natural unit."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 6000 else f"{seconds / 3600:.2g} h"


def main() -> None:
    """Print the table."""
    titles = ["model", "command", "whole passes", "operations", "1 GPU", "8 GPUs", "64 GPUs"]
    print("| " + " | ".join(titles) + " |")
    print("| " + " | ".join("---" for _ in titles) + " |")
    for row in rows():
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
