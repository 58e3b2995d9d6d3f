"""Heads that were chosen by a cheap score, tested on the examples that chose them and on others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.stats

from headtool.analysis.multiplicity import adjust
from headtool.analysis.screening import Screen, halves
from headtool.results.scores import ranks
from simulations.printing import ALPHA, Array, rate, table

HEADS, EXAMPLES, TRIALS = 144, 400, 1_000
CHANGED = 0.06  # share of the predictions that closing any head changes
COST = 0.08  # of a head that is needed


def mcnemar(outcomes: Array) -> Array:
    """Exact two-sided p-values of no difference, from outcomes of 1, 0 or -1, [heads, examples]."""
    won, lost = (outcomes > 0).sum(axis=1), (outcomes < 0).sum(axis=1)
    tail = scipy.stats.binom.cdf(np.minimum(won, lost), won + lost, 0.5)
    return np.asarray(np.minimum(1.0, 2 * tail))


def outcomes(rng: np.random.Generator, needed: int) -> Array:
    """What closing each head does to each example; the first heads are needed."""
    lose = np.full((HEADS, 1), CHANGED / 2)
    lose[:needed] += COST
    drawn = rng.random((HEADS, EXAMPLES))
    return np.where(drawn < lose, -1.0, np.where(drawn > 1 - CHANGED / 2, 1.0, 0.0))


def cheap(rng: np.random.Generator, seen: Array, agreement: float) -> Array:
    """A score that knows the effect on the examples that it sees, but for noise."""
    effect = np.abs(seen.mean(axis=1))
    noise = rng.normal(size=HEADS) * effect.std()
    return np.asarray(agreement * effect + (1 - agreement) * noise)


def screening() -> None:
    """False verdicts in a family of heads, and heads found, by where heads were chosen."""

    def rows() -> Iterator[list[str]]:
        for name, count, cut, agreement, split in (
            ("all heads, no screen", HEADS, 1.0, 1.0, False),
            ("36 highest, on the same examples", 36, 1.0, 1.0, False),
            ("36 highest, on the other half", 36, 1.0, 1.0, True),
            ("36 around the middle, on the other half", 36, 0.5, 1.0, True),
            ("12 highest, on the same examples", 12, 1.0, 1.0, False),
            ("12 highest, on the other half", 12, 1.0, 1.0, True),
            ("12 highest by a rough score, on the other half", 12, 1.0, 0.5, True),
        ):
            rng = np.random.default_rng(count + split)
            false = 0
            found = []
            for trial in range(2 * TRIALS):
                needed = 0 if trial < TRIALS else 6
                values = outcomes(rng, needed)
                selection, rest = halves(EXAMPLES, trial) if split else (slice(None), slice(None))
                rank, _ = ranks(cheap(rng, values[:, selection], agreement), seed=trial)
                tested = np.ones(HEADS, np.bool_)
                if count < HEADS:
                    tested = Screen(count, cut=cut).choose(rank)
                p = np.full(HEADS, np.nan)
                p[tested] = mcnemar(values[tested][:, rest])
                claimed = adjust(p, "holm") <= ALPHA
                if needed:
                    found.append(claimed[:needed].mean())
                else:
                    false += bool(claimed.any())
            share = count / HEADS * (0.5 if split else 1.0)
            yield [name, rate(false, TRIALS), f"{np.mean(found):.2f}", f"{share:.3f}"]

    table(["heads tested", "families with a false verdict", "needed heads found", "passes"], rows())
