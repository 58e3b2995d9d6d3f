"""Results in a notebook: what they show, and that names in them stay names."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd

from headtool.analysis.assessment import assess
from headtool.analysis.comparison import TABLES, Comparison
from headtool.analysis.paired import Paired
from headtool.heads import AttentionSite, HeadMask, Sites
from headtool.results.display import html_result
from headtool.results.outcomes import Outcomes
from headtool.results.scores import HeadScores, score_frame

from ..support.comparisons import comparison

SITES = Sites((AttentionSite("enc-self", 0, 12, 12, 4, "out"),))
EVIL = "<img src=x onerror=alert(1)>"


class Shown(HTMLParser):
    """Text and tags of a piece of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def scores(method: str = "gradient") -> HeadScores:
    values = np.arange(12, dtype=float)
    return HeadScores(method, score_frame(method, SITES, values, np.full(12, np.nan)))


def test_scores_show_the_most_important_heads() -> None:
    shown = Shown(scores()._repr_html_())
    assert shown.cells[0] == "gradient: the most important of 12 heads"
    assert shown.cells[4:7] == ["enc-self.0.11", "11", "–"]
    assert shown.tags.count("tr") == 9
    assert shown.cells[-1] == "and 4 more: .frame has all of them"


def test_names_stay_names() -> None:
    for text in (
        scores(EVIL)._repr_html_(),
        html_result(EVIL, [EVIL], [[EVIL]], lines=[EVIL]),
    ):
        shown = Shown(text)
        assert set(shown.tags) <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
        assert EVIL in "".join(shown.cells)
    assert "\x1b" not in html_result("a\x1b[31m\u202eb", [], [])


def test_outcomes_say_what_there_is() -> None:
    masks = (HeadMask.without(SITES, SITES.heads[:1]),)
    outcomes = Outcomes(masks, {"loss": np.zeros(5)}, {"loss": np.ones((1, 5))})
    text = "".join(Shown(outcomes._repr_html_()).cells)
    assert "outcomes of 1 masks and the whole model on 5 examples" in text
    assert "loss" in text


def test_tests_count_verdicts() -> None:
    whole, masked = np.ones(200), np.ones((2, 200))
    masked[0, :30] = 0
    tests = assess(Paired.from_values(whole, masked, higher_is_better=True), margin=0.05)
    shown = Shown(tests._repr_html_())
    assert "1 needed, 1 removable, 0 harmful, 0 undecided" in shown.cells[0]
    assert shown.tags.count("tr") == 3


def test_comparisons_show_their_curves() -> None:
    tables, settings = comparison(failures=[("score", EVIL, "no such layer")])
    every = {name: tables.get(name, pd.DataFrame()) for name in TABLES}
    shown = Shown(Comparison(**every, settings=settings)._repr_html_())
    assert shown.cells[:3] == ["accuracy by share of heads removed", "removed", "gradient"]
    assert shown.tags.count("tr") == 11
    assert any(cell.startswith("data/news.tsv: ") for cell in shown.cells)
    assert f"{EVIL} failed: no such layer" in "".join(shown.cells)
    assert "img" not in shown.tags
    value = tables["curves"].query("method == 'gates' and budget == 36")["value"]
    assert f"{value.iloc[0]:.3g}" in shown.cells


def test_it_imports_nothing_heavy() -> None:
    heavy = "{'pandas', 'jinja2', 'numpy'} & set(sys.modules)"
    code = f"import sys, headtool.results.display; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_whole_numbers_and_missing_ones() -> None:
    shown = Shown(html_result("t", ["a", "b", "c"], [[3, float("nan"), 12345.678]]))
    assert shown.cells[-3:] == ["3", "–", "1.23e+04"]
