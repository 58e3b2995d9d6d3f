"""The report's section on which heads each method keeps: grids, and tables of scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Cell, Choices, Column, DataTable, Figure, Panel, Section, View
from headtool.reports.charts.heads import SquareCell, head_grid
from headtool.reports.charts.roles import role_legend
from headtool.reports.charts.svg import element
from headtool.reports.contents.facts import matched
from headtool.reports.contents.heads import Heads, Place, verdict_legend
from headtool.reports.contents.roles import HeadRoles
from headtool.reports.contents.run import Contents
from headtool.reports.sections.curves import curve_panel
from headtool.reports.sections.roles import survival_words
from headtool.reports.sections.views import choices_of
from headtool.reports.wording.words import number, p_value

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["doing", "heads_section"]

_BY_ROLE = (
    "Heads have the colours of their roles, side by side where there are several; pale heads have "
    "no role, dashed ones were not looked at."
)
_ROLE_STATES = ("unseen", "seen")  # whether a head was looked at
_FEW = 300  # heads up to which also the small grids name each
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"  # one character a head in the page's data


def heads_section(
    contents: Contents, heads: Heads, roles: HeadRoles, text: Sequence[str]
) -> Section | None:
    """Which heads each method keeps, on the grid of layers and heads.

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
    choices = choices_of(contents, heads, roles)
    if choices is None:
        return None
    shown = choices.views[choices.view]
    beside = curve_panel(contents)
    grids = [
        Panel(_grid(heads, roles, choices, choices.view, kind, interactive=True), title=kind)
        for kind in heads.kinds
    ]
    main = Figure(
        grids if beside is None else [beside, *grids],
        _caption(contents, heads, roles, shown, choices),
        css="grids",
        legend=[*_legend(heads, shown, bool(choices.budgets)), *role_legend(roles.names)],
    )
    figures = [main]
    if len(choices.views) > 1:
        panels = [
            Panel(_small(heads, roles, choices, which), title=view.name, css="small")
            for which, view in enumerate(choices.views)
        ]
        share = choices.budgets[choices.budget][1] if choices.budgets else ""
        what = f"with {share} of the heads removed" if share else ""
        figures.append(
            Figure(panels, f"All methods side by side {what}".strip() + ".", css="multiples")
        )
    scored = [view for view in choices.views if view.ranks]
    title = "Which heads each method keeps" if choices.budgets else "How important each head is"
    if shown.by_role:
        title = "Which heads have which role"
    return Section(
        "heads",
        title,
        text=text,
        figures=figures,
        tables=[
            *([_kept_table(heads, choices)] if choices.budgets else []),
            *([_score_table(heads, scored)] if scored else []),
        ],
        data=_data(contents, heads, roles, choices),
        choices=choices,
    )


def _kept_table(heads: Heads, choices: Choices) -> DataTable:
    """The heads that each method keeps at the budget shown first, a layer in a row."""
    budget, share = choices.budgets[choices.budget]
    views = [view for view in choices.views if view.kept and not view.keeping]
    sites = list(dict.fromkeys((kind, layer) for kind, layer, _ in heads.places))
    columns = [Column("layer", is_number=False)]
    columns += [Column(view.name, is_number=False) for view in views]
    columns += [Column("kept by all", is_number=False)] if len(views) > 1 else []
    rows = []
    for site in sites:
        members = [i for i, place in enumerate(heads.places) if place[:2] == site]
        cells = [Cell(f"{site[0]}.{site[1]}")]
        stays = [[i for i in members if view.kept[budget][i]] for view in views]
        if len(views) > 1:
            stays.append([i for i in members if all(i in kept for kept in stays)])
        for kept in stays:
            cells.append(Cell(" ".join(str(heads.places[i][2]) for i in kept) or "–"))
        rows.append(cells)
    return DataTable("kept", f"Heads kept with {share} of the heads removed", columns, rows)


def _score_table(heads: Heads, views: Sequence[View]) -> DataTable:
    """Every method's score of every head, with its standard error and rank."""
    columns = [Column("head", is_number=False)]
    for view in views:
        columns += [Column(view.name), Column("rank")]
    rows = []
    for i, name in enumerate(heads.names):
        cells = [Cell(name, float(i))]
        for view in views:
            # A rank orders heads as their score does, the other way round.
            cells += [
                Cell(view.values[i], -float(view.ranks[i]) if view.ranks[i] else None),
                Cell(str(view.ranks[i] or "–"), float(view.ranks[i]) if view.ranks[i] else None),
            ]
        rows.append(cells)
    return DataTable("scores", "All scores", columns, rows, can_filter=True)


def _small(heads: Heads, roles: HeadRoles, choices: Choices, which: int) -> Markup:
    """The grids of all kinds of one view, small and side by side."""
    grids = [_grid(heads, roles, choices, which, kind, interactive=False) for kind in heads.kinds]
    if len(grids) == 1:
        return grids[0]
    named = [
        element("div", element("span", kind), grid)
        for kind, grid in zip(heads.kinds, grids, strict=True)
    ]
    return element("div", *named, class_="kinds")


def _grid(
    heads: Heads, roles: HeadRoles, choices: Choices, which: int, kind: str, *, interactive: bool
) -> Markup:
    view = choices.views[which]
    budget = choices.budgets[choices.budget][0] if choices.budgets else None
    stays = view.kept.get(budget) if budget is not None else None
    cells = {}
    few = len(heads.places) <= _FEW
    for i, place in enumerate(heads.places):
        if place[0] != kind:
            continue
        verdict = heads.verdict(place)
        state = "" if stays is None else "kept" if stays[i] else "removed"
        step = view.levels[i]
        words = [
            heads.names[i],
            state,
            f"rank {view.ranks[i]}" if view.ranks and view.ranks[i] else "",
            verdict,
            roles.words(i) if roles.known else "",
        ]
        if view.by_role:
            css = _ROLE_STATES[roles.of[i] is not None]
        else:
            css = f"{state} {view.shades}{step}" if step >= 0 else f"{state} unknown"
        cells[place[1:]] = SquareCell(
            css,
            ", ".join(word for word in words if word) if interactive or few else "",
            verdict if interactive else "",
            i,
            (roles.of[i] or ()) if interactive or view.by_role else (),
            roles.letters(i) if interactive else "",
        )
    width = max(head for _, head in cells) + 1
    largest = 32 if roles.known else 28
    size = max(10, min(largest, 680 // width)) if interactive else max(4, min(11, 150 // width))
    return head_grid(
        cells,
        label=f"{view.name}, {kind}",
        size=size,
        interactive=interactive,
        view=None if interactive else which,
        by_role=view.by_role,
    )


def _legend(heads: Heads, view: View, budgets: bool) -> list[tuple[str, str]]:
    legend = []
    if view.shades == "d":
        end = number(view.extent)
        legend = [("diverging", f"closing it gains {end}, changes nothing, costs {end}")]
    elif not view.by_role:
        legend = [("scale", "least to most important")]
    if budgets:
        legend += [("swatch kept", "kept"), ("swatch removed", "removed")]
    return [*legend, *verdict_legend(heads)]


def _caption(
    contents: Contents, heads: Heads, roles: HeadRoles, view: View, choices: Choices
) -> str:
    if view.by_role:
        return f"Layers down, heads across. {_BY_ROLE}"
    if not view.ranks:
        return f"Layers down, heads across: {view.name} {doing(contents)}." + (
            " Darker heads matter more." if view.shades == "s" else ""
        )
    text = "Layers down, heads across; the shade is the method's score."
    if choices.budgets:
        text += " Filled heads are kept, hollow ones removed."
    if any(other.keeping for other in choices.views):
        text += " The shade of the consensus is the number of methods that keep the head."
    if heads.tests:
        text += " The marks are verdicts on single heads."
    if roles.known:
        text += f" Letters are roles. With the choice roles, {_BY_ROLE[0].lower()}{_BY_ROLE[1:]}"
    return text


def doing(contents: Contents) -> str:
    """What an ablation of the run did to a head."""
    return "when the head is left alone in its site" if contents.all_but_one else "without the head"


def _data(contents: Contents, heads: Heads, roles: HeadRoles, choices: Choices) -> dict[str, Any]:
    """What the page's script knows: everything as it is to be shown."""
    budgets = [budget for budget, _ in choices.budgets]
    known: dict[str, Any] = {}
    if roles.known:
        known = {
            "roles": [roles.words(i) for i in range(len(heads.places))],
            "roleSummary": roles.summary,
        }
    return {
        **known,
        "heads": heads.names,
        "facts": [
            _facts(contents, heads, place) + (roles.lines(i) if roles.known else [])
            for i, place in enumerate(heads.places)
        ],
        "verdicts": [heads.verdict(place) for place in heads.places],
        "views": [
            {
                "name": view.name,
                "steps": "".join("x" if step < 0 else str(step) for step in view.levels),
                "values": view.values,
                "ranks": view.ranks,
                "kept": [
                    "".join("01"[stay] for stay in view.kept[b]) for b in budgets if b in view.kept
                ],
                "left": [_left(contents, view.name, b) for b in budgets],
                "survival": [survival_words(contents, view.name, b) for b in budgets],
                "byRole": view.by_role,
                "shades": view.shades,
                "keeping": [
                    "".join(_DIGITS[count] for count in view.keeping[b])
                    for b in budgets
                    if b in view.keeping
                ],
            }
            for view in choices.views
        ],
        "budgets": [
            {"heads": budget, "share": share, "at": budget / len(heads.places)}
            for budget, share in choices.budgets
        ],
        "metric": contents.measure,
        "view": choices.view,
        "budget": choices.budget,
    }


def _facts(contents: Contents, heads: Heads, place: Place) -> list[list[str]]:
    """Lines of a head's tooltip that no choice changes."""
    row = heads.effects.get(place)
    if row is None:
        return []
    low, high = row.get("ci_low", math.nan), row.get("ci_high", math.nan)
    interval = "" if math.isnan(low) or math.isnan(high) else f" [{number(low)}, {number(high)}]"
    what = "with it alone" if contents.all_but_one else "without it"
    lines = [[f"{contents.measure} {what}", number(row["delta"]) + interval]]
    if "p" in row:
        raw, adjusted = (
            p_value(row[name]).removeprefix("p ").removeprefix("= ") for name in ("p", "p_adjusted")
        )
        lines.append(["p", f"{raw}, adjusted {adjusted}"])
    if row.get("verdict"):
        lines.append(["verdict", str(row["verdict"])])
    if "mde" in row and not math.isnan(row["mde"]):
        lines.append(["detectable from", number(row["mde"])])
    return lines


def _left(contents: Contents, method: str, budget: int) -> list[str]:
    """What a method's mask leaves of the metric, and random masks like it."""
    curves = contents.table("curves")
    rows = curves[(curves["kind"] == "all") & (curves["budget"] == budget)]
    found = []
    for name in (method, matched(method)):
        row = rows[rows["method"] == name]
        if len(row):
            first = row.iloc[0]
            found.append(
                f"{number(first['value'])} ({number(first['delta'])}; "
                f"{number(first['low'])} to {number(first['high'])})"
                if budget
                else number(first["value"])
            )
    return found
