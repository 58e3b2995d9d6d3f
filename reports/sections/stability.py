"""Would a method say the same on other examples? The report's section on random halves of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.heads import SquareCell, head_grid, level
from headtool.reports.charts.lines import Curve, line_chart
from headtool.reports.charts.svg import element
from headtool.reports.contents.heads import Heads, places
from headtool.reports.contents.reach import default_budget
from headtool.reports.contents.run import Contents, records
from headtool.reports.sections.series import method_class
from headtool.reports.wording.words import percent

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup

__all__ = ["stability_section"]

_FEW = 300  # heads up to which every square of the small grids is named


def stability_section(contents: Contents, heads: Heads, text: Sequence[str]) -> Section | None:
    """How often each head stays, and how alike rankings are, on random halves of the examples.

    Parameters
    ----------
    contents
        The run.
    heads
        The run's heads.
    text
        Paragraphs that open the section.
    """
    table = contents.table("subsamples")
    if table.empty:
        return None
    frequency, budget = contents.table("selection_frequency"), default_budget(contents)
    here = frequency[frequency["budget"] == budget]
    tables = [_agreement_table(table), *_count_tables(contents)]
    figures = []
    if len(here):
        share = percent(float(here["share"].iloc[0]))
        halves = int(here["subsamples"].iloc[0])
        figures = [_grids(contents, heads, here, share), _curves(contents, here, share)]
        tables.append(_head_table(contents, heads, here, share, halves))
    return Section(
        "stability",
        "Would other examples say the same?",
        text=text,
        figures=figures,
        tables=tables,
        data=_data(contents, heads, frequency),
    )


def _times(heads: Heads, rows: pd.DataFrame) -> list[int]:
    """On how many halves each head stays; -1 for heads that were not up for removal."""
    known = dict(zip(places(rows), rows["times"].astype(int).tolist(), strict=True))
    return [known.get(place, -1) for place in heads.places]


def _grids(contents: Contents, heads: Heads, here: pd.DataFrame, share: str) -> Figure:
    panels = []
    for method in contents.methods:
        rows = here[here["method"] == method]
        if rows.empty:
            continue
        halves, times = int(rows["subsamples"].iloc[0]), _times(heads, rows)
        grids = [_grid(heads, times, halves, kind, method) for kind in heads.kinds]
        named = [
            element("div", element("span", kind) if len(grids) > 1 else None, grid)
            for kind, grid in zip(heads.kinds, grids, strict=True)
        ]
        drawing = grids[0] if len(grids) == 1 else element("div", *named, class_="kinds")
        panels.append(Panel(drawing, title=method, css="small"))
    caption = (
        "Layers down, heads across: how often each head stays when random halves of the examples "
        f"select, with {share} of the heads removed. A steady method has heads at both ends of the "
        "scale and few between."
    )
    return Figure(panels, caption, css="frequencies", legend=[("scale", "never to always kept")])


def _grid(heads: Heads, times: Sequence[int], halves: int, kind: str, method: str) -> Markup:
    few = len(heads.places) <= _FEW
    cells = {}
    for place, amount, name in zip(heads.places, times, heads.names, strict=True):
        if place[0] == kind:
            css = f"kept s{level(amount, 0, halves)}" if amount >= 0 else "kept unknown"
            label = f"{name}: kept in {amount} of {halves} halves" if few and amount >= 0 else ""
            cells[place[1:]] = SquareCell(css, label)
    width = max(head for _, head in cells) + 1
    return head_grid(
        cells,
        label=f"{method}, {kind}: how often each head is kept",
        size=max(4, min(14, 170 // width)),
        interactive=False,
    )


def _curves(contents: Contents, here: pd.DataFrame, share: str) -> Figure:
    """Frequencies in descending order, a line for each method."""
    lines = []
    for method in contents.methods:
        often = here.loc[here["method"] == method, "frequency"].sort_values(ascending=False)
        if often.empty:
            continue
        middle = [(rank + 0.5) / len(often) for rank in range(len(often))]
        lines.append(
            Curve(
                method,
                middle,
                often.tolist(),
                method_class(contents, method),
                label=method,
                dots=False,
            )
        )
    drawings = [
        line_chart(
            lines,
            label="How often heads are kept, in descending order, by method",
            x_label="heads, the most often kept first",
            y_label="share of the halves that keep it",
            width=width,
            height=height,
            y_range=(0.0, 1.0),
        )
        for width, height in ((620, 240), (350, 230))
    ]
    caption = (
        f"The same frequencies in descending order, with {share} of the heads removed. A method "
        "that says the same on any half would fall from one to zero in a single step; one that "
        "picks heads at random would be flat."
    )
    return Figure([Panel(drawings[0], narrow=drawings[1])], caption)


def _agreement_table(table: pd.DataFrame) -> DataTable:
    columns = [
        Column("method", is_number=False),
        *(
            Column(title, best="" if title == "interval" else "largest")
            for name in ("tau-b", "Spearman", "rank-biased overlap")
            for title in (name, "interval")
        ),
        Column("by chance"),
    ]
    rows = [
        [
            Cell(str(row["method"])),
            *(
                cell
                for name in ("tau_b", "spearman", "rbo")
                for cell in (
                    Cell.number(row[name]),
                    Cell.interval(row[f"{name}_low"], row[f"{name}_high"]),
                )
            ),
            Cell.number(row["rbo_expected"]),
        ]
        for row in records(table)
    ]
    return DataTable(
        "subsample-agreement", "Agreement of rankings from disjoint halves", columns, rows
    )


def _count_tables(contents: Contents) -> list[DataTable]:
    table = contents.table("subsample_overlap")
    if table.empty:
        return []
    titles = (
        *("kept", "Jaccard", "interval", "random heads of the same layers"),
        *("stably kept", "by chance at most", "stably removed", "by chance at most"),
        "tied at the cut",
    )
    columns = [Column("method", is_number=False), Column("removed"), *map(Column, titles)]
    rows = [
        [
            Cell(str(row["method"])),
            Cell.share(row["share"]),
            Cell.count(row["kept"]),
            Cell.number(row["jaccard"]),
            Cell.interval(row["low"], row["high"]),
            Cell.number(row["expected_within_layers"]),
            Cell.count(row["stable_kept"]),
            Cell.number(row["false_kept"]),
            Cell.count(row["stable_removed"]),
            Cell.number(row["false_removed"]),
            Cell.number(row["tied"]),
        ]
        for row in records(table)
    ]
    return [DataTable("stable-heads", "Heads that stay whatever the examples", columns, rows)]


def _head_table(
    contents: Contents, heads: Heads, here: pd.DataFrame, share: str, halves: int
) -> DataTable:
    methods = [method for method in contents.methods if (here["method"] == method).any()]
    by_method = [_times(heads, here[here["method"] == method]) for method in methods]
    rows = [
        [
            Cell(name, float(place)),
            *(
                Cell(f"{times[place]} of {halves}", float(times[place]))
                if times[place] >= 0
                else Cell("–")
                for times in by_method
            ),
        ]
        for place, name in enumerate(heads.names)
    ]
    columns = [Column("head", is_number=False), *(Column(method) for method in methods)]
    caption = f"On how many halves each head stays, with {share} of the heads removed"
    return DataTable("frequencies", caption, columns, rows, can_filter=True)


def _data(contents: Contents, heads: Heads, frequency: pd.DataFrame) -> dict[str, Any]:
    """How often each head stays, by view and budget, for the page's script."""
    if frequency.empty:
        return {}
    budgets = sorted(frequency["budget"].unique().tolist())
    times = []
    for method in contents.methods:
        rows = frequency[frequency["method"] == method]
        times.append(
            [_times(heads, rows[rows["budget"] == budget]) for budget in budgets]
            if len(rows)
            else None
        )
    return {"frequency": {"halves": int(frequency["subsamples"].iloc[0]), "times": times}}
