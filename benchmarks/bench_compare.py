"""Masks, passes and time of a comparison, stage by stage, against the same with twenty full draws.

``python benchmarks/bench_compare.py`` runs ``compare`` with its defaults, then its single ablations
alone, and prints what each stage took: masks, passes (masks x examples, the whole model not
counted) and processor time. The same with 20 draws at every point of the curves is counted mask by
mask, and its time estimated from what a pass takes in the curves; ``--full`` runs it. Ratios are to
the single ablations of the evaluation half.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import headtool
from headtool.engine.evaluation import evaluate
from headtool.experiments import stages
from headtool.experiments.setup import Setup, set_up
from headtool.masks.singles import single_masks

METHODS = "gradient,confidence,magnitude,fisher"


class Spent:
    """Masks, passes and seconds by stage."""

    def __init__(self) -> None:
        self.masks: dict[str, int] = defaultdict(int)
        self.passes: dict[str, int] = defaultdict(int)
        self.seconds: dict[str, float] = defaultdict(float)

    def add(self, stage: str, masks: int, passes: int, seconds: float) -> None:
        """Count one measurement."""
        self.masks[stage] += masks
        self.passes[stage] += passes
        self.seconds[stage] += seconds

    def show(self, title: str, total: float, single: float) -> None:
        """Print a line for each stage, and the rest."""
        print(f"\n{title}\n{'stage':24}{'masks':>8}{'passes':>10}{'s':>9}{'ratio':>8}")
        rest = total - sum(self.seconds.values())
        for stage in self.masks:
            self._line(stage, self.masks[stage], self.passes[stage], self.seconds[stage], single)
        self._line("scores, tables", 0, 0, rest, single)
        self._line("all", sum(self.masks.values()), sum(self.passes.values()), total, single)

    @staticmethod
    def _line(stage: str, masks: int, passes: int, seconds: float, single: float) -> None:
        print(f"{stage:24}{masks:>8,}{passes:>10,}{seconds:>9.1f}{seconds / single:>8.2f}")


@contextmanager
def counted(spent: Spent) -> Iterator[None]:
    """Count what the stages of a comparison run, by what they are called for."""
    measured, kept = stages.measure, stages.Stages.measure
    running = ["methods"]

    def outer(self: stages.Stages, stage: str, *given: Any, **settings: Any) -> Any:
        before = running[0]
        running[0] = re.split(r"[.](?=all|enc|dec|cross)", stage)[0].removesuffix(".masks")
        try:
            return kept(self, stage, *given, **settings)
        finally:
            running[0] = before

    def inner(model: Any, examples: Any, masks: Any, *given: Any, **settings: Any) -> Any:
        start = time.process_time()
        result = measured(model, examples, masks, *given, **settings)
        passes = len(masks) * len(examples)
        spent.add(running[0], len(masks), passes, time.process_time() - start)
        return result

    stages.measure, stages.Stages.measure = inner, outer  # type: ignore[method-assign]
    try:
        yield
    finally:
        stages.measure, stages.Stages.measure = measured, kept  # type: ignore[method-assign]


def alone(setup: Setup) -> float:
    """Seconds of the single ablations of the evaluation half."""
    masks = [item.mask for item in single_masks(setup.model.sites, setup.sites.heads)]
    start = time.process_time()
    evaluate(setup.model, setup.split.first, masks)
    return time.process_time() - start


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:nli")
    parser.add_argument("--data", default=None)
    parser.add_argument("--method", default=METHODS)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--full", action="store_true", help="run the 20 full draws as well")
    given = parser.parse_args()
    asked = {"methods": given.method.split(","), "limit": given.limit}
    setup = set_up(given.model, given.data, **asked)
    alone(setup)  # warm
    singles = [alone(setup)]

    def run(title: str, **more: Any) -> tuple[Spent, float]:
        spent, start = Spent(), time.process_time()
        with counted(spent):
            found = headtool.compare(setup.model, given.data, **asked, **more)
        total = time.process_time() - start
        singles.append(alone(setup))
        single = sum(singles) / len(singles)
        spent.show(f"{title}; single ablations alone: {single:.1f} s", total, single)
        rows = found.curve_tests[found.curve_tests["draws"].notna()]
        for row in rows.to_dict("records"):
            print(
                f"  {row['method_x']} and {row['method_y']}: {row['draws_beaten']:.0f} of "
                f"{row['draws']:.0f} draws beaten, adjusted p {row['p_draws_adjusted']:.3g}"
            )
        return spent, total

    spent, total = run("default")
    single = sum(singles) / len(singles)
    if given.full:
        _, before = run("20 draws at every point", draws=20)
    else:
        budgets = sum(0 < budget < setup.sites.n_heads for budget in setup.families[0].budgets)
        masks = 20 * budgets * (1 + len(setup.methods))
        pace = spent.seconds["curves"] / spent.passes["curves"]
        before = total + masks * len(setup.split.first) * pace
        before -= sum(spent.seconds[name] for name in spent.seconds if name.startswith("draws"))
        print(f"\n20 draws at every point: {masks:,} masks more, {before:.0f} s by the same pace")
    print(f"\ndefault / single ablations: {total / single:.2f}")
    print(f"20 full draws / single ablations: {before / single:.2f}")
    print(f"20 full draws / default: {before / total:.2f}")


if __name__ == "__main__":
    main()
