"""``headtool heads``: the attention sites of a model."""

from __future__ import annotations

import json
from typing import Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from headtool.cli.console import out, prepare_messages
from headtool.cli.options import (
    Bpe,
    Device,
    Dtype,
    FairseqData,
    Format,
    Kinds,
    Model,
    OutputFormat,
    TrustCheckpoint,
    Verbose,
)
from headtool.reports.text import visible

__all__ = ["heads"]

EXAMPLES = (
    "Examples:\n\nheadtool heads --model path/to/model\n\n"
    "headtool heads --model fairseq:checkpoint.pt --kind cross --format json"
)


def heads(
    model: Model = "builtin:nli",
    kind: Kinds = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    fairseq_data: FairseqData = None,
    bpe: Bpe = None,
    trust_checkpoint: TrustCheckpoint = False,
    output: Format = OutputFormat.table,
    verbose: Verbose = False,
) -> None:
    """Show a model's attention sites: kind, layer, heads, key/value groups, parameters of a head.

    A model that shares its weights between layers (ALBERT) has a site per layer call. Under
    grouped-query attention, heads are query heads, and the parameters of a group go only with
    the last of its heads.
    """
    prepare_messages(verbose=verbose)
    from headtool.heads import parse_kinds
    from headtool.models import load_model
    from headtool.models.parameters import head_parameters
    from headtool.provenance import versions

    kinds = parse_kinds(kind) if kind is not None else None
    adapter = load_model(
        model,
        device=device,
        dtype=dtype,
        fairseq_data=fairseq_data,
        bpe=bpe,
        trust_checkpoint=trust_checkpoint,
    )
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
    if output is OutputFormat.json:
        document = {
            "schema": "headtool/heads/1",
            "provenance": {
                "model": model,
                "library": adapter.library,
                "class": type(adapter.module).__name__,
                "task": adapter.task,
                "dtype": str(next(adapter.module.parameters()).dtype).removeprefix("torch."),
                "device": str(adapter.device),
                "sha256": adapter.fingerprint,
                "versions": versions(),
            },
            "heads": rows,
        }
        typer.echo(json.dumps(document, indent=1))
    elif output is OutputFormat.csv:
        import pandas as pd

        typer.echo(pd.DataFrame(rows).to_csv(index=False), nl=False)
    else:
        total = sum(weight.numel() for weight in adapter.module.parameters())
        console = out()
        console.print(
            Text(
                f"{visible(model)}: {type(adapter.module).__name__}, {adapter.task}, "
                f"{wanted.summary}, {total:,} parameters"
            )
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
        console.print(table)
