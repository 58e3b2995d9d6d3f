"""``headtool heads``: the attention sites of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from headtool.cli.choices import chosen_kinds
from headtool.cli.console import prepare_messages
from headtool.cli.groups import LoadOptions, command, print_as
from headtool.cli.options import Format, Kinds, Model, OutputFormat, Verbose
from headtool.reports.terminal.tables import table
from headtool.reports.wording.text import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headtool.experiments.listing import HeadList

__all__ = ["heads"]

EXAMPLES = (
    "Examples:\n\nheadtool heads --model path/to/model\n\n"
    "headtool heads --model fairseq:checkpoint.pt --kind cross --format json"
)


@command
def heads(
    *,
    model: Model = "builtin:nli",
    kind: Kinds = None,
    loading: LoadOptions,
    output: Format = OutputFormat.table,
    verbose: Verbose = False,
) -> None:
    """Show a model's attention sites: kind, layer, heads, key/value groups, parameters of a head.

    A model that shares its weights between layers (ALBERT) has a site per layer call. Under
    grouped-query attention, heads are query heads, and the parameters of a group go only with
    the last of its heads.
    """
    prepare_messages(verbose=verbose)
    kinds = chosen_kinds(kind)
    from headtool.experiments.listing import list_heads

    found = list_heads(loading.source(model), kinds=kinds)
    print_as(
        output, document=found.document, frame=lambda: found.frame, tables=lambda: _tables(found)
    )


def _tables(found: HeadList) -> Iterator[RenderableType]:
    model, rows = found.model, found.document()["heads"]
    total = sum(weight.numel() for weight in model.module.parameters())
    yield Text(
        f"{visible(model.spec)}: {type(model.module).__name__}, {model.task}, "
        f"{found.sites.summary}, {total:,} parameters"
    )
    # Columns that say nothing about most models appear where they do.
    plain = {"parameters_per_group": 0, "calls_sharing_weights": 1}
    names = [name for name in rows[0] if any(row[name] != plain.get(name) for row in rows)]
    cells = [
        [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in names]
        for row in rows
    ]
    yield table(
        [name.replace("_", " ") for name in names],
        cells,
        left=[place for place, name in enumerate(names) if name in ("kind", "projection")],
        keys=2,
    )
