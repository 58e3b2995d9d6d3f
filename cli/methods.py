"""``headtool methods``: the scoring methods and their options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from headtool.cli.console import prepare_messages
from headtool.cli.groups import print_as
from headtool.cli.options import Format, OutputFormat
from headtool.reports.terminal.tables import table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headtool.methods.options import Description

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
    from headtool.experiments.listing import list_methods

    found = list_methods(names)
    print_as(
        output,
        document=found.document,
        frame=lambda: found.frame,
        tables=lambda: _tables(found.methods, in_full=bool(names)),
    )


def _tables(methods: Sequence[Description], *, in_full: bool) -> Iterator[RenderableType]:
    from headtool.methods import method_doc

    for method in methods:
        yield Text.assemble((method.name, "bold"), f"  {method.summary}")
        if in_full:
            text = method_doc(method.name).replace("``", "")
            yield Padding(Text(text), (1, 0, 1, 2), expand=False)
        else:
            yield Padding(Text(method.reference, style="dim"), (0, 0, 0, 2), expand=False)
        rows = []
        for option in method.options:
            default = "none" if option.default is None else str(option.default)
            choices = f" [{' | '.join(option.choices)}]" if option.choices else ""
            rows.append((f"{method.name}.{option.name}={default}", option.help + choices))
        options = table(("option", "what it does"), rows, left=(0, 1), show_header=False)
        yield Padding(options, (0, 0, 1, 4), expand=False)
    yield Text("Set an option with --set METHOD.OPTION=VALUE.", style="dim")
