"""Comparisons in which closed heads put out what they put out on corrupted texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headtool
from headtool.data import TextData
from headtool.engine.evaluation import evaluate
from headtool.engine.replacement import Counterfactual
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.metrics import get_metric

from ..support.language_model import WORDS, language_model


def prompts(count: int = 24) -> TextData:
    rng = np.random.default_rng(6)
    texts = [list(rng.choice(WORDS, size=int(rng.integers(3, 7)))) for _ in range(count)]
    pairs = [rng.choice(WORDS, size=2, replace=False) for _ in texts]
    columns = {
        "prompt": tuple(map(" ".join, texts)),
        "corrupted": tuple(" ".join(rng.permutation(text)) for text in texts),
        "answer": tuple(str(answer) for answer, _ in pairs),
        "wrong": tuple(str(wrong) for _, wrong in pairs),
    }
    return TextData("prompts.jsonl", "prompt", columns)


OPTIONS = {
    "methods": ["magnitude", "ablation"],
    "metric": "logit-difference",
    "replacement": "counterfactual",
    "steps": "50%",
    "draws": 3,
    "resamples": 200,
}


def test_curves_and_single_heads_equal_the_engine(tmp_path: Path) -> None:
    model = language_model()
    found = headtool.compare(model, prompts(), out=tmp_path / "run", **OPTIONS)
    setup = headtool.set_up(model, prompts(), **OPTIONS)
    examples, metric = setup.split.first, get_metric("logit-difference", task="causal-lm")
    heads = model.sites.heads
    masks = [HeadMask.without(model.sites, [head]) for head in heads]
    masks.append(HeadMask.without(model.sites, heads))
    outcomes = evaluate(model, examples, masks, replacement=Counterfactual())
    whole = metric.compute(outcomes.whole)
    expected = [metric.compute(outcomes.row(i)) - whole for i in range(len(heads))]
    singles = found.tables["tests"]
    np.testing.assert_allclose(singles["delta"], expected, atol=1e-9)
    curves = found.tables["curves"]
    ends = curves[(curves["metric"] == "logit-difference") & (curves["budget"] == len(heads))]
    assert len(ends)
    np.testing.assert_allclose(ends["value"], metric.compute(outcomes.row(len(heads))), atol=1e-9)
    run = headtool.read_run(tmp_path / "run")
    assert run.source["options"]["replacement"] == "counterfactual"
    zero = headtool.compare(model, prompts(), **{**OPTIONS, "replacement": "zero"})
    assert not np.allclose(zero.tables["tests"]["delta"], found.tables["tests"]["delta"])
    text = headtool.write_report(tmp_path / "run", format="markdown").read_text("utf-8")
    assert "A closed head put out its output on the corrupted text." in text
    again = headtool.test(run, metric="logit-difference")
    np.testing.assert_allclose(again.frame["delta"], expected, atol=1e-9)


def test_what_does_not_fit_is_refused() -> None:
    model, data = language_model(), prompts()
    columns = {name: values for name, values in data.columns.items() if name != "corrupted"}
    plain = TextData("plain.jsonl", "prompt", columns)
    with pytest.raises(HeadtoolError, match=r"plain\.jsonl has no column 'corrupted'"):
        headtool.set_up(model, plain, **OPTIONS)
    with pytest.raises(HeadtoolError, match="unknown replacement 'mena'; did you mean 'mean'"):
        headtool.set_up(model, data, **{**OPTIONS, "replacement": "mena"})
    with pytest.raises(HeadtoolError, match="`iterative` scores what is left"):
        headtool.set_up(model, data, **OPTIONS, iterative=True)
    columns = {name: values for name, values in data.columns.items() if name != "wrong"}
    with pytest.raises(HeadtoolError, match="computed from a column 'wrong'"):
        headtool.set_up(model, TextData("plain.jsonl", "prompt", columns), **OPTIONS)


@pytest.mark.parametrize("replacement", ["mean", "resample", "counterfactual"])
def test_masks_run_once_for_curves_and_single_heads(
    replacement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headtool.experiments import stages

    asked: list[HeadMask] = []
    measure = stages.measure

    def counted(model, examples, masks, *rest, **options):
        asked.extend((examples.fingerprint, mask) for mask in masks)
        return measure(model, examples, masks, *rest, **options)

    monkeypatch.setattr(stages, "measure", counted)
    options = {**OPTIONS, "replacement": replacement, "methods": ["magnitude"]}
    headtool.compare(language_model(), prompts(), **options)
    assert len(asked) == len(set(asked)) > 8
