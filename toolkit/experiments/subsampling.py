"""Letting methods select again on random halves of their examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.subsampling import (
    complementary_halves,
    selection_frequency,
    subsample_agreement,
    subsample_overlap,
    subsample_scores,
)
from headtool.experiments.selecting import Closed, Roster, ScoringRound, choose_once
from headtool.experiments.setup import Setup
from headtool.experiments.stages import Stages
from headtool.masks.curves import layers_of
from headtool.masks.order import Family
from headtool.reports.results import HeadScores

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Subsampled", "subsample"]


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
        """The tables of `headtool.analysis.comparison` on these.

        Parameters
        ----------
        family
            The heads and the budgets.
        alpha
            Intervals have level ``1 - alpha``.
        """
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


def subsample(setup: Setup, kept: Stages, roster: Roster) -> Subsampled:
    """Score and select on random halves of the selection examples, by every method left.

    A method that fails on one has no stability, and goes on otherwise.

    Parameters
    ----------
    setup
        What the comparison works on; its request says on how many halves, and see
        `headtool.analysis.subsampling.complementary_halves`.
    kept
        Keeps what is finished.
    roster
        The methods that are left.
    """
    whole, request = setup.split.selection, setup.request
    halves = []
    if request.stability:
        rng = np.random.default_rng([request.seed, 13])
        halves = complementary_halves(len(whole), request.stability, rng)
    rounds = [
        ScoringRound(
            f"subsample.{number}",
            f"subsample {number}",
            setup.model,
            kept.part(whole, half),
            _seed(request.seed, number),
            f"subsample {number} of {request.stability}",
        )
        for number, half in enumerate(halves, start=1)
    ]
    found = _chosen(setup, kept, roster, rounds)
    stays: dict[str, dict[int, NDArray[np.bool_]]] = {}
    for name, chosen in found.items():
        closed = np.array([rows for _, rows in chosen])
        stays[name] = {
            budget: ~closed[:, place] for place, budget in enumerate(setup.families[0].budgets)
        }
    scores = {name: [one.frame for one, _ in chosen] for name, chosen in found.items()}
    return Subsampled(scores, stays, len(whole) // 2, request.iterative)


def _chosen(
    setup: Setup, kept: Stages, roster: Roster, rounds: Sequence[ScoringRound]
) -> dict[str, list[tuple[HeadScores, Closed]]]:
    """What methods select on every half; without those that fail on one."""
    found: dict[str, list[tuple[HeadScores, Closed]]]
    found = {method.name: [] for method in roster.methods if rounds}
    for now in rounds:
        left = [method for method in roster.methods if method.name in found]
        reader = now.reader(left)
        for method in left:
            work = partial(choose_once, setup, kept, now, method, reader)
            chosen = roster.attempt(now.title, method, work, "has no stability")
            if chosen is None:
                del found[method.name]
            else:
                found[method.name].append(chosen)
    return found


def _seed(seed: int, number: int) -> int:
    """A seed of its own for every subsample."""
    return int(np.random.SeedSequence([seed, 13, number]).generate_state(1)[0])
