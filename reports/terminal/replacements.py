"""Several replacements of closed heads side by side, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from headtool.analysis.equivalence import VERDICTS
from headtool.heads import head_name
from headtool.reports.terminal.tables import plain_table, table
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import short

if TYPE_CHECKING:
    import pandas as pd

    from headtool.analysis.assessment import HeadTests

__all__ = [
    "agreement_lines",
    "replacement_score_tables",
    "replacement_tables",
    "verdict_tables",
]

_LARGEST = 8
_HEAD = ["kind", "layer", "head"]


def agreement_lines(agreement: pd.DataFrame) -> Iterator[Text]:
    """Yield how alike effects and verdicts of single heads are, a line for each pair.

    Parameters
    ----------
    agreement
        The table ``replacement_agreement``.
    """
    for row in agreement.to_dict("records"):
        yield Text(
            f"  single heads, {visible(row['replacement_x'])} and {visible(row['replacement_y'])}: "
            f"tau-b {short(row['tau_b'])}, rho {short(row['spearman'])}, the same verdict on "
            f"{row['same_verdict']:.0%} of {row['heads']} heads",
            style="dim",
        )
        if row["changed"]:
            yield Text(f"  another verdict: {visible(row['changed'])}", style="dim")


def replacement_tables(
    effects: pd.DataFrame | None, agreement: pd.DataFrame | None
) -> Iterator[RenderableType]:
    """Yield effects under several replacements; nothing of one alone.

    Parameters
    ----------
    effects, agreement
        The tables ``replacements`` and ``replacement_agreement``.
    """
    if effects is None or agreement is None:
        return
    metric = effects["metric"].iloc[0]
    yield _title(f"change of {metric} by what closed heads put out")
    yield from agreement_lines(agreement)
    yield _largest(effects[effects["metric"] == metric], "delta")


def replacement_score_tables(tables: Mapping[str, pd.DataFrame]) -> Iterator[RenderableType]:
    """Yield scores under several replacements; nothing of one alone.

    Parameters
    ----------
    tables
        What `headtool.experiments.replacements.side_by_side` returned.
    """
    if not tables:
        return
    yield _title("scores by what closed heads put out")
    for row in tables["replacement_score_agreement"].to_dict("records"):
        yield Text(
            f"  {visible(row['method'])}, {row['replacement_x']} and {row['replacement_y']}: tau-b "
            f"{short(row['tau_b'])}, rho {short(row['spearman'])} over {row['heads']} heads",
            style="dim",
        )
    if "replacement_agreement" in tables:
        yield from agreement_lines(tables["replacement_agreement"])
    for method, rows in tables["replacement_scores"].groupby("method", sort=False):
        yield Text(f"{visible(str(method))}, the heads with the largest scores", style="dim")
        yield _largest(rows, "score")


def verdict_tables(
    tests: Mapping[str, HeadTests], agreement: pd.DataFrame | None
) -> Iterator[RenderableType]:
    """Yield verdicts under several replacements; nothing of one alone.

    Parameters
    ----------
    tests
        The tests by replacement.
    agreement
        The table ``replacement_agreement``.
    """
    if agreement is None:
        return
    yield _title("verdicts by what closed heads put out, each corrected for itself")
    yield from agreement_lines(agreement.assign(changed=""))
    counts = [(name, one.frame["verdict"].value_counts()) for name, one in tests.items()]
    yield table(
        ("replacement", *VERDICTS),
        [(name, *(str(count.get(verdict, 0)) for verdict in VERDICTS)) for name, count in counts],
    )
    frames = {name: one.frame.to_dict("records") for name, one in tests.items()}
    rows = []
    for found in zip(*frames.values(), strict=True):
        if len({row["verdict"] for row in found}) > 1:
            cells = [f"{row['verdict']} ({short(row['delta'])})" for row in found]
            rows.append((head_name(found[0]), *cells))
    if rows:
        yield Text("heads whose verdict changes", style="dim")
        yield table(("head", *frames), rows, left=range(1 + len(frames)))


def _title(what: str) -> Text:
    return Text.assemble(("replacements", "bold"), f"  {visible(what)}")


def _largest(frame: pd.DataFrame, column: str) -> RenderableType:
    """The heads that matter most under any replacement, a column for each."""
    names = frame["replacement"].unique()
    wide = frame.pivot(index=_HEAD, columns="replacement", values=column)[names]
    order = wide.abs().max(axis=1).sort_values(ascending=False, kind="stable").index
    shown = wide.loc[order[:_LARGEST]]
    shown.insert(0, "head", [".".join(map(str, place)) for place in shown.index])
    return plain_table(shown)
