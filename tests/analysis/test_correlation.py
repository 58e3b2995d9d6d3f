"""Correlation of importance against scipy, exhaustive enumeration, and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from headtool.analysis.correlation import (
    _coefficients,
    correlate,
    fisher_interval,
    noise_draws,
)
from headtool.analysis.importance import Importance
from headtool.analysis.rank_correlation import COEFFICIENTS, is_constant
from headtool.analysis.reliability import split_half_reliability
from headtool.errors import HeadtoolError
from headtool.heads import Head
from headtool.schema import TABLES

SCIPY = {
    "pearson": lambda x, y: scipy.stats.pearsonr(x, y).statistic,
    "spearman": lambda x, y: scipy.stats.spearmanr(x, y).statistic,
    "kendall": lambda x, y: scipy.stats.kendalltau(x, y).statistic,
}
FAST = {"permutations": 99, "resamples": 20, "splits": 5}


def heads_of_layers(*widths):
    return [Head("enc-self", layer, head) for layer, n in enumerate(widths) for head in range(n)]


def scores(name, values, heads=None):
    return Importance.from_scores(name, heads or heads_of_layers(len(values)), values)


# --- coefficients -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_rows_equal_scipy_with_and_without_ties(name, levels):
    rng = np.random.default_rng(levels)
    x, y = rng.integers(0, levels, (2, 700, 12)) / 7.0
    x[:, :2] = [-1, -2]  # never constant
    y[:, :2] = [-3, -5]
    rows = COEFFICIENTS[name](x, y)
    assert rows == pytest.approx([SCIPY[name](a, b) for a, b in zip(x, y, strict=True)], abs=1e-12)
    one = COEFFICIENTS[name](x[:1], y)
    assert one == pytest.approx([SCIPY[name](x[0], b) for b in y], abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(3, 9).flatmap(
        lambda n: st.tuples(*[st.lists(st.integers(-3, 3), min_size=n, max_size=n)] * 2)
    )
)
def test_any_short_vectors_equal_scipy(pair):
    x, y = np.array(pair, dtype=float)
    for name, coefficient in COEFFICIENTS.items():
        value = coefficient(x[None], y[None])[0]
        if np.ptp(x) == 0 or np.ptp(y) == 0:
            assert math.isnan(value)
        else:
            assert value == pytest.approx(SCIPY[name](x, y), abs=1e-12)


@pytest.mark.parametrize("bad", [[0.1, 0.1, 0.1, 0.1], [1, 2, math.nan, 4], [1, 2, math.inf, 4]])
def test_vectors_without_correlation_are_nan(bad):
    x = np.array([bad, [1.0, 2, 3, 5]])
    y = np.array([[1.0, 2, 3, 4], [1, 2, 3, 4]])
    for coefficient in COEFFICIENTS.values():
        assert np.isnan(coefficient(x, y)).tolist() == [True, False]
        assert np.isnan(coefficient(y, x)).tolist() == [True, False]


def test_rounding_does_not_make_a_constant_vary():
    values = np.full(5, 0.3)
    values[1] = 0.1 + 0.2
    assert is_constant(values)
    assert not is_constant(np.array([0.0, 1e-300]))


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [4, 12, 144])
def test_fisher_interval_equals_scipy(n, level):
    x, y = np.random.default_rng(n).normal(size=(2, n))
    result = scipy.stats.pearsonr(x, y)
    expected = result.confidence_interval(level)
    found = fisher_interval(float(result.statistic), n, alpha=1 - level)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_fisher_interval_at_its_ends():
    assert fisher_interval(0.5, 3) == (-1, 1)
    assert fisher_interval(1.0, 9) == (1, 1)
    assert all(math.isnan(end) for end in fisher_interval(math.nan, 9))


# --- intervals over examples ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "noise"), [(0.0, 1.2), (0.7, 1.2), (0.9, 0.6)])
def test_intervals_over_examples_cover_the_expected_coefficient(rho, noise):
    """True importance and heads fixed, examples drawn anew; noise is their share of the spread."""
    trials, m, n = 700, 30, 60
    rng = np.random.default_rng(round(100 * rho))
    mu = rng.standard_t(4, size=m)
    nu = rho * mu + math.sqrt(1 - rho**2) * rng.normal(size=m) * mu.std()
    sigma = noise * mu.std() * math.sqrt(n)
    low, high, values = ({name: [] for name in COEFFICIENTS} for _ in range(3))
    heads = heads_of_layers(m)
    for _ in range(trials):
        pair = [
            Importance.from_contributions("d", heads, mean + sigma * rng.normal(size=(n, m)))
            for mean in (mu, nu)
        ]
        noisy = [
            noise_draws(
                data,
                reliability=split_half_reliability(data, splits=10, rng=rng),
                resamples=120,
                rng=rng,
            )
            for data in pair
        ]
        row = _coefficients(pair[0].scores, pair[1].scores, *noisy, alpha=0.05)
        for name in COEFFICIENTS:
            values[name].append(row[name])
            low[name].append(row[f"{name}_low"])
            high[name].append(row[f"{name}_high"])
    for name in COEFFICIENTS:
        expected = np.mean(values[name])
        covered = np.mean((np.array(low[name]) <= expected) & (expected <= np.array(high[name])))
        assert 0.92 <= covered <= 0.995, (name, covered)


def test_noise_draws_shrink_by_the_reliability():
    rng = np.random.default_rng(1)
    data = Importance.from_contributions("d", heads_of_layers(50), rng.normal(size=(80, 50)))
    plain = data.bootstrap(resamples=400, rng=np.random.default_rng(9))
    full = noise_draws(data, reliability=1.0, resamples=400, rng=np.random.default_rng(9))
    assert full == pytest.approx(plain)
    for reliability, kept in ((0.25, 0.5), (0.0, 0.0), (-0.4, 0.0), (math.nan, 0.0)):
        drawn = noise_draws(
            data, reliability=reliability, resamples=400, rng=np.random.default_rng(9)
        )
        centred = data.scores - data.scores.mean()
        assert drawn.mean(0) - plain.mean(0) == pytest.approx((kept - 1) * centred)
        assert drawn.std(axis=0) == pytest.approx(plain.std(axis=0))


# --- the frame --------------------------------------------------------------------------------


def three_data_sets(n=200, seed=0):
    rng = np.random.default_rng(seed)
    heads = heads_of_layers(4, 4, 4)
    mu = rng.normal(size=12)
    return [
        Importance.from_contributions(name, heads, mu + 3 * rng.normal(size=(n, 12)))
        for name in ("a", "b", "c")
    ]


def test_frame_has_a_row_per_pair_with_scipys_values():
    data = three_data_sets()
    frame = correlate(data, **FAST)
    assert tuple(frame.columns) == TABLES["correlations"].names
    assert list(zip(frame["data_x"], frame["data_y"], strict=True)) == [
        ("a", "b"), ("a", "c"), ("b", "c"),
    ]  # fmt: skip
    for name, statistic in SCIPY.items():
        assert frame[name][1] == pytest.approx(statistic(data[0].scores, data[2].scores))
        assert (frame[f"{name}_low"] <= frame[name]).all()
        assert (frame[name] <= frame[f"{name}_high"]).all()
        for column in (f"{name}_p", f"{name}_p_within_layers"):
            assert frame[column].between(0, 1, inclusive="right").all()
    expected = frame["pearson"] / np.sqrt(frame["reliability_x"] * frame["reliability_y"])
    assert frame["disattenuated"].to_numpy() == pytest.approx(expected.to_numpy())
    assert (frame["note"] == "").all()
    assert not frame.isna().any().any()


def test_seed_gives_the_same_numbers_and_order_of_heads_does_not_matter():
    a, b, c = three_data_sets()
    first = correlate([a, b, c], **FAST)
    assert first.equals(correlate([a, b, c], **FAST))
    shuffled = b.take(list(reversed(b.heads)))
    again = correlate([a, shuffled, c], **FAST)
    columns = first.columns.drop("note").drop(["data_x", "data_y"])
    assert again[columns].to_numpy() == pytest.approx(first[columns].to_numpy())
    pair = correlate([a, b], **FAST)
    kept = [column for column in columns if "_p" not in column]
    assert pair[kept].to_numpy() == pytest.approx(first[kept][:1].to_numpy())


def test_scores_alone_have_no_interval_over_examples_and_say_so():
    a, b, _ = three_data_sets()
    frame = correlate([a, Importance.from_scores("b", b.heads, b.scores)], **FAST)
    row = frame.iloc[0]
    assert row["pearson"] == pytest.approx(SCIPY["pearson"](a.scores, b.scores))
    assert row[["pearson_fisher_low", "kendall_p", "reliability_x"]].notna().all()
    assert row[["pearson_low", "kendall_high", "reliability_y", "disattenuated"]].isna().all()
    assert row["note"] == "no examples of b: no interval over examples, no reliability"


def test_constant_and_undefined_importance_give_nan_and_a_reason():
    x = scores("x", [1.0, 2, 3, 4])
    frame = correlate([x, scores("flat", [0.1] * 4), scores("nan", [1, math.nan, 2, 3])], **FAST)
    values = frame.drop(columns=["data_x", "data_y", "n_heads", "note"])
    assert values.isna().all().all()
    assert frame["note"].tolist() == [
        "all heads are equally important on flat: no correlation",
        "the importance of enc-self.0.1 on nan is undefined",
        "all heads are equally important on flat: no correlation; "
        "the importance of enc-self.0.1 on nan is undefined",
    ]


def test_layers_of_one_head_have_no_p_within_layers():
    heads = heads_of_layers(1, 1, 1, 1)
    frame = correlate([scores("x", [1, 2, 3, 4], heads), scores("y", [2, 1, 3, 4], heads)], **FAST)
    assert math.isnan(frame["pearson_p_within_layers"][0])
    assert frame["pearson_p"][0] > 0
    assert "no two heads share a layer" in frame["note"][0]


def test_one_layer_has_equal_p_free_and_within():
    x, y = np.random.default_rng(0).normal(size=(2, 6))
    frame = correlate([scores("x", x), scores("y", y)], permutations=720)
    for name in COEFFICIENTS:
        assert frame[f"{name}_p"][0] == frame[f"{name}_p_within_layers"][0]


def test_resamples_without_a_value_are_reported():
    heads = heads_of_layers(4)
    values = np.zeros((6, 4))
    values[0] = [1, 2, 3, 4]  # a third of the resamples lack the only example that differs
    rng = np.random.default_rng(0)
    other = Importance.from_contributions("y", heads, np.arange(4) * 3 + rng.normal(size=(6, 4)))
    x = Importance.from_contributions("x", heads, values)
    row = correlate([x, other], permutations=24, resamples=200, splits=20).iloc[0]
    assert row["reliability_x"] != row["reliability_x"]
    assert "the reliability on x is undefined: not corrected for noise" in row["note"]


def test_bad_input_is_one_line():
    x = scores("x", [1, 2, 3, 4])
    bad = {
        "a correlation needs two data sets": [x],
        "two data sets are called 'x'": [x, x],
        "at least three heads, got 2": [scores("x", [1, 2]), scores("y", [1, 2])],
        "'y' lacks 1 of the heads of 'x' (enc-self.0.3)": [x, scores("y", [1, 2, 3])],
        "'x' lacks 1 of the heads of 'y' (enc-self.0.4)": [x, scores("y", [1, 2, 3, 4, 5])],
    }
    for message, data in bad.items():
        with pytest.raises(HeadtoolError) as error:
            correlate(data)
        assert message in str(error.value)
        assert "\n" not in str(error.value)
    y = scores("y", [4, 1, 2, 3])
    for options in (
        {"alpha": 0.0},
        {"alpha": 1.5},
        {"min_reliability": 0.0},
        {"permutations": 0},
        {"resamples": 1},
        {"splits": 0},
    ):
        with pytest.raises(HeadtoolError, match=f"`{next(iter(options))}`"):
            correlate([x, y], **options)
