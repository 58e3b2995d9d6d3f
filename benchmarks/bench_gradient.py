"""Exact per-example gradient scores: a batch of 32 against one example at a time.

Both sides give the same numbers; the ratio is what one backward pass a batch buys.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from headtool.data import load_data
from headtool.engine.differentiation import differentiate
from headtool.models import load_model

BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:nli")
    parser.add_argument("--data", default="builtin:nli/matched")
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()

    model = load_model(arguments.model)
    data = load_data(arguments.data, limit=arguments.examples)
    longest = int(model.encode(data).lengths.max())
    batched = model.encode(data, batch_tokens=BATCH * longest)
    single = model.encode(data, batch_tokens=1)
    differentiate(model, batched.head(BATCH))  # warm-up

    ratios = []
    for _ in range(arguments.repeats):
        started = time.perf_counter()
        fast = differentiate(model, batched)
        between = time.perf_counter()
        slow = differentiate(model, single)
        ratios.append((time.perf_counter() - between) / (between - started))
    largest = np.abs(fast.per_example - slow.per_example).max()
    scale = np.abs(slow.per_example).max()
    print(
        f"gradients of {len(batched)} examples, {model.spec}: batches of {BATCH} are "
        f"{statistics.median(ratios):.1f}x as fast as single examples "
        f"(from {min(ratios):.1f} to {max(ratios):.1f}; wanted: 5); "
        f"largest difference {largest / scale:.0e} of the largest gradient"
    )


if __name__ == "__main__":
    main()
