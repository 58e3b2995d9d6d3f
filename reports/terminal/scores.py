"""Scores as a terminal shows them: a heat map for each attention kind, the best and worst heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from headtool.heads import head_name
from headtool.reports.terminal.pieces import HeatMap, search_in_words
from headtool.reports.terminal.tables import Column, FittedTable, plain_table, table
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import how_drawn, in_a_column, short
from headtool.results.scores import HeadScores

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["score_maps", "score_tables"]

_ENDS = 5


def score_tables(result: HeadScores, seconds: float) -> Iterator[RenderableType]:
    """Yield what a terminal shows of one method's scores.

    Parameters
    ----------
    result
        The scores.
    seconds
        How long they took.
    """
    data, model = result.provenance["data"], result.provenance["model"]
    idle = result.provenance.get("idle_options", ())
    options = ", ".join(
        f"{name}={value}"  # as --set takes it
        for name, value in result.provenance["options"].items()
        if name not in idle and value is not None
    )
    how = how_drawn(data)
    size = f"{data['examples']} examples" + (f" ({how})" if how else "")
    yield Text.assemble(
        (result.method, "bold"),
        f"  {visible(model['spec'])} on {visible(data['spec'])}, {size}, {seconds:.1f} s",
    )
    if options:
        yield Text(f"  {visible(options)}", style="dim")
    if "search" in result.provenance:
        search, signature = result.provenance["search"], result.provenance["signature"]
        yield Text(f"  {search_in_words(search)}; {signature}", style="dim")
    yield from score_maps(result.frame)
    if "kept" in result.frame:
        yield from _kept(result.frame)
    for name, frame in result.tables.items():
        yield Text(visible(name))
        named = frame.dtypes.iloc[1].kind not in "iuf"  # by a number and a name together
        yield plain_table(frame, keys=2 if named else 1)
    if "scratch" in result.provenance:
        yield Text(_from_scratch(result.provenance["scratch"]), style="dim")
    yield Text()


def score_maps(frame: pd.DataFrame) -> Iterator[RenderableType]:
    """Yield a heat map for each attention kind, and the most and the least important heads.

    Parameters
    ----------
    frame
        The scores by one method.
    """
    for kind, part in frame.groupby("kind", sort=False):
        rows = {
            int(str(layer)): row.sort_values("head")["score"].tolist()
            for layer, row in part.groupby("layer", sort=True)
        }
        yield HeatMap(str(kind), rows)
    yield from _ends(frame)


def _from_scratch(recipe: Mapping[str, Any]) -> str:
    """How models were trained from scratch, in a line; comparable with one another alone."""
    passes = short(recipe["passes"])
    return (
        f"from scratch: {recipe['steps']} steps of {recipe['batch_size']} examples, {passes} "
        f"passes over {recipe['examples']}; compare the two with each other"
    )


def _kept(frame: pd.DataFrame) -> Iterator[RenderableType]:
    """The heads that the method keeps, a line per site."""
    yield Text(f"keeps {int(frame['kept'].sum())} of {len(frame)} heads")
    rows = []
    for (kind, layer), site in frame.groupby(["kind", "layer"], sort=False):
        heads = " ".join(map(str, site.loc[site["kept"].astype(bool), "head"]))
        rows.append((f"{kind}.{layer}", heads or "none"))
    yield table(("site", "heads"), rows, left=(0, 1), show_header=False)


def _ends(frame: pd.DataFrame) -> Iterator[RenderableType]:
    """The most and the least important heads side by side; ties are marked that go on unlisted."""
    ordered = frame.sort_values("rank")
    count = min(_ENDS, max(1, len(ordered) // 2))
    titles = ("most important", "least important")
    with_error = bool(frame["stderr"].notna().any())
    ends = [ordered.head(count), ordered.tail(count).iloc[::-1]]
    unlisted = [_unlisted(ordered, end) for end in ends]
    columns: list[Column] = []
    for title, end, tied in zip(titles, ends, unlisted, strict=True):
        is_tied = [tied > 0 and score == end["score"].iloc[-1] for score in end["score"]]
        names = [
            head_name(row) + (" =" if marked else "")
            for row, marked in zip(end.to_dict("records"), is_tied, strict=True)
        ]
        columns.append(Column(title, tuple(names), left=True))
        columns.append(Column("score", tuple(in_a_column(end["score"])), joined=True))
        if with_error:
            columns.append(
                Column("+-", tuple(map(_error, in_a_column(end["stderr"]))), joined=True)
            )
    yield FittedTable(tuple(columns), keys=0)
    said = [
        f"{tied} more under {title}" for title, tied in zip(titles, unlisted, strict=True) if tied
    ]
    if said:
        yield Text(f"= tied with heads that are not listed: {', '.join(said)}", style="dim")


def _unlisted(ordered: pd.DataFrame, end: pd.DataFrame) -> int:
    """How many heads have the score of the last one listed, and are not listed."""
    last = end["score"].iloc[-1]
    return int((ordered["score"] == last).sum() - (end["score"] == last).sum())


def _error(written: str) -> str:
    return "" if written == "-" else written
