"""What a terminal shows of scores."""

from __future__ import annotations

import io
import math

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from headtool.heads import AttentionSite, Sites
from headtool.reports.terminal.scores import score_tables
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import short
from headtool.results.scores import HeadScores, score_frame


def sites(*widths: int, kind: str = "enc-self") -> Sites:
    return Sites(
        tuple(
            AttentionSite(kind, layer, heads, heads, 4, f"layer{layer}")
            for layer, heads in enumerate(widths)
        )
    )


def result(where: Sites, scores: list[float], **changes: object) -> HeadScores:
    values = np.array(scores, dtype=np.float64)
    frame = score_frame("gradient", where, values, abs(values) / 10)
    provenance = {
        "model": {"spec": "my/model"},
        "data": {"spec": "dev.tsv", "examples": 7},
        "options": {"granularity": "token", "heads": None},
    }
    return HeadScores("gradient", frame, provenance | changes)


def shown(scores: HeadScores, width: int = 80, *, terminal: bool = False) -> list[str]:
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=terminal,
        color_system="truecolor" if terminal else None,
        legacy_windows=False,
    )
    for part in score_tables(scores, 1.25):
        console.print(part)
    return console.file.getvalue().splitlines()


def test_whole_page() -> None:
    lines = shown(result(sites(3, 3), [0.1, 0.25, 1, 0, -0.5, 0.75]))
    assert [line.rstrip() for line in lines] == [
        "gradient  my/model on dev.tsv, 7 examples, 1.2 s",
        "  granularity=token",
        "enc-self (rows: layers, columns: heads)",
        "       0     1     2",
        "0   0.10  0.25  1.00",
        "1   0.00 -0.50  0.75",
        "most important  score      +-  least important   score      +-",
        "enc-self.0.2     1.00   0.100  enc-self.1.1     -0.500  0.0500",
        "enc-self.1.2    0.750  0.0750  enc-self.1.0          0       0",
        "enc-self.0.1    0.250  0.0250  enc-self.0.0      0.100  0.0100",
        "",
    ]


def test_options_without_an_effect_are_not_shown() -> None:
    options = {"beam": None, "tokenize": "13a", "signal": "loss", "samples": 5}
    scores = result(sites(2), [1, 2], options=options, idle_options=["tokenize"])
    assert shown(scores)[1] == "  signal=loss, samples=5"


def test_kept_heads_are_listed_and_errors_that_are_none_are_not() -> None:
    plain = result(sites(3, 2), [5, 4, 3, 2, 1])
    frame = plain.frame.assign(kept=[True, False, True, False, False], stderr=math.nan)
    lines = shown(HeadScores("fisher", frame, plain.provenance))
    start = lines.index("keeps 2 of 5 heads")
    assert [line.rstrip() for line in lines[start - 3 : start + 3]] == [
        "most important  score  least important  score",
        "enc-self.0.0     5.00  enc-self.1.1      1.00",
        "enc-self.0.1     4.00  enc-self.1.0      2.00",
        "keeps 2 of 5 heads",
        "enc-self.0  0 2",
        "enc-self.1  none",
    ]
    assert "keeps" not in "".join(shown(plain))


def test_ties_with_heads_that_are_not_listed_are_marked() -> None:
    lines = shown(result(sites(12), [3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.4, 0.3, 0.2, 0.1]))
    text = "\n".join(lines)
    marked = [line.split()[0] for line in lines if line[12:].startswith(" =")]
    assert marked == ["enc-self.0.2", "enc-self.0.3", "enc-self.0.4"]
    assert "= tied with heads that are not listed: 2 more under most important" in text
    assert "under least" not in text
    assert " = " not in "\n".join(shown(result(sites(4), [2.0, 2.0, 1.0, 0.0])))


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


def test_further_tables_of_a_method() -> None:
    table = pd.DataFrame({"model": ["[red]", "b"], "loss": [0.12345, math.nan], "heads": [12, 3]})
    scores = HeadScores(
        "gates",
        result(sites(2), [1, 2]).frame,
        result(sites(2), [1, 2]).provenance,
        {"evaluation": table},
    )
    lines = [line.rstrip() for line in shown(scores)]
    start = lines.index("evaluation")
    assert lines[start + 1 : start + 4] == [
        "model   loss  heads",
        "[red]  0.123     12",
        "b          -      3",
    ]


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/x]", ":smile:", "a\x1b[31mb", "a\nb"])
def test_names_are_shown_as_they_are(name: str) -> None:
    scores = result(sites(2), [1, 2], model={"spec": name}, options={"train": name})
    text = "\n".join(shown(scores, terminal=True))
    literal = name.replace("\x1b", r"\x1b").replace("\n", " ")
    assert f"  {literal} on dev.tsv" in text
    assert f"train={literal}" in text


def test_visible() -> None:
    assert visible("plain ü 漢字 'x' [b]") == "plain ü 漢字 'x' [b]"
    assert visible("a\tb\r\nc\u2028d\xa0e") == "a b c d e"
    assert visible("\x1b[2J\x07\u202e") == r"\x1b[2J\x07\u202e"
    assert visible("caf\udce9") == r"caf\udce9"
    assert visible("").encode() == b""


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (0.59412, "0.594"),
        (-0.07183, "-0.0718"),
        (0.001234, "0.0012"),
        (12.345, "12.3"),
        (9876.5, "9876"),
        (-0.00012345, "-1.23e-4"),
        (1234567.0, "1.23e6"),
        (1.5e-300, "1.50e-300"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_short(number: float, text: str) -> None:
    assert short(number) == text
