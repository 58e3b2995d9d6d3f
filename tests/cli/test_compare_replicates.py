"""``headtool compare --replicate``: the same architecture trained with another seed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers

import headtool.methods
from headtool.analysis.comparison import Comparison, read_comparison
from headtool.analysis.overlap import jaccard
from headtool.data import load_data
from headtool.experiments import compare as comparing
from headtool.models import load_model

from .conftest import SIZES, save, word_tokenizer

PLACE = ["kind", "layer", "head"]
TABLES = (
    "replicates",
    "replicate_scores",
    "replicate_agreement",
    "replicate_overlap",
    "replicate_curves",
)


def other_weights(source: Path, target: Path, seed: int) -> Path:
    """The same model with weights of another seed."""
    model = transformers.BertForSequenceClassification.from_pretrained(source)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.5, generator=generator)
    model.save_pretrained(target)
    word_tokenizer().save_pretrained(target)
    return target


@pytest.fixture(scope="module")
def second(bert: Path, folder: Path) -> Path:
    return other_weights(bert, folder / "bert-second", 1)


@pytest.fixture(scope="module")
def third(bert: Path, folder: Path) -> Path:
    return other_weights(bert, folder / "bert-third", 2)


@pytest.fixture(scope="module")
def found(bert: Path, second: Path, third: Path, reviews: Path, folder: Path) -> Comparison:
    """Two methods on three models, through Python."""
    return comparing.compare(
        str(bert),
        str(reviews),
        methods=["gradient", "ablation"],
        replicates=[str(second), load_model(str(third))],
        steps="25%",
        draws=3,
        resamples=100,
        out=folder / "replicated",
    )


@pytest.mark.slow
def test_every_model_is_scored_on_the_same_examples(
    found: Comparison, bert: Path, second: Path, third: Path
) -> None:
    chosen = found.splits.query("split == 'selection'")["example"].tolist()
    text = load_data(found.settings["data"][0]).take(chosen)
    for spec in (bert, second, third):
        model = load_model(str(spec))
        for name in ("gradient", "ablation"):
            alone = headtool.methods.get_method(name)().score(model, model.encode(text)).frame
            ours = found.replicate_scores.query("model == @model.spec and method == @name")
            np.testing.assert_allclose(ours["score"], alone["score"], atol=1e-6)
            assert ours["rank"].tolist() == alone["rank"].tolist()


def test_curves_are_those_of_a_comparison_of_the_replicate_alone(
    found: Comparison, second: Path, reviews: Path
) -> None:
    alone = comparing.compare(
        str(second),
        str(reviews),
        methods=["gradient", "ablation"],
        steps="25%",
        draws=3,
        resamples=100,
    )
    spec = str(second)
    curves = found.replicate_curves
    ours = curves[curves["model"] == spec].reset_index(drop=True)
    theirs = alone.curves
    assert ours["method"].tolist() == theirs["method"].tolist()
    for name in ("budget", "value", "delta", "low", "high"):
        assert ours[name].tolist() == pytest.approx(theirs[name].tolist(), nan_ok=True)
    models = found.replicates
    whole = models[models["model"] == spec].set_index("metric")["value"]
    assert whole.to_dict() == pytest.approx(alone.settings["whole"][str(reviews)])


def test_draws_are_the_same_for_all_models(bert: Path, second: Path, reviews: Path) -> None:
    asked = {"methods": ["magnitude"], "steps": "25%", "resamples": 10, "metric": "loss"}
    both = comparing.compare(str(bert), str(reviews), replicates=[str(second)], **asked)
    first, other = (comparing.compare(str(bert), str(reviews), **asked) for _ in range(2))
    (row,) = both.curve_tests.query("method_y == 'random'").to_dict("records")
    assert row["draws"] >= 1
    assert 0 < row["p_draws_adjusted"] <= 1
    assert both.settings["draws_plan"] == first.settings["draws_plan"]
    assert len(both.replicate_curves["model"].unique()) == 2
    assert first.curve_tests.equals(other.curve_tests)


def test_curve_tests_average_over_the_models(found: Comparison) -> None:
    curves = found.replicate_curves
    for row in found.curve_tests.to_dict("records"):
        areas = []
        for _, part in curves.groupby("model"):
            wide = part.pivot(index="share", columns="method", values="delta")
            gap = (wide[row["method_x"]] - wide[row["method_y"]]).to_numpy()
            areas.append(np.trapezoid(gap, wide.index.to_numpy()) / wide.index.max())
        assert len(areas) == 3
        assert row["area"] == pytest.approx(np.mean(areas))


def test_overlap_of_models_counts_their_kept_heads(found: Comparison) -> None:
    ranks = found.replicate_scores.set_index(["method", "model"])["rank"].sort_index()
    for row in found.replicate_overlap.to_dict("records"):
        sets = [
            ranks.loc[row["method"], row[model]].to_numpy() <= 8 - row["budget"]
            for model in ("model_x", "model_y")
        ]
        assert row["jaccard"] == pytest.approx(jaccard(*sets))
    assert len(found.replicate_agreement) == 2 * 3


def test_the_models_are_on_record(found: Comparison, bert: Path, second: Path) -> None:
    models = found.settings["replicates"]
    assert list(models)[:2] == [str(bert), str(second)]
    assert models[str(second)] == load_model(str(second)).fingerprint
    assert any("3 models are few" in note for note in found.settings["notes"])
    assert found.folder is not None
    again = read_comparison(found.folder)
    for name in TABLES:
        pd.testing.assert_frame_equal(again.tables[name], found.tables[name], check_dtype=False)


@pytest.fixture
def compare(headtool, bert: Path, reviews: Path, workplace: Path) -> Callable[..., Any]:
    """Run ``headtool compare`` on the small classifier."""

    def run(*arguments: object) -> Any:
        few = ("--draws", 2, "--resamples", 20, "--steps", "25%")
        return headtool("compare", "--model", bert, "--data", reviews, *few, *arguments)

    return run


@pytest.mark.slow
def test_the_command_shows_and_prints_it(compare: Callable[..., Any], second: Path) -> None:
    done = compare("--method", "gradient,ablation", "--replicate", second)
    assert done.code == 0, done.err
    assert "replicates  2 models" in done.out
    assert "mean distance, mean over the models" in done.out
    assert "2 models are few" in done.err
    document = json.loads(
        compare("--method", "gradient", "--replicate", second, "--format", "json").out
    )
    assert {row["model"] for row in document["replicate_scores"]} >= {str(second)}
    assert len(document["replicate_agreement"]) == 1


def test_without_replicates_the_tables_have_no_rows(compare: Callable[..., Any]) -> None:
    document = json.loads(compare("--method", "gradient", "--format", "json").out)
    assert [document[name] for name in TABLES] == [[]] * 5
    assert document["provenance"]["replicates"] == {}


BROKEN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from headtool.errors import HeadtoolError
from headtool.methods.base import Job, Method, Scored

@dataclass(frozen=True)
class Picky(Method):
    name: ClassVar[str] = "picky"
    summary: ClassVar[str] = "scores one model"
    reference: ClassVar[str] = "none"

    def compute(self, job: Job) -> Scored:
        if "second" in job.model.spec:
            raise HeadtoolError("not this one")
        score = np.arange(job.sites.n_heads, dtype=float)
        return Scored(score, np.full(len(score), np.nan))
"""


def test_a_method_that_fails_on_a_replicate_is_compared_on_the_first_model_only(
    compare: Callable[..., Any], second: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "example_picky.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(headtool.methods.BUILTIN, "picky", "example_picky:Picky")
    done = compare("--method", "picky,gradient", "--replicate", second, "--out", "run")
    assert done.code == 2
    assert "picky failed and is not compared with" in done.err
    run = read_comparison(Path("run"))
    assert set(run.scores["method"]) == {"picky", "gradient"}
    assert set(run.replicate_scores["method"]) == {"gradient"}
    assert "picky" not in set(run.curve_tests["method_x"]) | set(run.curve_tests["method_y"])
    assert run.failures["stage"].tolist() == ["replicate 1"]


def test_replicates_that_are_none(
    compare: Callable[..., Any],
    bert: Path,
    second: Path,
    llama: Path,
    folder: Path,
    workplace: Path,
) -> None:
    config = {**SIZES, "num_hidden_layers": 1}
    labels = {"id2label": {0: "negative", 1: "positive"}}
    shallow = save(
        transformers.BertForSequenceClassification(transformers.BertConfig(**config, **labels)),
        workplace / "shallow",
    )
    swapped = save(
        transformers.BertForSequenceClassification(
            transformers.BertConfig(**SIZES, id2label={0: "positive", 1: "negative"})
        ),
        workplace / "swapped",
    )
    retokenised = workplace / "retokenised"
    shutil.copytree(second, retokenised)
    words = json.loads((retokenised / "tokenizer.json").read_text())
    vocabulary = words["model"]["vocab"]
    vocabulary["good"], vocabulary["bad"] = vocabulary["bad"], vocabulary["good"]
    (retokenised / "tokenizer.json").write_text(json.dumps(words))
    copied = workplace / "copied"
    shutil.copytree(bert, copied)
    for spec, parts in (
        ("nowhere/at-all/x", ["nowhere/at-all/x"]),
        (llama, ["is for causal-lm", "for classification"]),
        (shallow, [f"{shallow} has ", "same architecture"]),
        (swapped, ["labels positive, negative", "negative, positive"]),
        (retokenised, ["other tokens", "same vocabulary"]),
        (copied, ["same weights as", "another seed"]),
    ):
        done = compare("--method", "gradient", "--replicate", spec, "--out", "run")
        assert done.code == 2, spec
        assert done.out == ""
        line = done.err.strip().splitlines()[-1]
        assert [part for part in ("error: ", *parts) if part not in line] == []
        assert not Path("run").exists()
        assert not Path("run.unfinished").exists()
    twice = compare("--method", "gradient", "--replicate", second, "--replicate", second)
    assert "has the same weights as" in twice.err
