"""Heads to remove, chosen from results that were never written; and options that contradict."""

from __future__ import annotations

from pathlib import Path

import pytest

import headtool
from headtool.errors import HeadtoolError
from headtool.experiments.choosing import Choice
from headtool.models.base import ModelAdapter


@pytest.fixture(scope="module")
def model() -> ModelAdapter:
    return headtool.load_model("builtin:nli", device="cpu")


@pytest.mark.slow
def test_results_choose_as_their_runs_do(model: ModelAdapter, tmp_path: Path) -> None:
    ablation = headtool.ablate(model, limit=16, metric="loss", out=tmp_path / "ablation")
    scoring = headtool.score(model, methods=["magnitude"], limit=16, out=tmp_path / "scores")
    for result, options in (
        (ablation, {"remove": "25%"}),
        (ablation, {"keep_heads": 20, "keep_one_per_layer": True}),
        (scoring, {"remove": "50%"}),
    ):
        here = headtool.prune(model, scores=result, **options)
        saved = headtool.prune(model, scores=result.folder, **options)
        opened = headtool.prune(model, scores=headtool.read_run(result.folder), **options)
        assert here.removed == saved.removed == opened.removed
        assert here.frame.equals(saved.frame)
        assert here.provenance == saved.provenance


def test_verdicts_come_from_an_ablation(model: ModelAdapter) -> None:
    heads = [str(head) for head in model.sites.heads[:4]]
    ablation = headtool.ablate(model, limit=64, heads=heads)
    with pytest.raises(HeadtoolError, match="no head is removable"):  # 64 examples are too few
        headtool.prune(model, scores=ablation, verdict="removable")
    scoring = headtool.score(model, methods=["magnitude"], limit=8)
    with pytest.raises(HeadtoolError, match="`verdict` needs outcomes"):
        headtool.prune(model, scores=scoring, verdict="removable")


def test_a_mask_names_the_heads(model: ModelAdapter, tmp_path: Path) -> None:
    mask = headtool.HeadMask.without(model.sites, model.sites.heads[:3])
    (tmp_path / "mask.json").write_text(mask.to_json())
    pruning = headtool.prune(model, mask=mask)
    assert pruning.removed == [str(head) for head in model.sites.heads[:3]]
    assert pruning.removed == headtool.prune(model, mask=tmp_path / "mask.json").removed
    assert pruning.model.sites.n_heads == model.sites.n_heads - 3
    baked = headtool.prune(model, mask=mask, bake=True)
    assert baked.model.sites == model.sites
    assert baked.frame.empty


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "`remove`, `keep_heads`, `verdict` and `mask`; none of them is given"),
        ({"remove": "4%", "keep_heads": 2}, "`remove` and `keep_heads` are given"),
        ({"remove": "40%"}, "`remove` needs `scores`"),
        ({"mask": "a.json", "method": "gates"}, "leave `method` out"),
        ({"scores": "run", "verdict": "needed"}, "unknown verdict to remove 'needed'"),
        ({"scores": "run", "verdict": "harmful", "method": "lrp"}, "leave `method` out"),
    ],
)
def test_contradictions_name_fields(options: dict[str, str], message: str) -> None:
    with pytest.raises(HeadtoolError, match=message):
        Choice(**options)


def test_a_cost_on_the_examples_that_chose_is_said_to_flatter(model: ModelAdapter) -> None:
    matched, other = "builtin:nli/matched", "builtin:nli/mismatched"

    def notes(method: str, data: str) -> str:
        scoring = headtool.score(model, matched, methods=[method], limit=8)
        return " ".join(
            headtool.prune(model, scores=scoring, remove="25%", data=data, limit=12).notes
        )

    assert "scored on this data set, which flatters" in notes("confidence", matched)
    assert "flatters" not in notes("confidence", other)
    assert "flatters" not in notes("magnitude", matched)
