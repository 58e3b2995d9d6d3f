"""Metrics of language models, from closed forms and literal computations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headtool import get_metric
from headtool.analysis.assessment import assess
from headtool.analysis.equivalence import check_margin
from headtool.analysis.paired import Paired
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.metrics.base import Metric
from headtool.results.outcomes import Outcomes

from ..support.scores import sites

SITES = sites(2)

COLUMNS = {
    "loss": np.array([1.0, 3.0, 2.0]),
    "tokens": np.array([1.0, 4.0, 1.0]),
    "bytes": np.array([4.0, 10.0, 6.0]),
    "wrong_loss": np.array([2.0, 2.5, 6.0]),
    "kl": np.array([0.1, 0.2, 0.3]),
    "acc": np.array([1.0, 0.0, 1.0]),
    "acc_norm": np.array([0.0, 0.0, 1.0]),
    "acc_bytes": np.array([1.0, 1.0, 1.0]),
}


def metric(name: str, task: str = "causal-lm") -> Metric:
    return get_metric(name, task=task)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("perplexity", math.exp(6 / 6)),
        ("bits-per-byte", 6 / math.log(2) / 20),
        ("logit-difference", (1.0 - 0.5 + 4.0) / 3),
        ("kl", 0.6 / 6),
        ("acc", 2 / 3),
        ("acc_norm", 1 / 3),
        ("acc_bytes", 1.0),
    ],
)
def test_values(name: str, value: float) -> None:
    assert metric(name).compute(COLUMNS) == pytest.approx(value, rel=1e-12)


def test_perplexity_is_resampled_by_its_sums() -> None:
    """Not as a mean of perplexities: exp of the token-weighted mean loss of each resample."""
    found = metric("perplexity")
    statistics = found.per_example(COLUMNS)
    rows = np.array([[0, 0, 1], [2, 1, 1]])
    expected = [math.exp(COLUMNS["loss"][row].sum() / COLUMNS["tokens"][row].sum()) for row in rows]
    np.testing.assert_allclose(found.from_sums(statistics[rows].sum(axis=1)), expected)
    left_out = [
        math.exp(np.delete(COLUMNS["loss"], i).sum() / np.delete(COLUMNS["tokens"], i).sum())
        for i in range(3)
    ]
    jackknife = math.sqrt(2 * np.var(left_out))
    assert found.jackknife_stderr(COLUMNS) == pytest.approx(jackknife)


def test_missing_columns_are_named() -> None:
    with pytest.raises(HeadtoolError, match="the outcomes lack 'kl'"):
        metric("kl", "classification").compute({"tokens": np.ones(2)})


def paired(name: str, whole: list[float], masked: list[float]) -> Paired:
    """One mask; `whole` and `masked` are the values of the examples."""
    which = {"kl": "kl", "logit-difference": "wrong_loss", "acc": "acc"}[name]

    def columns(values: list[float]) -> dict[str, np.ndarray]:
        return {
            "loss": np.zeros(len(values)),
            "tokens": np.ones(len(values)),
            which: np.array(values),
        }

    mask = HeadMask.without(SITES, SITES.heads[:1])
    rows = {column: values[None] for column, values in columns(masked).items()}
    return Paired.from_outcomes(Outcomes((mask,), columns(whole), rows), metric(name))


def test_margins_follow_the_direction_and_the_scale() -> None:
    divergence = paired("kl", [0.0, 0.0, 0.0], [0.1, 0.0, 0.2])
    assert check_margin(divergence) == pytest.approx(0.01)  # of a nat
    assert check_margin(divergence, 0.2) == 0.2
    assert divergence.benefit[0] == pytest.approx(-0.1)  # less is better
    with pytest.raises(HeadtoolError, match="give one below 1"):
        check_margin(divergence, 1.0)
    difference = paired("logit-difference", [4.0, -1.0, 3.0], [4.0, -1.0, 6.0])
    assert check_margin(difference) == pytest.approx(0.01 * 8 / 3)
    assert difference.benefit[0] == pytest.approx(1.0)
    with pytest.raises(HeadtoolError, match="makes no sense for logit-difference, which is 2"):
        check_margin(difference, 2.0)
    assert check_margin(paired("acc", [1.0, 0.0], [1.0, 1.0])) == pytest.approx(0.01)


def test_a_divergence_makes_heads_needed_only_beyond_the_margin() -> None:
    """A divergence is never below 0: that there is any at all does not say that a head matters."""
    rng = np.random.default_rng(1)
    small, large = 0.002 + 0.001 * rng.random(3000), 0.05 + 0.02 * rng.random(3000)
    verdicts = {}
    for name, values in (("small", small), ("large", large)):
        found = assess(paired("kl", [0.0] * len(values), values.tolist()), resamples=500)
        verdicts[name] = found.frame["verdict"].tolist()
        assert found.frame["p"].tolist()[0] < 0.01
        assert "needed means that a head costs more than the margin of 0.01" in found.notes[0]
    assert verdicts == {"small": ["removable"], "large": ["needed"]}
    few = assess(paired("kl", [0.0] * 20, small[:20].tolist()), resamples=500)
    assert few.frame["verdict"].tolist() == ["undecided"]
