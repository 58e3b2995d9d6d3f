"""Time ``headtool --help`` against ``--help`` of an empty Typer application.

Both run as processes, in turn, so that a busy machine slows both alike. Claim: the ratio of the
medians is at most 3, because the command line loads no torch, transformers or pandas to print
its help. Run: ``python benchmarks/bench_help.py [ROUNDS]``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

CLAIM = 3.0

EMPTY = """
import typer

app = typer.Typer()

@app.command()
def main() -> None:
    pass

app()
"""


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    headtool = [str(Path(sys.executable).with_name("headtool")), "--help"]
    empty = [sys.executable, "-c", EMPTY, "--help"]
    seconds(headtool), seconds(empty)  # compiles the bytecode, fills the file cache
    pairs = [(seconds(headtool), seconds(empty)) for _ in range(rounds)]
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = ours / theirs
    print(f"headtool --help    {1000 * ours:7.0f} ms  (median of {rounds})")
    print(f"empty Typer app    {1000 * theirs:7.0f} ms")
    print(f"ratio              {ratio:7.2f}     (claim: at most {CLAIM:g})")
    return int(ratio > CLAIM)


if __name__ == "__main__":
    sys.exit(main())
