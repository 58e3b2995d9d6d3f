"""Heads over the course of training, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from headtool.reports.terminal.tables import table

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

__all__ = ["dynamics_tables"]


def dynamics_tables(
    tables: Mapping[str, pd.DataFrame], method: str, metric: str
) -> Iterator[RenderableType]:
    """Show the curves beside their summaries, and how ranks change between checkpoints.

    Parameters
    ----------
    tables
        The tables checkpoint_curves, prunability and rank_stability of a run.
    method, metric
        What they are by.
    """
    curves = tables["checkpoint_curves"]
    yield Text(f"{metric} of the whole model, and what is left of it without heads, by {method}")
    shares = list(dict.fromkeys(curves["share"]))
    removed = [f"-{share:.0%}" for share in shares[1:]]
    rows = []
    summary = tables["prunability"].set_index("checkpoint")
    for name, group in curves.groupby("checkpoint", sort=False):
        left = dict(zip(group["share"], group["relative"], strict=True))
        row = summary.loc[name]
        rows.append(
            (
                str(name),
                f"{row['whole']:.4g}",
                *(f"{left[share]:.0%}" for share in shares[1:]),
                f"{row['prunable_90']:.0%}",
                f"{row['area']:.2f}",
            )
        )
    yield table(("checkpoint", metric, *removed, "90% left up to", "mean"), rows)
    stability = tables["rank_stability"]
    last = stability["checkpoint_y"].iloc[-1]
    following = {
        row["checkpoint_y"]: row
        for _, row in stability.drop_duplicates("checkpoint_y", keep="last").iterrows()
    }
    yield Text("ranks of heads against the previous checkpoint, and against the last", style="dim")
    rows = []
    final = stability[stability["checkpoint_y"] == last].set_index("checkpoint_x")
    for name in dict.fromkeys(curves["checkpoint"]):
        cells = []
        for column, form in (("spearman", ".2f"), ("kept_alike", ".0%")):
            before = following.get(name)
            cells.append("" if before is None else format(before[column], form))
            cells.append(format(final.loc[name, column], form) if name in final.index else "")
        rows.append((str(name), *cells))
    titles = (
        *("checkpoint", "Spearman, previous", "Spearman, last"),
        *("same half kept, previous", "same half kept, last"),
    )
    yield table(titles, rows)
