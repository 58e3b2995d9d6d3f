"""Results as frames and documents."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from headtool.heads import AttentionSite, HeadMask, Sites
from headtool.results.outcomes import Outcomes
from headtool.results.scores import (
    HeadScores,
    head_frame,
    ranks,
    score_frame,
    scores_document,
)
from headtool.schema import TABLES

# Out of canonical order on purpose.
SITES = Sites(
    tuple(
        AttentionSite(kind, layer, heads, heads, 4, f"{kind}{layer}")
        for kind, layer, heads in (("cross", 0, 2), ("enc-self", 1, 1), ("enc-self", 0, 2))
    )
)
SCORES = np.array([0.5, math.nan, 2.0, 0.5, -1.0])


def result(method: str = "gradient", **columns: np.ndarray) -> HeadScores:
    frame = score_frame(method, SITES, SCORES, np.full(5, math.nan), seed=1, **columns)
    return HeadScores(method, frame, {"seed": 3, "options": {}})


def strict(text: str) -> object:
    """Parse JSON as the standard has it: no NaN, no Infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_rows_are_in_canonical_order() -> None:
    frame = head_frame(SITES, x=np.arange(5))
    assert list(frame.itertuples(index=False, name=None)) == [
        ("enc-self", 0, 0, 0),
        ("enc-self", 0, 1, 1),
        ("enc-self", 1, 0, 2),
        ("cross", 0, 0, 3),
        ("cross", 0, 1, 4),
    ]


def test_ranks_ties_by_seed_or_by_what_breaks_them_and_what_is_not_computed_last() -> None:
    frame = result(extra=np.arange(5)).frame
    assert tuple(frame.columns) == (*TABLES["scores"].names, "extra")
    assert frame["rank"].tolist() == [2, 5, 1, 3, 4]
    assert frame["tied"].tolist() == [True, False, False, True, False]
    nothing = np.full(5, math.nan)
    by_seed = [
        score_frame("x", SITES, SCORES, nothing, seed=seed)["rank"].tolist() for seed in range(20)
    ]
    assert [rank[1:3] + rank[4:] for rank in by_seed] == [[5, 1, 4]] * 20
    assert {(rank[0], rank[3]) for rank in by_seed} == {(2, 3), (3, 2)}
    for first, second in ((1.0, 2.0), (2.0, 1.0)):
        finer = np.array([first, 9.0, 9.0, second, 9.0])
        frame = score_frame("x", SITES, SCORES, nothing, tie_break=finer, seed=3)
        assert (frame["rank"][0] < frame["rank"][3]) == (first > second)


def test_equal_scores_favour_no_head() -> None:
    """Each of four heads with one score is ranked first by about a quarter of the seeds."""
    first = [int(np.argmin(ranks(np.zeros(4), seed=seed)[0])) for seed in range(800)]
    counts = np.bincount(first, minlength=4)
    assert scipy.stats.chisquare(counts).pvalue > 0.001
    rank, tied = ranks(np.array([math.nan, math.nan, 1.0]))
    assert (rank[2], tied.tolist()) == (1, [False] * 3)


def test_document_is_valid_json_with_every_digit() -> None:
    document = strict(result(raw=np.array([0.1 + 0.2, 1e-17 / 3, math.inf, 1, 2])).to_json())
    assert document["schema"] == "headtool/scores/1"
    assert document["provenance"] == {"gradient": {"seed": 3, "options": {}}}
    first, second, third, *_ = document["scores"]
    assert first == {
        "method": "gradient",
        "kind": "enc-self",
        "layer": 0,
        "head": 0,
        "score": 0.5,
        "stderr": None,
        "rank": 2,
        "tied": True,
        "mean_rank": 2.5,
        "raw": 0.1 + 0.2,
    }
    assert second["score"] is None
    assert second["raw"] == 1e-17 / 3
    assert third["raw"] is None  # infinite


def test_document_of_several_methods_keeps_their_columns_and_types() -> None:
    gates = result("gates", kept=np.array([True, False, True, False, True]))
    document = strict(json.dumps(scores_document([result(), gates])))
    assert [row["method"] for row in document["scores"]] == ["gradient"] * 5 + ["gates"] * 5
    assert "kept" not in document["scores"][0]
    assert document["scores"][5]["kept"] is True
    assert isinstance(document["scores"][5]["rank"], int)
    assert set(document["provenance"]) == {"gradient", "gates"}


@pytest.fixture
def outcomes() -> Outcomes:
    heads = SITES.heads
    masks = (HeadMask.without(SITES, heads[:1]), HeadMask.without(SITES, [heads[1], heads[3]]))
    whole = {"loss": np.array([1.0, 2, 3]), "prediction": np.array([0.0, 1, 1])}
    masked = {name: np.stack([values + 10, values + 20]) for name, values in whole.items()}
    return Outcomes(masks, whole, masked)


def test_results_are_short_in_a_console(outcomes: Outcomes) -> None:
    assert repr(result()) == "<HeadScores by gradient: 5 heads, first enc-self.1.0>"
    text = "<Outcomes: 2 masks and the whole model on 3 examples; per example: loss, prediction>"
    assert repr(outcomes) == text


def test_outcomes_as_a_frame(outcomes: Outcomes) -> None:
    frame = outcomes.to_frame()
    assert frame["mask"].tolist() == (
        [""] * 3 + ["enc-self.0.0"] * 3 + ["enc-self.0.1 cross.0.0"] * 3
    )
    assert frame["example"].tolist() == [0, 1, 2] * 3
    assert frame["loss"].tolist() == [1, 2, 3, 11, 12, 13, 21, 22, 23]
    assert frame["prediction"].tolist() == [0, 1, 1, 10, 11, 11, 20, 21, 21]
    assert isinstance(frame["mask"].dtype, pd.CategoricalDtype)


def test_outcomes_of_one_mask(outcomes: Outcomes) -> None:
    assert outcomes.row(1)["loss"].tolist() == [21, 22, 23]


def test_outcomes_on_some_examples(outcomes: Outcomes) -> None:
    part = outcomes.on(np.array([2, 0]))
    assert part.masks == outcomes.masks
    for name, values in outcomes.whole.items():
        assert part.whole[name].tolist() == [values[2], values[0]]
        assert part.masked[name].tolist() == [[row[2], row[0]] for row in outcomes.masked[name]]


def test_outcomes_without_masks_or_of_one_mask_twice(outcomes: Outcomes) -> None:
    none = Outcomes((), outcomes.whole, {name: np.empty((0, 3)) for name in outcomes.whole})
    assert none.to_frame()["loss"].tolist() == [1, 2, 3]
    twice = Outcomes((outcomes.masks[0],) * 2, outcomes.whole, outcomes.masked)
    assert twice.to_frame()["mask"].tolist() == [""] * 3 + ["enc-self.0.0"] * 6
