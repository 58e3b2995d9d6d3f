"""Stopping early: verdicts that may be read off after every example.

Ablating every head on every example is wasteful when most verdicts are clear early. Here the
examples come in one random order, the same for all heads, and a head is dropped as soon as its
verdict is certain enough. Looking after every example costs no validity: the evidence is the
capital of bets against a mean (see `betting`), which exceeds 1/alpha *at any time* with probability
at most alpha if that mean is the true one.

Of each head four claims are examined, in terms of its mean paired outcome d (masked minus whole,
positive where masking helps): d < 0, d > 0, d > -margin and d < margin. Each is proved when the
capital of the bets against its contrary reaches the threshold; 2/alpha for a single head, so that
an effect of either sign is found where max(K+, K-) / 2 >= 1/alpha. The verdicts are those of
`equivalence`: harmful if d > 0 is proved, else removable if d > -margin is, else needed if
d < 0 is, else undecided. A head is decided, and need not be evaluated further, when

- it is harmful;
- it is removable and d < margin is proved too: it will hardly turn out harmful;
- it is needed and its mean so far is at most -margin: it will hardly turn out removable.

What the claims are about is chosen by `total`:

- ``total=N``: the mean over this evaluation set of N examples, of which the first n were
  evaluated, in random order. This asks what all N examples would show, without evaluating them. A
  decided verdict is true of the whole set with probability at least 1 - alpha; with the last
  example everything is known. It says nothing of other examples: a head with -1/N on the whole
  set is not needed in the sense of a fixed-n test.
- ``total=None``: the mean of the population from which examples are drawn, which is what the
  fixed-n tests of `assessment` are about. It takes more examples, above all for small sets, and
  heads may stay undecided.

With ``bonferroni`` the probability of any false claim about any head is at most alpha, at any
time: for each head and side it is at most alpha / (2 heads), because d < 0 is never proved before
d < margin, nor d > 0 before d > -margin. With ``e-bh`` the expected share of false claims among all
that were proved is at most alpha.

References
----------
Waudby-Smith & Ramdas (2024), Estimating means of bounded random variables by betting.
Wang & Ramdas (2022), False discovery rate control with e-values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headtool.analysis.betting import FRACTIONS, log_capital, lower_bound, upper_bound
from headtool.analysis.labels import label_columns, read_heads
from headtool.analysis.levels import check_level
from headtool.errors import HeadtoolError, unknown
from headtool.heads import Head
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "SEQUENTIAL_CORRECTIONS",
    "SequentialTest",
]

SequentialCorrection = Literal["bonferroni", "e-bh", "none"]
SEQUENTIAL_CORRECTIONS: tuple[SequentialCorrection, ...] = ("bonferroni", "e-bh", "none")

# Rows of the claims.
_NEGATIVE, _POSITIVE, _ABOVE, _BELOW = range(4)
_FLIPPED = (True, False, False, True)  # claims of a small mean
_CHUNK = 128  # examples whose capital is computed at once


class SequentialTest:
    """Verdicts on heads from paired outcomes that arrive block by block.

    The result depends on the outcomes and their order, not on how they are cut into blocks:
    outcomes of a block after the example that decides a head are ignored. Feeding the stored
    outcomes again restores the state.

    Parameters
    ----------
    heads
        The heads.
    margin
        What a removable head may cost, in the unit of the outcomes; in (0, bound).
    total
        Number of examples of the evaluation set, if the claims are about their mean; None if they
        are about the population that the examples come from.
    alpha
        Level of the correction.
    correction
        ``bonferroni``, ``e-bh``, or ``none``: each head by itself.
    bound
        The outcomes lie in [-bound, bound]: 1 for differences of shares of right answers. Losses
        have no bound and cannot be tested in this way.

    Raises
    ------
    HeadtoolError
        If a head occurs twice or an argument is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.sequential import SequentialTest
    >>> test = SequentialTest(["dec-self.0.0", "dec-self.0.1"], margin=0.05, total=1000)
    >>> hurts, nothing = -np.ones(100), np.zeros(100)
    >>> test.update([hurts, nothing])
    >>> test.frame()[["head", "verdict", "n_examples"]]
       head    verdict  n_examples
    0     0     needed           9
    1     1  undecided         100
    >>> test.active
    array([1])
    >>> test.update([nothing])
    >>> test.verdicts.tolist()
    ['needed', 'removable']
    """

    def __init__(
        self,
        heads: Sequence[Head | str],
        *,
        margin: float,
        total: int | None,
        alpha: float = 0.05,
        correction: SequentialCorrection = "bonferroni",
        bound: float = 1.0,
    ) -> None:
        if not 0 < margin < bound:
            raise HeadtoolError(f"`margin` must be between 0 and {bound:g}, got {margin:g}")
        check_level(alpha)
        if total is not None and total < 2:
            raise HeadtoolError(f"fewer than two examples ({total}): nothing can be tested")
        if correction not in SEQUENTIAL_CORRECTIONS:
            raise unknown("correction", correction, SEQUENTIAL_CORRECTIONS)
        if not heads:
            raise HeadtoolError("a sequential test needs at least one head")
        self.heads = read_heads(heads)
        self._labels = label_columns(self.heads, len(self.heads))
        self.margin, self.total, self.alpha = margin, total, alpha
        self.correction, self.bound = correction, bound
        count = len(self.heads)
        below = (1 - margin / bound) / 2
        # The mean that a bet must refute to prove the claim; for small means in terms of 1 - x.
        self._refuted = (0.5, 0.5, below, below)
        self._capital = np.zeros((4, len(FRACTIONS), count))
        self._evidence = np.zeros((4, count))
        self._peak = np.zeros((4, count))
        self._proved = np.zeros((4, count), dtype=np.bool_)
        self._decided = np.zeros(count, dtype=np.bool_)
        self._sum = np.zeros(count)
        self._n = np.zeros(count, dtype=np.int64)
        self._history: list[Array] = []

    @property
    def active(self) -> NDArray[np.int64]:
        """Indices of the heads that are not decided: the rows that `update` expects next."""
        return np.flatnonzero(~self._decided)

    @property
    def n_examples(self) -> NDArray[np.int64]:
        """Examples that each head was evaluated on until it was decided, shape [heads]."""
        return self._n.copy()

    @property
    def verdicts(self) -> NDArray[np.object_]:
        """What has been proved about each head so far: needed, removable, harmful or undecided."""
        verdict = np.full(len(self.heads), "undecided", dtype=object)
        verdict[self._proved[_NEGATIVE]] = "needed"
        verdict[self._proved[_ABOVE]] = "removable"
        verdict[self._proved[_POSITIVE]] = "harmful"
        return verdict

    def update(self, outcomes: ArrayLike) -> None:
        """Take the next examples' outcomes of the active heads.

        Parameters
        ----------
        outcomes
            Masked minus whole per example, signed so that positive is better, shape [active heads,
            examples]; rows as in `active`, examples in the order that was fixed beforehand.

        Raises
        ------
        HeadtoolError
            If an outcome is outside [-bound, bound], or there are more than `total` examples.
        ValueError
            If the shape is wrong.
        """
        rows = self.active
        values = np.asarray(outcomes, dtype=np.float64)
        if values.ndim != 2 or len(values) != len(rows):
            raise ValueError(f"outcomes must be [{len(rows)}, examples], got {values.shape}")
        outside = np.argwhere(~(np.abs(values) <= self.bound))
        if len(outside):
            row, example = outside[0]
            raise HeadtoolError(
                f"an outcome of {self.heads[rows[row]]} is {values[row, example]:g}, outside "
                f"[{-self.bound:g}, {self.bound:g}]: stopping early needs a bounded metric, such "
                "as accuracy"
            )
        seen = int(self._n[rows].max(initial=0))
        if self.total is not None and len(rows) and seen + values.shape[1] > self.total:
            raise HeadtoolError(
                f"{seen + values.shape[1]} examples of an evaluation set of {self.total}"
            )
        for start in range(0, values.shape[1], _CHUNK):
            left = ~self._decided[rows]
            if not left.any():
                return
            self._advance(rows[left], (values[left, start : start + _CHUNK] / self.bound + 1) / 2)

    def _advance(self, rows: NDArray[np.int64], x: Array) -> None:
        """Bet on a block of values in [0, 1] of undecided heads that have seen equally many."""
        seen = int(self._n[rows[0]])
        evidence = np.empty((4, *x.shape))
        for claim, (flipped, m) in enumerate(zip(_FLIPPED, self._refuted, strict=True)):
            sums = seen - self._sum[rows] if flipped else self._sum[rows]
            evidence[claim], self._capital[claim][:, rows] = log_capital(
                1 - x if flipped else x,
                m,
                total=self.total,
                before=(seen, sums, self._capital[claim][:, rows]),
            )
        kept = np.full((len(self.heads), x.shape[1]), np.nan)
        kept[rows] = x
        self._history.append(kept)
        for column in range(x.shape[1]):
            live = ~self._decided[rows]
            if not live.any():
                return
            self._look(rows[live], x[live, column], evidence[:, live, column])

    def _look(self, rows: NDArray[np.int64], x: Array, evidence: Array) -> None:
        """Take the evidence after one example, and decide what it suffices for."""
        self._n[rows] += 1
        self._sum[rows] += x
        self._evidence[:, rows] = evidence
        self._peak[:, rows] = np.maximum(self._peak[:, rows], evidence)
        # A claim keeps its evidence of the moment at which it was proved.
        self._evidence[self._proved] = np.inf
        self._proved |= self._evidence >= self._threshold()
        negative, positive, above, below = self._proved[:, rows]
        mean = self.bound * (2 * self._sum[rows] / self._n[rows] - 1)
        self._decided[rows] = positive | (above & below) | (negative & (mean <= -self.margin))

    def _threshold(self) -> float:
        """Logarithm of the capital that proves a claim."""
        count = len(self.heads)
        if self.correction == "none":
            return math.log(2 / self.alpha)
        if self.correction == "bonferroni":
            return math.log(2 * count / self.alpha)
        family = 4 * count
        needed = math.log(family / self.alpha) - np.log(np.arange(1, family + 1))
        enough = np.flatnonzero(np.sort(self._evidence, axis=None)[::-1] >= needed)
        return float(needed[enough[-1]]) if len(enough) else math.inf

    def intervals(self) -> tuple[Array, Array]:
        """Return the confidence sequences of the means at the examples seen, each [heads].

        They hold at all times together: for each head with probability 1 - alpha, under
        ``bonferroni`` for all heads together. (-bound, bound) before the first example.
        """
        family = len(self.heads) if self.correction == "bonferroni" else 1
        threshold = 2 * family / self.alpha
        low, high = np.full(len(self.heads), -1.0), np.full(len(self.heads), 1.0)
        history = np.concatenate(self._history, axis=1) if self._history else np.empty((0, 0))
        for row, n in enumerate(self._n):
            if n:
                x = history[row, :n]
                low[row] = 2 * lower_bound(x, threshold, total=self.total) - 1
                high[row] = 2 * upper_bound(x, threshold, total=self.total) - 1
        low, high = self.bound * low, self.bound * high
        # Once refuted stays refuted, even if later examples weaken the evidence.
        certain = self._peak >= math.log(threshold)
        for claim, limit in ((_ABOVE, -self.margin), (_POSITIVE, 0.0)):
            low[certain[claim]] = np.maximum(low[certain[claim]], limit)
        for claim, limit in ((_BELOW, self.margin), (_NEGATIVE, 0.0)):
            high[certain[claim]] = np.minimum(high[certain[claim]], limit)
        return low, high

    def frame(self) -> pd.DataFrame:
        """Return the table ``sequential``, a row per head.

        ``delta`` is the mean outcome on the ``n_examples`` seen, NaN before the first; ``ci_low``
        and ``ci_high`` are its confidence sequence, see :meth:`intervals`; ``decided`` says whether
        the verdict is final.
        """
        import pandas as pd

        low, high = self.intervals()
        with np.errstate(invalid="ignore"):
            delta = self.bound * (2 * self._sum / self._n - 1)
        return pd.DataFrame(
            {
                **self._labels,
                "delta": delta,
                "ci_low": low,
                "ci_high": high,
                "verdict": self.verdicts.astype(str),
                "decided": self._decided,
                "n_examples": self._n,
            }
        )[list(TABLES["sequential"].names)]
