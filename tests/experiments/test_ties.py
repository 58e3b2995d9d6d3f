"""Heads that a method scores alike: no order among them is passed off as the method's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import headtool
from headtool.methods.base import Job, Method, Scored
from headtool.methods.estimates import highest


@dataclass(frozen=True)
class Alike(Method):
    """Scores every head alike."""

    name: ClassVar[str] = "alike"
    summary: ClassVar[str] = "one score for all"
    reference: ClassVar[str] = "none"

    def compute(self, job: Job) -> Scored:
        heads = job.sites.n_heads
        return Scored(np.ones(heads), np.full(heads, np.nan))


@pytest.mark.parametrize("options", [{}, {"keep_one_per_layer": True}])
def test_scores_that_are_all_alike_give_the_curve_of_random_masks(options: dict[str, bool]) -> None:
    found = headtool.curve(
        "builtin:nli", methods=[Alike()], limit=24, steps="25%", draws=5, resamples=20, **options
    )
    values = found.curves.pivot(index="budget", columns="method", values="value")
    assert values["alike"].nunique() > 2
    np.testing.assert_allclose(values["alike"], values["random"])
    (note,) = [note for note in found.settings["notes"] if note.startswith("alike")]
    assert "heads that go and heads that stay, 32 of them at " in note
    assert "the seed decides which of them go, and the curve is the mean over 5 random" in note


def test_without_random_masks_the_seed_decides() -> None:
    found = headtool.curve(
        "builtin:nli", methods=[Alike()], limit=24, steps="50%", draws=0, resamples=20
    )
    (note,) = [note for note in found.settings["notes"] if note.startswith("alike")]
    assert note.endswith("32 of them with 16 removed: the seed decides which of them go")


def test_pruning_says_that_the_cut_falls_among_equal_scores() -> None:
    scoring = headtool.score("builtin:nli", methods=[Alike()], limit=8)
    pruning = headtool.prune("builtin:nli", scores=scoring, remove="25%")
    assert pruning.notes[0].startswith("the cut falls among 32 heads with equal scores, of which 8")
    assert pruning.provenance["tied"] == {"heads": 32, "removed": 8}
    clear = headtool.score("builtin:nli", methods=["magnitude"], limit=8)
    pruning = headtool.prune("builtin:nli", scores=clear, remove="25%")
    assert pruning.provenance["tied"] is None
    assert not pruning.notes


def test_which_of_equal_heads_are_the_highest_depends_on_the_seed_alone() -> None:
    score = np.array([3.0, 1.0, 1.0, 1.0, 0.0])
    kept = [highest(score, 2, seed=seed) for seed in range(40)]
    assert {tuple(np.flatnonzero(heads).tolist()) for heads in kept} == {(0, 1), (0, 2), (0, 3)}
    again = [highest(score, 2, seed=seed) for seed in range(40)]
    np.testing.assert_array_equal(kept, again)


def test_the_course_of_training_is_the_mean_over_orders_of_equal_heads() -> None:
    found = headtool.dynamics(
        [("only", "builtin:nli")], "builtin:nli/matched", method=Alike(), limit=24, steps="50%"
    )
    values = found.frame.set_index("removed")["value"]
    drawn = headtool.curve(
        "builtin:nli", methods=[Alike()], limit=24, steps="50%", draws=20, resamples=20
    ).curves.query("method == 'random'")
    np.testing.assert_allclose(values[[0, 16, 32]], drawn["value"])
