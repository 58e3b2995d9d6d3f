"""Time resampling for all heads at once against a loop over heads.

1. 10,000 paired bootstrap resamples, and as many random swaps, of 144 heads x 10,000 examples
   against `scipy.stats.bootstrap` and `scipy.stats.permutation_test` per head, on the same two
   paired samples, vectorised and in batches that fit the cache. Claim: at least 50x each. For
   means, and only for them, the loop could bootstrap differences instead; shown without a claim.
2. BLEU of 96 heads x 1,000 sentences: 1,000 bootstrap samples and 10,000 swaps against sacreBLEU's
   ``paired-bs`` and ``paired-ar``. Claim: at least 20x together.

The loops are measured on a few heads and a share of the resamples, and multiplied by what was left
out; heads and resamples are independent of each other, so that this is exact up to noise. sacreBLEU
is given statistics that were extracted beforehand: only its resampling is timed. Rounds take turns,
and the best of each side counts, because the machine may be busy. Memory is the peak of
`tracemalloc` during our side, over what is returned and the outcomes themselves.

Run: ``OMP_NUM_THREADS=1 python benchmarks/bench_resampling.py [ROUNDS]``.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import sacrebleu
import scipy.stats
from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.significance import Result, _paired_ar_test, _paired_bs_test

from headtool.analysis.compat import compat_tests
from headtool.analysis.paired import Paired
from headtool.analysis.resampling import BLOCK_BYTES, Swaps, bootstrap_deltas, swap_deltas

SCIPY_CLAIM, BLEU_CLAIM = 50.0, 20.0
HEADS, EXAMPLES, RESAMPLES = 144, 10_000, 10_000
BLEU_HEADS, SENTENCES = 96, 1_000
SHARE = 10  # the loops run a tenth of the resamples

Action = Callable[[], object]


def seconds(action: Action) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def megabytes(action: Action) -> float:
    """Peak of what Python and NumPy allocate meanwhile."""
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def compare(
    name: str, ours: Action, theirs: Action, *, factor: float, rounds: int
) -> tuple[float, float]:
    """Print and return the times of both sides; that of theirs is multiplied by `factor`."""
    pairs = [(seconds(ours), factor * seconds(theirs)) for _ in range(rounds)]
    first, second = (min(side) for side in zip(*pairs, strict=True))
    print(f"{name:<34}{first:8.2f} s {second:9.1f} s {second / first:7.0f}x", flush=True)
    return first, second


def accuracies(rng: np.random.Generator) -> Paired:
    whole = (rng.random(EXAMPLES) < 0.9) * 1.0
    flipped = rng.random((HEADS, EXAMPLES)) < 0.03
    return Paired.from_values(whole, np.where(flipped, 1 - whole, whole), higher_is_better=True)


def losses(rng: np.random.Generator) -> Paired:
    whole = rng.gamma(2.0, size=EXAMPLES)
    masked = whole + 0.1 * rng.normal(size=(HEADS, EXAMPLES))
    return Paired.from_values(whole, masked, higher_is_better=False)


def against_scipy(name: str, paired: Paired, rounds: int) -> bool:
    rng = np.random.default_rng(0)
    samples = (paired.masked[0, :, 0], paired.whole[:, 0])

    def mean_difference(masked: np.ndarray, whole: np.ndarray, axis: int) -> np.ndarray:
        return masked.mean(axis=axis) - whole.mean(axis=axis)

    def bootstrap() -> object:
        return scipy.stats.bootstrap(
            samples,
            mean_difference,
            paired=True,
            n_resamples=RESAMPLES // SHARE,
            batch=100,
            vectorized=True,
            method="percentile",
            rng=rng,
        )

    def bootstrap_of_differences() -> object:
        return scipy.stats.bootstrap(
            (samples[0] - samples[1],),
            np.mean,
            n_resamples=RESAMPLES // SHARE,
            batch=100,
            vectorized=True,
            method="percentile",
            rng=rng,
        )

    def permutation() -> object:
        return scipy.stats.permutation_test(
            samples,
            mean_difference,
            permutation_type="samples",
            n_resamples=RESAMPLES // SHARE,
            batch=100,
            vectorized=True,
            rng=rng,
        )

    def swaps() -> None:
        for _ in swap_deltas(paired, Swaps(paired), resamples=RESAMPLES, rng=rng):
            pass

    def resamples() -> object:
        return bootstrap_deltas(paired, resamples=RESAMPLES, rng=rng)

    factor = SHARE * HEADS
    sides = {"bootstrap": (resamples, bootstrap), "swaps": (swaps, permutation)}
    fast = True
    for label, (ours, theirs) in sides.items():
        first, second = compare(f"{label}, {name}", ours, theirs, factor=factor, rounds=rounds)
        fast &= second / first >= SCIPY_CLAIM
    shortcut = bootstrap_of_differences
    compare("  bootstrap of differences", resamples, shortcut, factor=factor, rounds=rounds)
    data = paired.masked.nbytes / 2**20
    print(f"  memory: {megabytes(resamples):.0f} MiB for {data:.0f} MiB of outcomes", flush=True)
    return fast


class Precomputed(sacrebleu.BLEU):
    """sacreBLEU's BLEU with statistics that are there already."""

    def _extract_corpus_statistics(  # type: ignore[override]
        self, hypotheses: list[list[int]], references: object
    ) -> list[list[int]]:
        return hypotheses


def bleu(sums: np.ndarray) -> np.ndarray:
    """Corpus BLEU of lengths (2), matches (4) and totals (4), all of them positive."""
    logs = np.log(sums[..., 2:6] / sums[..., 6:10])
    return 100 * np.exp(np.minimum(0, 1 - sums[..., 1] / sums[..., 0]) + logs.mean(axis=-1))


def translations(rng: np.random.Generator) -> Paired:
    lengths = rng.integers(8, 40, SENTENCES)

    def statistics() -> np.ndarray:
        totals = np.stack([lengths - order for order in range(4)], axis=1)
        matches = rng.binomial(totals, [0.7, 0.5, 0.35, 0.25])
        return np.concatenate([lengths[:, None], lengths[:, None] + 1, matches, totals], axis=1)

    rows = np.stack([statistics() for _ in range(BLEU_HEADS + 1)]).astype(np.float64)
    return Paired(rows[0], rows[1:], bleu, higher_is_better=True, name="bleu")


def against_sacrebleu(rounds: int) -> bool:
    paired = translations(np.random.default_rng(1))
    metric: SacrebleuMetric = Precomputed()
    baseline = paired.whole.astype(int).tolist()
    system = paired.masked[0].astype(int).tolist()
    info = {"BLEU": (baseline, Result(metric._aggregate_and_compute(baseline).score))}
    times = []
    for mode, test, resamples in (
        ("sacrebleu-paired-bs", _paired_bs_test, 1_000),
        ("sacrebleu-paired-ar", _paired_ar_test, 10_000),
    ):

        def theirs(test: Callable[..., object] = test, resamples: int = resamples) -> object:
            return test(info, "head", system, None, {"BLEU": metric}, resamples, -1, 12345)

        def ours(mode: str = mode, resamples: int = resamples) -> object:
            return compat_tests(paired, mode, resamples=resamples)

        name = f"{mode.removeprefix('sacrebleu-')}, BLEU, {resamples:,}"
        times.append(compare(name, ours, theirs, factor=BLEU_HEADS, rounds=rounds))
        data = paired.masked.nbytes / 2**20
        print(f"  memory: {megabytes(ours):.0f} MiB for {data:.0f} MiB of outcomes", flush=True)
    first, second = (sum(side) for side in zip(*times, strict=True))
    print(f"{'together':<34}{first:8.2f} s {second:9.1f} s {second / first:7.0f}x")
    return second / first >= BLEU_CLAIM


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    print(f"{HEADS} heads x {EXAMPLES:,} examples, {RESAMPLES:,} resamples; claim {SCIPY_CLAIM:g}x")
    print(f"{'':<34}{'all heads':>10} {'loop':>11}")
    rng = np.random.default_rng(0)
    fast = against_scipy("accuracy", accuracies(rng), rounds)
    fast &= against_scipy("loss", losses(rng), rounds)
    print(
        f"\n{BLEU_HEADS} heads x {SENTENCES:,} sentences against sacreBLEU; claim {BLEU_CLAIM:g}x"
    )
    fast &= against_sacrebleu(rounds)
    print(f"\nblocks of at most {BLOCK_BYTES / 2**20:.0f} MiB")
    return int(not fast)


if __name__ == "__main__":
    sys.exit(main())
