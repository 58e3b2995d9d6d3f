"""Exact ablation of the heads that a cheap method leaves open, and tests that know of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headtool
from headtool.analysis.screening import NOT_TESTED, Screen, halves, with_untested
from headtool.errors import HeadtoolError
from headtool.methods.ablation import Ablation

PLACE = ["kind", "layer", "head"]


@pytest.fixture(scope="module")
def model():
    return headtool.load_model("builtin:nli", device="cpu")


@pytest.fixture(scope="module")
def full(model):
    return headtool.ablate(model, limit=240)


def test_the_window_lies_around_the_cut() -> None:
    rank = np.arange(10, 0, -1)  # the first head is the least important
    for cut, first in ((0.0, 0), (0.3, 1), (0.5, 3), (0.9, 6), (1.0, 6)):
        chosen = Screen(4, cut=cut).choose(rank)
        assert np.flatnonzero(chosen).tolist() == list(range(first, first + 4))
    assert Screen(9, cut=0.5).choose(rank).sum() == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 0}, "`screen` must be at least 1, got 0"),
        ({"heads": 2, "by": "gradeint"}, "unknown `screen_by` 'gradeint'; did you mean 'gradient'"),
        ({"heads": 2, "cut": 1.5}, "`screen_cut` must be between 0 and 1, got 1.5"),
    ],
)
def test_screens_that_make_no_sense(options, message: str) -> None:
    with pytest.raises(HeadtoolError, match=message):
        Screen(**options)


def test_what_does_not_fit_is_refused(model, full) -> None:
    for options, message in (
        ({"screen": 32}, "`screen` 32 leaves out none of 32 heads"),
        ({"screen": 4, "heads": ["enc-self.0.0"]}, "`screen` chooses heads itself"),
        ({"screen": 4, "all_but_one": True}, "`screen` chooses heads itself"),
        ({"screen_cut": 0.2}, "`screen_cut` is for `screen`; add it"),
        ({"screen": 2, "limit": 3}, "which takes 4, and there are 3"),
    ):
        with pytest.raises(HeadtoolError, match=message):
            headtool.ablate(model, "builtin:nli/matched", **{"limit": 8, **options})
    screened = headtool.ablate(model, limit=24, screen=4)
    with pytest.raises(HeadtoolError, match="was screened before the ablation"):
        headtool.test(screened, screen=2)
    with pytest.raises(HeadtoolError, match="ablation scores 4 of 32 heads"):
        headtool.compare(model, methods=[Ablation(screen=4)], limit=40, steps="50%")


def test_half_of_the_examples_choose_and_the_other_half_tests(model, full) -> None:
    found = headtool.ablate(model, limit=240, screen=6, screen_by="gradient", screen_cut=0.8)
    selection, evaluation = halves(240, 0)
    assert not set(selection) & set(evaluation)
    examples = model.encode(headtool.load_data("builtin:nli/matched", limit=240))
    cheap = headtool.get_method("gradient")().score(model, examples.take(selection)).frame
    pd.testing.assert_frame_equal(
        found.screening[[*PLACE, "score", "rank"]], cheap[[*PLACE, "score", "rank"]]
    )
    tested = found.screening["tested"].to_numpy()
    places = np.sort(32 - found.screening["rank"][tested].to_numpy())
    assert places.tolist() == list(range(23, 29))
    assert len(found.measured.outcomes.masks) == 6
    # Their outcomes are those of the full ablation, on the half that did not choose.
    wanted = full.outcomes().on(evaluation).take(np.flatnonzero(tested).tolist())
    np.testing.assert_allclose(
        found.measured.outcomes.masked["loss"], wanted.masked["loss"], atol=1e-4
    )
    for _, rows in found.frame.groupby("metric"):
        assert rows["delta"].notna().tolist() == tested.tolist()
    screen = found.provenance["options"]["screen"]
    assert screen == {
        "heads": 6,
        "by": "gradient",
        "cut": 0.8,
        "of": 32,
        "selection_examples": 120,
        "evaluation_examples": 120,
    }


def test_screened_heads_are_reported_and_not_corrected_for(model, tmp_path: Path) -> None:
    found = headtool.ablate(model, limit=240, screen=6, screen_cut=1.0, out=tmp_path / "run")
    verdicts = headtool.test(found, margin=0.2)
    assert verdicts.tests.n_tests <= 6
    assert verdicts.provenance["settings"]["heads"] == verdicts.tests.n_tests
    tested = found.screening["tested"].to_numpy()
    frame = verdicts.frame
    assert (frame["verdict"] == NOT_TESTED).tolist() == (~tested).tolist()
    assert frame.loc[~tested, ["delta", "p", "p_adjusted", "n_differing"]].isna().all(axis=None)
    assert frame[PLACE].to_numpy().tolist() == found.screening[PLACE].to_numpy().tolist()
    (note,) = [note for note in verdicts.tests.notes if "not tested" in note]
    assert note.startswith("26 of 32 heads are not tested: on 120 other examples attribution")
    # Corrected over the six alone: as if there were no others.
    alone = headtool.ablate(
        model,
        model_examples(model, 240, found),
        heads=[f"{k}.{n}.{h}" for k, n, h in found.screening[tested][PLACE].to_numpy()],
    )
    again = headtool.test(alone, margin=0.2).frame.reset_index(drop=True)
    np.testing.assert_allclose(
        frame.loc[tested, "p_adjusted"].to_numpy(), again["p_adjusted"].to_numpy()
    )
    saved = headtool.test(tmp_path / "run", margin=0.2)
    pd.testing.assert_frame_equal(saved.frame, frame)
    assert verdicts.kinds["heads"].tolist() == [6]
    document = json.loads(json.dumps(verdicts.document(), allow_nan=False))
    assert sum(row["verdict"] == NOT_TESTED for row in document["tests"]) == 26
    assert all(row["delta"] is None for row in document["tests"] if row["verdict"] == NOT_TESTED)


def model_examples(model, limit: int, found):
    """The examples that a screened ablation tested heads on, as a data set."""
    text = headtool.load_data("builtin:nli/matched", limit=limit)
    return text.take(halves(limit, 0)[1].tolist())


def test_the_method_screens_alike(model, tmp_path: Path) -> None:
    method = Ablation(screen=6, screen_cut=1.0)
    scoring = headtool.score(model, methods=[method], limit=240, out=tmp_path / "run")
    found = headtool.ablate(model, limit=240, screen=6, screen_cut=1.0)
    (scores,) = scoring.results
    pd.testing.assert_frame_equal(scores.tables["screening"], found.screening)
    accuracy = found.frame[found.frame["metric"] == "accuracy"]
    np.testing.assert_allclose(scores.frame["score"], -accuracy["delta"])
    assert scores.provenance["screen"] == found.provenance["options"]["screen"]
    theirs = headtool.test(tmp_path / "run", margin=0.2).frame
    pd.testing.assert_frame_equal(theirs, headtool.test(found, margin=0.2).frame)
    with pytest.raises(HeadtoolError, match=r"ablation\.screen_cut has no effect"):
        Ablation(screen_cut=0.2)


def test_saved_outcomes_can_be_screened_as_well(full) -> None:
    found = headtool.test(full, screen=4, screen_cut=1.0, margin=0.2)
    assert (found.frame["verdict"] != NOT_TESTED).sum() == 4
    assert found.tests.n_examples == 120
    assert found.provenance["settings"]["screen"]["by"] == "ablation"
    whole = headtool.test(full, margin=0.2)
    needed = set(
        whole.frame.query("verdict == 'needed'")[["layer", "head"]].itertuples(index=False)
    )
    tested = found.frame[found.frame["verdict"] != NOT_TESTED]
    seen = set(tested[["layer", "head"]].itertuples(index=False))
    assert len(needed & seen) >= 2  # the two heads that matter most
    assert headtool.test(full, margin=0.2).tests.n_tests > 4


def test_screening_costs_what_was_planned(model) -> None:
    full = headtool.plan("ablate", model, limit=240).total
    plan = headtool.plan("ablate", model, limit=240, screen=4)
    assert plan.frame["phase"].tolist() == ["screen", "ablate"]
    assert plan.frame["examples"].tolist() == [120, 120]
    assert plan.frame["forward"].tolist() == [1, 5]
    assert plan.total["token_passes_most"] < full["token_passes_most"] / 5


def test_untested_rows_need_no_metric() -> None:
    frame = pd.DataFrame({"kind": ["a"], "layer": [0], "head": [1], "p": [0.5]})
    everyone = pd.DataFrame(
        {"kind": ["a"] * 2, "layer": [0, 0], "head": [0, 1], "tested": [False, True]}
    )
    whole = with_untested(frame, everyone)
    assert math.isnan(whole["p"].iloc[0])
    assert whole["p"].iloc[1] == 0.5
    assert with_untested(frame, None) is frame


def test_reports_say_what_was_not_tested(model, tmp_path: Path) -> None:
    run = tmp_path / "run"
    headtool.ablate(model, limit=24, screen=6, out=run)
    headtool.write_report(run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "26 of 32 heads are not tested: on 12 other examples attribution ranks them" in page
