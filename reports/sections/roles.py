"""The report's section on roles: which heads have them, and which survive as heads are removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headtool.heads import head_name
from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.roles import css_of
from headtool.reports.charts.survival import Remaining, survival_chart
from headtool.reports.charts.svg import element
from headtool.reports.contents.facts import alpha_of
from headtool.reports.contents.roles import NO_ROLE, role_name, role_summary
from headtool.reports.contents.run import Contents, records
from headtool.reports.sections.frames import frame_table
from headtool.reports.wording.words import count, given, listed, number, p_value, percent

__all__ = ["roles_section", "survival_words"]


def roles_section(contents: Contents, text: Sequence[str]) -> Section | None:
    """How many heads have each role, which they are, and which of them each method leaves.

    Parameters
    ----------
    contents
        The run.
    text
        Paragraphs that open the section.
    """
    if contents.table("roles").empty and contents.table("role_survival").empty:
        return None
    survival = contents.table("role_survival")
    return Section(
        "roles",
        "What the heads do, and which roles survive" if len(survival) else "What the heads do",
        text=[*text, *_counted(contents)],
        figures=_figures(contents),
        tables=[*_survival_table(contents), *_role_tables(contents)],
    )


def _counted(contents: Contents) -> list[str]:
    """What it takes to have a role, and how many heads have one."""
    roles = contents.table("roles")
    if roles.empty:
        return []
    place = ["kind", "layer", "head"]
    total = len(roles[place].drop_duplicates())
    found = len(roles.loc[roles["label"] == "yes", place].drop_duplicates())
    return [
        f"Of {count(total, 'head')}, {found} have at least one role. "
        "A head has a role if the share of its queries that fit is above the threshold, and above "
        "the baseline by more than chance. The run's table of roles holds all other heads too."
    ]


def _role_tables(contents: Contents) -> list[DataTable]:
    roles = contents.table("roles")
    tested = roles[roles["label"] != "untested"]
    found = tested[tested["label"] == "yes"].sort_values("share", ascending=False, kind="stable")
    tables = []
    if len(tested):
        summary = role_summary(tested)
        tables.append(frame_table("role-counts", "How many heads have each role", summary))
    if len(found):
        shown = found[
            ["role", "detail", "share", "low", "high", "baseline", "threshold", "n", "p_adjusted"]
        ]
        shown.insert(0, "head", [head_name(row) for row in records(found)])
        tables.append(frame_table("roles", "Heads that have a role", shown, can_filter=True))
    return tables


def _figures(contents: Contents) -> list[Figure]:
    """A panel for each method, a small chart for each role."""
    table = contents.table("role_survival")
    alpha = alpha_of(contents)
    panels = []
    for method in table["method"].astype(str).unique():
        rows = table[(table["method"] == method) & (table["heads"] > 0)].sort_values("budget")
        charts = [
            _chart(method, str(role), records(part), alpha)
            for role, part in rows.groupby("role", sort=False)
        ]
        if charts:
            panels.append(Panel(element("div", *charts, class_="minis"), title=method))
    if not panels:
        return []
    caption = (
        "Heads of each role that stay (solid) as more heads are removed, from none on the left to "
        "all on the right, and as many as would stay by chance (dashed) if the same number of "
        "heads of every layer were removed at random. A ring: more than that, with an adjusted p "
        f"of at most {given(alpha)}. A head of several roles counts for each."
    )
    return [Figure(panels, caption, css="roles-kept")]


def _chart(method: str, role: str, rows: Sequence[Mapping[str, Any]], alpha: float) -> Any:
    heads, name = int(rows[0]["heads"]), role_name(role)
    points = [
        Remaining(
            float(row["share"]),
            int(row["kept"]),
            float(row["expected_within_layers"]),
            bool(row["p_adjusted"] <= alpha),
            f"{percent(row['share'])} removed: {row['kept']} of {heads} kept, "
            f"{number(row['expected_within_layers'])} expected, adjusted "
            f"{p_value(row['p_adjusted'])}",
        )
        for row in rows
    ]
    kept = ", ".join(f"{point.kept} at {percent(point.share)}" for point in points)
    label = f"{method}, {name}: of {heads} heads it keeps {kept}"
    css = "unknown" if role == NO_ROLE else css_of(role)
    return survival_chart(points, role=name, heads=heads, css=css, label=label)


def _survival_table(contents: Contents) -> list[DataTable]:
    """The numbers of the figure, exactly."""
    table = contents.table("role_survival")
    if table.empty:
        return []
    columns = [
        Column("method", is_number=False),
        Column("removed"),
        Column("role", is_number=False),
        *(Column(name) for name in ("heads", "kept", "expected within layers", "adjusted p")),
    ]
    rows = [
        [
            Cell(str(row["method"])),
            Cell.share(row["share"]),
            Cell(role_name(str(row["role"]))),
            Cell.count(row["heads"]),
            Cell.count(row["kept"]),
            Cell.number(row["expected_within_layers"]),
            Cell.p_value(row["p_adjusted"]),
        ]
        for row in records(table)
    ]
    caption = "Heads of each role that stay when heads are removed"
    return [DataTable("role-survival", caption, columns, rows, can_filter=True)]


def survival_words(contents: Contents, method: str, budget: int) -> str:
    """How many heads of each role a method keeps at a budget; empty where nothing is known.

    Parameters
    ----------
    contents
        The run.
    method
        One of its methods.
    budget
        How many heads are removed.
    """
    table = contents.table("role_survival")
    if table.empty:
        return ""
    rows = table[(table["method"] == method) & (table["budget"] == budget) & (table["heads"] > 0)]
    known = [
        f"{role_name(str(row['role']))} {row['kept']} of {row['heads']} "
        f"({number(row['expected_within_layers'])} by chance)"
        for row in records(rows)
    ]
    return f"Heads that stay, by role: {listed(known)}." if known else ""
