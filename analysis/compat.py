"""The tests of other tools on the same outcomes, only for comparison with published numbers.

None of these is a default, and none corrects for the number of heads.

``compare-mt`` draws half as many sentences as there are and reports the share of such samples in
which the worse system is not worse: one-sided, for the direction that the data chose. Samples
were drawn without replacement before its release 0.2.3 of July 2019, with replacement since. The
spread of a half sample without replacement equals that of a full bootstrap sample; with
replacement it is sqrt(2) times as large. "p < .01" is thus a two-sided level of about .02 before
and .001 since.

``sacrebleu-paired-bs`` centres the absolute differences of full bootstrap samples and counts those
beyond the observed one; ``sacrebleu-paired-ar`` is approximate randomisation. Both count strictly
larger differences only, so that a system against itself gets the smallest p-value there is. Given
the same statistics and seed, the numbers are sacreBLEU's: its seed is 12345 unless the environment
says otherwise (``SACREBLEU_SEED``), and 0, like ``none`` there, means a new seed every time.

References
----------
Neubig et al. (2019), compare-mt: a tool for holistic comparison of language generation systems.
Post (2018), A call for clarity in reporting BLEU scores; sacreBLEU 2, module ``significance``.
Koehn (2004), Statistical significance tests for machine translation evaluation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.labels import label_columns
from headtool.analysis.paired import Paired
from headtool.analysis.resampling import (
    Sums,
    block_rows,
    blocks,
    bootstrap_weights,
    counts_of,
)
from headtool.errors import HeadtoolError, unknown
from headtool.heads import Head
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COMPAT_MODES", "CompatMode", "CompatTests", "compat_tests"]

CompatMode = Literal[
    "compare-mt-without-replacement",
    "compare-mt-with-replacement",
    "sacrebleu-paired-bs",
    "sacrebleu-paired-ar",
]
COMPAT_MODES: tuple[CompatMode, ...] = (
    "compare-mt-without-replacement",
    "compare-mt-with-replacement",
    "sacrebleu-paired-bs",
    "sacrebleu-paired-ar",
)

_RESAMPLES = {"sacrebleu-paired-ar": 10_000}  # the tools' defaults; 1,000 for the others
_SACREBLEU_SEED = 12345


@dataclass(frozen=True, eq=False)
class CompatTests:
    """Another tool's p-values.

    Attributes
    ----------
    frame
        The table ``compat_tests``, a row per head; ``mean`` and ``ci`` are sacreBLEU's bootstrap
        mean of the masked model's metric and half the length of its interval, NaN in other modes.
    mode
        One of `COMPAT_MODES`.
    two_sided_level
        The two-sided level that the tool's "p < .01" amounts to for metrics close to normal.
    resamples, seed
        What was used; the seed is None where the numbers were drawn anew.
    """

    frame: pd.DataFrame
    mode: CompatMode
    two_sided_level: float
    resamples: int
    seed: int | None


def compat_tests(
    paired: Paired,
    mode: str,
    *,
    heads: Sequence[Head] | None = None,
    resamples: int | None = None,
    seed: int | None = None,
) -> CompatTests:
    """Compute the p-values that compare-mt or sacreBLEU would report, the whole model as baseline.

    Parameters
    ----------
    paired
        The outcomes; unchanged. For sacreBLEU's numbers, statistics and value as sacreBLEU's metric
        computes them.
    mode
        One of `COMPAT_MODES`.
    heads
        The head of every mask, as for `assessment.assess`.
    resamples
        None: the tool's default.
    seed
        As the tool takes it: for sacreBLEU None reads ``SACREBLEU_SEED``, by default 12345, and 0
        seeds nothing; for compare-mt it is the state of NumPy's legacy generator, by default 0.

    Raises
    ------
    HeadtoolError
        If the mode is unknown, a head occurs twice, there are too few resamples or examples, or
        ``SACREBLEU_SEED`` is no number.
    """
    import pandas as pd

    found = next((known for known in COMPAT_MODES if known == mode), None)
    if found is None:
        raise unknown("compatibility mode", mode, COMPAT_MODES)
    if resamples is not None and resamples < 1:
        raise HeadtoolError(f"`resamples` must be at least 1, got {resamples}")
    count = resamples or _RESAMPLES.get(found, 1_000)
    mean = ci = np.full(paired.n_masks, np.nan)
    chosen = _sacrebleu_seed(seed) if found.startswith("sacrebleu") else seed or 0
    if found == "sacrebleu-paired-bs":
        p, mean, ci = _sacrebleu_bootstrap(paired, count, chosen)
    elif found == "sacrebleu-paired-ar":
        p = _sacrebleu_randomisation(paired, count, chosen)
    else:
        p = _compare_mt(paired, count, chosen or 0, replace=found == "compare-mt-with-replacement")
    columns = {
        "mode": [found] * paired.n_masks,
        **label_columns(heads, paired.n_masks),
        "delta": paired.delta,
        "p": p,
        "mean": mean,
        "ci": ci,
    }
    frame = pd.DataFrame({name: columns[name] for name in TABLES["compat_tests"].names})
    frame = frame.astype({"mode": "str", "kind": "str", "layer": "int64", "head": "int64"})
    levels = {"compare-mt-without-replacement": 0.02, "compare-mt-with-replacement": 0.001}
    return CompatTests(frame, found, levels.get(found, 0.01), count, chosen)


def _sacrebleu_seed(seed: int | None) -> int | None:
    """The seed that sacreBLEU would use; None for one from the system."""
    if seed is None:
        given = os.environ.get("SACREBLEU_SEED", str(_SACREBLEU_SEED)).strip()
        if given.lower() == "none":
            return None
        if not given.isdecimal():
            raise HeadtoolError(f"SACREBLEU_SEED must be a whole number or none, got '{given}'")
        seed = int(given)
    return seed or None


def _values(paired: Paired, weights: Iterator[NDArray[np.int64]]) -> tuple[Array, Array]:
    """Return the values in all samples: [R] of the whole model, [R, M] of the masked ones."""
    sums = Sums(paired)
    whole, masked = [], []
    for block in weights:
        first, others = sums(block)
        whole.append(paired.value(first))
        masked.append(paired.value(others))
    return np.concatenate(whole), np.concatenate(masked)


def _beyond(sizes: Array, observed: Array) -> Array:
    return np.asarray(((sizes > observed).sum(axis=0) + 1) / (len(sizes) + 1))


def _sacrebleu_bootstrap(
    paired: Paired, resamples: int, seed: int | None
) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    rows = block_rows(paired)
    weights = bootstrap_weights(paired.n_examples, resamples=resamples, rows=rows, rng=rng)
    whole, masked = _values(paired, weights)
    sizes = np.abs(masked - whole[:, None])
    p = _beyond(sizes - sizes.mean(axis=0), np.abs(paired.delta))
    ordered = np.sort(masked, axis=0)
    outside = resamples // 40
    return p, masked.mean(axis=0), (ordered[resamples - outside - 1] - ordered[outside]) / 2


def _sacrebleu_randomisation(paired: Paired, trials: int, seed: int | None) -> Array:
    rng = np.random.default_rng(seed)
    # Coin flips are cut from 32-bit words, so that only blocks of 32 rows continue the stream.
    rows = 32 * max(1, block_rows(paired) // 32)
    whole, masked = paired.whole.sum(axis=0), paired.masked.sum(axis=1)
    sums = Sums(paired)
    sizes = []
    for size in blocks(trials, rows):
        baseline = rng.integers(2, size=(size, paired.n_examples), dtype=np.bool_)
        from_whole, _ = sums(baseline)
        _, from_masked = sums(~baseline)
        first = from_whole[:, None] + from_masked
        sizes.append(np.abs(paired.value(first) - paired.value(whole + masked - first)))
    return _beyond(np.concatenate(sizes), np.abs(paired.delta))


def _compare_mt(paired: Paired, samples: int, seed: int, *, replace: bool) -> Array:
    size = paired.n_examples // 2
    legacy = np.random.RandomState(seed)

    def half_samples() -> Iterator[NDArray[np.int64]]:
        order = np.arange(paired.n_examples)
        for rows in blocks(samples, block_rows(paired)):
            drawn = np.empty((rows, size), dtype=np.int64)
            for row in drawn:
                if replace:
                    row[:] = legacy.choice(order, size=size, replace=True)
                else:  # shuffled on from the previous order, as the tool did
                    legacy.shuffle(order)
                    row[:] = order[:size]
            yield counts_of(drawn, paired.n_examples)

    whole, masked = _values(paired, half_samples())
    better, worse = (masked > whole[:, None]).mean(axis=0), (masked < whole[:, None]).mean(axis=0)
    return np.asarray(1 - np.maximum(better, worse), dtype=np.float64)
