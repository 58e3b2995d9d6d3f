"""Workers against one process, one thread each, and the memory of the process that hands work out.

Rounds alternate between one process, one worker and two workers on the same ablation, whose numbers
must be the same to the bit. Starting Ray and loading the model are not timed: that is paid once.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from collections.abc import Callable

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported, here and in the workers

import numpy as np

import headtool
from headtool.engine.units import Executor, Unit, UnitResult, in_turn
from headtool.heads import HeadMask
from headtool.workers.cluster import connected

_RESULT = 1000  # numbers in the result of a simulated unit


def resident() -> float:
    """Memory of this process in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def speed(arguments: argparse.Namespace) -> None:
    """Time the same ablation in one process, on one worker and on two."""
    model = headtool.load_model(arguments.model, device="cpu")
    data = headtool.load_data(arguments.data, limit=arguments.limit)
    examples = model.encode(data, batch_tokens=arguments.batch_tokens)
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads]
    with headtool.Workers(1) as one, headtool.Workers(2) as two:
        ways: dict[str, Executor] = {"one process": in_turn, "1 worker": one, "2 workers": two}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        losses = {}
        warm = examples.head(8)
        for execute in ways.values():
            for _ in range(2):
                headtool.evaluate(model, warm, masks[:1], execute=execute)
        while two.alive < 2 or one.alive < 1:
            headtool.evaluate(model, warm, masks[:1], execute=two)
            time.sleep(0.5)
        # Both of the two must have the model before the clock starts.
        headtool.evaluate(model, examples, masks[:2], execute=two)
        for _ in range(arguments.rounds):
            for way, execute in ways.items():
                started = time.perf_counter()
                found = headtool.evaluate(model, examples, masks, execute=execute)
                seconds[way].append(time.perf_counter() - started)
                losses[way] = found.masked["loss"]
        assert all(np.array_equal(loss, losses["one process"]) for loss in losses.values())
    print(f"{len(examples)} examples, {len(masks)} masks, {arguments.rounds} rounds:")
    for way, times in seconds.items():
        print(f"  {way:12} {statistics.median(times):7.2f} s (best {min(times):.2f} s)")
    alone, single, double = (statistics.median(times) for times in seconds.values())
    print(f"  2 workers: {alone / double:.2f}x of one process")
    print(f"  the engine: {single / alone - 1:+.1%} with one worker")


def memory(counts: list[int]) -> None:
    """Run so many simulated units, whose results nobody keeps."""

    def work(unit: Unit) -> UnitResult:
        return {"numbers": np.full(_RESULT, float(unit.number))}

    def run(execute: Callable[..., object], count: int) -> tuple[float, float]:
        index = np.arange(8)
        units = [Unit(number, index, range(0)) for number in range(count)]
        gc.collect()
        before = most = resident()
        started = time.perf_counter()
        for number, (unit, result) in enumerate(execute(units, work)):  # type: ignore[call-overload]
            assert result["numbers"][0] == unit.number
            if number % 100 == 0:
                most = max(most, resident())
        return most - before, time.perf_counter() - started

    print("memory of the process that hands out the work, beside the list of units:")
    with headtool.Workers(2) as workers:
        run(workers, 200)
        for count in counts:
            added, seconds = run(workers, count)
            rate = count / seconds
            print(f"  {count:7,} units: {added:+6.1f} MiB, {rate:,.0f} units a second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:nli")
    parser.add_argument("--data", default="builtin:nli/matched")
    parser.add_argument("--limit", type=int, default=256)
    parser.add_argument("--batch-tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--units", default="1000,10000,100000")
    arguments = parser.parse_args()
    with connected(None, 5):
        speed(arguments)
        memory([int(count) for count in arguments.units.split(",") if count])


if __name__ == "__main__":
    main()
