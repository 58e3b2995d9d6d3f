"""``headtool methods``: the scoring methods and their options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headtool.cli.console import prepare_messages
from headtool.cli.groups import print_as
from headtool.cli.options import Format, OutputFormat

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from headtool.methods.base import Method

__all__ = ["methods"]

EXAMPLES = "Examples:\n\nheadtool methods\n\nheadtool methods lrp\n\nheadtool methods --format json"

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Only these methods, each with all there is to know."),
]


def methods(names: Names = None, output: Format = OutputFormat.table) -> None:
    """List the scoring methods, their options with defaults, and where they come from.

    Of methods that are named, the formula, its variants and what they deviate from are shown too.
    """
    prepare_messages()
    from headtool.methods import get_method, method_names
    from headtool.results.versions import versions

    known = [get_method(name) for name in dict.fromkeys(names or method_names())]
    print_as(
        output,
        document=lambda: {
            "schema": "headtool/methods/1",
            "provenance": {"versions": versions()},
            "methods": [
                {
                    "name": method.name,
                    "summary": method.summary,
                    "reference": method.reference,
                    "options": _options(method),
                }
                for method in known
            ],
        },
        frame=lambda: _frame(known),
        tables=lambda: _tables(known, in_full=bool(names)),
    )


def _options(method: type[Method]) -> list[dict[str, Any]]:
    return [
        {
            "name": option.name,
            "default": option.default,
            "choices": list(option.choices),
            "help": option.help,
        }
        for option in method.options()
    ]


def _frame(methods: Sequence[type[Method]]) -> pd.DataFrame:
    from headtool.schema import TABLES

    rows = [
        {
            "method": method.name,
            **row,
            "default": "" if row["default"] is None else str(row["default"]),
            "choices": " ".join(row["choices"]),
        }
        for method in methods
        for row in _options(method)
    ]
    return TABLES["options"].frame(rows)


def _tables(methods: Sequence[type[Method]], *, in_full: bool) -> Iterator[RenderableType]:
    for method in methods:
        yield Text.assemble((method.name, "bold"), f"  {method.summary}")
        if in_full:
            text = (inspect.getdoc(method) or "").replace("``", "")
            yield Padding(Text(text), (1, 0, 1, 2), expand=False)
        else:
            yield Padding(Text(method.reference, style="dim"), (0, 0, 0, 2), expand=False)
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        for option in method.options():
            default = "none" if option.default is None else str(option.default)
            choices = f" [{' | '.join(option.choices)}]" if option.choices else ""
            name = Text(f"{method.name}.{option.name}={default}")
            table.add_row(name, Text(option.help + choices))
        yield Padding(table, (0, 0, 1, 4), expand=False)
    yield Text("Set an option with --set METHOD.OPTION=VALUE.", style="dim")
