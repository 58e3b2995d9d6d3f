"""Does it hold for the same architecture trained again? The report's section on replicates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.lines import Curve, line_chart
from headtool.reports.charts.svg import series_class
from headtool.reports.contents.facts import whole_models
from headtool.reports.contents.reach import default_budget
from headtool.reports.contents.run import Contents, records
from headtool.reports.wording.words import names, percent

__all__ = ["replicate_section"]


def replicate_section(contents: Contents, text: Sequence[str]) -> Section | None:
    """What models trained with other seeds have in common.

    Parameters
    ----------
    contents
        The run.
    text
        Paragraphs that open the section.
    """
    whole = whole_models(contents)
    if len(whole) < 2:
        return None
    called = names(whole["model"].astype(str))
    columns = [Column("model", is_number=False), Column(contents.measure)]
    models = DataTable(
        "replicates",
        "Models, and what each is worth whole",
        columns,
        [[Cell(called[row["model"]]), Cell.number(row["value"])] for row in records(whole)],
    )
    return Section(
        "replicates",
        "Does it hold for other training runs?",
        text=text,
        figures=[_curves(contents, called)],
        tables=[models, *_agreement_tables(contents, called), *_overlap_tables(contents, called)],
    )


def _curves(contents: Contents, called: dict[str, str]) -> Figure:
    """A chart for each method, with a line for each model."""
    table = contents.table("replicate_curves")
    table = table[table["kind"] == "all"]
    known = [v for v in table["value"].tolist() if v == v]
    ends = (min(known, default=0.0), max(known, default=1.0))
    room = 0.04 * (ends[1] - ends[0] or 1.0)
    panels = []
    for method in [m for m in contents.methods if (table["method"] == m).any()]:
        lines = []
        for place, (model, name) in enumerate(called.items()):
            rows = table[(table["method"] == method) & (table["model"] == model)]
            rows = rows.sort_values("share")
            lines.append(
                Curve(name, rows["share"].tolist(), rows["value"].tolist(), series_class(place))
            )
        drawing = line_chart(
            lines,
            label=f"{contents.measure} by share of heads removed, {method}, a line for each model",
            x_label="heads removed",
            y_label=contents.measure,
            width=310,
            height=220,
            y_range=(ends[0] - room, ends[1] + room),
            compact=True,
        )
        panels.append(Panel(drawing, title=method))
    legend = [(f"line {series_class(place)}", name) for place, name in enumerate(called.values())]
    caption = (
        f"What is left of {contents.measure} as each method removes heads, by model; every model "
        "loses the heads that its own scores put last."
    )
    return Figure(panels, caption, legend=legend)


def _agreement_tables(contents: Contents, called: dict[str, str]) -> list[DataTable]:
    table = contents.table("replicate_agreement")
    if table.empty:
        return []
    titles = (
        *("tau-b", "p", "p within layers", "Spearman", "p within layers"),
        *("rank-biased overlap", "p within layers", "Spearman of layers", "p"),
    )
    keys = (
        *("tau_b", "tau_b_p", "tau_b_p_within_layers", "spearman", "spearman_p_within_layers"),
        *("rbo", "rbo_p_within_layers", "layer_spearman", "layer_spearman_p"),
    )
    columns = [*_places(), *map(Column, titles)]
    rows = [[*_names(row, called), *(Cell.number(row[k]) for k in keys)] for row in records(table)]
    return [DataTable("replicate-agreement", "Agreement of models", columns, rows)]


def _overlap_tables(contents: Contents, called: dict[str, str]) -> list[DataTable]:
    table, budget = contents.table("replicate_overlap"), default_budget(contents)
    table = table[table["budget"] == budget]
    if table.empty:
        return []
    titles = ("kept by each", "by both", "Jaccard", "p", "p within layers")
    columns = [*_places(), *map(Column, titles)]
    rows = [
        [
            *_names(row, called),
            *(Cell.count(row[key]) for key in ("kept", "shared")),
            *(Cell.number(row[k]) for k in ("jaccard", "p_hypergeometric", "p_within_layers")),
        ]
        for row in records(table)
    ]
    share = percent(float(table["share"].iloc[0]))
    caption = f"Overlap of the heads kept in two models, with {share} of the heads removed"
    return [DataTable("replicate-overlap", caption, columns, rows)]


def _places() -> list[Column]:
    return [Column(title, is_number=False) for title in ("method", "model", "and")]


def _names(row: Any, called: dict[str, str]) -> list[Cell]:
    models = (called[str(row[name])] for name in ("model_x", "model_y"))
    return [Cell(str(row["method"])), *(Cell(name) for name in models)]
