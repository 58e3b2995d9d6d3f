"""``headtool methods``: the scoring methods and their options."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headtool.cli.console import out, prepare_messages
from headtool.cli.options import Format, OutputFormat

if TYPE_CHECKING:
    from headtool.methods.base import Method

__all__ = ["methods"]

EXAMPLES = "Example: headtool methods --format json"


def methods(output: Format = OutputFormat.table) -> None:
    """List the scoring methods, their options with defaults, and where they come from."""
    prepare_messages()
    from headtool.methods import get_method, method_names
    from headtool.provenance import versions

    known = [get_method(name) for name in method_names()]
    if output is OutputFormat.json:
        rows = [
            {
                "name": method.name,
                "summary": method.summary,
                "reference": method.reference,
                "options": _options(method),
            }
            for method in known
        ]
        document = {
            "schema": "headtool/methods/1",
            "provenance": {"versions": versions()},
            "methods": rows,
        }
        typer.echo(json.dumps(document, indent=1))
    elif output is OutputFormat.csv:
        import pandas as pd

        flat = [
            {"method": method.name, **row, "choices": " ".join(row["choices"])}
            for method in known
            for row in _options(method)
        ]
        columns = ["method", "name", "default", "choices", "help"]
        typer.echo(pd.DataFrame(flat, columns=columns).to_csv(index=False), nl=False)
    else:
        for method in known:
            _show(method)
        out().print(Text("Set an option with --set METHOD.OPTION=VALUE.", style="dim"))


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


def _show(method: type[Method]) -> None:
    console = out()
    console.print(Text.assemble((method.name, "bold"), f"  {method.summary}"))
    console.print(Padding(Text(method.reference, style="dim"), (0, 0, 0, 2)))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for option in method.options():
        default = "none" if option.default is None else str(option.default)
        choices = f" [{' | '.join(option.choices)}]" if option.choices else ""
        table.add_row(Text(f"{method.name}.{option.name}={default}"), Text(option.help + choices))
    console.print(Padding(table, (0, 0, 1, 4)))
