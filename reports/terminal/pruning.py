"""What was removed from a model, and what that saves, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from headtool.heads import HeadMask, Sites
from headtool.reports.terminal.tables import table
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import stage_name

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

__all__ = ["pruning_tables"]

_ROWS = {
    "parameters": "parameters",
    "attention_parameters": "of attention",
    "flops": "FLOPs",
    "attention_flops": "of attention",
}


def pruning_tables(
    model: str,
    mask: HeadMask,
    left: Sites,
    savings: pd.DataFrame,
    recovery: pd.DataFrame,
    *,
    bake: bool,
) -> Iterator[RenderableType]:
    """Show which heads go, what that saves, and what it does to the metric.

    Parameters
    ----------
    model
        How the user named it.
    mask
        Closes the heads that go.
    left
        The sites of the smaller model.
    savings
        A row per unit, the chosen one first; empty for a baked model.
    recovery
        What the models are worth, the table ``recovery`` of `headtool.schema`.
    bake
        Whether the model keeps its size.
    """
    total = mask.sites.n_heads
    done = "silenced, at full size" if bake else f"removed, leaving {left.summary}"
    yield Text(f"{visible(model)}: {len(mask.closed)} of {total} heads {done}")
    yield Text(" ".join(map(str, mask.closed)), style="dim")
    for _, row in savings.iterrows():
        unit = f"unit {row['unit']}, " if len(savings) > 1 else ""
        removed = f"{unit}{row['heads_removed']} heads removed"
        rows = []
        for name, label in _ROWS.items():
            before, after = row[name], row[f"{name}_after"]
            rows.append((label, f"{before:,}", f"{after:,}", f"{1 - after / before:.1%}"))
        yield table((removed, "before", "after", "saved"), rows)
    if len(savings):
        first = savings.iloc[0]
        yield Text(
            f"FLOPs of {first['sequence_length']} tokens; outputs equal the masked model's to "
            f"within {first['difference']:.1e} of the largest",
            style="dim",
        )
    for metric, part in recovery.groupby("metric", sort=False):
        worth = [
            (
                "pruned" if len(part) == 2 and place else stage_name(row["stage"]),
                f"{row['value']:.4g}",
                f"{row['delta']:+.4g} [{row['low']:.4g}, {row['high']:.4g}]" if place else "",
            )
            for place, row in enumerate(part.to_dict("records"))
        ]
        yield table((str(metric), "value", "change"), worth)
