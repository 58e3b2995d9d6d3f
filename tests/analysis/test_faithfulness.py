"""Faithfulness, CPR and CMD against the loops of the benchmark's released code."""

from __future__ import annotations

import numpy as np
import pytest

from headtool.analysis.curve_bootstrap import CurveBootstrap, Line
from headtool.analysis.faithfulness import (
    areas,
    faithfulness,
    faithfulness_areas,
    faithfulness_notes,
)
from headtool.analysis.paired import Paired
from headtool.masks.keeping import SHARES, budgets_at_shares
from headtool.schema import TABLES

HEADS = 12
BUDGETS = tuple(sorted({0, 4, *budgets_at_shares(HEADS)}))


def paired_of(seed: int, *, higher_is_better: bool = True, constant: bool = False) -> Paired:
    """A mask for every budget of a method and of three random rankings; the last closes all."""
    rng = np.random.default_rng(seed)
    whole = rng.normal(3, 1, 40)
    masks = 4 * (len(BUDGETS) - 2) + 1
    masked = whole - rng.gamma(1, 0.4, (masks, 40))
    masked[-1] = whole if constant else whole - 2 + rng.normal(0, 0.1, 40)
    if not higher_is_better:
        whole, masked = -whole, -masked
    return Paired.from_values(whole, masked, higher_is_better=higher_is_better)


def lines() -> tuple[Line, ...]:
    inner, last = len(BUDGETS) - 2, 4 * (len(BUDGETS) - 2)
    rows = [[-1, *range(i * inner, (i + 1) * inner), last] for i in range(4)]
    return (
        Line("all", "a", BUDGETS, HEADS, np.array(rows[0])),
        Line("all", "random", BUDGETS, HEADS, np.array(rows[1:])),
    )


def bootstrap_of(paired: Paired, resamples: int = 300) -> CurveBootstrap:
    return CurveBootstrap(paired, (), resamples=resamples, keeping=lines())


def released(values: dict[int, float], whole: float, none: float) -> tuple[float, float]:
    """Areas as MIB-circuit-track's `evaluate_area_under_curve` takes them, step by step.

    `values` are the metric by the number of heads kept.
    """
    percentages = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
    faithful = []
    for pct in percentages:
        faithful.append((values[int(pct * HEADS)] - none) / (whole - none))
    under = distance = 0.0
    for i in range(len(faithful) - 1):
        width = percentages[i + 1] - percentages[i]
        distance += width * ((abs(1.0 - faithful[i]) + abs(1.0 - faithful[i + 1])) / 2)
        under += width * ((faithful[i] + faithful[i + 1]) / 2)
    return under, distance


def literal(paired: Paired, masks: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
    """The same from examples, which may be drawn repeatedly."""
    whole = paired.whole[rows, 0].mean()
    values = {
        HEADS - budget: whole if mask < 0 else paired.masked[mask, rows, 0].mean()
        for budget, mask in zip(BUDGETS, masks, strict=True)
    }
    return released(values, whole, values[0])


@pytest.mark.parametrize("higher_is_better", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_areas_are_those_of_the_released_code(seed: int, higher_is_better: bool) -> None:
    paired = paired_of(seed, higher_is_better=higher_is_better)
    frame = faithfulness_areas(bootstrap_of(paired))
    assert tuple(frame.columns) == TABLES["faithfulness_areas"].names
    everything = np.arange(40)
    own = literal(paired, lines()[0].masks, everything)
    draws = np.array([literal(paired, row, everything) for row in lines()[1].masks])
    assert frame.loc[0, ["cpr", "cmd"]].tolist() == pytest.approx(own, rel=1e-12)
    assert frame.loc[1, ["cpr", "cmd"]].tolist() == pytest.approx(draws.mean(axis=0), rel=1e-12)
    assert frame.loc[0, "cpr_beaten"] == (draws[:, 0] < own[0]).sum()
    assert frame.loc[0, "cmd_beaten"] == (draws[:, 1] > own[1]).sum()
    assert frame.loc[0, "draws"] == 3
    assert np.isnan(frame.loc[1, "draws"])
    assert frame.loc[1, "cpr_low"] == pytest.approx(np.quantile(draws[:, 0], 0.025))


def test_intervals_are_of_the_areas_on_resampled_examples() -> None:
    paired = paired_of(4)
    for_examples, _ = np.random.default_rng(0).spawn(2)
    drawn = for_examples.integers(0, 40, (300, 40))
    own = np.array([literal(paired, lines()[0].masks, rows) for rows in drawn])
    frame = faithfulness_areas(bootstrap_of(paired))
    low, high = np.quantile(own, [0.025, 0.975], axis=0)
    assert frame.loc[0, ["cpr_low", "cmd_low"]].tolist() == pytest.approx(low, rel=1e-9)
    assert frame.loc[0, ["cpr_high", "cmd_high"]].tolist() == pytest.approx(high, rel=1e-9)


def test_points_run_from_no_head_to_all() -> None:
    paired = paired_of(5)
    frame = faithfulness(bootstrap_of(paired))
    own = frame[frame["method"] == "a"]
    assert own["kept"].tolist() == sorted(HEADS - budget for budget in BUDGETS)
    assert own["faithfulness"].iloc[[0, -1]].tolist() == [0, 1]
    assert own["low"].iloc[-1] == own["high"].iloc[-1] == 1
    whole, none = paired.whole_value, paired.masked_values[-1]
    np.testing.assert_allclose(
        own["faithfulness"], (own["value"] - none) / (whole - none), atol=1e-12
    )
    random = frame[frame["method"] == "random"]
    assert (random["low"] <= random["faithfulness"]).all()


def test_nothing_is_made_up_where_no_head_matters() -> None:
    bootstrap = bootstrap_of(paired_of(6, constant=True))
    frame = faithfulness_areas(bootstrap)
    assert frame[["cpr", "cmd", "cpr_low", "cmd_high", "draws"]].isna().all(axis=None)
    assert frame["reason"].str.contains("without a head is the same").all()
    assert faithfulness(bootstrap)[["faithfulness", "low", "high"]].isna().all(axis=None)
    assert faithfulness_notes(bootstrap) == [f"faithfulness is undefined: {frame['reason'][0]}"]


def test_a_denominator_that_may_be_chance_is_told() -> None:
    paired = paired_of(7)
    assert faithfulness_notes(bootstrap_of(paired)) == []
    noise = np.random.default_rng(1).normal(0, 3, 40)
    noise += 0.1 - noise.mean()
    masked = paired.masked.copy()
    masked[-1, :, 0] = paired.whole[:, 0] + noise
    unclear = Paired(paired.whole, masked, paired.value, higher_is_better=True)
    (note,) = faithfulness_notes(bootstrap_of(unclear))
    assert "may be chance" in note


def test_areas_of_several_curves_at_once() -> None:
    curves = np.random.default_rng(0).normal(size=(5, 10))
    cpr, cmd = areas(np.array(SHARES), curves)
    for i, curve in enumerate(curves):
        assert (cpr[i], cmd[i]) == tuple(map(float, areas(np.array(SHARES), curve)))
