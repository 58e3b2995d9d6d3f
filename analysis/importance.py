"""Importance of the same heads on a data set, with what it takes to compute it on other examples.

Correlations between data sets need three things of each: the scores, how they scatter when other
examples are drawn, and how reliable they are. All three come from one function, which turns
weights of examples into scores; where the scores came from does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headtool.analysis.labels import heads_of, read_heads
from headtool.analysis.paired import Paired
from headtool.analysis.resampling import BLOCK_BYTES, Sums, bootstrap_weights
from headtool.errors import HeadtoolError
from headtool.heads import Head
from headtool.metrics.base import Array, Metric
from headtool.results.outcomes import Outcomes

__all__ = ["Importance", "align"]

Rescore = Callable[[NDArray[np.int64]], Array]


@dataclass(frozen=True, eq=False)
class Importance:
    """How much each head matters on one data set; higher means more important.

    Attributes
    ----------
    name
        Name of the data set, or of a saved run.
    heads
        M different heads.
    scores
        Their importance, shape [M]; NaN where it is undefined.
    n_examples
        Number of examples N behind the scores; 0 where only the scores are known. Nothing about
        other examples can be said then: no interval over examples, no reliability.
    rescore
        Scores [R, M] for R rows of weights of the examples [R, N]; all ones give `scores`. None
        where only the scores are known.

    Raises
    ------
    HeadtoolError
        If a head occurs twice, there are not as many scores as heads, or there is just one
        example.

    Examples
    --------
    >>> from headtool.analysis.importance import Importance
    >>> heads = ["enc-self.0.0", "enc-self.0.1"]
    >>> Importance.from_contributions("dev", heads, [[0, 1], [0, 0]]).scores
    array([0. , 0.5])
    """

    name: str
    heads: tuple[Head, ...]
    scores: Array
    n_examples: int = 0
    rescore: Rescore | None = None

    def __post_init__(self) -> None:
        seen: set[Head] = set()
        for head in self.heads:
            if head in seen:
                raise HeadtoolError(f"head {head} occurs twice in '{self.name}'; keep one of them")
            seen.add(head)
        if self.scores.shape != (len(self.heads),):
            raise HeadtoolError(
                f"'{self.name}' has {len(self.heads)} heads but scores of shape {self.scores.shape}"
            )
        if self.rescore is not None and self.n_examples < 2:
            raise HeadtoolError(
                f"'{self.name}' has {self.n_examples} example(s); resampling needs at least two"
            )

    @classmethod
    def from_scores(cls, name: str, heads: Sequence[Head | str], scores: ArrayLike) -> Importance:
        """Build it from scores alone.

        Parameters
        ----------
        name
            Name of the data set.
        heads
            M different heads, or their names.
        scores
            Shape [M]; higher means more important.
        """
        return cls(name, read_heads(heads), np.array(scores, dtype=np.float64))

    @classmethod
    def from_contributions(
        cls, name: str, heads: Sequence[Head | str], contributions: ArrayLike
    ) -> Importance:
        """Build it for scores that are means over examples.

        Parameters
        ----------
        name
            Name of the data set.
        heads
            M different heads, or their names.
        contributions
            What each example contributes to each score, shape [N, M].

        Raises
        ------
        HeadtoolError
            If the shape is another.
        """
        values = np.array(contributions, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(heads):
            raise HeadtoolError(
                f"contributions of '{name}' must be [examples, {len(heads)} heads], "
                f"got {values.shape}"
            )

        def rescore(weights: NDArray[np.int64]) -> Array:
            return np.asarray(weights @ values / weights.sum(axis=1, keepdims=True))

        scores = values.sum(axis=0) / max(1, len(values))
        return cls(name, read_heads(heads), scores, len(values), rescore)

    @classmethod
    def from_paired(cls, name: str, heads: Sequence[Head | str], paired: Paired) -> Importance:
        """Build it from the outcomes of M masks that close one head each.

        The score is what the metric loses without the head: whole minus masked, with the sign
        turned where lower is better (Michel, Levy & Neubig 2019, sec. 3.2). It is computed anew
        from the sums of the sufficient statistics, so that metrics that are no means, such as
        BLEU or F1, are resampled correctly.

        Parameters
        ----------
        name
            Name of the data set.
        heads
            M different heads, or their names.
        paired
            The outcomes of M masks, in the order of the heads.
        """
        sums = Sums(paired)
        sign = 1.0 if paired.higher_is_better else -1.0

        def rescore(weights: NDArray[np.int64]) -> Array:
            whole, masked = sums(weights)
            with np.errstate(invalid="ignore"):  # infinite perplexities: NaN
                lost = sign * (paired.value(whole)[:, None] - paired.value(masked))
            return np.where(np.isfinite(lost), lost, np.nan)

        return cls(name, read_heads(heads), -paired.benefit, paired.n_examples, rescore)

    @classmethod
    def from_outcomes(cls, name: str, outcomes: Outcomes, metric: Metric) -> Importance:
        """Build it from the outcomes of single-head ablation; see :meth:`from_paired`.

        Parameters
        ----------
        name
            Name of the data set.
        outcomes
            Outcomes of masks that are about one head each.
        metric
            What the scores are differences of.
        """
        paired = Paired.from_outcomes(outcomes, metric)
        return cls.from_paired(name, heads_of(outcomes.masks), paired)

    @property
    def layers(self) -> NDArray[np.int64]:
        """A number per head that is the same for heads of one attention site, shape [M]."""
        sites = [(head.kind, head.layer) for head in self.heads]
        numbers = {site: number for number, site in enumerate(dict.fromkeys(sites))}
        return np.array([numbers[site] for site in sites], dtype=np.int64)

    def take(self, heads: Sequence[Head]) -> Importance:
        """Return the same with its heads in another order."""
        where = {head: index for index, head in enumerate(self.heads)}
        order = np.array([where[head] for head in heads], dtype=np.int64)
        rescore = self.rescore

        def reordered(weights: NDArray[np.int64]) -> Array:
            assert rescore is not None
            return rescore(weights)[:, order]

        return Importance(
            self.name,
            tuple(heads),
            self.scores[order],
            self.n_examples,
            None if rescore is None else reordered,
        )

    def bootstrap(self, *, resamples: int, rng: np.random.Generator) -> Array:
        """Return the scores in bootstrap resamples of the examples.

        Parameters
        ----------
        resamples
            How many full-size resamples of the examples.
        rng
            The source of randomness.

        Returns
        -------
        ndarray
            Shape [resamples, M].
        """
        return np.concatenate(
            [
                self._rescored(weights)
                for weights in bootstrap_weights(
                    self.n_examples, resamples=resamples, rows=self._rows, rng=rng
                )
            ]
        )

    def halves(self, *, splits: int, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Yield the scores on the two halves of random splits of the examples, block by block.

        With an odd number of examples the second half has one more.

        Parameters
        ----------
        splits
            Number of random splits.
        rng
            The source of randomness.

        Yields
        ------
        tuple of ndarray
            Scores on the first and on the second halves, each [rows, M].
        """
        first = np.arange(self.n_examples) < self.n_examples // 2
        for start in range(0, splits, self._rows):
            rows = min(self._rows, splits - start)
            chosen = rng.permuted(np.tile(first, (rows, 1)), axis=1)
            yield (
                self._rescored(chosen.astype(np.int64)),
                self._rescored((~chosen).astype(np.int64)),
            )

    @property
    def _rows(self) -> int:
        """Weights that make up a block; their scores, whose statistics are several, count too."""
        return max(1, BLOCK_BYTES // (8 * (3 * self.n_examples + 16 * len(self.heads))))

    def _rescored(self, weights: NDArray[np.int64]) -> Array:
        if self.rescore is None:
            raise ValueError(f"'{self.name}' has scores only: there is nothing to resample")
        return self.rescore(weights)


def align(data_sets: Sequence[Importance]) -> list[Importance]:
    """Return the data sets with their heads in the order of the first.

    Raises
    ------
    HeadtoolError
        If there are fewer than two, two have the same name, or their heads differ.
    """
    if len(data_sets) < 2:
        raise HeadtoolError(f"a correlation needs two data sets, got {len(data_sets)}")
    first = data_sets[0]
    names: set[str] = set()
    for data in data_sets:
        if data.name in names:
            raise HeadtoolError(f"two data sets are called '{data.name}'; give each its own name")
        names.add(data.name)
        for one, other in ((first, data), (data, first)):
            missing = [str(head) for head in one.heads if head not in set(other.heads)]
            if missing:
                raise HeadtoolError(
                    f"'{other.name}' lacks {len(missing)} of the heads of '{one.name}' "
                    f"({', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}); "
                    "score the same heads on every data set"
                )
    return [first, *(data.take(first.heads) for data in data_sets[1:])]
