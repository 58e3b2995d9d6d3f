"""The table of roles: shares, intervals, tests, labels; and what pruning leaves of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom, norm
from statsmodels.stats.proportion import proportion_confint

from headtool.analysis.multiplicity import adjust
from headtool.analysis.overlap import kept_frame
from headtool.analysis.roles import (
    THRESHOLDS,
    check_thresholds,
    cluster_wilson,
    role_table,
    surviving_roles,
)
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Head, Sites
from headtool.results.role_counts import RoleCounts
from headtool.schema import TABLES


def sites(heads: int, layers: int = 1) -> Sites:
    return Sites(
        tuple(AttentionSite("enc-self", layer, heads, heads, 2, "out") for layer in range(layers))
    )


def tallied(
    hits: np.ndarray,
    queries: np.ndarray,
    expected: np.ndarray,
    role: str = "first-token",
    details: tuple[str, ...] = ("",),
) -> RoleCounts:
    """Counts of hits [N, M, D] on queries [N, D] of N sentences."""
    counts = RoleCounts(role, details, sites(hits.shape[1]), ["any key"] * len(details))
    pairs = queries.nonzero()
    n, e = queries[pairs].astype(float), expected[pairs].astype(float)
    counts.add_queries(pairs[1], n, e)
    counts.add_hits(counts.sites[0], pairs[1], hits.transpose(0, 2, 1)[pairs].astype(float), n, e)
    return counts


def clustered(
    rng: np.random.Generator, sentences: int, share: float, heads: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Hits and queries of sentences that differ: shares are beta distributed around `share`."""
    queries = rng.integers(1, 12, (sentences, 1))
    own = rng.beta(3 * share, 3 * (1 - share), (sentences, heads, 1))
    return rng.binomial(queries[:, None], own), queries


def test_shares_baselines_and_tests_equal_their_definitions() -> None:
    rng = np.random.default_rng(0)
    hits, queries = clustered(rng, 40, 0.6, heads=3)
    expected = queries * 0.5
    frame = role_table([tallied(hits, queries, expected)])
    assert tuple(frame.columns) == TABLES["roles"].names
    excess = hits[:, :, 0] - expected
    statistic = excess.sum(axis=0) / np.sqrt((excess**2).sum(axis=0))
    p = 2 * norm.sf(np.abs(statistic))
    np.testing.assert_allclose(frame["share"], hits.sum(axis=(0, 2)) / queries.sum())
    np.testing.assert_allclose(frame["baseline"], 0.5)
    np.testing.assert_allclose(frame["p"], p)
    np.testing.assert_allclose(frame["p_adjusted"], adjust(p, "holm"))
    assert (frame["n"] == queries.sum()).all()
    assert (frame["sentences"] == 40).all()


def test_one_query_a_sentence_gives_mcnemars_statistic() -> None:
    # 9 sentences right by the head alone, 2 by the baseline alone, 30 alike.
    hits = np.array([1] * 9 + [0] * 2 + [1] * 30)[:, None, None]
    guessed = np.array([0] * 9 + [1] * 2 + [1] * 30)[:, None]
    frame = role_table([tallied(hits, np.ones((41, 1)), guessed, "syntactic", ("x",))])
    assert frame["p"][0] == pytest.approx(2 * norm.sf(7 / np.sqrt(11)))
    assert frame["threshold"][0] == pytest.approx(32 / 41 + 0.1)


def test_interval_is_wilsons_where_sentences_have_one_query() -> None:
    hits = np.array([1] * 620 + [0] * 380)[:, None, None]
    counts = tallied(hits, np.ones((1000, 1)), np.zeros((1000, 1)))
    low, high = cluster_wilson(counts)
    assert (low[0, 0], high[0, 0]) == pytest.approx(
        proportion_confint(620, 1000, method="wilson"), abs=2e-4
    )


def test_interval_counts_sentences_that_agree_in_themselves_once() -> None:
    # Ten queries a sentence, all of them hits or none: a sentence is worth one query.
    hits = 10 * np.array([1] * 60 + [0] * 40)[:, None, None]
    counts = tallied(hits, np.full((100, 1), 10), np.zeros((100, 1)))
    low, high = cluster_wilson(counts)
    assert (low[0, 0], high[0, 0]) == pytest.approx(
        proportion_confint(60, 100, method="wilson"), abs=4e-3
    )


def test_interval_of_a_perfect_share_has_a_length() -> None:
    queries = np.array([[3], [4], [5], [8]])
    low, high = cluster_wilson(tallied(queries[:, :, None], queries, queries * 0.1))
    assert high[0, 0] == 1
    assert 0.2 < low[0, 0] < 0.7
    low, high = cluster_wilson(tallied(0 * queries[:, :, None], queries, queries * 0.1))
    assert low[0, 0] == 0
    assert 0.3 < high[0, 0] < 0.8


@pytest.mark.parametrize("share", [0.1, 0.66, 0.9])
def test_intervals_cover_where_sentences_differ(share: float) -> None:
    rng = np.random.default_rng(int(100 * share))
    covered = narrow = 0
    for _ in range(400):
        hits, queries = clustered(rng, 60, share)
        counts = tallied(hits, queries, queries * 0.0)
        low, high = cluster_wilson(counts)
        covered += low[0, 0] <= share <= high[0, 0]
        plain = proportion_confint(hits.sum(), queries.sum(), method="wilson")
        narrow += plain[0] <= share <= plain[1]
    assert covered >= 0.92 * 400
    assert narrow < 0.88 * 400  # as if queries were independent


def test_tests_keep_their_level_where_sentences_differ() -> None:
    rng = np.random.default_rng(8)
    hits, queries = clustered(rng, 60, 0.5, heads=2000)
    frame = role_table([tallied(hits, queries, queries * 0.5)], correction="none")
    assert 0.03 < (frame["p"] <= 0.05).mean() < 0.065


def test_labels_need_the_threshold_and_the_test() -> None:
    many, few = np.full((60, 1), 10), np.full((3, 1), 10)

    def label(role: str, share: float, queries: np.ndarray, baseline: float) -> str:
        hits = np.rint(queries[:, None] * share)
        frame = role_table([tallied(hits, queries, queries * baseline, role, ("x",))])
        return str(frame["label"][0])

    assert label("positional", 0.9, many, 0.1) == "yes"
    assert label("positional", 0.8, many, 0.1) == "no"
    assert label("positional", 0.9, few, 0.1) == "unproven"
    assert label("syntactic", 0.7, many, 0.6) == "yes"
    assert label("syntactic", 0.7, many, 0.7) == "no"
    assert label("rare-token", 0.7, many, 0.1) == "yes"
    assert label("rare-token", 0.7, many, 0.7) == "no"
    assert label("rare-token", 0.6, many, 0.1) == "no"
    assert label("first-token", 0.7, 0 * many, 0.1) == "untested"


def test_a_head_below_its_baseline_has_no_role() -> None:
    queries = np.full((60, 1), 10)
    hits = np.full((60, 1, 1), 6)
    frame = role_table([tallied(hits, queries, queries * 0.9)])
    assert frame["p_adjusted"][0] < 0.001
    assert frame["label"][0] == "no"


def test_positional_heads_show_one_offset_and_are_corrected_over_all() -> None:
    rng = np.random.default_rng(1)
    queries = np.full((30, 3), 5)
    hits = np.stack([rng.multinomial(5, [0.2, 0.5, 0.3], 4) for _ in range(30)])
    counts = tallied(hits, queries, queries / 3, "positional", ("-1", "+0", "+1"))
    frame = role_table([counts])
    assert frame["detail"].tolist() == ["+0"] * 4
    excess = hits - (queries / 3)[:, None]
    p = 2 * norm.sf(np.abs(excess.sum(axis=0) / np.sqrt((excess**2).sum(axis=0))))
    np.testing.assert_allclose(frame["p"], p[:, 1])
    np.testing.assert_allclose(frame["p_adjusted"], adjust(p.T.ravel(), "holm")[4:8])


def test_rare_relations_are_left_out_and_cost_nothing() -> None:
    queries = np.column_stack([np.full(30, 2), np.repeat([1, 0], [5, 25])])
    hits = np.stack([np.column_stack([queries[:, 0], queries[:, 1]])], axis=1)
    counts = tallied(hits, queries, 0.1 * queries, "syntactic", ("often", "seldom"))
    frame = role_table([counts], least=20)
    assert frame["detail"].tolist() == ["often"]
    assert frame["p_adjusted"].tolist() == frame["p"].tolist()
    assert role_table([counts], least=5)["detail"].tolist() == ["often", "seldom"]


def test_thresholds_can_be_set_and_are_checked() -> None:
    assert check_thresholds({"positional": 0.5}) == {**THRESHOLDS, "positional": 0.5}
    with pytest.raises(HeadtoolError, match="did you mean 'positional'"):
        check_thresholds({"positionl": 0.5})
    with pytest.raises(HeadtoolError, match=r"threshold of induction must be in \(0, 1\], got 0"):
        check_thresholds({"induction": 0.0})
    with pytest.raises(HeadtoolError, match="no resamples for westfall-young"):
        role_table([], correction="westfall-young")
    with pytest.raises(HeadtoolError, match="`alpha` must be between 0 and 1, got 1"):
        role_table([], alpha=1.0)


def test_nothing_to_say_is_an_empty_table() -> None:
    assert tuple(role_table([]).columns) == TABLES["roles"].names
    empty = RoleCounts("syntactic", (), sites(2), ())
    assert role_table([empty]).empty


# -- survival -----------------------------------------------------------------------------------

HEADS = sites(4, layers=2).heads


def roles_of(labels: dict[str, set[int]]) -> pd.DataFrame:
    """A row per head and role; the numbered heads of each have it."""
    return pd.DataFrame(
        [
            {
                "kind": head.kind,
                "layer": head.layer,
                "head": head.index,
                "role": role,
                "label": "yes" if number in having else "no",
            }
            for role, having in labels.items()
            for number, head in enumerate(HEADS)
        ]
    )


def keeping(*numbers: int) -> np.ndarray:
    return np.isin(np.arange(8), numbers)


def test_survivors_are_counted_and_held_against_chance() -> None:
    roles = roles_of({"positional": {0, 1}, "syntactic": {1, 4, 5}})
    kept = kept_frame({"a": {4: keeping(0, 1, 4, 6)}, "b": {0: keeping(*range(8))}}, HEADS)
    frame = surviving_roles(roles, kept)
    assert tuple(frame.columns) == TABLES["role_survival"].names
    a = frame[frame["method"] == "a"].set_index("role")
    assert a["heads"].to_dict() == {"positional": 2, "syntactic": 3, "none": 4}
    assert a["kept"].to_dict() == {"positional": 2, "syntactic": 2, "none": 1}
    assert a.loc["positional", "expected"] == pytest.approx(1)
    assert a.loc["positional", "p_hypergeometric"] == pytest.approx(hypergeom.sf(1, 8, 4, 2))
    # Within layers: both of layer 0's two kept heads are the two positional ones of four.
    assert a.loc["positional", "p_within_layers"] == pytest.approx(1 / 6)
    assert a.loc["syntactic", "expected_within_layers"] == pytest.approx(2 / 4 + 2 * 2 / 4)
    b = frame[frame["method"] == "b"]
    assert (b["kept"] == b["heads"]).all()
    assert b["p_within_layers"].isna().all()


def test_heads_of_other_kinds_are_no_part_of_it() -> None:
    roles = roles_of({"positional": {0}})
    others = [*HEADS, Head("cross", 0, 0), Head("cross", 0, 1)]
    kept = kept_frame({"a": {5: np.array([*keeping(0, 1, 2), True, True])}}, others)
    frame = surviving_roles(roles, kept)
    assert frame.set_index("role")["heads"].to_dict() == {"positional": 1, "none": 7}
    assert frame["expected"].tolist() == pytest.approx([3 / 8, 7 * 3 / 8])
    with pytest.raises(HeadtoolError, match="no head with a role was up for removal"):
        surviving_roles(roles, kept[kept["kind"] == "cross"])
