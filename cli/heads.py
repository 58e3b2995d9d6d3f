"""``headtool heads``: the attention sites of a model."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.table import Table

from headtool.cli.console import out, quiet_libraries
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
    quiet_libraries(verbose=verbose)
    from headtool.heads import parse_kinds
    from headtool.models import load_model
    from headtool.models.parameters import head_parameters

    kinds = parse_kinds(kind) if kind else None
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
                "sha256": adapter.fingerprint,
            },
            "heads": rows,
        }
        typer.echo(json.dumps(document, indent=1))
    elif output is OutputFormat.csv:
        import pandas as pd

        typer.echo(pd.DataFrame(rows).to_csv(index=False), nl=False)
    else:
        total = sum(weight.numel() for weight in adapter.module.parameters())
        table = Table(
            title=f"{model}: {type(adapter.module).__name__}, {adapter.task}, {wanted.summary}, "
            f"{total:,} parameters",
            title_justify="left",
            title_style="",
            box=None,
            padding=(0, 2, 0, 0),
            header_style="dim",
        )
        for name in rows[0]:
            text = name in ("kind", "projection")
            table.add_column(name.replace("_", " "), justify="left" if text else "right")
        for row in rows:
            table.add_row(
                *(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values())
            )
        out().print(table)
