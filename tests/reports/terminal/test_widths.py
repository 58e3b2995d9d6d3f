"""At any width of the terminal, no table of any command cuts a number, a name or a verdict.

The pages of a few commands are kept in the folder ``pages`` beside this file, as a reader sees
them; ``HEADTOOL_WRITE_PAGES=1 pytest tests/reports/terminal/test_widths.py`` writes them again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headtool.cli.main import app
from headtool.reports.terminal.tables import Column, FittedTable, table

from ...support.pages_of_commands import Page, flat, pages, printed

WIDTHS = (60, 80, 120, 200)
KEPT = Path(__file__).parent / "pages"
NAMES = (
    *("score", "ablate", "ablate --all-but-one", "ablate --sequential", "test", "test --compat"),
    *("correlate", "compare", "compare --stability", "compare --replicate", "curve", "roles"),
    *("prune", "speed", "dynamics", "heads", "methods", "methods NAME", "show", "env"),
    *("study run --dry-run", "study status"),
)


@pytest.fixture(scope="module")
def of_command(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[[], Page]]:
    return pages(tmp_path_factory.mktemp("pages"))


def test_every_command_with_tables_is_here(of_command: dict[str, Callable[[], Page]]) -> None:
    assert tuple(of_command) == NAMES
    commands = {str(command.name) for command in app.registered_commands}
    assert commands - {name.split()[0] for name in NAMES} == {
        "report",
        "import",
        "export",
        "validate",
    }


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut(of_command: dict[str, Callable[[], Page]], name: str) -> None:
    parts = list(of_command[name]())
    assert any(isinstance(part, FittedTable) for part in parts) or name in ("env", *_METHODS)
    for width in WIDTHS:
        page = printed(parts, width)
        assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in page)
        assert max(map(len, page)) <= width
        for part in parts:
            if isinstance(part, FittedTable):
                check(part, width)


_METHODS = ("methods", "methods NAME")  # their tables are indented


def check(part: FittedTable, width: int) -> None:
    """Every number and every word of a column stands there whole; else the column is named."""
    page = printed([part], width)
    words = set(flat(page).split())
    missing = ""
    if "no room here for:" in flat(page):
        missing = flat(page).partition("no room here for: ")[2]
    for column in part.columns:
        if f"{column.title}," in missing or f"{column.title} " in missing:
            assert column.optional
            continue
        for cell in column.cells:
            kept = [word for word in cell.split() if len(word) <= 24 or not column.left]
            assert set(kept) <= words, (width, column.title, cell)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["test", "score", "roles", "speed"])
def test_pages_look_as_they_did(
    of_command: dict[str, Callable[[], Page]], name: str, width: int
) -> None:
    page = "\n".join(printed(of_command[name](), width)) + "\n"
    kept = KEPT / f"{name}.{width}.txt"
    if os.environ.get("HEADTOOL_WRITE_PAGES"):
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(page, encoding="utf-8")
    assert page == kept.read_text(encoding="utf-8")


NUMBERS = Column("a long title", ("1.00e-4", "-12345.678"))
VERDICTS = Column("verdict", ("undecided", "removable"), left=True)
REASONS = Column("reason", ("rare large costs cannot be ruled out", ""), left=True, optional=True)
HEADS = Column("head", ("enc-self.0.0", "enc-self.10.11"), left=True)


@pytest.mark.parametrize(
    ("width", "page"),
    [
        (
            80,
            [
                "head            a long title  verdict    reason",
                "enc-self.0.0         1.00e-4  undecided  rare large costs cannot be ruled out",
                "enc-self.10.11    -12345.678  removable",
            ],
        ),
        (
            63,  # titles and running text break at spaces
            [
                "                    a long",
                "head                 title  verdict    reason",
                "enc-self.0.0       1.00e-4  undecided  rare large costs cannot",
                "                                       be ruled out",
                "enc-self.10.11  -12345.678  removable",
            ],
        ),
        (
            38,  # the optional column is left out
            [
                "                    a long",
                "head                 title  verdict",
                "enc-self.0.0       1.00e-4  undecided",
                "enc-self.10.11  -12345.678  removable",
                "no room here for: reason",
            ],
        ),
        (
            30,  # the others stand in two blocks
            [
                "head            a long title",
                "enc-self.0.0         1.00e-4",
                "enc-self.10.11    -12345.678",
                "head            verdict",
                "enc-self.0.0    undecided",
                "enc-self.10.11  removable",
                "no room here for: reason",
            ],
        ),
    ],
)
def test_what_gives_way_first(width: int, page: list[str]) -> None:
    columns = (HEADS, NUMBERS, VERDICTS, REASONS)
    assert printed([FittedTable(columns)], width) == page


def test_joined_columns_stay_together() -> None:
    ends = FittedTable(
        (HEADS, NUMBERS, HEADS, Column("score", ("1.00", "2.00"), joined=True)), keys=0
    )
    titles = [line.split() for line in printed([ends], 46) if line.startswith("head")]
    assert titles == [["head", "a", "long", "title"], ["head", "score"]]


def test_names_of_others_cannot_move_the_cursor() -> None:
    shown = printed([table(("a\x1b[31m",), [("b\x1b[2J\nc",)])], 80)
    assert shown == [r"a\x1b[31m", r"b\x1b[2J c"]
