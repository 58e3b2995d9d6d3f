"""Curves: marks above them do not overlap."""

from __future__ import annotations

import re

from headtool.reports.charts.lines import Curve, line_chart


def test_marks_do_not_overlap_and_shares_stay_as_they_were() -> None:
    line = Curve("a", [1.0, 2.0, 30.0], [1.0, 2.0, 3.0], "m0")
    sizes = {"label": "", "x_label": "", "y_label": "", "width": 400, "height": 200}
    marks = [(1.0, "one"), (2.0, "two"), (30.0, "far")]
    drawing = str(line_chart([line], heads=32, marks=marks, **sizes))
    height = {
        text: float(re.search(rf'y="([\d.]+)"[^>]*>{text}<', drawing)[1])
        for text in ("one", "two", "far")
    }
    assert height["one"] == height["far"]
    assert height["one"] - height["two"] >= 12
    assert ">50%<" in str(line_chart([Curve("a", [0.0, 1.0], [1.0, 2.0], "m0")], **sizes))
    assert ">50%<" not in drawing
