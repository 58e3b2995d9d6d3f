"""How well methods find heads that are known to matter, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from headtool.reports.terminal.tables import Column, FittedTable
from headtool.reports.wording.known_truth import KINDS, found_by, mistakes, variant_name
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import count

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

__all__ = ["validation_tables"]


def validation_tables(frame: pd.DataFrame, source: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Show a row per method and options, the best first.

    Parameters
    ----------
    frame
        Rows of ``validation``.
    source
        Their provenance.
    """
    models = source["models"]
    yield Text(
        f"{count(len(models), 'planted model')}, {count(source['limit'], 'example')} each: "
        "means with 95% intervals over the models"
    )
    yield Text(
        "AUROC single: necessary heads; set: heads of the smallest sufficient sets (3 of 12 "
        "heads). Kept: how many of the highest ranked heads suffice. Passes: over all examples.",
        style="dim",
    )
    rows = [row for _, row in frame.iterrows()]

    def column(title: str, cells: list[str], **how: bool) -> Column:
        return Column(title, tuple(cells), **how)

    yield FittedTable(
        (
            column("method", [visible(variant_name(row)) for row in rows], left=True),
            column("AUROC single", [_interval(row, "auroc_single") for row in rows]),
            column("AUROC set", [_interval(row, "auroc_set") for row in rows]),
            column("AP single", [f"{row['ap_single']:.2f}" for row in rows], optional=True),
            column("AP set", [f"{row['ap_set']:.2f}" for row in rows], optional=True),
            column("kept", [f"{row['kept']:.1f}" for row in rows]),
            column("wrong about", [", ".join(mistakes(row)) or "–" for row in rows], left=True),
            column("forward", [f"{row['forward']:.3g}" for row in rows]),
            column("backward", [f"{row['backward']:.3g}" for row in rows]),
            column("seconds", [f"{row['seconds']:.2g}" for row in rows], optional=True),
        ),
    )
    yield Text(visible(found_by(frame)))
    yield Text(
        "Wrong about: " + "; ".join(f"{kind}: {what}" for kind, what in KINDS.items()), style="dim"
    )


def _interval(row: pd.Series[Any], name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if math.isnan(low):
        return f"{row[name]:.2f}"
    return f"{row[name]:.2f} [{max(0.0, low):.2f}, {min(1.0, high):.2f}]"
