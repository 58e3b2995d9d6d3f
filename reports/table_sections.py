"""The report's sections that are tables alone: roles of heads, and heads over training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Cell, Column, DataTable, Section
from headtool.reports.contents import Contents
from headtool.reports.words import count

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["dynamics_section", "roles_section"]


def roles_section(contents: Contents) -> Section | None:
    """How many heads have each role, and which they are."""
    roles = contents.table("roles")
    if roles.empty:
        return None
    from headtool.reports.role_tables import role_summary

    place = ["kind", "layer", "head"]
    tested = roles[roles["label"] != "untested"]
    found = tested[tested["label"] == "yes"].sort_values("share", ascending=False, kind="stable")
    total = len(roles[place].drop_duplicates())
    text = (
        f"Of {count(total, 'head')}, {len(found[place].drop_duplicates())} have at least one role. "
        "A head has a role if the share of its queries that fit is above the threshold, and above "
        "the baseline by more than chance. The run's table of roles holds all other heads too."
    )
    tables = []
    if len(tested):
        summary = role_summary(tested)
        tables.append(_table("role-counts", "How many heads have each role", summary))
    if len(found):
        shown = found[
            ["role", "detail", "share", "low", "high", "baseline", "threshold", "n", "p_adjusted"]
        ]
        heads = [f"{k}.{i}.{h}" for k, i, h in found[place].itertuples(index=False)]
        shown.insert(0, "head", heads)
        tables.append(_table("roles", "Heads that have a role", shown, can_filter=True))
    survival = contents.table("role_survival")
    if len(survival):
        caption = "Heads of each role that stay when heads are removed"
        tables.append(_table("role-survival", caption, survival))
    return Section("roles", "Roles of heads", text=[text], tables=tables)


def dynamics_section(contents: Contents) -> Section | None:
    """What is left without heads at each checkpoint, and how their ranks change."""
    tables = [
        _table(name.replace("_", "-"), caption, frame)
        for name, caption in (
            ("prunability", "Whole models, and how many heads can be removed"),
            ("checkpoint_curves", "What is left when heads are removed"),
            ("rank_stability", "How alike the ranks of heads are at two checkpoints"),
        )
        if len(frame := contents.table(name))
    ]
    if not tables:
        return None
    return Section("dynamics", "Heads over the course of training", tables=tables)


def _table(name: str, caption: str, frame: pd.DataFrame, *, can_filter: bool = False) -> DataTable:
    """A frame as it is, with numbers in short."""
    numeric = [frame[column].dtype.kind in "iuf" for column in frame.columns]
    columns = [
        Column(str(title).replace("_", " ").strip(), is_number)
        for title, is_number in zip(frame.columns, numeric, strict=True)
    ]
    rows = [
        [_cell(value, number) for value, number in zip(values, numeric, strict=True)]
        for values in frame.itertuples(index=False)
    ]
    return DataTable(name, caption, columns, rows, can_filter)


def _cell(value: Any, is_number: bool) -> Cell:
    if not is_number:
        return Cell(str(value))
    whole = isinstance(value, int)
    return Cell(str(value), float(value)) if whole else Cell.number(float(value))
