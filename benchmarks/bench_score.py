"""Ten methods in one ``score`` against each of them alone, on one model and the same examples.

``python benchmarks/bench_score.py`` takes a classifier and a causal language model that come with
headtool; ``--model`` and ``--data`` name one's own. All runs are in this process, interleaved:
each round scores by every method alone, then by all of them together. Printed are the fastest
processor times, what all methods take together against their sum and against the slowest of them
(what differs from round to round is noise), and the largest difference between the scores of
both, which must be 0. Method ``lrp`` has a backward pass of its own, with other rules.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

from headtool.experiments.score import Scoring, score
from headtool.models import load_model
from headtool.models.base import ModelAdapter

METHODS = (
    *("gradient", "fisher", "attribution", "taylor", "lrp"),
    *("confidence", "activation", "flap", "wanda", "magnitude"),
)
DEFAULTS = (("builtin:nli", "builtin:nli/matched"), ("builtin:planted", "builtin:planted"))


def timed(
    model: ModelAdapter, data: str, methods: Sequence[str], limit: int
) -> tuple[float, Scoring]:
    """Processor time of a call, and what it returned."""
    start = time.process_time()
    found = score(model, data, methods=methods, limit=limit)
    return time.process_time() - start, found


def measure(spec: str, data: str, methods: Sequence[str], limit: int, rounds: int) -> None:
    """Measure one model, and print a table."""
    model = load_model(spec, device="cpu")
    timed(model, data, methods, min(limit, 8))  # warm
    alone = {name: float("inf") for name in methods}
    together, largest = float("inf"), 0.0
    for _ in range(rounds):
        own = {}
        for name in methods:
            seconds, own[name] = timed(model, data, [name], limit)
            alone[name] = min(alone[name], seconds)
        seconds, every = timed(model, data, methods, limit)
        together = min(together, seconds)
        for name in methods:
            one, other = own[name][name].frame, every[name].frame
            change = np.abs(one[["score", "stderr"]].to_numpy() - other[["score", "stderr"]])
            largest = max(largest, float(np.nan_to_num(change).max()))
    slowest = max(alone, key=lambda name: alone[name])
    print(f"\n{spec} on {limit} examples of {data}: {model.sites.n_heads} heads")
    for name, seconds in alone.items():
        print(f"  {name:14}{seconds:9.2f} s")
    print(f"  {'sum':14}{sum(alone.values()):9.2f} s")
    print(f"  {'together':14}{together:9.2f} s")
    print(f"  sum / together: {sum(alone.values()) / together:.2f}")
    print(f"  together / slowest ({slowest}): {together / alone[slowest]:.2f}")
    print(f"  largest difference of scores and standard errors: {largest:.3g}")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=None)
    parser.add_argument("--data", default=None)
    parser.add_argument("--method", default=",".join(METHODS))
    parser.add_argument("--limit", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    pairs = DEFAULTS if given.model is None else ((given.model, given.data),)
    for model, data in pairs:
        measure(model, data, given.method.split(","), given.limit, given.rounds)


if __name__ == "__main__":
    main()
