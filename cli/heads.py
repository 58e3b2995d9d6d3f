"""``headtool heads``: the attention sites of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Table
from rich.text import Text

from headtool.cli.console import prepare_messages
from headtool.cli.groups import LoadOptions, command, print_as
from headtool.cli.options import Format, Kinds, Model, OutputFormat, Verbose
from headtool.reports.wording.text import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headtool.heads import Sites
    from headtool.models.base import ModelAdapter

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
    from headtool.attention.parameters import head_parameters
    from headtool.heads import parse_kinds
    from headtool.schema import TABLES

    kinds = parse_kinds(kind) if kind is not None else None
    adapter = loading.load(model)
    wanted = adapter.sites.restrict(kinds)
    rows: list[dict[str, Any]] = []
    for handle in adapter.handles:
        site = handle.site
        if site not in wanted.items:
            continue
        owned = head_parameters(adapter.module, handle)
        rows.append(
            {
                "kind": site.kind,
                "layer": site.layer,
                "heads": site.n_heads,
                "kv_groups": site.n_kv_heads,
                "head_dim": site.head_dim,
                "parameters_per_head": owned.per_head,
                "parameters_per_group": owned.per_group,
                "calls_sharing_weights": handle.calls,
                "projection": site.projection,
            }
        )
    print_as(
        output,
        document=lambda: _document(adapter, rows),
        frame=lambda: TABLES["heads"].frame(rows),
        tables=lambda: _tables(adapter, wanted, rows),
    )


def _document(model: ModelAdapter, rows: list[dict[str, Any]]) -> dict[str, Any]:
    from headtool.results.versions import versions

    return {
        "schema": "headtool/heads/1",
        "provenance": {
            "model": model.spec,
            "library": model.library,
            "class": type(model.module).__name__,
            "task": model.task,
            "dtype": str(next(model.module.parameters()).dtype).removeprefix("torch."),
            "device": str(model.device),
            "sha256": model.fingerprint,
            "versions": versions(),
        },
        "heads": rows,
    }


def _tables(
    model: ModelAdapter, sites: Sites, rows: list[dict[str, Any]]
) -> Iterator[RenderableType]:
    total = sum(weight.numel() for weight in model.module.parameters())
    yield Text(
        f"{visible(model.spec)}: {type(model.module).__name__}, {model.task}, {sites.summary}, "
        f"{total:,} parameters"
    )
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    # Columns that say nothing about most models appear where they do.
    plain = {"parameters_per_group": 0, "calls_sharing_weights": 1}
    names = [name for name in rows[0] if any(row[name] != plain.get(name) for row in rows)]
    for name in names:
        text = name in ("kind", "projection")
        justify: Literal["left", "right"] = "left" if text else "right"
        table.add_column(name.replace("_", " "), justify=justify, overflow="fold")
    for row in rows:
        values = (row[name] for name in names)
        table.add_row(
            *(
                f"{value:,}" if isinstance(value, int) else Text(visible(str(value)))
                for value in values
            )
        )
    yield table
