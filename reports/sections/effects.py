"""The report's section on what single heads are worth: their effects, and the table of all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headtool.heads import head_name
from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.heads import Effect, caterpillar
from headtool.reports.contents.facts import level_of, margin_of, unchanged_note
from headtool.reports.contents.heads import Heads, places, verdict_legend
from headtool.reports.contents.roles import HeadRoles
from headtool.reports.contents.run import Contents, records
from headtool.reports.sections.heads import doing
from headtool.reports.wording.words import given, names, number

__all__ = ["effects_section"]


def effects_section(
    contents: Contents, heads: Heads, roles: HeadRoles, text: Sequence[str]
) -> Section | None:
    """What closing single heads changes, and the table of all heads.

    Parameters
    ----------
    contents
        The run.
    heads
        The run's heads.
    roles
        The roles of these heads.
    text
        Paragraphs that open the section.
    """
    if not heads.effects:
        return None
    metric = contents.measure
    main = names(contents.data).get(heads.main, heads.main)
    effects = [
        Effect(
            f"{heads.names[i]}: {number(row['delta'])}",
            float(row["delta"]),
            float(row.get("ci_low", row["delta"] - row.get("stderr", math.nan))),
            float(row.get("ci_high", row["delta"] + row.get("stderr", math.nan))),
            str(row.get("verdict", "")),
            i,
        )
        for i, place in enumerate(heads.places)
        if (row := heads.effects.get(place)) is not None
    ]
    margin = margin_of(contents)
    line = -margin if contents.higher_is_better else margin
    drawings = [
        caterpillar(
            effects,
            label=f"Change of {metric} {doing(contents)}, all heads in ascending order",
            y_label=f"change of {metric}",
            margin=line,
            width=width,
        )
        for width in (960, 350)
    ]
    bars = (
        f"intervals of {level_of(contents)} for each head alone"
        if heads.tests
        else "bars of one standard error"
    )
    what = "leaving one head of a site" if contents.all_but_one else "closing one head"
    caption = f"What {what} changes on {main}, with {bars}."
    if math.isfinite(line):
        caption += f" The dashed line is the margin of {given(abs(line))}."
    legend = verdict_legend(heads)
    figure = Figure([Panel(drawings[0], narrow=drawings[1])], caption, legend=legend)
    return Section(
        "effects",
        "What single heads are worth",
        text=[*text, *_unchanged(contents, heads)],
        figures=[figure],
        tables=[_table(contents, heads, roles), *_best_table(contents)],
    )


def _unchanged(contents: Contents, heads: Heads) -> list[str]:
    """A note, if some head has an interval without width."""
    flat = any(row.get("ci_low") == row.get("ci_high", math.nan) for row in heads.effects.values())
    examples = contents.examples(heads.main)
    return [unchanged_note(examples)] if flat and heads.tests and examples else []


def _table(contents: Contents, heads: Heads, roles: HeadRoles) -> DataTable:
    """Every head: effect, tests, its rank by each method, and its roles."""
    columns = [Column("head", is_number=False), Column("effect"), Column("interval")]
    tested = bool(heads.tests) and "p" in next(iter(heads.tests.values()))
    if tested:
        columns += [Column("p"), Column("adjusted p")]
    if heads.tests:
        columns.append(Column("verdict", is_number=False))
    if tested:
        columns.append(Column("detectable effect"))
    scores = contents.table("scores")
    ranks = {
        method: dict(zip(places(part), part["rank"].astype(int).tolist(), strict=True))
        for method in contents.methods
        if len(part := scores[scores["method"] == method])
    }
    columns += [Column(f"{method} rank") for method in ranks]
    columns += [Column("roles", is_number=False)] if roles.known else []
    rows = []
    for i, place in enumerate(heads.places):
        row = heads.effects.get(place)
        if row is None:
            continue
        low, high = row.get("ci_low", math.nan), row.get("ci_high", math.nan)
        cells = [
            Cell(heads.names[i], float(i)),
            Cell.number(row["delta"]),
            Cell.interval(low, high),
        ]
        if tested:
            cells += [Cell.number(row["p"]), Cell.number(row["p_adjusted"])]
        if heads.tests:
            cells.append(Cell(str(row["verdict"]), css=f"verdict {row['verdict']}"))
        if tested:
            cells.append(Cell.number(row["mde"]))
        cells += [
            Cell.count(by_place[place]) if place in by_place else Cell("–")
            for by_place in ranks.values()
        ]
        cells += [Cell(roles.words(i) or "–")] if roles.known else []
        rows.append(cells)
    return DataTable("every-head", f"All {len(rows)} heads", columns, rows, can_filter=True)


def _best_table(contents: Contents) -> list[DataTable]:
    """The best single head of each site, for all-but-one ablations."""
    table = contents.table("best")
    if table.empty:
        return []
    columns = [
        Column("head", is_number=False),
        Column("effect"),
        Column("on the half that chose it"),
    ]
    rows = [
        [
            Cell(head_name(row)),
            Cell.number(row["delta"]),
            Cell.number(row["delta_chosen_on"]),
        ]
        for row in records(table)
    ]
    caption = "The best single head of each site, and its effect on the half that chose it"
    return [DataTable("best", caption, columns, rows)]
