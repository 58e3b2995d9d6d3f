"""Two methods' scores: which two, and where the points lie."""

from __future__ import annotations

import re

import pytest

from headtool.reports.contents.run import Contents, records
from headtool.reports.sections.scores import score_pair

from ...support.html import Page, payload


@pytest.mark.parametrize(
    ("methods", "pair"),
    [
        (["gradient", "lrp", "confidence"], ("confidence", "lrp")),
        (["lrp", "gates"], ("gates", "lrp")),
        (["gradient", "gates"], ("gates", "gradient")),
        (["confidence", "gradient"], ("confidence", "gradient")),
        (["lrp", "confidence"], ("confidence", "lrp")),
        (["confidence"], None),
    ],
)
def test_relevance_lies_over_confidence(methods: list[str], pair: tuple[str, str] | None) -> None:
    assert score_pair(methods) == pair


def test_points_lie_where_the_scores_are(role_page: Page, with_known_roles: Contents) -> None:
    scores = payload(role_page)["scores"]
    table = with_known_roles.table("scores")
    for axis in scores["axes"]:
        values = table.loc[table["method"] == axis["name"], "score"].to_numpy()
        at = [place for place in axis["at"] if place is not None]
        span = (values - values.min()) / (values.max() - values.min())
        low, high = min(at), max(at)
        assert [(a - low) / (high - low) for a in at] == pytest.approx(span, abs=1e-3)
    names = [axis["name"] for axis in scores["axes"]]
    for row in records(with_known_roles.table("agreement")):
        x, y = names.index(row["method_x"]), names.index(row["method_y"])
        for caption in (scores["captions"][x][y], scores["captions"][y][x]):
            assert f"rho {row['spearman']:.3g}" in caption
            assert f"p = {row['tau_b_p_within_layers']:.2g}" in caption
    x, y = (scores["axes"][number] for number in scores["pair"])
    left, right, bottom, top = scores["frame"]
    drawn = {
        a["data-head"]: str(a["transform"])
        for _, a in role_page.elements
        if "data-head" in a and str(a["class"]).startswith("point") and "transform" in a
    }
    assert len(drawn) == 72
    for head, where in drawn.items():
        numbers = re.findall(r"[\d.]+", where)
        assert float(numbers[0]) == pytest.approx(left + x["at"][int(head)] * (right - left), abs=1)
        assert float(numbers[1]) == pytest.approx(
            bottom + y["at"][int(head)] * (top - bottom), abs=1
        )
