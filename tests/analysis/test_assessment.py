"""The table: columns, planted heads, degenerate input, options, notes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from headtool.analysis.assessment import assess, assess_outcomes
from headtool.analysis.equivalence import noninferiority_p, verdicts
from headtool.analysis.labels import heads_of
from headtool.analysis.paired import Paired
from headtool.analysis.significance import paired_tests
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Head, HeadMask, Sites
from headtool.metrics import get_metric
from headtool.results.outcomes import Outcomes
from headtool.schema import TABLES

from ..support.bleu import sentences

SITES = Sites(
    (
        AttentionSite("enc-self", 0, 2, 2, 4, "a"),
        AttentionSite("enc-self", 1, 3, 3, 4, "b"),
    )
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(53)


def planted(rng: np.random.Generator, n: int = 2_000) -> Paired:
    """Heads that cost 8%, help by 5%, change nothing, change little, and cost half a percent."""
    whole = (rng.random(n) < 0.85) * 1.0
    masked = np.repeat(whole[None], 5, axis=0)
    right, wrong = np.flatnonzero(whole == 1), np.flatnonzero(whole == 0)
    masked[0, right[: n * 8 // 100]] = 0
    masked[1, wrong[: n * 5 // 100]] = 1
    masked[3, right[:4]], masked[3, wrong[:4]] = 0, 1
    masked[4, right[: n * 12 // 1000]], masked[4, wrong[: n * 7 // 1000]] = 0, 1
    return Paired.from_values(whole, masked, higher_is_better=True, name="accuracy")


@pytest.mark.slow
@pytest.mark.parametrize("correction", ["westfall-young", "holm", "bh", "by"])
def test_planted_heads_get_their_verdicts(rng: np.random.Generator, correction: str) -> None:
    tests = assess(planted(rng), correction=correction)
    assert tests.frame["verdict"].tolist() == [
        "needed",
        "harmful",
        "removable",
        "removable",
        "undecided",
    ]
    assert tests.frame["delta"].tolist() == pytest.approx([-0.08, 0.05, 0.0, 0.0, -0.005])
    settled = np.isnan(tests.frame["examples_needed"])
    assert settled.tolist() == [True, True, True, True, False]
    assert tests.frame["examples_needed"].iloc[4] > tests.n_examples
    assert (tests.margin, tests.test, tests.interval) == (0.01, "mcnemar", "newcombe")
    assert tests.expected_false_positives == pytest.approx(0.25)
    assert tests.notes == ()


@pytest.mark.slow
def test_direction_of_losses(rng: np.random.Generator) -> None:
    whole = rng.gamma(2.0, size=600)
    masked = whole + rng.normal(size=(3, 600)) * 0.1 + np.array([0.3, -0.3, 0.0])[:, None]
    paired = Paired.from_values(whole, masked, higher_is_better=False, name="loss")
    tests = assess(paired, margin=0.05)
    assert tests.frame["verdict"].tolist() == ["needed", "harmful", "removable"]
    assert tests.frame["delta"].iloc[0] > 0
    assert (tests.test, tests.interval) == ("sign-flip", "percentile")


@pytest.mark.slow
def test_a_small_certain_cost_is_removable_whatever_its_p(rng: np.random.Generator) -> None:
    whole = np.ones(20_000)
    masked = np.ones((1, 20_000))
    masked[0, :60] = 0
    row = assess(Paired.from_values(whole, masked, higher_is_better=True)).frame.iloc[0]
    assert row["p_adjusted"] < 1e-10
    assert row["verdict"] == "removable"


@pytest.mark.slow
@pytest.mark.parametrize("test", ["auto", "mcnemar-midp", "sign-flip", "randomisation"])
@pytest.mark.parametrize("interval", ["auto", "percentile", "bca"])
def test_all_equal_outcomes(rng: np.random.Generator, test: str, interval: str) -> None:
    whole = (rng.random(60) < 0.7) * 1.0
    paired = Paired.from_values(whole, np.stack([whole] * 3), higher_is_better=True)
    frame = assess(paired, test=test, interval=interval, resamples=99).frame
    for name, value in {"delta": 0, "p": 1, "p_adjusted": 1}.items():
        assert frame[name].tolist() == [value] * 3
    ends = frame[["ci_low", "ci_high"]].to_numpy()
    if interval == "auto":  # Newcombe's: that nothing changed here does not say that nothing can
        assert (ends[:, 0] < 0).all()
        assert (ends[:, 1] > 0).all()
    else:
        assert (ends == 0).all()
    # Sixty unchanged examples do not show that less than one percent would change.
    assert frame["verdict"].tolist() == ["undecided"] * 3
    assert (frame["examples_needed"] > 60).all()


def test_columns_are_the_same_when_there_is_no_head(rng: np.random.Generator) -> None:
    full, empty = planted(rng), np.empty((0, 2_000))
    none = Paired.from_values(full.whole[:, 0], empty, higher_is_better=True)
    frame, filled = assess(none).frame, assess(full).frame
    assert tuple(frame.columns) == tuple(filled.columns) == TABLES["tests"].names
    assert frame.dtypes.to_dict() == filled.dtypes.to_dict()
    assert len(frame) == 0


def test_empty_tables_of_other_metrics(rng: np.random.Generator) -> None:
    paired = sentences(rng, masks=1, n=30, changed=0.5)
    for correction in ("westfall-young", "by"):
        none = dataclasses.replace(paired, masked=paired.masked[:0])
        for interval in ("percentile", "bca"):
            assert len(assess(none, interval=interval, correction=correction).frame) == 0


@pytest.mark.slow
def test_noninferiority_is_corrected_too(rng: np.random.Generator) -> None:
    paired = planted(rng)
    raw = noninferiority_p(paired, 0.01)
    for correction, method in (("westfall-young", "holm"), ("holm", "holm"), ("bh", "fdr_bh")):
        frame = assess(paired, correction=correction).frame
        np.testing.assert_allclose(frame["p_noninferior"], raw)
        expected = multipletests(raw, method=method)[1]
        np.testing.assert_allclose(frame["p_noninferior_adjusted"], expected)


@pytest.mark.slow
def test_resamples_are_raised_where_the_correction_needs_them(rng: np.random.Generator) -> None:
    paired = Paired.from_values(
        rng.normal(size=40), rng.normal(size=(300, 40)), higher_is_better=True
    )
    tests = assess(paired, correction="holm", alpha=0.01, margin=0.05)
    assert (tests.resamples, tests.resamples_needed) == (30_000, 29_999)
    assert tests.resamples_sufficient
    few = assess(paired, correction="holm", alpha=0.01, margin=0.05, resamples=1000)
    assert few.resamples == 1000
    assert not few.resamples_sufficient
    assert "1000 resamples give no p-value below 0.001" in few.notes[0]
    assert "at least 29999" in few.notes[0]
    assert (few.frame["p_adjusted"] > 0.01).all()


def test_exact_tests_never_lack_resamples(rng: np.random.Generator) -> None:
    tests = assess(planted(rng), correction="by", alpha=0.001)
    assert (tests.resamples, tests.exact, tests.resamples_sufficient) == (0, True, True)
    whole = rng.normal(size=8)
    tests = assess(
        Paired.from_values(whole, whole + rng.normal(size=(30, 8)), higher_is_better=True),
        correction="holm",
        margin=1e-3,
    )
    assert (tests.resamples, tests.exact, tests.notes) == (256, True, ())


def test_undefined_heads_are_left_out_of_the_family(rng: np.random.Generator) -> None:
    metric = get_metric("pearson", task="regression")
    gold = rng.normal(size=60)
    rows = [gold + rng.normal(size=60) * 0.5 for _ in range(3)] + [np.ones(60)]
    statistics = [metric.per_example({"prediction": row, "gold": gold}) for row in rows]
    paired = Paired(
        statistics[0],
        np.stack(statistics[1:]),
        metric.from_sums,
        higher_is_better=True,
        name="pearson",
        scale=1.0,
    )
    tests = assess(paired, resamples=200)
    last = tests.frame.iloc[2]
    assert last[["delta", "ci_low", "ci_high", "p", "p_adjusted", "mde"]].isna().all()
    assert last["verdict"] == "undecided"
    assert tests.n_tests == 2
    assert np.isnan(last["examples_needed"])
    assert tests.notes == ("pearson is undefined for 1 of 3 masks",)
    assert tests.frame["p"].iloc[:2].notna().all()


def test_infinite_perplexity_of_a_mask_is_undefined(rng: np.random.Generator) -> None:
    whole = np.stack([rng.gamma(2.0, size=40), np.ones(40)], axis=1)
    masked = np.stack([whole, whole * [2000.0, 1.0]])
    value = get_metric("perplexity", task="causal-lm").from_sums
    paired = Paired(whole, masked, value, higher_is_better=False, name="perplexity")
    for interval in ("percentile", "bca"):
        tests = assess(paired, resamples=99, interval=interval)
        assert tests.frame["delta"].isna().tolist() == [False, True]
        assert tests.notes == ("perplexity is undefined for 1 of 2 masks",)


@pytest.mark.slow
def test_equal_seeds_give_equal_tables_and_nothing_is_modified(rng: np.random.Generator) -> None:
    paired = sentences(rng, masks=3, n=80, changed=0.3)
    before = paired.masked.copy()
    tables = [assess(paired, resamples=300, rng=seed).frame for seed in (1, 1, 2)]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])
    assert assess(paired, resamples=300, rng=np.random.default_rng(1)).frame.equals(tables[0])
    np.testing.assert_array_equal(paired.masked, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"correction": "bonferoni"}, "unknown correction 'bonferoni'"),
        ({"test": "t-test"}, "unknown test 't-test'"),
        ({"interval": "normal"}, "unknown interval 'normal'"),
        ({"alpha": 1.5}, "`alpha` must be between 0 and 1, got 1.5"),
        ({"alpha": 0.0}, "`alpha` must be between 0 and 1, got 0"),
        ({"resamples": 0}, "`resamples` must be at least 1, got 0"),
        ({"margin": 1.0}, "a margin of 1 makes no sense for accuracy"),
        ({"heads": [Head("enc-self", 0, 0)]}, "1 heads for 5 masks"),
        ({"heads": [Head("enc-self", 0, 1)] * 5}, r"head enc-self.0.1 occurs twice"),
    ],
)
def test_bad_options_are_named(
    rng: np.random.Generator, options: dict[str, object], message: str
) -> None:
    with pytest.raises(HeadtoolError, match=message) as error:
        assess(planted(rng, n=100), **options)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_outcomes_are_labelled_with_the_head_that_each_mask_is_about(
    rng: np.random.Generator,
) -> None:
    masks = [HeadMask.without(SITES, [head]) for head in SITES.heads]
    gold = rng.integers(0, 2, 200)
    predictions = np.where(rng.random((6, 200)) < 0.1, 1 - gold, gold)
    outcomes = Outcomes(
        tuple(masks),
        {"prediction": predictions[0], "gold": gold},
        {"prediction": predictions[1:], "gold": np.tile(gold, (5, 1))},
    )
    metric = get_metric("accuracy", task="classification")
    frame = assess_outcomes(outcomes, metric).frame
    assert frame[["kind", "layer", "head"]].values.tolist() == [
        ["enc-self", 0, 0],
        ["enc-self", 0, 1],
        ["enc-self", 1, 0],
        ["enc-self", 1, 1],
        ["enc-self", 1, 2],
    ]
    expected = (predictions[1:] == gold).mean(1) - (predictions[0] == gold).mean()
    np.testing.assert_allclose(frame["delta"], expected, atol=1e-12)
    plain = assess(Paired.from_outcomes(outcomes, metric)).frame
    assert plain["kind"].unique().tolist() == ["mask"]
    assert plain.drop(columns=["kind", "layer", "head"]).equals(
        frame.drop(columns=["kind", "layer", "head"])
    )
    with pytest.raises(HeadtoolError, match="occurs twice"):
        assess_outcomes(dataclasses.replace(outcomes, masks=(masks[0],) * 5), metric)


def test_heads_of_all_but_one_masks() -> None:
    heads = SITES.heads
    left = HeadMask.without(SITES, [heads[2], heads[4]])
    assert heads_of([left]) == [heads[3]]
    assert heads_of([HeadMask.without(SITES, [heads[0]])]) == [heads[0]]
    for closed in ([heads[0], heads[2]], [], heads[2:5]):
        with pytest.raises(HeadtoolError, match=f"closes {len(closed)} heads"):
            heads_of([HeadMask.without(SITES, closed)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "margin", "told"), [(0.02, None, True), (0.02, 0.005, False), (0.5, None, False)]
)
def test_a_default_margin_that_dwarfs_the_metric_is_pointed_out(
    share: float, margin: float | None, told: bool
) -> None:
    whole = (np.arange(500) < 500 * share) * 1.0
    paired = Paired.from_values(whole, [whole], higher_is_better=True, name="accuracy")
    notes = assess(paired, margin=margin, resamples=200).notes
    assert any("declare a smaller one" in note for note in notes) is told


def test_alpha_total_is_shared_by_both_sorts_of_claims(rng: np.random.Generator) -> None:
    paired = planted(rng)
    half, shared = assess(paired, alpha=0.025), assess(paired, alpha_total=0.05)
    assert (shared.alpha, shared.alpha_total) == (0.025, 0.05)
    assert shared.frame.equals(half.frame)
    assert (assess(paired).alpha, assess(paired).alpha_total) == (0.05, 0.1)
    with pytest.raises(HeadtoolError, match="`alpha_total` must be between 0 and 1, got 0"):
        assess(paired, alpha_total=0.0)
    with pytest.raises(HeadtoolError, match=r"`alpha` 0.05 and `alpha_total` 0.05 exclude"):
        assess(paired, alpha=0.05, alpha_total=0.05)


def test_false_verdicts_of_either_sort_reach_the_sum_of_the_levels(
    rng: np.random.Generator,
) -> None:
    """Heads without effect and heads that cost the margin: each half of the level, not more."""
    n, trials, margin = 1_500, 1_000, 0.01
    whole = np.ones(n)
    whole[: n // 2] = 0
    chance = rng.random((2 * trials, n))
    masked = np.where(whole == 1, chance >= 0.04, chance < 0.04) * 1.0
    costly = chance[trials:, n // 2 :] >= 0.04 + 2 * margin
    masked[trials:, n // 2 :] = costly
    paired = Paired.from_values(whole, masked, higher_is_better=True)
    different = paired_tests(paired, rng=rng).p
    noninferior = noninferiority_p(paired, margin)
    for total in (0.05, 0.2):
        said = verdicts(paired.benefit, different, noninferior, alpha=total / 2)
        without_effect = np.isin(said[:trials], ["needed", "harmful"]).mean()
        at_the_margin = (said[trials:] == "removable").mean()
        for rate in (without_effect, at_the_margin):
            assert rate <= total / 2 + 3 * np.sqrt(total / 2 / trials)
        assert without_effect + at_the_margin > total / 2  # one level alone is not the whole risk
