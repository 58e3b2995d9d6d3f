"""The report's sections on relations: between methods, and between data sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.heads import LEVELS, level
from headtool.reports.charts.intervals import Interval, interval_chart
from headtool.reports.charts.relations import Point, coefficient, matrix, scatter
from headtool.reports.contents.facts import ceiling_of, tested_effects
from headtool.reports.contents.heads import Heads, places, verdict_legend
from headtool.reports.contents.roles import HeadRoles
from headtool.reports.contents.run import Contents, records
from headtool.reports.sections.scores import score_data, score_figure
from headtool.reports.wording.words import names, number, p_value

__all__ = ["agreement_section", "data_section"]

_COEFFICIENTS = (
    ("tau_b", "Kendall's tau-b"),
    ("spearman", "Spearman's rho"),
    ("rbo", "rank-biased overlap"),
)
_NAMED = 5
_DIAGONAL = " On the diagonal: of a method with itself on other examples."


def agreement_section(
    contents: Contents, heads: Heads, roles: HeadRoles, text: Sequence[str]
) -> Section | None:
    """How alike the methods rank heads and which they keep.

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
    pairs = contents.table("agreement")
    if pairs.empty:
        return Section("agreement", "Do the methods agree?", text=text) if any(text) else None
    methods = contents.methods
    tau = _known_pairs(contents)
    drawing = matrix(
        methods,
        {pair: row["tau_b"] for pair, row in tau.items()},
        label="Kendall's tau-b between the rankings of each two methods",
        text={pair: _pair_title(pair, row, "tau_b") for pair, row in tau.items()},
    )
    figure = Figure(
        [Panel(drawing)],
        "Agreement of each two methods on the order of the heads: Kendall's tau-b, 1 for the same "
        "order, 0 for none in common." + (_DIAGONAL if len(contents.table("stability")) else ""),
        css="agreement",
    )
    scores = score_figure(contents, heads, roles)
    return Section(
        "agreement",
        "Do the methods agree?",
        text=text,
        figures=[figure, *([scores] if scores else [])],
        tables=[_agreement_table(pairs), *_overlap_tables(contents)],
        data={"agreement": _data(contents), **score_data(contents, heads)},
    )


def _known_pairs(contents: Contents) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Agreement by pair of methods, and of each with itself on other examples."""
    own = {
        (str(row["method"]), str(row["method"])): row
        for row in records(contents.table("stability"))
    }
    return _by_pair(contents.table("agreement")) | own


def _by_pair(frame: Any) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Rows by pair of methods, in both orders."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in records(frame):
        x, y = str(row["method_x"]), str(row["method_y"])
        found[x, y] = found[y, x] = row
    return found


def _pair_title(pair: tuple[str, str], row: Mapping[str, Any], name: str) -> str:
    interval = ""
    if f"{name}_low" in row:
        interval = f" [{number(row[f'{name}_low'])}, {number(row[f'{name}_high'])}]"
    within = row.get(f"{name}_p_within_layers", row.get("p_within_layers", math.nan))
    return (
        f"{pair[0]} and {pair[1]}: {number(row[name])}{interval}, within layers {p_value(within)}"
    )


def _data(contents: Contents) -> dict[str, Any]:
    """Every coefficient of every pair, as the page's script shows it."""
    methods = contents.methods
    known: dict[str, Any] = {}
    pairs = _known_pairs(contents)
    for name, title in _COEFFICIENTS:
        known[name] = {"title": title, "cells": [_cells(methods, pairs, name)]}
    overlap = contents.table("overlap")
    if len(overlap):
        budgets = sorted(contents.table("kept")["budget"].unique())
        by_budget = [_by_pair(overlap[overlap["budget"] == b]) for b in budgets]
        known["jaccard"] = {
            "title": "Jaccard index of the kept heads",
            "cells": [_cells(methods, rows, "jaccard") for rows in by_budget],
        }
    return known


def _cells(
    methods: Sequence[str], rows: Mapping[tuple[str, str], Any], name: str
) -> dict[str, Any]:
    cells = {}
    for i, x in enumerate(methods):
        for j, y in enumerate(methods):
            if (x, y) in rows:
                value = float(rows[x, y][name])
                step = level(value, -1.0, 1.0) if math.isfinite(value) else LEVELS // 2
                cells[f"{i},{j}"] = [
                    step,
                    coefficient(value),
                    _pair_title((x, y), rows[x, y], name),
                ]
    return cells


def _agreement_table(pairs: Any) -> DataTable:
    columns = [
        Column("method", is_number=False),
        Column("and", is_number=False),
        *(
            Column(t)
            for t in (
                "tau-b",
                "interval",
                "p within layers",
                "Spearman",
                "p within layers",
                "rank-biased overlap",
                "p within layers",
            )
        ),
    ]
    rows = []
    for row in records(pairs):
        rows.append(
            [
                Cell(str(row["method_x"])),
                Cell(str(row["method_y"])),
                Cell.number(row["tau_b"]),
                Cell.interval(row["tau_b_low"], row["tau_b_high"]),
                Cell.number(row["tau_b_p_within_layers"]),
                Cell.number(row["spearman"]),
                Cell.number(row["spearman_p_within_layers"]),
                Cell.number(row["rbo"]),
                Cell.number(row["rbo_p_within_layers"]),
            ]
        )
    return DataTable("agreement-values", "Agreement of rankings", columns, rows)


def _overlap_tables(contents: Contents) -> list[DataTable]:
    table = contents.table("overlap")
    if table.empty:
        return []
    columns = [
        Column("removed"),
        Column("method", is_number=False),
        Column("and", is_number=False),
        *(Column(t) for t in ("kept by each", "by both", "Jaccard", "p within layers")),
    ]
    rows = [
        [
            Cell.share(row["share"]),
            Cell(str(row["method_x"])),
            Cell(str(row["method_y"])),
            Cell.count(row["kept"]),
            Cell.count(row["shared"]),
            Cell.number(row["jaccard"]),
            Cell.number(row["p_within_layers"]),
        ]
        for row in records(table[table["budget"] > 0])
    ]
    return [DataTable("overlap-values", "Overlap of kept heads at every budget", columns, rows)]


def data_section(contents: Contents, heads: Heads, text: Sequence[str]) -> Section | None:
    """Whether the same heads matter on other data.

    Parameters
    ----------
    contents
        The run.
    heads
        The run's heads.
    text
        Paragraphs that open the section.
    """
    pairs = contents.table("correlations")
    if pairs.empty:
        return None
    short = names(contents.data)
    figures = [_ceilings(contents, pairs, short)]
    effects_by_data = tested_effects(contents)
    for row in records(pairs):
        x, y = str(row["data_x"]), str(row["data_y"])
        figure = _scatter(contents, heads, effects_by_data, x, y, short)
        if figure is not None:
            figures.insert(len(figures) - 1, figure)
    return Section(
        "data", "Are the same heads important on other data?", text=text, figures=figures
    )


def _scatter(
    contents: Contents, heads: Heads, effects: Any, x: str, y: str, short: Mapping[str, str]
) -> Figure | None:
    on_x, on_y = (effects[effects["data"] == spec] for spec in (x, y))
    first = dict(zip(places(on_x), on_x["delta"].astype(float), strict=True))
    second = dict(zip(places(on_y), on_y["delta"].astype(float), strict=True))
    common = [place for place in heads.places if place in first and place in second]
    if not common:
        return None
    far = sorted(common, key=lambda p: -max(abs(first[p]), abs(second[p])))[:_NAMED]
    points = [
        Point(
            first[place],
            second[place],
            heads.names[heads.number[place]],
            heads.verdict(place) if x == heads.main else "",
            heads.number[place],
            place in far,
        )
        for place in common
    ]
    drawing = scatter(
        points,
        label=f"Change of {contents.measure} by head on {short.get(x, x)} and {short.get(y, y)}",
        x_label=f"change of {contents.measure} on {short.get(x, x)}",
        y_label=f"on {short.get(y, y)}",
        width=460,
    )
    legend = verdict_legend(heads)
    caption = (
        f"Each head by what closing it changes on {short.get(x, x)} and on {short.get(y, y)}; the "
        f"{len(far)} with the largest effects are named."
    )
    if legend:
        caption += f" The marks are verdicts on {short.get(heads.main, heads.main)}."
    return Figure([Panel(drawing)], caption, css="scatter", legend=legend)


def _ceilings(contents: Contents, pairs: Any, short: Mapping[str, str]) -> Figure:
    """Coefficients with intervals, and the noise ceiling of Pearson's r."""
    rows: list[Interval] = []
    marks: list[tuple[int, float, str]] = []
    for row in records(pairs):
        pair = ""
        if len(pairs) > 1:
            x, y = str(row["data_x"]), str(row["data_y"])
            pair = f" {short.get(x, x)}, {short.get(y, y)}"
        ceiling = ceiling_of(row)
        if math.isfinite(ceiling):
            marks.append((len(rows), ceiling, f"noise ceiling: {number(ceiling)}"))
        for name, title in (("pearson", "Pearson"), ("spearman", "Spearman"), ("kendall", "tau-b")):
            rows.append(
                Interval(
                    title + pair,
                    row[name],
                    row[f"{name}_low"],
                    row[f"{name}_high"],
                    "m0",
                    number(row[name]),
                )
            )
    drawings = [
        interval_chart(
            rows,
            label="Correlation between data sets, with intervals and the noise ceiling",
            x_label="correlation of the heads' effects",
            width=width,
            marks=marks,
        )
        for width in (620, 350)
    ]
    caption = "Correlation of the effects, with intervals over examples."
    if marks:
        caption += (
            " The upright bar is the noise ceiling: the Pearson correlation to expect if the true "
            "effects were the same on both, given how reliable each measurement is."
        )
    return Figure([Panel(drawings[0], narrow=drawings[1])], caption)
