"""Letting methods select again on random halves of their examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.subsampling import (
    LEAST_EXAMPLES,
    complementary_halves,
    selection_frequency,
    subsample_agreement,
    subsample_overlap,
    subsample_scores,
)
from headtool.errors import HeadtoolError
from headtool.experiments.selecting import Closed, Pass, Selection
from headtool.experiments.splitting import Split
from headtool.masks.curves import layers_of
from headtool.masks.order import Family
from headtool.methods.base import Method
from headtool.results.scores import HeadScores

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Subsampled", "check_subsampling", "subsample"]

_Chosen = list[tuple[HeadScores, Closed]]


@dataclass(frozen=True, eq=False)
class Subsampled:
    """What methods say on random halves of the selection examples.

    Attributes
    ----------
    scores
        By method, its scores on each half.
    kept
        By method and budget (heads removed), which heads stay on each half, [halves, heads].
    examples
        Examples in a half.
    iterative
        Whether heads were scored again after every step.
    """

    scores: Mapping[str, list[pd.DataFrame]]
    kept: Mapping[str, Mapping[int, NDArray[np.bool_]]]
    examples: int
    iterative: bool

    def tables(self, family: Family, *, alpha: float) -> dict[str, pd.DataFrame]:
        """The tables of `headtool.analysis.comparison` on these."""
        layers = layers_of(family.sites)
        matrices = {
            name: np.array([frame["score"].to_numpy(np.float64) for frame in frames])
            for name, frames in self.scores.items()
        }
        return {
            "subsamples": subsample_agreement(matrices, examples=self.examples, alpha=alpha),
            "subsample_overlap": subsample_overlap(
                self.kept, layers, scores=None if self.iterative else matrices, alpha=alpha
            ),
            "selection_frequency": selection_frequency(self.kept, family.sites.heads),
            "subsample_scores": subsample_scores(self.scores),
        }


def check_subsampling(subsamples: int, split: Split) -> None:
    """Refuse, before anything is computed, examples that are too few for halves of them.

    Raises
    ------
    HeadtoolError
        If they are.
    """
    count = len(split.selection)
    if subsamples and count < LEAST_EXAMPLES:
        raise HeadtoolError(
            f"`stability` scores heads on halves of the examples that select them, and {count} of "
            f"{split.selection_spec} do, which is below {LEAST_EXAMPLES}; give more, or leave out "
            "`stability`"
        )


def subsample(selection: Selection, family: Family, subsamples: int) -> Subsampled:
    """Score and select on random halves of the selection examples, by every method left.

    A method that fails on one has no stability, and goes on otherwise.

    Parameters
    ----------
    selection
        What the methods selected on all of the examples.
    family
        The heads and the budgets.
    subsamples
        How many halves; see `headtool.analysis.subsampling.complementary_halves`.
    """
    whole, request = selection.split.selection, selection.request
    halves = []
    if subsamples:
        rng = np.random.default_rng([request.seed, 13])
        halves = complementary_halves(len(whole), subsamples, rng)
    passes = [
        Pass(
            f"subsample.{number}",
            f"subsample {number}",
            selection.kept.part(whole, half),
            _seed(request.seed, number),
            f"subsample {number} of {subsamples}",
        )
        for number, half in enumerate(halves, start=1)
    ]
    scores: dict[str, list[pd.DataFrame]] = {}
    kept: dict[str, dict[int, NDArray[np.bool_]]] = {}
    for method in request.methods if passes else ():
        if method.name not in selection.scored:
            continue
        found = _selected(selection, family, method, passes)
        if found is None:
            continue
        scores[method.name] = [one.frame for one, _ in found]
        closed = np.array([rows for _, rows in found])
        kept[method.name] = {
            budget: ~closed[:, place] for place, budget in enumerate(family.budgets)
        }
    return Subsampled(scores, kept, len(whole) // 2, request.iterative)


def _selected(
    selection: Selection, family: Family, method: Method, passes: list[Pass]
) -> _Chosen | None:
    """What one method selects on every half; None if it fails on one."""
    found: _Chosen = []
    for now in passes:

        def work(now: Pass = now) -> tuple[HeadScores, Closed]:
            scores = selection.scores(method, now)
            return scores, selection.closed_by(family, method, scores, now)

        chosen = selection.attempt(now.title, method, work, "has no stability")
        if chosen is None:
            return None
        found.append(chosen)
    return found


def _seed(seed: int, number: int) -> int:
    """A seed of its own for every subsample."""
    return int(np.random.SeedSequence([seed, 13, number]).generate_state(1)[0])
