"""Axes: lines and texts stand where the scales put the values."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from headtool.reports.charts.axes import Axes, drawing
from headtool.reports.charts.svg import Scale

AREA = Axes(Scale(0.0, 10.0, 50.0, 250.0), Scale(-1.0, 1.0, 120.0, 20.0))


def test_lines_span_the_area_at_their_value() -> None:
    level, upright = AREA.level_line(0.5), AREA.upright_line(2.5, "reference")
    assert level == '<line x1="50" x2="250" y1="45" y2="45" class="rule"/>'
    assert upright == '<line x1="100" x2="100" y1="20" y2="120" class="reference"/>'


def test_values_stand_beside_and_below_the_area() -> None:
    beside, below = (ET.fromstring(text) for text in (AREA.beside(0, "a"), AREA.below(10, "b")))
    assert (beside.text, beside.get("x"), beside.get("y")) == ("a", "43", "70")
    assert (below.text, below.get("x"), below.get("y")) == ("b", "250", "136")
    assert ET.fromstring(AREA.beside(0, "a", gap=20)).get("x") == "30"


def test_rules_are_at_round_values_and_zero_can_stand_out() -> None:
    parts = AREA.levels(4, zero="reference")
    texts = [ET.fromstring(part).text for part in parts if part.startswith("<text")]
    assert texts == ["−1", "−0.5", "0", "0.5", "1"]
    assert [bool(re.search("reference", part)) for part in parts[::2]] == [
        text == "0" for text in texts
    ]
    assert len(AREA.uprights(2)) == 2 * len(AREA.across.ticks(2))


def test_names_are_in_the_middle() -> None:
    assert 'x="150" y="140"' in AREA.x_name("share", 140)
    assert "translate(13 70) rotate(-90)" in AREA.y_name("accuracy", 13)


def test_a_drawing_names_itself_and_escapes() -> None:
    svg = drawing(
        [None, AREA.cursor()], label='"a" < b', width=300, height=150, top=-4, data_start=50
    )
    root = ET.fromstring(svg)
    assert root.get("viewBox") == "0 -4 300 150"
    assert root.get("aria-label") == '"a" < b'
    assert (root.get("role"), root.get("class"), root.get("data-start")) == ("img", "chart", "50")
    assert [child.get("class") for child in root] == ["cursor"]
    assert (
        ET.fromstring(drawing([], label="", width=1, height=1, role="grid")).get("role") == "grid"
    )
