"""How fast a whole, a masked and a pruned model are, measured in turns in one process.

Each repetition times all of them one after the other, in an order that rotates, so that whatever
else the machine does meets all alike. Ratios are taken within repetitions. Medians come with
distribution-free intervals from order statistics.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from headtool.attention.gating import Gating, intercept
from headtool.errors import HeadtoolError, unknown
from headtool.heads import Head, HeadMask
from headtool.models.base import ModelAdapter
from headtool.progress import Progress, counted, silent
from headtool.quiet import no_stderr
from headtool.schema import TABLES
from headtool.surgery.history import History
from headtool.surgery.removal import open_gates
from headtool.work import Passes

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "WORKS",
    "Contender",
    "check_sizes",
    "contenders",
    "measure_speed",
    "median_interval",
    "timed_passes",
]

WORKS = ("forward", "decode")


_MOST_TOKENS = 10**8
_SHORTEST = 0.05  # seconds of one timing; shorter work is repeated inside it


@dataclass(frozen=True)
class Contender:
    """A model to be timed.

    Attributes
    ----------
    name
        ``whole``, ``masked`` or ``pruned``.
    model
        The model.
    attached
        Makes the context in which it runs; takes the number of rows.
    """

    name: str
    model: ModelAdapter
    attached: Callable[[int], AbstractContextManager[None]]


def contenders(whole: ModelAdapter, pruned: ModelAdapter) -> list[Contender]:
    """Return the models to time: whole, with the pruned one's missing heads masked, and pruned.

    Parameters
    ----------
    whole
        The whole model.
    pruned
        The same without some heads.

    Raises
    ------
    HeadtoolError
        If the pruned model was not made from one like the whole one.
    """
    history = History.of(pruned.module, pruned.sites)
    before = History.of(whole.module, whole.sites)
    if list(map(tuple, history.sites)) != list(map(tuple, before.sites)) or (
        type(whole.module) is not type(pruned.module)
    ):
        raise HeadtoolError(
            f"{pruned.spec} was not made from a model like {whole.spec} ({whole.sites.summary}); "
            "name the model that it was pruned from"
        )
    present = {
        f"{site}.{original}": Head(site.kind, site.layer, now)
        for site in whole.sites
        for now, original in enumerate(before.kept[str(site)])
    }
    gone = [present[name] for name in history.removed if name in present]
    if not gone:
        raise HeadtoolError(
            f"{pruned.spec} lacks no head of {whole.spec}; there is nothing to time"
        )
    gates = open_gates(whole.handles, HeadMask.without(whole.sites, gone))

    def plain(rows: int) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def masked(rows: int) -> AbstractContextManager[None]:
        return intercept(whole.handles, Gating(gates), batch=rows)

    return [
        Contender("whole", whole, plain),
        Contender("masked", whole, masked),
        Contender("pruned", pruned, plain),
    ]


def timed_passes(work: str, *, runs: int, beam: int) -> Passes:
    """What is timed, as passes over a batch.

    Parameters
    ----------
    work, beam
        As for `measure_speed`.
    runs
        How often.
    """
    if work == "decode":
        return Passes(decoded=runs, beam=beam)
    return Passes(forward=runs)


def check_sizes(
    models: Sequence[Contender], *, length: int, batch_sizes: Sequence[int], beam: int
) -> None:
    """Refuse inputs that a model does not take, or that no memory holds.

    Parameters
    ----------
    models
        The models.
    length, batch_sizes, beam
        Tokens of an input, inputs of each batch, and the width of the beam.

    Raises
    ------
    HeadtoolError
        If they are too large.
    """
    for one in models:
        longest = one.model.max_length
        if longest is not None and length > longest:
            raise HeadtoolError(
                f"`length` must be at most {longest}, the tokens that {one.model.spec} takes, got "
                f"{length}"
            )
    tokens = length * max(batch_sizes) * beam
    if tokens > _MOST_TOKENS:
        raise HeadtoolError(
            f"a batch of {tokens:,} tokens is more than memory holds; keep `batch_sizes` times "
            f"`length` (times `beam`) below {_MOST_TOKENS:,}"
        )


def measure_speed(
    models: Sequence[Contender],
    *,
    work: str = "forward",
    batch_sizes: Sequence[int] = (1, 4, 16, 64),
    length: int = 64,
    beam: int = 1,
    repetitions: int = 10,
    warmup: int = 2,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress = silent,
) -> pd.DataFrame:
    """Time models at several batch sizes.

    Parameters
    ----------
    models
        The models; the first is what the others are compared with.
    work
        ``forward``: one forward pass; ``decode``: generation of exactly `length` tokens from
        `length` source tokens (for language models, from one token).
    batch_sizes
        Examples in a batch.
    length
        Tokens of an example.
    beam
        Width of the beam, for ``decode``.
    repetitions, warmup
        Timings of each model, and untimed runs before them.
    clock
        Tells the time in seconds.
    progress
        Reports progress.

    Raises
    ------
    HeadtoolError
        If the work is unknown, or a model does not take inputs of that size.

    Returns
    -------
    DataFrame
        ``speed``: latency in seconds a batch, median with 95% interval; throughput at the
        median; speedup over the first model, likewise; peak memory in bytes, weights included (on
        MPS: NaN). Intervals are NaN with fewer than six repetitions.
    """
    if work not in WORKS:
        raise unknown("work", work, WORKS)
    check_sizes(models, length=length, batch_sizes=batch_sizes, beam=beam)
    rows: list[dict[str, Any]] = []
    runs = (max(1, warmup) + repetitions) * len(models)
    for size in counted(
        progress,
        batch_sizes,
        total=len(batch_sizes),
        label=f"speed, {work}",
        work=lambda size: timed_passes(work, runs=runs, beam=beam).weight * size * length,
    ):
        jobs = [_job(model, work, size, length, beam) for model in models]
        with torch.inference_mode():
            for job in jobs:
                for _ in range(max(1, warmup)):
                    job()
            now = partial(_now, models[0].model.device, clock)
            seconds = _time(jobs, now, repetitions, _inner(jobs[0], now))
            peaks = [_peak(job, model.model) for job, model in zip(jobs, models, strict=True)]
        for index, model in enumerate(models):
            latency = median_interval(seconds[:, index])
            speedup = median_interval(seconds[:, 0] / seconds[:, index])
            rows.append(
                {
                    "work": work,
                    "batch_size": size,
                    "model": model.name,
                    "latency": latency[0],
                    "latency_low": latency[1],
                    "latency_high": latency[2],
                    "examples_per_second": size / latency[0],
                    "tokens_per_second": size * length / latency[0],
                    "speedup": speedup[0],
                    "speedup_low": speedup[1],
                    "speedup_high": speedup[2],
                    "peak_memory": peaks[index],
                }
            )
    return TABLES["speed"].frame(rows)


def median_interval(values: NDArray[np.float64], level: float = 0.95) -> tuple[float, float, float]:
    """Median, and an interval for it that holds for any distribution.

    Of the intervals between the k-th smallest and the k-th largest value, the narrowest whose
    coverage ``1 - 2 P(Binomial(n, 1/2) < k)`` is at least `level`; NaN where there is none.

    Parameters
    ----------
    values
        Shape [n].
    level
        Least coverage.

    Returns
    -------
    median, low, high : float
    """
    from scipy.stats import binom

    ordered = np.sort(values)
    n = len(ordered)
    fitting = [k for k in range(1, n // 2 + 1) if 1 - 2 * binom.cdf(k - 1, n, 0.5) >= level]
    if not fitting:
        return float(np.median(ordered)), math.nan, math.nan
    k = max(fitting)
    return float(np.median(ordered)), float(ordered[k - 1]), float(ordered[n - k])


# -- work ------------------------------------------------------------------------------------------


def _job(
    contender: Contender, work: str, size: int, length: int, beam: int
) -> Callable[[], object]:
    model = contender.model
    if work == "forward":
        run = model.probe(model.module, batch=size, source=length, target=length).run
    else:
        run = model.decoding(batch=size, length=length, beam=beam)

    def job() -> object:
        with contender.attached(size * beam if work == "decode" else size):
            return run()

    return job


# -- timing ----------------------------------------------------------------------------------------


def _time(
    jobs: Sequence[Callable[[], object]], now: Callable[[], float], repetitions: int, inner: int
) -> NDArray[np.float64]:
    """Seconds of each job, [repetitions, jobs]."""
    seconds = np.zeros((repetitions, len(jobs)))
    for repetition in range(repetitions):
        for turn in range(len(jobs)):
            index = (repetition + turn) % len(jobs)
            started = now()
            for _ in range(inner):
                jobs[index]()
            seconds[repetition, index] = (now() - started) / inner
    return seconds


def _inner(job: Callable[[], object], now: Callable[[], float]) -> int:
    """How often to run a job within one timing."""
    started = now()
    job()
    return max(1, math.ceil(_SHORTEST / max(now() - started, 1e-6)))


def _now(device: torch.device, clock: Callable[[], float]) -> float:
    """Read the clock once all work is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    return clock()


def _peak(job: Callable[[], object], model: ModelAdapter) -> float:
    """Peak memory of a job in bytes, with the model's weights."""
    weights = sum(weight.numel() * weight.element_size() for weight in model.module.parameters())
    if model.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(model.device)
        before = torch.cuda.memory_allocated(model.device)
        job()
        return weights + torch.cuda.max_memory_allocated(model.device) - before
    if model.device.type != "cpu":
        return math.nan
    return weights + _peak_of_profile(job)


def _peak_of_profile(job: Callable[[], object]) -> float:
    """Most memory that is allocated at once, from the profiler's record of the CPU allocator."""
    from torch.profiler import ProfilerActivity, profile

    with no_stderr(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        job()
    events = cast(Any, record).profiler.kineto_results.events()
    changes = sorted(
        (event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"
    )
    return float(max(0, *np.cumsum([size for _, size in changes]))) if changes else 0.0
