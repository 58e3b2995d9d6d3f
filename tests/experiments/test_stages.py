"""Stages: finished ones are read, masks are run once, and nothing is left behind."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from headtool.engine.evaluation import evaluate
from headtool.engine.replacement import Mean
from headtool.errors import HeadtoolError
from headtool.experiments.stages import Stages, stages
from headtool.heads import HeadMask
from headtool.metrics import get_metric
from headtool.results.scores import HeadScores, score_frame

from ..support.family_model import DATA, FamilyModel

LOSS = get_metric("loss", task="classification")
KEY = {"model": "a"}


@pytest.fixture(scope="module")
def model() -> FamilyModel:
    return FamilyModel("BERT")


def masks_of(model: FamilyModel, *positions: int) -> list[HeadMask]:
    return [HeadMask.without(model.sites, [model.sites.heads[i]]) for i in positions]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[HeadMask]:
    """Masks that are run, in order."""
    from headtool.engine import measurement

    seen: list[HeadMask] = []

    def noted(model, examples, masks, **settings):
        seen.extend(masks)
        return evaluate(model, examples, masks, **settings)

    monkeypatch.setattr(measurement, "evaluate", noted)
    return seen


def test_masks_are_run_once_whoever_asks(model: FamilyModel, counted: list[HeadMask]) -> None:
    kept, examples = Stages(None), model.encode(DATA)
    first = kept.measure("a", model, examples, masks_of(model, 0, 1), LOSS)
    second = kept.measure("b", model, examples, masks_of(model, 2, 1, 2), LOSS)
    assert counted == masks_of(model, 0, 1, 2)
    assert second.outcomes.masks == tuple(masks_of(model, 2, 1, 2))
    straight = evaluate(model, examples, masks_of(model, 2, 1, 2))
    np.testing.assert_allclose(second.outcomes.masked["loss"], straight.masked["loss"], rtol=1e-5)
    np.testing.assert_array_equal(
        first.outcomes.masked["loss"][1], second.outcomes.masked["loss"][1]
    )
    whole = kept.measure("c", model, examples, [], LOSS)
    assert whole.outcomes.masked["loss"].shape == (0, len(examples))
    assert len(counted) == 3


def test_other_examples_and_other_ablations_are_run_anew(
    model: FamilyModel, counted: list[HeadMask]
) -> None:
    kept, examples = Stages(None), model.encode(DATA)
    masks = masks_of(model, 0)
    zero = kept.measure("a", model, examples, masks, LOSS).outcomes
    kept.measure("b", model, examples.head(4), masks, LOSS)
    assert len(counted) == 2
    mean = kept.measure("c", model, examples, masks, LOSS, replacement=Mean()).outcomes
    assert len(counted) == 3
    assert not np.allclose(mean.masked["loss"], zero.masked["loss"])
    kept.measure("d", model, examples, masks, LOSS, reuse=False)
    assert len(counted) == 4


def scores_of(model: FamilyModel) -> HeadScores:
    count = model.sites.n_heads
    frame = score_frame("x", model.sites, np.arange(count) * 1.0, np.full(count, np.nan))
    table = pd.DataFrame({"row": [1, 2]})
    return HeadScores("x", frame, {"seed": 1}, {"more": table}, {"w": torch.ones(2)})


def interrupt(folder: Path, scores: HeadScores) -> None:
    """Finish a stage, and be interrupted."""
    with contextlib.suppress(KeyboardInterrupt), stages(folder, KEY, force=False) as kept:
        kept.scores("scores.x", lambda: scores)
        raise KeyboardInterrupt


def test_a_finished_stage_is_read(model: FamilyModel, tmp_path: Path) -> None:
    expected = scores_of(model)
    interrupt(tmp_path / "run", expected)

    def never() -> HeadScores:
        raise AssertionError("computed again")

    with stages(tmp_path / "run", KEY, force=False) as kept:
        found = kept.scores("scores.x", never)
    assert found.method == "x"
    assert found.provenance == {"seed": 1}
    pd.testing.assert_frame_equal(found.frame, expected.frame, check_dtype=False)
    pd.testing.assert_frame_equal(found.tables["more"], expected.tables["more"])
    assert torch.equal(found.weights["w"], expected.weights["w"])
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_stage_is_named(model: FamilyModel, tmp_path: Path) -> None:
    interrupt(tmp_path / "run", scores_of(model))
    path = tmp_path / "run.unfinished" / "scores.x" / "scores.parquet"
    path.write_bytes(b"")
    with (
        pytest.raises(HeadtoolError, match=r"scores\.parquet is damaged"),
        stages(tmp_path / "run", KEY, force=False) as kept,
    ):
        kept.scores("scores.x", lambda: scores_of(model))


def test_another_run_in_the_same_place_is_refused(model: FamilyModel, tmp_path: Path) -> None:
    interrupt(tmp_path / "run", scores_of(model))
    with (
        pytest.raises(HeadtoolError, match="unfinished run of something else"),
        stages(tmp_path / "run", {"model": "b"}, force=False),
    ):
        pass
    with (
        stages(tmp_path / "run", KEY, force=False),
        pytest.raises(HeadtoolError, match="another process is at work"),
        stages(tmp_path / "run", KEY, force=False),
    ):
        pass


def test_nothing_is_left_where_nothing_was_finished(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stop"), stages(tmp_path / "run", KEY, force=False):
        raise ValueError("stop")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").write_text("mine")
    with (
        pytest.raises(HeadtoolError, match="exists already"),
        stages(tmp_path / "run", KEY, force=False),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_stage_without_a_finished_unit_is_nothing(model: FamilyModel, tmp_path: Path) -> None:
    def never(units, work):
        raise ValueError("stop")
        yield

    with (
        pytest.raises(ValueError, match="stop"),
        stages(tmp_path / "deep" / "run", KEY, force=False, execute=never) as kept,
    ):
        kept.measure("a", model, model.encode(DATA), masks_of(model, 0), LOSS)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_removed_meanwhile_is_said(model: FamilyModel, tmp_path: Path) -> None:
    scores, unfinished = scores_of(model), tmp_path / "run.unfinished"
    message = r"run\.unfinished was removed while the command was at work"

    def removed() -> HeadScores:
        shutil.rmtree(unfinished)
        return scores

    for fails in (
        lambda kept: kept.scores("scores.x", removed),
        lambda kept: (removed(), kept.scores("scores.x", lambda: scores)),
        lambda kept: (removed(), kept.keep("part", dict)),
        lambda kept: (removed(), kept.measure("a", model, model.encode(DATA), [], LOSS)),
    ):
        with (
            pytest.raises(HeadtoolError, match=message),
            stages(tmp_path / "run", KEY, force=False) as kept,
        ):
            fails(kept)
        assert list(tmp_path.iterdir()) == []
    with stages(tmp_path / "run", KEY, force=False):
        removed()  # whoever has finished needs it no more
    assert list(tmp_path.iterdir()) == []


def test_outcomes_are_found_again_by_what_they_depend_on(
    model: FamilyModel, counted: list[HeadMask]
) -> None:
    """Not by which object holds the examples: the same ones encoded again are the same."""
    kept, masks = Stages(None), masks_of(model, 0)
    kept.measure("a", model, model.encode(DATA), masks, LOSS)
    kept.measure("b", model, model.encode(DATA), masks, LOSS)
    assert len(counted) == 1
    kept.measure("c", model, model.encode(DATA, batch_tokens=64), masks, LOSS)
    assert len(counted) == 2
    other = FamilyModel("BERT")
    with torch.no_grad():
        next(other.module.parameters()).mul_(2)
    assert other.fingerprint != model.fingerprint
    kept.measure("d", other, other.encode(DATA), masks, LOSS)
    assert len(counted) == 3


def test_a_part_takes_its_outcomes_from_the_whole(
    model: FamilyModel, counted: list[HeadMask]
) -> None:
    kept, examples, masks = Stages(None), model.encode(DATA), masks_of(model, 0, 1)
    index = np.array([2, 0])
    part = kept.part(examples, index)
    found = kept.measure("a", model, part, masks, LOSS).outcomes
    whole = kept.measure("b", model, examples, masks, LOSS).outcomes
    assert len(counted) == 2
    np.testing.assert_array_equal(found.masked["loss"], whole.masked["loss"][:, index])


def test_the_executor_and_the_progress_are_those_of_all_stages(model: FamilyModel) -> None:
    units: list[int] = []
    labels: list[str] = []

    def execute(todo, run):
        for unit in todo:
            units.append(unit.number)
            yield unit, run(unit)

    def progress(items, *, total, label):
        labels.append(label)
        yield from items

    with stages(None, KEY, force=False, execute=execute, progress=progress) as kept:
        kept.measure("a", model, model.encode(DATA), masks_of(model, 0), LOSS)
    assert units
    assert labels == ["evaluate"]
