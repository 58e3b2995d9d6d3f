"""Fisher scores with rearrangement against gradient scores, on the same examples."""

from __future__ import annotations

import argparse
import statistics
import time

from headtool.data import load_data
from headtool.methods.fisher import Fisher
from headtool.methods.gradient import Gradient
from headtool.models import load_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:nli")
    parser.add_argument("--data", default="builtin:nli/matched")
    parser.add_argument("--examples", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()

    model = load_model(arguments.model)
    examples = model.encode(load_data(arguments.data, limit=arguments.examples))
    fisher = Fisher(heads=model.sites.n_heads // 2)
    Gradient().score(model, examples.head(32))  # warm-up

    ratios = []
    for _ in range(arguments.repeats):
        started = time.perf_counter()
        Gradient().score(model, examples)
        between = time.perf_counter()
        fisher.score(model, examples)
        ratios.append((time.perf_counter() - between) / (between - started))
    print(
        f"fisher, rearranged, takes {statistics.median(ratios):.2f}x the time of gradient "
        f"(from {min(ratios):.2f} to {max(ratios):.2f}; wanted: at most 1.3) on {len(examples)} "
        f"examples, {model.spec}"
    )


if __name__ == "__main__":
    main()
