"""What stands first in the report: a row for each method."""

from __future__ import annotations

import math

from headtool.reports.blocks import Cell, Column, DataTable
from headtool.reports.contents.facts import level_of
from headtool.reports.contents.reach import reach_of
from headtool.reports.contents.run import Contents, records

__all__ = ["methods_table"]


def methods_table(contents: Contents) -> DataTable | None:
    """What a comparison says of every method, the best first; None where there is too little.

    Methods stand in the order of their advantage over random masks of any heads: the same for all
    methods, while masks that match a method's layers differ. Passes to score are those of the plan,
    over the selection examples: forward ones, and backward ones as as many.
    """
    tests = contents.table("curve_tests")
    rows = tests[(tests["kind"] == "all") & (tests["method_y"] == "random")]
    areas = {str(row["method_x"]): row for row in records(rows)}
    reach = reach_of(contents)
    stability = contents.table("stability")
    own = {str(row["method"]): float(row["tau_b"]) for row in records(stability)}
    if not areas and not reach:
        return None
    columns = [Column("method", is_number=False)]
    columns += [
        Column("better than random by", best="largest"),
        Column(f"{level_of(contents)} interval"),
    ]
    columns += (
        [Column(title, best="largest") for title in ("heads that can go", "for sure")]
        if reach
        else []
    )
    columns += [Column("self-agreement", best="largest")] if own else []
    passes = contents.settings.get("passes", {})
    columns += [Column("passes to score", best="smallest")] if passes else []
    ordered = sorted(contents.methods, key=lambda name: -areas.get(name, {}).get("area", -math.inf))
    cells = []
    for method in ordered:
        row = areas.get(method)
        line = [Cell(method)]
        line += (
            [Cell("–"), Cell("–")]
            if row is None
            else [Cell.number(row["area"]), Cell.interval(row["low"], row["high"])]
        )
        if reach:
            found = reach.get(method)
            line += (
                [Cell("–"), Cell("–")]
                if found is None
                else [Cell.share(found.share), Cell.share(found.sure)]
            )
        if own:
            line.append(Cell.number(own.get(method, math.nan)))
        if passes:
            taken = passes.get(method)
            line.append(Cell("–") if taken is None else Cell.number(float(taken)))
        cells.append(line)
    return DataTable("overview", "The methods at a glance", columns, cells)
