"""Non-inferiority and TOST against statsmodels and a numeric likelihood; margins; verdicts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from statsmodels.stats.weightstats import ttost_paired

from headtool.analysis.equivalence import (
    check_margin,
    equivalence_p,
    noninferiority_p,
    one_sided_p,
    plain_noninferiority_p,
    tango_p,
    verdicts,
)
from headtool.analysis.paired import Paired
from headtool.errors import HeadtoolError

from ..support.bleu import sentences


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(31)


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_tost_and_noninferiority_of_means_equal_statsmodels(
    rng: np.random.Generator, higher_is_better: bool
) -> None:
    whole = rng.normal(size=45)
    masked = whole + rng.normal(size=(4, 45)) * 0.2 + np.array([-0.05, 0, 0.05, 0.2])[:, None]
    paired = Paired.from_values(whole, masked, higher_is_better=higher_is_better)
    above, below = (
        one_sided_p(paired, -0.1, greater=True),
        one_sided_p(paired, 0.1, greater=False),
    )
    both, hurts = np.maximum(above, below), plain_noninferiority_p(paired, 0.1)
    assert (equivalence_p(paired, 0.1) >= both).all()
    assert (noninferiority_p(paired, 0.1) >= hurts).all()
    for mask, row in enumerate(masked):
        p, lower, upper = ttost_paired(row, whole, -0.1, 0.1)
        assert both[mask] == pytest.approx(p, rel=1e-9)
        side = lower if higher_is_better else upper
        assert hurts[mask] == pytest.approx(side[1], rel=1e-9)


def likelihood_z(lost: int, won: int, n: int, bound: float) -> float:
    """Score statistic with the nuisance share found numerically instead of by Tango's formula."""

    def minus_log_likelihood(share: float) -> float:
        cells = (share + bound, share, 1 - 2 * share - bound)
        counts = (won, lost, n - won - lost)
        return -sum(c * math.log(x) for c, x in zip(counts, cells, strict=True) if c)

    lowest, highest = max(0.0, -bound), (1 - bound) / 2
    found = scipy.optimize.minimize_scalar(
        minus_log_likelihood,
        bounds=(lowest + 1e-12, highest - 1e-12),
        method="bounded",
        options={"xatol": 1e-12},
    )
    variance = n * (2 * found.x + bound - bound**2)
    return (won - lost - n * bound) / math.sqrt(variance)


def test_tango_equals_the_numeric_score_test() -> None:
    for lost, won, bound in itertools.product((1, 3, 9), (1, 4, 8), (-0.1, -0.02, 0.03, 0.15)):
        z = likelihood_z(lost, won, 60, bound)
        for greater in (True, False):
            p = scipy.stats.norm.sf(z) if greater else scipy.stats.norm.cdf(z)
            ours = tango_p(lost, won, 60, bound=bound, greater=greater)
            assert ours == pytest.approx(p, rel=1e-4)


def test_tango_at_zero_is_mcnemars_score_and_without_changes_the_stated_z() -> None:
    p = tango_p([2, 9, 0], [7, 1, 0], 100, bound=0.0, greater=True)
    expected = scipy.stats.norm.sf([5 / 3, -8 / math.sqrt(10), 0])
    np.testing.assert_allclose(p, expected, rtol=1e-12)
    unchanged = tango_p(0, 0, [100, 1000], bound=-0.01, greater=True)
    np.testing.assert_allclose(
        unchanged, scipy.stats.norm.sf(np.sqrt(np.array([100, 1000]) * 0.01 / 0.99)), rtol=1e-12
    )
    assert unchanged[0] > 0.05 > unchanged[1]


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("n", [150, 872])
def test_noninferiority_of_accuracy_keeps_its_level_exactly(n: int, rate: float) -> None:
    """Sum over all tables at the boundary; a score test may exceed .05 by a little."""
    margin = 0.02
    lost, won = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    possible = lost + won <= n
    lost, won = lost[possible], won[possible]
    cells = np.array([rate + margin, rate, 1 - 2 * rate - margin])
    weight = scipy.stats.multinomial.pmf(np.stack([lost, won, n - lost - won], -1), n, cells)
    rejected = tango_p(lost, won, n, bound=-margin, greater=True) <= 0.05
    assert weight[rejected].sum() < 0.058


def test_accuracy_uses_tango_in_its_unit(rng: np.random.Generator) -> None:
    whole = (rng.random(90) < 0.8) * 1.0
    masked = np.where(rng.random((3, 90)) < 0.1, 1 - whole, whole)
    for higher_is_better in (True, False):
        paired = Paired.from_values(whole, masked, higher_is_better=higher_is_better)
        lost, won = paired.discordant
        bound = -0.05 if higher_is_better else 0.05
        expected = tango_p(lost, won, 90, bound=bound, greater=higher_is_better)
        np.testing.assert_array_equal(noninferiority_p(paired, 0.05), expected)


def test_corpus_metric_uses_the_jackknife(rng: np.random.Generator) -> None:
    paired = sentences(rng, masks=2, n=200, changed=0.3)
    t = (paired.delta + 1.0) / paired.stderr
    np.testing.assert_allclose(
        one_sided_p(paired, -1.0, greater=True), scipy.stats.t.sf(t, 199), rtol=1e-12
    )


def test_differences_without_spread_get_the_sign_flip_p() -> None:
    whole = np.arange(10.0)
    paired = Paired.from_values(whole, [whole, whole - 0.5], higher_is_better=True)
    p = plain_noninferiority_p(paired, 0.1)
    assert p.tolist() == [0.5**10, 1.0]
    assert noninferiority_p(paired, 0.1)[0] > 0.05  # ten equal examples do not rule out a rare cost


def test_verdicts_and_their_order() -> None:
    benefit = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0, np.nan])
    different = np.array([0.01, 0.01, 0.5, 0.01, 0.5, 0.5, np.nan])
    noninferior = np.array([0.9, 0.01, 0.01, 0.01, 0.01, 0.2, np.nan])
    assert verdicts(benefit, different, noninferior, alpha=0.05).tolist() == [
        "needed",
        "removable",  # a significant cost that is shown to be below the margin
        "removable",
        "harmful",
        "removable",
        "undecided",
        "undecided",
    ]


def loss(value: float) -> Paired:
    return Paired.from_values([value] * 4, [[value] * 4], higher_is_better=False, name="loss")


def test_default_margin_is_one_percent_of_the_scale(rng: np.random.Generator) -> None:
    right = Paired.from_values([1.0, 1, 1, 0], [[1.0, 1, 0, 0]], higher_is_better=True)
    assert check_margin(right) == 0.01
    assert check_margin(loss(2.5)) == pytest.approx(0.025)
    assert check_margin(sentences(rng, masks=1, n=30, changed=0.1)) == pytest.approx(1.0)
    assert check_margin(loss(2.5), 0.3) == 0.3


@pytest.mark.parametrize(
    ("value", "margin", "message"),
    [
        (2.5, 0.0, "positive number in the unit of loss, got 0"),
        (2.5, -0.1, "got -0.1"),
        (2.5, math.nan, "got nan"),
        (2.5, math.inf, "got inf"),
        (2.5, 2.5, "a margin of 2.5 makes no sense for loss, which is 2.5"),
        (0.0, None, "no default margin for loss, which is 0"),
    ],
)
def test_margins_without_sense_are_refused(
    value: float, margin: float | None, message: str
) -> None:
    with pytest.raises(HeadtoolError, match=message):
        check_margin(loss(value), margin)


def test_values_of_any_sign_have_no_limit_and_no_default() -> None:
    paired = Paired.from_values([-1.0, 1.1], [[0.0, 0.3]], higher_is_better=True)
    assert check_margin(paired, 7.0) == 7.0
    with pytest.raises(HeadtoolError, match=r"no default margin for mean, which is 0.05"):
        check_margin(paired)


def test_a_percent_written_for_a_share_is_refused() -> None:
    right = Paired.from_values([1.0, 1, 1, 0], [[1.0, 1, 0, 0]], higher_is_better=True, name="acc")
    with pytest.raises(HeadtoolError, match=r"margin of 1 makes no sense.*below 0.75, such as"):
        check_margin(right, 1.0)


def test_undefined_metric_of_the_whole_model_is_named() -> None:
    undefined = Paired(
        np.ones((3, 1)),
        np.ones((1, 3, 1)),
        lambda sums: np.full(sums.shape[:-1], np.nan),
        higher_is_better=True,
        name="pearson",
    )
    with pytest.raises(HeadtoolError, match="pearson of the whole model is nan on these 3"):
        check_margin(undefined)
