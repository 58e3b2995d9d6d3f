"""Paired outcomes: validation, what the form is, deltas and standard errors."""

from __future__ import annotations

import numpy as np
import pytest

from headtool.analysis.paired import Paired
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask, Sites
from headtool.metrics import get_metric
from headtool.results.outcomes import Outcomes

SITES = Sites((AttentionSite("enc-self", 0, 3, 3, 4, "out"),))
MASKS = tuple(HeadMask.without(SITES, [head]) for head in SITES.heads)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def outcomes(rng: np.random.Generator, task: str, n: int = 50, masks: int = 3) -> Outcomes:
    gold = rng.integers(0, 2, n) * 1.0
    loss = rng.random((masks + 1, n)) * 9
    prediction = loss if task == "regression" else rng.integers(0, 2, (masks + 1, n)) * 1.0
    columns = {
        "gold": np.broadcast_to(gold, prediction.shape),
        "prediction": prediction,
        "loss": loss,
        "tokens": np.broadcast_to(rng.integers(1, 9, n) * 1.0, loss.shape),
    }
    return Outcomes(
        MASKS[:masks],
        {name: values[0] for name, values in columns.items()},
        {name: values[1:] for name, values in columns.items()},
    )


@pytest.mark.parametrize(
    ("name", "task", "form"),
    [
        ("accuracy", "classification", "binary"),
        ("loss", "causal-lm", "mean"),
        ("perplexity", "causal-lm", "function"),
        ("f1", "classification", "function"),
        ("mcc", "classification", "function"),
        ("mse", "regression", "mean"),
        ("pearson", "regression", "function"),
    ],
)
def test_form_delta_and_stderr_of_every_metric(
    rng: np.random.Generator, name: str, task: str, form: str
) -> None:
    stored = outcomes(rng, task)
    metric = get_metric(name, task=task, n_labels=2)
    paired = Paired.from_outcomes(stored, metric)
    assert paired.form == form
    for row in range(3):
        expected = metric.compute(stored.row(row)) - metric.compute(stored.whole)
        assert paired.delta[row] == pytest.approx(expected, abs=1e-12)
        stderr = metric.jackknife_stderr(stored.row(row), stored.whole)
        assert paired.stderr[row] == pytest.approx(stderr, rel=1e-9)


def test_token_accuracy_is_a_mean_not_binary(rng: np.random.Generator) -> None:
    """Tokens of one sentence are not independent: McNemar over tokens would be invalid."""
    tokens = rng.integers(1, 9, 40) * 1.0
    correct = rng.binomial(tokens.astype(int), 0.5, (4, 40)) * 1.0
    stored = Outcomes(
        MASKS,
        {"correct": correct[0], "tokens": tokens},
        {"correct": correct[1:], "tokens": np.broadcast_to(tokens, (3, 40))},
    )
    assert Paired.from_outcomes(stored, get_metric("accuracy", task="seq2seq")).form == "mean"


def test_ratio_whose_denominators_differ_is_a_function(rng: np.random.Generator) -> None:
    whole, masked = rng.random((9, 2)) + 1, rng.random((3, 9, 2)) + 1
    paired = Paired(whole, masked, lambda s: s[..., 0] / s[..., 1], higher_is_better=False)
    assert paired.unit == 1.0
    assert paired.form == "function"


def test_percentages_keep_their_unit() -> None:
    whole = np.array([[1.0, 1], [0, 1], [1, 1], [1, 1]])
    masked = np.array([[[0.0, 1], [1, 1], [0, 1], [1, 1]]])
    paired = Paired(whole, masked, lambda s: 100 * s[..., 0] / s[..., 1], higher_is_better=True)
    assert (paired.form, paired.unit, paired.length) == ("binary", 100.0, 100.0)
    assert [counts.tolist() for counts in paired.discordant] == [[2.0], [1.0]]
    assert paired.delta.tolist() == [-25.0]


def test_counts_of_differing_examples_and_direction() -> None:
    paired = Paired.from_values([1.0, 2, 3], [[1.0, 2, 3], [2, 2, 4]], higher_is_better=False)
    assert paired.differing.tolist() == [0, 2]
    assert paired.benefit.tolist() == (-paired.delta).tolist()
    with pytest.raises(ValueError, match="not a mean of zeros and ones"):
        _ = paired.discordant


@pytest.mark.parametrize(
    ("whole", "masked", "message"),
    [
        ([1.0], [[1.0]], r"fewer than two examples \(1\)"),
        ([], [[]], r"fewer than two examples \(0\)"),
        ([1.0, 0], [[1.0, 0, 1]], r"got \(2, 2\) and \(1, 3, 2\)"),
        ([1.0, np.nan], [[1.0, 0]], "whole model is not finite: example 1"),
        ([1.0, 0, 1], [[1.0, 0, 1], [1, 0, np.inf]], "mask 1 is not finite: example 2"),
    ],
)
def test_bad_input_is_named(whole: list[float], masked: list[list[float]], message: str) -> None:
    with pytest.raises(HeadtoolError, match=message) as error:
        Paired.from_values(whole, masked, higher_is_better=True)
    assert "\n" not in str(error.value)
