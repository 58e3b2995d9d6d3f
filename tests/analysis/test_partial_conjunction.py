"""Partial conjunction against its formulas, statsmodels, a literal procedure, and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.multitest import multipletests

from headtool.analysis.partial_conjunction import (
    partial_conjunction_p,
    replicate,
)
from headtool.errors import HeadtoolError
from headtool.schema import TABLES

TRIALS = 2000


def names(count):
    return [f"enc-self.{i // 8}.{i % 8}" for i in range(count)]


def null_and_effects(rng, shape, matters):
    """One-sided p-values: uniform, or of a strong effect where `matters`."""
    return scipy.stats.norm.sf(rng.normal(size=shape) + 4.0 * matters)


def test_bonferroni_is_the_formula():
    p = [0.2, 0.01, 0.04, 0.6]
    assert partial_conjunction_p(p) == pytest.approx([4 * 0.01, 3 * 0.04, 2 * 0.2, 1 * 0.6])
    assert partial_conjunction_p([0.5, 0.9]).tolist() == [1.0, 0.9]
    assert partial_conjunction_p([0.3]).tolist() == [0.3]


def test_fisher_combines_the_largest_p_values():
    p = np.random.default_rng(0).random((20, 5)) ** 3
    found = partial_conjunction_p(p, combination="fisher")
    for row, values in zip(found, np.sort(p, axis=1), strict=True):
        expected = [
            scipy.stats.combine_pvalues(values[u:], method="fisher").pvalue for u in range(5)
        ]
        assert row == pytest.approx(expected)


def test_p_is_never_zero_and_rises_with_the_number_of_data_sets():
    result = replicate([[0.0, 0.0], [0.02, 0.021]], names(2), correction="none")
    assert (result.p > 0).all()
    assert (replicate([[0.0, 0.0]], names(1), combination="fisher").p > 0).all()
    # 2 * p_(1) = .04 is more than p_(2): "on both" cannot be surer than "on one"
    assert result.p[1].tolist() == [0.04, 0.04]


@pytest.mark.parametrize(
    ("correction", "method"), [("holm", "holm"), ("bh", "fdr_bh"), ("by", "fdr_by")]
)
def test_with_one_data_set_it_is_the_usual_correction(correction, method):
    p = np.random.default_rng(1).random((30, 1)) ** 4
    p[3] = p[4]
    found = replicate(p, names(30), correction=correction)
    assert found.p_adjusted[:, 0] == pytest.approx(multipletests(p[:, 0], method=method)[1])


def literal_chains(p, alpha):
    """Hand on alpha: each head tests u = 1, 2, ...; one that is done leaves its share."""
    heads, n = p.shape
    reached = np.zeros(heads, dtype=int)
    moved = True
    while moved:
        moved = False
        left = np.count_nonzero(reached < n)
        for head in range(heads):
            if reached[head] < n and p[head, reached[head]] <= alpha / left:
                reached[head] += 1
                moved = True
                break
    return reached


def literal_selection(p, alpha):
    """Select by Benjamini-Hochberg on u = 1, then count at level alpha * selected / heads."""
    selected = multipletests(p[:, 0], alpha=alpha, method="fdr_bh")[0]
    level = alpha * selected.sum() / len(p)
    return np.where(selected, (np.maximum.accumulate(p, axis=1) <= level).sum(axis=1), 0)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_counts_equal_the_procedures_step_by_step(alpha):
    rng = np.random.default_rng(2)
    for _ in range(100):
        p = rng.random((6, 3)) ** 5
        holm = replicate(p, names(6), alpha=alpha)
        assert holm.frame["data_sets"].tolist() == literal_chains(holm.p, alpha).tolist()
        bh = replicate(p, names(6), alpha=alpha, correction="bh")
        assert bh.frame["data_sets"].tolist() == literal_selection(bh.p, alpha).tolist()


def counts(p, **options):
    return replicate(p, names(len(p)), **options).frame["data_sets"].to_numpy()


@pytest.mark.parametrize("combination", ["bonferroni", "fisher"])
def test_number_exceeds_the_truth_at_most_alpha_of_the_time(combination):
    """One hypothesis at a time, on 4 independent data sets, 0 to 3 of which have an effect."""
    rng = np.random.default_rng(3)
    for true in range(4):
        matters = np.arange(4) < true
        p = null_and_effects(rng, (TRIALS, 4), matters)
        found = counts(p, correction="none", combination=combination)
        allowed = 0.05 + 3 * math.sqrt(0.05 * 0.95 / TRIALS)
        assert np.mean(found > true) <= allowed
        if true:
            assert np.mean(found >= true) > 0.8


def test_only_bonferroni_allows_dependent_data_sets():
    rng = np.random.default_rng(4)
    p = np.repeat(rng.random((TRIALS, 1)), 4, axis=1)
    allowed = 0.05 + 3 * math.sqrt(0.05 * 0.95 / TRIALS)
    assert np.mean(counts(p, correction="none") > 0) <= allowed
    assert np.mean(counts(p, correction="none", combination="fisher") > 0) > 0.1


def family_rates(correction, *, shared):
    """Share of trials with any number too high, and mean share of too high among those found."""
    rng = np.random.default_rng(5)
    true = np.repeat([0, 1, 2, 3], [10, 5, 3, 2])
    matters = np.arange(3) < true[:, None]
    any_wrong, shares = [], []
    for _ in range(TRIALS // 4):
        noise = rng.normal(size=(20, 3))
        noise = math.sqrt(1 - shared) * noise + math.sqrt(shared) * rng.normal(size=3)
        p = scipy.stats.norm.sf(noise + 4.0 * matters)
        found = counts(p, correction=correction)
        any_wrong.append((found > true).any())
        shares.append((found > true).sum() / max(1, (found > 0).sum()))
    return np.mean(any_wrong), np.mean(shares)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_error_rates_over_heads(shared):
    slack = 3 * math.sqrt(0.05 * 0.95 / (TRIALS // 4))
    assert family_rates("holm", shared=shared)[0] <= 0.05 + slack
    assert family_rates("bh", shared=shared)[1] <= 0.05 + slack
    assert family_rates("none", shared=shared)[0] > 0.15


def test_frame_and_arrays():
    p = [[0.001, 0.0001, 0.3], [0.5, 0.6, 0.9]]
    result = replicate(p, ["enc-self.0.1", "cross.2.3"])
    assert tuple(result.frame.columns) == TABLES["replication"].names
    row = result.frame.iloc[0]
    assert row[["kind", "layer", "head", "data_sets"]].tolist() == ["enc-self", 0, 1, 2]
    assert result.frame["p_any"].tolist() == result.p_adjusted[:, 0].tolist()
    assert result.frame["p_all"].tolist() == result.p_adjusted[:, -1].tolist()
    assert result.p[0] == pytest.approx([3e-4, 2e-3, 0.3])
    assert (result.combination, result.correction, result.alpha) == ("bonferroni", "holm", 0.05)
    assert result.frame["data_sets"].tolist() == [2, 0]


def test_bad_input_is_one_line():
    good = [[0.1, 0.2], [0.3, 0.4]]
    bad = {
        "p-values must be": ([0.1, 0.2], names(2), {}),
        "p-value of enc-self.0.1 on data set 2 is nan": ([[0.1, 0.2], [0.3, np.nan]], names(2), {}),
        "on data set 1 is 1.5": ([[1.5, 0.2]], names(1), {}),
        "3 heads for 2 masks": (good, names(3), {}),
        "head enc-self.0.0 occurs twice": (good, ["enc-self.0.0"] * 2, {}),
        "`alpha` must be between 0 and 1": (good, names(2), {"alpha": 0}),
        "unknown correction 'hol'; did you mean 'holm'?": (good, names(2), {"correction": "hol"}),
        "unknown combination 'fischer'": (good, names(2), {"combination": "fischer"}),
    }  # fmt: skip
    for message, (p, heads, options) in bad.items():
        with pytest.raises(HeadtoolError) as error:
            replicate(p, heads, **options)
        assert message in str(error.value)
        assert "\n" not in str(error.value)
