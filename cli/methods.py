"""``headtool methods``: the scoring methods and their options."""

from __future__ import annotations

import json

import typer
from rich.table import Table
from rich.text import Text

from headtool.cli.console import out
from headtool.cli.options import Format, OutputFormat

__all__ = ["methods"]

EXAMPLES = "Example: headtool methods --format json"


def methods(output: Format = OutputFormat.table) -> None:
    """List the scoring methods, their options with defaults, and where they come from."""
    from headtool.methods import get_method, method_names

    known = [get_method(name) for name in method_names()]
    rows = [
        {
            "name": method.name,
            "summary": method.summary,
            "reference": method.reference,
            "options": [
                {
                    "name": option.name,
                    "default": option.default,
                    "choices": list(option.choices),
                    "help": option.help,
                }
                for option in method.options()
            ],
        }
        for method in known
    ]
    if output is OutputFormat.json:
        typer.echo(json.dumps({"schema": "headtool/methods/1", "methods": rows}, indent=1))
        return
    if output is OutputFormat.csv:
        import pandas as pd

        flat = [
            {"method": row["name"], **option, "choices": " ".join(option["choices"])}
            for row in rows
            for option in row["options"]
        ]
        typer.echo(pd.DataFrame(flat).to_csv(index=False), nl=False)
        return
    console = out()
    for method in known:
        console.print(Text.assemble((method.name, "bold"), f"  {method.summary}"))
        console.print(Text(f"  {method.reference}", style="dim"))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for option in method.options():
            default = "none" if option.default is None else str(option.default)
            choices = f" [{' | '.join(option.choices)}]" if option.choices else ""
            table.add_row(
                Text(f"    {method.name}.{option.name}={default}"), Text(option.help + choices)
            )
        console.print(table)
        console.print()
    console.print(Text("Set an option with --set METHOD.OPTION=VALUE.", style="dim"))
