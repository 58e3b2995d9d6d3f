"""Which heads go: by scores, verdicts and masks, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask, Sites
from headtool.masks.selection import (
    budget,
    by_scores,
    by_verdicts,
    from_file,
    groups_of,
    tied_at_cut,
)

SITES = Sites(tuple(AttentionSite("dec-self", layer, 4, 2, 8, f"o{layer}") for layer in range(2)))


def frame(values: list[float], **columns: list[str]) -> pd.DataFrame:
    """Scores (or deltas) of all eight heads; rank 1 is the highest."""
    rank = pd.Series(values).rank(ascending=False, method="first").astype(int)
    return pd.DataFrame(
        {
            "kind": [head.kind for head in SITES.heads],
            "layer": [head.layer for head in SITES.heads],
            "head": [head.index for head in SITES.heads],
            "score": values,
            "delta": values,
            "rank": rank,
            **columns,
        }
    )


def closed(mask: HeadMask) -> list[str]:
    return [str(head).removeprefix("dec-self.") for head in mask.closed]


#                    0.0  0.1  0.2  0.3  1.0  1.1  1.2  1.3
SCORES = frame([0.3, 0.8, 0.1, 0.9, 0.2, 0.7, 0.6, 0.5])


def test_lowest_heads_go_first() -> None:
    assert closed(by_scores(SCORES, SITES, 3)) == ["0.0", "0.2", "1.0"]


def test_groups_go_by_their_mean_rank() -> None:
    """Ranks from 1 to 8: groups have 6 + 2, 8 + 1, 7 + 3 and 4 + 5; the third goes first."""
    assert closed(by_scores(SCORES, SITES, 2, unit="group")) == ["1.0", "1.1"]
    assert closed(by_scores(SCORES, SITES, 5, unit="group")) == ["0.2", "0.3", "1.0", "1.1"]
    with pytest.raises(HeadtoolError, match="1 heads are less than one key/value group"):
        by_scores(SCORES, SITES, 1, unit="group")


def test_one_head_of_a_layer_can_stay() -> None:
    low = frame([0.1, 0.2, 0.3, 0.4, 1.0, 2.0, 3.0, 4.0])
    assert closed(by_scores(low, SITES, 4)) == ["0.0", "0.1", "0.2", "0.3"]
    assert closed(by_scores(low, SITES, 4, keep_one=True)) == ["0.0", "0.1", "0.2", "1.0"]


def test_heads_without_a_score_stay() -> None:
    some = SCORES[SCORES["layer"] == 1]
    assert closed(by_scores(some, SITES, 2)) == ["1.0", "1.3"]
    with pytest.raises(HeadtoolError, match="5 heads are to go, but only 4 of 8 can"):
        by_scores(some, SITES, 5)


def test_verdicts() -> None:
    verdict = ["removable", "needed", "removable", "removable"] + ["removable"] * 4
    tests = frame([-0.1, -0.9, -0.2, -0.3, -0.4, -0.5, -0.7, -0.6], verdict=verdict)
    everything = ["0.0", "0.2", "0.3", "1.0", "1.1", "1.2", "1.3"]
    assert closed(by_verdicts(tests, SITES, "removable")) == everything
    groups = by_verdicts(tests, SITES, "removable", unit="group")
    assert closed(groups) == ["0.2", "0.3", "1.0", "1.1", "1.2", "1.3"]
    kept = by_verdicts(tests, SITES, "removable", keep_one=True)
    assert closed(kept) == ["0.0", "0.2", "0.3", "1.0", "1.1", "1.3"]  # 1.2 costs most
    with pytest.raises(HeadtoolError, match=r"no head is harmful \(7 removable, 1 needed\)"):
        by_verdicts(tests, SITES, "harmful")


def test_scores_of_another_model() -> None:
    with pytest.raises(HeadtoolError, match=r"no head dec-self\.2\.0"):
        by_scores(SCORES.assign(layer=SCORES["layer"] + 1), SITES, 2)
    with pytest.raises(HeadtoolError, match="scored twice"):
        by_scores(pd.concat([SCORES, SCORES]), SITES, 2)


def test_budgets() -> None:
    assert budget("40%", None, 10) == 4
    assert budget(" 12.5% ", None, 8) == 1
    assert budget(None, 3, 8) == 5
    for text in ("40", "0%", "100%", "x%", "", "nan%"):
        with pytest.raises(HeadtoolError, match="`remove` takes a share"):
            budget(text, None, 8)


def test_units() -> None:
    assert groups_of(SITES, "head").tolist() == list(range(8))
    assert groups_of(SITES, "group").tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": "headtool/mask/1", "closed": ["dec-self.0.1", "dec-self.1.3"]}',
        '{"0": [1], "1": [3]}',
        "D:1:2 D:2:4\n",
    ],
)
def test_masks_of_three_formats(text: str, tmp_path: Path) -> None:
    (tmp_path / "mask").write_text(text)
    mask = from_file(tmp_path / "mask", SITES)
    assert closed(mask) == ["0.1", "1.3"]
    np.testing.assert_array_equal(mask.open, [1, 0, 1, 1, 1, 1, 1, 0])


def test_a_cut_among_equal_scores_is_told() -> None:
    scores = frame([0.1, 0.2, 0.2, 0.3, 0.2, 0.1, 0.3, 0.3])
    told = [tied_at_cut(scores, by_scores(scores, SITES, count)) for count in range(1, 8)]
    #        0.1: one of two, two of two; 0.2: one, two, three of three; 0.3: one, two of three
    assert told == [(2, 1), None, (3, 1), (3, 2), None, (3, 1), (3, 2)]
    # Groups have 0.1 and 0.2, 0.2 and 0.3, 0.1 and 0.2, 0.3 twice.
    one, both = (by_scores(scores, SITES, count, unit="group") for count in (2, 4))
    assert tied_at_cut(scores, one, unit="group") == (4, 2)
    assert tied_at_cut(scores, both, unit="group") is None
