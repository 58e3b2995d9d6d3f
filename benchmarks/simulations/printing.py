"""What the simulations share: how rates and tables are printed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from headtool.heads import Head

__all__ = ["ALPHA", "Array", "named", "rate", "table"]

Array = NDArray[np.float64]
ALPHA = 0.05


def rate(count: float, trials: int) -> str:
    """A share with its Monte Carlo error, one standard error."""
    share = count / trials
    return f"{share:.3f} ± {math.sqrt(share * (1 - share) / trials):.3f}"


def table(columns: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    """Print a Markdown table row by row."""
    print("| " + " | ".join(columns) + " |")
    print("| " + " | ".join("---" for _ in columns) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def named(count: int) -> list[Head]:
    """Heads of layers of twelve."""
    return [Head("enc-self", i // 12, i % 12) for i in range(count)]
