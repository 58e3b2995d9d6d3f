"""A setup: everything resolved once, and what costs least checked first."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import headtool
from headtool.errors import HeadtoolError
from headtool.experiments.setup import Setup, set_up
from headtool.searching import Search

SPEC = "builtin:nli"


@pytest.fixture(scope="module")
def setup() -> Setup:
    return set_up(SPEC, methods=["magnitude"], limit=16, steps="25%", metric="loss", seed=5)


def test_everything_is_resolved(setup: Setup) -> None:
    assert setup.name == "compare"
    assert [metric.name for metric in setup.measures.metrics] == ["loss"]
    assert [method.name for method in setup.methods] == ["magnitude"]
    assert [family.kind for family in setup.families] == ["all"]
    assert setup.families[0].budgets == (0, 8, 16, 24, 32)
    assert len(setup.split.selection) + len(setup.split.first) == 16
    assert setup.split.selection_spec == "builtin:nli/matched"
    assert setup.replicates == ()
    assert setup.roles is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        setup.name = "curve"  # type: ignore[misc]


def test_the_description_tells_comparisons_apart(setup: Setup) -> None:
    same = set_up(setup.model, methods=["magnitude"], limit=16, steps="25%", metric="loss", seed=5)
    other = set_up(setup.model, request=setup.request, seed=6)
    assert same.description == setup.description
    assert other.description != setup.description
    assert setup.description["options"]["steps"] == "25%"


def test_ablation_decodes_as_the_comparison_does() -> None:
    model = headtool.load_model("builtin:mt", device="cpu")
    made = headtool.get_method("ablation")(beam=3)
    for method, beam in (("ablation", 2), (made, 3)):
        found = set_up(model, methods=[method], metric="bleu", search=Search(beam=2), limit=8)
        assert found.measures.search is not None
        assert found.measures.search.beam == 2
        assert found.methods[0].settings()["beam"] == beam


def test_what_costs_nothing_is_checked_before_a_model_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(*_: object, **__: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr("headtool.models.load_model", load)
    with pytest.raises(HeadtoolError, match="`draws`"):
        set_up(SPEC, draws=-1)
    with pytest.raises(HeadtoolError, match="nowhere"):
        set_up(SPEC, "nowhere.tsv")
    with pytest.raises(HeadtoolError, match="nowhere"):
        set_up(SPEC, roles=Path("nowhere"))
    with pytest.raises(HeadtoolError, match="nowhere"):
        set_up(SPEC, replicates=["nowhere/"])


def test_options_without_effect_are_refused(setup: Setup) -> None:
    with pytest.raises(HeadtoolError, match="`margin` is for compare"):
        set_up(setup.model, name="curve", margin=0.1)
    with pytest.raises(HeadtoolError, match="`search` is for metrics that decode"):
        set_up(setup.model, methods=["magnitude"], search=Search(beam=2))
    with pytest.raises(HeadtoolError, match="`per_kind` needs several kinds"):
        set_up(setup.model, methods=["magnitude"], per_kind=True)
    with pytest.raises(HeadtoolError, match=r"`stability` .* below 4"):
        set_up(setup.model, methods=["magnitude"], stability=2, limit=6)


def test_a_curve_is_of_the_gradient_where_nothing_else_is_asked(setup: Setup) -> None:
    found = set_up(setup.model, name="curve", limit=16)
    assert [method.name for method in found.methods] == ["gradient"]
