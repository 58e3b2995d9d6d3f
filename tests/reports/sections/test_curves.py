"""No curve shows a value that its metric cannot have."""

from __future__ import annotations

import dataclasses
import re

import pytest

from headtool.reports.contents.run import Contents
from headtool.reports.formats.canvas import new_figure
from headtool.reports.formats.curve_figures import draw_curve
from headtool.reports.sections import curves as curve_sections
from headtool.reports.sections.page import build_page


def reaching_too_far(contents: Contents, metric: str = "accuracy") -> Contents:
    """The same curves with bands of 0.3 to both sides."""
    curves = contents.table("curves")
    wide = curves.assign(low=curves["delta"] - 0.3, high=curves["delta"] + 0.3)
    return dataclasses.replace(
        contents,
        tables={**contents.tables, "curves": wide},
        settings={**contents.settings, "metric": metric},
    )


def test_the_table_of_values_stays_within_the_range(contents: Contents) -> None:
    shown = reaching_too_far(contents)
    section = next(s for s in build_page(shown).sections if s.name == "curves")
    table = next(table for table in section.tables if table.name == "curve-values")
    ends = [
        float(end)
        for row in table.rows
        for cell in row
        for end in re.findall(r"[\[ ](-?[\d.]+)[,\]]", cell.text.replace("−", "-"))
    ]
    assert len(ends) > 20
    assert max(ends) == 1
    assert min(ends) >= 0
    assert shown.table("curves").eval("value + high - delta").max() > 1  # as computed


@pytest.mark.parametrize(("metric", "most"), [("accuracy", 1.0), ("loss", 1.212), ("other", 1.212)])
def test_bands_are_drawn_within_the_range(contents: Contents, metric: str, most: float) -> None:
    shown = reaching_too_far(contents, metric)
    rows = shown.table("curves").query("method == 'gradient'")
    line = curve_sections._line(shown, rows, "gradient", "m0")
    assert max(line.high) == pytest.approx(most)
    _, axes = new_figure()
    axis = axes[0][0]
    draw_curve(axis, shown, rows, {"color": "black"}, "gradient")
    drawn = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert drawn.max() == pytest.approx(most)
