"""What a model is measured by: the metric, the loss beside it, and how to decode."""

from __future__ import annotations

import pytest

from headtool.engine.measurement import resolve
from headtool.errors import HeadtoolError
from headtool.metrics import metric_of_model, metric_of_run
from headtool.models import load_model
from headtool.searching import Search

from ..support.family_model import FamilyModel


@pytest.fixture(scope="module")
def model() -> FamilyModel:
    return FamilyModel("BERT")


def test_the_loss_comes_with_a_metric_that_does_not_decode(model: FamilyModel) -> None:
    assert [metric.name for metric in resolve(model).metrics] == ["accuracy", "loss"]
    assert [metric.name for metric in resolve(model, "loss").metrics] == ["loss"]
    assert resolve(model).search is None
    assert resolve(model).described() == {}
    whole = load_model("builtin:nli", device="cpu")
    assert [metric.name for metric in resolve(whole, "mcc").metrics] == ["mcc", "loss"]
    assert resolve(whole, "mcc").metric.name == metric_of_model(whole, "mcc").name


def test_a_metric_that_decodes_comes_alone_with_the_models_own_search() -> None:
    model = load_model("builtin:mt", device="cpu")
    found = resolve(model, "bleu", Search(beam=2), tokenize="char")
    assert [metric.name for metric in found.metrics] == ["bleu"]
    assert found.search is not None
    assert found.search.beam == 2
    assert found.search.length_penalty is not None
    assert "tok:char" in found.described()["signature"]
    assert found.described()["search"]["beam"] == 2


def test_options_that_would_change_nothing_are_refused(model: FamilyModel) -> None:
    with pytest.raises(HeadtoolError, match="`search` is for metrics that decode"):
        resolve(model, "accuracy", Search(beam=2))
    with pytest.raises(HeadtoolError, match="tokenize"):
        resolve(model, "accuracy", tokenize="char")
    assert resolve(model, "accuracy", Search()).search is None


def test_a_saved_run_names_its_metric_and_its_labels() -> None:
    source = {"metric": "accuracy", "model": {"task": "classification", "labels": 3}}
    assert metric_of_run(source).name == "accuracy"
    assert metric_of_run(source, "loss").name == "loss"
    with pytest.raises(HeadtoolError, match="the model has 3"):
        metric_of_run(source, "f1")
