"""Heat maps fit the terminal, line up, and are brighter for more important heads."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headtool.heads import Sites

from ...support.scores import result, shown, sites


def grid(lines: list[str]) -> tuple[str, list[str]]:
    start = next(number for number, line in enumerate(lines) if "(rows: layers" in line)
    stop = next(number for number, line in enumerate(lines) if line.startswith("most important"))
    return lines[start], lines[start + 1 : stop]


@pytest.mark.parametrize(
    ("heads", "width", "title", "row"),
    [
        (4, 80, "", "0  0.00 0.33 0.67 1.00"),
        (4, 20, ", in units of 0.1", "0   0  3  7 10"),
        (4, 12, ", 0 lowest to 9 highest tenth", "0  0 3 6 9"),
        (4, 8, ", 0 lowest to 9 highest tenth", "0 0369"),
    ],
)
def test_narrow_terminals_get_fewer_digits(heads: int, width: int, title: str, row: str) -> None:
    lines = shown(result(sites(heads), np.linspace(0, 1, heads).tolist()), width)
    text = " ".join(line.strip() for line in lines)
    assert f"columns: heads{title})" in text
    assert row in [line.rstrip() for line in lines]


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("heads", [1, 2, 8, 12, 16, 32, 64])
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 123.0, 1e9])
def test_grids_fit_and_line_up(heads: int, width: int, scale: float) -> None:
    rng = np.random.default_rng(0)
    scores = (rng.random(2 * heads) - 0.5) * scale
    title, rows = grid(shown(result(sites(heads, heads), scores.tolist()), width))
    assert len(rows) == 3
    assert len({len(row) for row in rows}) == 1
    assert len(rows[0]) <= width
    if "tenth" not in title:
        unit = float(title.partition("units of ")[2].rstrip(")") or 1)
        cells = [float(cell) for row in rows[1:] for cell in row.split()[1:]]
        largest = np.abs(scores).max()
        assert cells == pytest.approx((scores / unit).tolist(), abs=0.06 * largest / unit)


def test_what_is_not_computed_has_a_dash() -> None:
    _, rows = grid(shown(result(sites(4), [math.nan, 1.0, math.inf, 0.5])))
    assert rows[1].split() == ["0", "-", "1.00", "-", "0.50"]
    _, rows = grid(shown(result(sites(2), [math.nan, math.nan])))
    assert rows[1].split() == ["0", "-", "-"]


def test_equal_scores() -> None:
    _, rows = grid(shown(result(sites(3), [0.0, 0.0, 0.0])))
    assert rows[1].split()[1:] == ["0.00"] * 3


def test_layers_of_different_width() -> None:
    _, rows = grid(shown(result(sites(3, 1), [1, 2, 3, 4])))
    assert [row.split() for row in rows] == [
        ["0", "1", "2"],
        ["0", "1.00", "2.00", "3.00"],
        ["1", "4.00"],
    ]


def test_brighter_is_more_important() -> None:
    lines = shown(result(sites(3), [0.0, 0.5, 1.0]), terminal=True)
    (row,) = [line for line in lines if "0.50" in line and "48;2;" in line]
    colours = [part.split("m")[0].split(";")[:3] for part in row.split("48;2;")[1:]]
    light = [sum(map(int, colour)) for colour in colours]
    assert light == sorted(light)
    assert len(set(light)) == 3


def test_each_kind_has_a_grid_of_its_own() -> None:
    both = Sites((*sites(2), *sites(3, kind="cross")))
    lines = shown(result(both, [1, 2, 3, 4, 5]))
    titles = [line.split()[0] for line in lines if "(rows: layers" in line]
    assert titles == ["enc-self", "cross"]
