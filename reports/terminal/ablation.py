"""Ablation outcomes on a terminal: a heat map of deltas per kind, and the largest of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from headtool.analysis.screening import screening_note
from headtool.reports.terminal.pieces import HeatMap, search_in_words
from headtool.reports.terminal.tables import field_table
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import filled, how_drawn, short

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ablation_tables"]

_LARGEST = 8
_MAPPED = 0.4  # a map of which less is filled tells less than a list of its heads


def ablation_tables(
    frame: pd.DataFrame,
    best: pd.DataFrame | None,
    whole: Mapping[str, float],
    source: Mapping[str, Any],
) -> Iterator[RenderableType]:
    """Yield what a terminal shows of an ablation.

    Parameters
    ----------
    frame
        Deltas of every metric, as `headtool.experiments.effects.ablation_frame` makes them.
    best
        The best single head of each site, for all-but-one ablations.
    whole
        The unmasked model's metrics.
    source
        Provenance.
    """
    data, model = source["data"], source["model"]
    how = how_drawn(data)
    size = f"{data['examples']} examples" + (f" ({how})" if how else "")
    values = ", ".join(f"{name} {short(value)}" for name, value in whole.items())
    yield Text.assemble(
        ("ablation", "bold"),
        f"  {visible(model['spec'])} on {visible(data['spec'])}, {size}; whole model: {values}",
    )
    if "search" in source:
        yield Text(f"  {search_in_words(source['search'])}; {source['signature']}", style="dim")
    if "screen" in source["options"]:
        screened = source["options"]["screen"]
        yield Text(f"  {screening_note(screened)}", style="dim")
    if how := filled(source["options"].get("replacement")):
        yield Text(f"  a closed head puts out {how}", style="dim")
    alone = source["options"]["all_but_one"]
    closed = "this head alone stays open in its site" if alone else "this head is closed"
    for metric, rows in frame.groupby("metric", sort=False):
        yield Text(f"change of {visible(str(metric))} when {closed}", style="dim")
        grids = {kind: _grid(part) for kind, part in rows.groupby("kind", sort=False)}
        known = [
            math.isfinite(value)
            for grid in grids.values()
            for row in grid.values()
            for value in row
        ]
        is_mapped = best is not None or _MAPPED * len(known) <= sum(known)
        if is_mapped:
            for kind, grid in grids.items():
                yield HeatMap(str(kind), grid)
        if best is None:
            order = rows["delta"].dropna().abs().sort_values(ascending=False).index
            listed = order[:_LARGEST] if is_mapped else order
            yield field_table(rows.loc[listed].drop(columns="metric"))
    if best is not None:
        yield Text("the best single head of each site, chosen on half of the examples", style="dim")
        yield field_table(best)


def _grid(part: pd.DataFrame) -> dict[int, list[float]]:
    """Deltas by layer; heads that were not ablated are NaN."""
    heads = int(part["head"].max()) + 1
    rows: dict[int, list[float]] = {}
    for layer, head, delta in zip(part["layer"], part["head"], part["delta"], strict=True):
        rows.setdefault(int(layer), [math.nan] * heads)[int(head)] = float(delta)
    return dict(sorted(rows.items()))
