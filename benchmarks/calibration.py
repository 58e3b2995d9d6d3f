"""Simulate the rates that the documentation claims: levels, coverage, power, families of claims.

``python benchmarks/calibration.py NAME`` prints one table of docs/calibration.md, with Monte Carlo
errors (one standard error); without a name, the names. Seeds are fixed, so that the figures come
out again.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module

TABLES = {
    "newcombe": "accuracy",
    "removable": "removable",
    "removable-families": "removable",
    "removable-power": "removable",
    "random-masks": "draws",
    "draw-agreement": "draws",
    "curve-areas": "curves",
    "correlation": "rankings",
    "kendall": "rankings",
    "shapley": "shapley",
    "screening": "screening",
    "sequential": "accuracy",
}


def main(names: Sequence[str]) -> int:
    """Print the tables named."""
    unknown = [name for name in names if name not in TABLES]
    if unknown or not names:
        print(f"python benchmarks/calibration.py NAME, one of: {', '.join(TABLES)}")
        return 2 if unknown else 0
    gc.collect = partial(int, 0)  # type: ignore[assignment]  # statsmodels calls it at every step
    for name in names:
        simulations = import_module(f"simulations.{TABLES[name]}")
        getattr(simulations, name.replace("-", "_"))()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
