"""The counterfactual pairs of the built-in classifier."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from headtool import ablate, load_data, load_model
from headtool.builtin.nli_pairs import SIZE, examples
from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError


@pytest.fixture(scope="module")
def columns() -> dict[str, list[str]]:
    return examples("counterfactual")


def test_one_name_of_the_premise_is_another(columns: dict[str, list[str]]) -> None:
    assert {len(values) for values in columns.values()} == {SIZE}
    rows = zip(columns["text_a"], columns["corrupted"], columns["text_b"], strict=True)
    for clean, corrupted, hypothesis in rows:
        first, second = (re.findall(r"\w+", text) for text in (clean, corrupted))
        changed = {(a, b) for a, b in zip(first, second, strict=True) if a != b}
        ((old, new),) = changed
        assert old in hypothesis
        assert new not in hypothesis
        assert new not in first
        assert old not in second
    assert columns["corrupted_b"] == columns["text_b"]
    counts = Counter(columns["label"])
    assert set(counts) == {"entailment", "contradiction"}
    assert min(counts.values()) > 0.45 * SIZE


def test_the_classifier_sees_what_was_changed() -> None:
    model = load_model("builtin:nli", device="cpu")
    data = load_data("builtin:nli/counterfactual", limit=300)
    encoded = model.encode(data)
    clean, corrupted = (evaluate(model, each, []).whole for each in (encoded, encoded.corrupted))
    assert (clean["prediction"] == clean["gold"]).mean() > 0.9
    neutral = model.labels.index("neutral")
    assert (corrupted["prediction"] == neutral).mean() > 0.9


def test_heads_matter_otherwise_than_by_closing_them_to_zero() -> None:
    found = [
        ablate("builtin:nli", "builtin:nli/counterfactual", limit=100, replacement=name)
        for name in ("counterfactual", "zero")
    ]
    first, second = (one.frame[one.frame["metric"] == "loss"]["delta"] for one in found)
    assert first.abs().max() > 0.1
    assert not np.allclose(first, second, atol=0.05)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(HeadtoolError, match="has no split 'train'; use counterfactual"):
        examples("train")
