"""Parts of the variance: against closed forms, statsmodels and simulated parts."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from headtool.analysis.variance_parts import Part, variance_parts


def by_name(parts: list[Part]) -> dict[str, Part]:
    return {part.name: part for part in parts}


def drawn(
    rng: np.random.Generator,
    *,
    models: int = 6,
    seeds: int = 2,
    tasks: int = 3,
    methods: int = 5,
    sd: tuple[float, float, float, float] = (1.0, 0.5, 0.7, 0.3),
    spread: float = 1.0,
    noise: float = 0.0,
) -> tuple[np.ndarray, dict[str, list[str]]]:
    """Values with known parts, each model with its seeds on all tasks."""
    mean = spread * rng.normal(size=methods)
    of_model = sd[0] * rng.normal(size=(models, methods))
    of_task = sd[1] * rng.normal(size=(tasks, methods))
    of_seed = sd[2] * rng.normal(size=(models, seeds, methods))
    values, labels = [], {"model": [], "task": [], "replicate": []}
    for i in range(models):
        for j in range(seeds):
            for k in range(tasks):
                common = 3 * rng.normal()  # what all methods of a cell share
                own = (sd[3] + 0.0) * rng.normal(size=methods) + noise * rng.normal(size=methods)
                values.append(mean + of_model[i] + of_task[k] + of_seed[i, j] + common + own)
                labels["model"].append(f"m{i}")
                labels["task"].append(f"t{k}")
                labels["replicate"].append(f"m{i} s{j}")
    return np.array(values), labels


def test_a_balanced_design_has_the_estimates_of_an_analysis_of_variance() -> None:
    rng = np.random.default_rng(2)
    values, labels = drawn(rng, tasks=1, seeds=4, sd=(1.0, 0.0, 0.6, 0.0))
    found = by_name(variance_parts(values, {"model": labels["model"]}, np.zeros(24)))
    own = values - values.mean(axis=1, keepdims=True)
    groups = own.reshape(6, 4, 5)
    means = groups.mean(axis=1)
    within = ((groups - means[:, None]) ** 2).sum() / (6 * 3 * 4)
    between = 4 * ((means - means.mean(axis=0)) ** 2).sum() / (5 * 4)
    assert found["rest"].variance == pytest.approx(within, rel=1e-3)
    assert found["model"].variance == pytest.approx((between - within) / 4, rel=1e-3)
    grand = (means.mean(axis=0) ** 2).sum() / 4  # of four contrasts
    assert found["methods"].variance == pytest.approx(max(0, grand - between / 24), rel=1e-3)


@pytest.mark.filterwarnings("ignore")  # of statsmodels
def test_crossed_parts_are_those_of_statsmodels() -> None:
    import pandas as pd
    import statsmodels.formula.api as smf

    rng = np.random.default_rng(4)
    values, labels = drawn(rng, models=5, seeds=2, tasks=4, methods=2)
    frame = pd.DataFrame(labels).assign(y=(values[:, 0] - values[:, 1]) / math.sqrt(2), one=1)
    parts = {"model": "0 + C(model)", "task": "0 + C(task)", "replicate": "0 + C(replicate)"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = smf.mixedlm("y ~ 1", frame, groups="one", vc_formula=parts, re_formula="0").fit(
            reml=True, method="powell"
        )
    found = by_name(variance_parts(values, labels, np.zeros(len(values))))
    expected = dict(zip(fitted.model.exog_vc.names, fitted.vcomp, strict=True))
    for name, variance in expected.items():
        assert found[name].variance == pytest.approx(variance, rel=0.02, abs=0.01)
    assert found["rest"].variance == pytest.approx(fitted.scale, rel=0.02)


@pytest.mark.slow
def test_simulated_parts_are_found_on_average() -> None:
    rng = np.random.default_rng(6)
    wanted = {"model": 1.0, "task": 0.25, "replicate": 0.49, "rest": 0.09, "methods": 1.0}
    sums = dict.fromkeys(wanted, 0.0)
    for _ in range(16):
        values, labels = drawn(rng, tasks=4, noise=0.4)
        # Half the variance of a difference is that of a method.
        for part in variance_parts(values, labels, np.full(len(values), 2 * 0.16)):
            if part.name in sums:
                sums[part.name] += part.variance / 16
    for name, variance in wanted.items():
        assert sums[name] == pytest.approx(variance, rel=0.3), name


def test_intervals_cover_what_was_simulated() -> None:
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(60):
        values, labels = drawn(rng, tasks=1, seeds=3, methods=4, sd=(1.0, 0.0, 0.5, 0.0))
        part = by_name(variance_parts(values, {"model": labels["model"]}, np.zeros(18)))["model"]
        covered += part.low <= 1.0 <= part.high
    assert covered >= 60 * 0.95 - 3 * math.sqrt(60 * 0.95 * 0.05)


def test_what_is_known_of_examples_is_not_told_twice() -> None:
    rng = np.random.default_rng(1)
    values, labels = drawn(rng, seeds=1, tasks=4, sd=(0.0, 0.0, 0.0, 0.0), noise=0.5)
    found = by_name(variance_parts(values, labels, np.full(24, 2 * 0.25)))
    assert found["examples"].variance == pytest.approx(0.25)
    assert found["rest"].variance < 0.05
    unknown = by_name(variance_parts(values, labels, np.full(24, np.nan)))
    assert math.isnan(unknown["examples"].variance)
    assert unknown["rest"].reason == "including examples"
    assert unknown["rest"].variance == pytest.approx(0.25, rel=0.4)


def test_what_all_methods_of_a_cell_share_is_no_difference() -> None:
    rng = np.random.default_rng(3)
    values, labels = drawn(rng)
    raised = values + rng.normal(size=(len(values), 1)) * 100
    first, second = (variance_parts(v, labels, np.zeros(len(values))) for v in (values, raised))
    for a, b in zip(first, second, strict=True):
        assert a.variance == pytest.approx(b.variance, rel=1e-3, abs=1e-6)


def test_parts_that_a_design_cannot_tell_say_why() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 3))
    labels = {
        "model": ["a", "a", "b", "b"],
        "task": ["x", "x", "y", "y"],
        "replicate": ["a1", "a2", "b1", "b2"],
    }
    found = by_name(variance_parts(values, labels, np.zeros(4)))
    assert found["task"].reason == "it coincides with model"
    assert found["model"].reason == "including task"
    assert found["replicate"].reason == "every comparison has its own"
    assert found["rest"].reason == "including replicate"
    assert math.isnan(found["task"].share)
    shares = [part.share for part in found.values() if not math.isnan(part.share)]
    assert sum(shares) == pytest.approx(1)
    alone = by_name(variance_parts(values, {"model": ["a"] * 4}, np.zeros(4)))
    assert alone["model"].reason == "there is only one"
    single = variance_parts(values[:1], {"model": ["a"]}, np.zeros(1))
    assert {part.reason for part in single} == {"there is one cell"}
    assert {part.reason for part in variance_parts(values[:, :1], {}, np.zeros(4))} == {
        "there is one method"
    }


def test_parts_that_are_sums_of_others_are_named() -> None:
    # Seeds of one model on one task, and another model with one seed on two tasks.
    labels = {
        "model": ["a", "a", "a", "b", "b", "c"],
        "task": ["x", "x", "x", "y", "z", "u"],
        "replicate": ["a1", "a2", "a3", "b", "b", "c"],
    }
    values = np.random.default_rng(0).normal(size=(6, 4))
    found = by_name(variance_parts(values, labels, np.zeros(6)))
    assert found["replicate"].reason == "the design does not tell it from others"
    assert math.isnan(found["replicate"].variance)
    assert found["model"].reason == found["task"].reason == "mixed with replicate"
    assert found["rest"].reason == "mixed with replicate"


def test_nothing_differs() -> None:
    found = variance_parts(np.ones((4, 3)), {"model": list("aabb")}, np.zeros(4))
    assert all(not part.variance > 1e-6 for part in found)
