"""Prunability and rank stability, against values worked out by hand and scipy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, spearmanr

from headtool.analysis.dynamics import prunability, rank_stability, relative
from headtool.errors import HeadtoolError
from headtool.metrics import get_metric


def curve(checkpoint: str, left: list[float], whole: float = 2.0) -> pd.DataFrame:
    share = np.linspace(0, 1, len(left))
    values = whole * np.array(left)
    return pd.DataFrame(
        {"checkpoint": checkpoint, "share": share, "value": values, "relative": left}
    )


def test_prunability_by_hand() -> None:
    frame = prunability(
        pd.concat(
            [
                curve("early", [1.0, 0.85, 0.95, 0.4, 0.0]),  # what comes back later does not count
                curve("late", [1.0, 0.99, 0.9, 0.6, 0.5], whole=30.0),
            ]
        )
    )
    assert frame["checkpoint"].tolist() == ["early", "late"]
    assert frame["whole"].tolist() == [2.0, 30.0]
    assert frame["prunable_90"].tolist() == [0.0, 0.5]
    assert frame["prunable_50"].tolist() == [0.5, 1.0]
    np.testing.assert_allclose(frame["area"], [0.675, 0.81])


def test_curves_begin_with_the_whole_model() -> None:
    frame = curve("x", [1.0, 0.5, 0.2]).iloc[1:]
    with pytest.raises(HeadtoolError, match="does not begin with the whole model"):
        prunability(frame)


def test_relative_values() -> None:
    accuracy = get_metric("accuracy", task="classification", n_labels=2)
    np.testing.assert_allclose(relative(np.array([0.8, 0.4]), 0.8, accuracy), [1.0, 0.5])
    assert np.isnan(relative(np.array([0.1]), 0.0, accuracy)).all()
    loss = get_metric("loss", task="causal-lm")
    # Twice the loss of log 4 is a quarter of the likelihood.
    np.testing.assert_allclose(relative(np.log([4.0, 16.0]), np.log(4.0), loss), [1.0, 0.25])
    ter = get_metric("ter", task="seq2seq")
    np.testing.assert_allclose(relative(np.array([50.0, 100.0]), 50.0, ter), [1.0, 0.5])


def test_stability_against_scipy() -> None:
    rng = np.random.default_rng(0)
    heads = pd.DataFrame({"kind": "cross", "layer": np.repeat([0, 1], 4), "head": [0, 1, 2, 3] * 2})
    values = {name: rng.normal(size=8) for name in ("c2", "c10", "c1")}
    scores = pd.concat(
        [heads.assign(checkpoint=name, score=value) for name, value in values.items()]
    )
    frame = rank_stability(scores)
    pairs = list(zip(frame["checkpoint_x"], frame["checkpoint_y"], strict=True))
    assert pairs == [("c2", "c10"), ("c2", "c1"), ("c10", "c1")]  # in the order of training
    for (x, y), (_, row) in zip(pairs, frame.iterrows(), strict=True):
        assert row["spearman"] == pytest.approx(spearmanr(values[x], values[y])[0])
        assert row["kendall"] == pytest.approx(kendalltau(values[x], values[y])[0])
        best = [set(np.argsort(values[name])[4:]) for name in (x, y)]
        assert row["kept_alike"] == len(best[0] & best[1]) / 4
    assert (frame["heads"] == 8).all()
