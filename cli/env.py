"""``headtool env``: what a bug report needs to say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from headtool.cli.groups import print_as
from headtool.cli.options import Format, OutputFormat
from headtool.reports.terminal.tables import table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headtool.experiments.environment import Environment

__all__ = ["env"]

EXAMPLES = "Examples:\n\nheadtool env\n\nheadtool env --format json"


def env(output: Format = OutputFormat.table) -> None:
    """Show what headtool runs on, to paste into a bug report: versions, machine, settings.

    Of environment variables, only settings of the libraries underneath are read. Look through the
    paths in them before you publish the report.
    """
    from headtool.experiments.environment import env as find

    found = find()
    print_as(
        output, document=found.document, frame=lambda: found.frame, tables=lambda: _tables(found)
    )


def _tables(found: Environment) -> Iterator[RenderableType]:
    for part, facts in groupby(found.facts, key=lambda fact: fact[0]):
        yield Text(part, style="bold")
        rows = [(name, value) for _, name, value in facts]
        yield Padding(table(("", ""), rows, left=(0, 1), show_header=False), (0, 0, 0, 2))
