"""ROUGE of translations against the package rouge-score."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

from headtool import ablate, get_metric
from headtool.errors import HeadtoolError

HYPOTHESES = ["The cat sat on the mat.", "a dog runs", "", "red green blue red", "Größe zählt"]
REFERENCES = ["the cat lay on a mat", "dogs run far away", "nothing", "blue red green", "Größe"]


@pytest.mark.parametrize("name", ["rouge1", "rouge2", "rougeL"])
def test_equals_rouge_score(name: str) -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer([name])
    expected = [
        scorer.score(reference, hypothesis)[name].fmeasure
        for hypothesis, reference in zip(HYPOTHESES, REFERENCES, strict=True)
    ]
    metric = get_metric(name, task="seq2seq")
    statistics = metric.compare(HYPOTHESES, REFERENCES)
    np.testing.assert_array_equal(statistics, np.stack([expected, np.ones(5)], axis=1))
    assert float(metric.from_sums(statistics.sum(axis=0))) == pytest.approx(np.mean(expected))
    assert metric.signature.startswith(f"{name}|stemmer:no|version:")
    assert metric.compare([], []).shape == (0, 2)


def test_values_by_hand() -> None:
    """Four of six words are the reference's, in order; of the pairs, one of five: (on, the) not."""
    pytest.importorskip("rouge_score")
    rows = {
        name: get_metric(name, task="seq2seq").compare(["a b c d x y"], ["a b z c d w"])[0, 0]
        for name in ("rouge1", "rouge2", "rougeL")
    }
    assert rows == pytest.approx({"rouge1": 4 / 6, "rouge2": 2 / 5, "rougeL": 4 / 6})


def test_heads_of_a_translation_model() -> None:
    pytest.importorskip("fairseq")
    pytest.importorskip("rouge_score")
    found = ablate("builtin:mt", metric="rougeL", limit=6, heads=["cross.0.0", "cross.1.1"])
    assert 0.5 < found.whole["rougeL"] <= 1.0
    assert found.frame["delta"].between(-1, 1).all()
    assert found.provenance["signature"].startswith("rougeL|")


def test_without_the_package_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: object, **options: object) -> object:
        if name.startswith("rouge_score"):
            raise ModuleNotFoundError("No module named 'rouge_score'", name="rouge_score")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(HeadtoolError, match=r"pip install headtool\[rouge\]"):
        get_metric("rouge1", task="seq2seq").compare(["a"], ["a"])
