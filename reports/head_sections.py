"""The report's sections on heads: which each method keeps, and what each is worth alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headtool.analysis.equivalence import VERDICTS
from headtool.reports.blocks import (
    Cell,
    Choices,
    Column,
    DataTable,
    Figure,
    Panel,
    Section,
    View,
)
from headtool.reports.contents import Contents
from headtool.reports.findings import default_budget, margin_of
from headtool.reports.head_charts import LEVELS, Effect, SquareCell, caterpillar, head_grid, level
from headtool.reports.words import digits, given, names, number, p_value, percent

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup

__all__ = [
    "CONSENSUS",
    "Heads",
    "choices_of",
    "effects_section",
    "heads_section",
    "places",
    "verdict_legend",
]

CONSENSUS = "consensus"

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"  # one character a head in the page's data

Place = tuple[str, int, int]


class Heads:
    """The heads of a run in canonical order, with what every section looks up of them."""

    def __init__(self, contents: Contents) -> None:
        frames = [
            contents.tables[n]
            for n in ("scores", "tests", "ablation", "sequential", "best")
            if n in contents.tables
        ]
        found: dict[Place, None] = {}
        for frame in frames:
            found |= dict.fromkeys(places(frame))
        self.contents = contents
        self.places = list(found)
        self.number = {place: i for i, place in enumerate(self.places)}
        self.names = [f"{kind}.{layer}.{head}" for kind, layer, head in self.places]
        self.kinds = list(dict.fromkeys(kind for kind, _, _ in self.places))
        self.main = contents.data[0] if contents.data else ""
        self.tests = self._rows("tests") if "tests" in contents.tables else self._rows("sequential")
        self.effects = self.tests or self._rows("ablation")

    def _rows(self, table: str) -> dict[Place, Mapping[str, Any]]:
        """Rows of a table on the main data set (and by the main metric), by head."""
        frame = self.contents.table(table)
        frame = frame[frame["data"] == self.main]
        if "metric" in frame:
            frame = frame[frame["metric"] == self.contents.metric]
        return dict(zip(places(frame), frame.to_dict("records"), strict=True))

    def verdict(self, place: Place) -> str:
        """Verdict on the main data set; empty where there is none."""
        return str(self.tests.get(place, {}).get("verdict", ""))


def places(frame: pd.DataFrame) -> list[Place]:
    """Kind, layer and head of every row."""
    columns = (frame["kind"].astype(str), frame["layer"].astype(int), frame["head"].astype(int))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def heads_section(contents: Contents, heads: Heads, text: Sequence[str]) -> Section | None:
    """Which heads each method keeps, on the grid of layers and heads."""
    choices = choices_of(contents, heads)
    if choices is None:
        return None
    shown = choices.views[choices.view]
    main = Figure(
        [
            Panel(_grid(heads, choices, choices.view, kind, interactive=True), title=kind)
            for kind in heads.kinds
        ],
        _caption(contents, heads, shown, choices),
        css="grids",
        legend=_legend(heads, bool(choices.budgets)),
    )
    figures = [main]
    if len(choices.views) > 1:
        panels = [
            Panel(
                _grid(heads, choices, which, kind, interactive=False),
                title=view.name if len(heads.kinds) == 1 else f"{view.name}, {kind}",
                css=f"small {view.css}",
            )
            for which, view in enumerate(choices.views)
            for kind in heads.kinds
        ]
        share = choices.budgets[choices.budget][1] if choices.budgets else ""
        what = f"with {share} of the heads removed" if share else ""
        figures.append(
            Figure(panels, f"All methods side by side {what}".strip() + ".", css="multiples")
        )
    title = "Which heads each method keeps" if choices.budgets else "How important each head is"
    return Section(
        "heads",
        title,
        text=text,
        figures=figures,
        tables=[_kept_table(heads, choices)] if choices.budgets else [],
        data=_data(contents, heads, choices),
        choices=choices,
    )


def _kept_table(heads: Heads, choices: Choices) -> DataTable:
    """The heads that each method keeps at the budget shown first, a layer in a row."""
    budget, share = choices.budgets[choices.budget]
    views = [view for view in choices.views if not view.keeping]
    sites = list(dict.fromkeys((kind, layer) for kind, layer, _ in heads.places))
    columns = [Column("layer", is_number=False)]
    columns += [Column(view.name, is_number=False) for view in views]
    columns += [Column("all of them", is_number=False)] if len(views) > 1 else []
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


def choices_of(contents: Contents, heads: Heads) -> Choices | None:
    """What there is to choose from; None for a run without scores or effects."""
    views = _score_views(contents, heads) or _effect_view(contents, heads)
    if not views:
        return None
    kept = contents.table("kept")
    pairs = kept[["budget", "share"]].drop_duplicates("budget").sort_values("budget")
    budgets = [
        (int(b), percent(float(s))) for b, s in zip(pairs["budget"], pairs["share"], strict=True)
    ]
    default = default_budget(contents)
    place = next((i for i, (budget, _) in enumerate(budgets) if budget == default), 0)
    if budgets and len(views) > 1:
        views = [*views, _consensus(views, budgets[place][0])]
    return Choices(views, budgets, 0, place)


def _consensus(views: Sequence[View], budget: int) -> View:
    """How many methods keep each head."""
    keeping = {
        number: [sum(stays) for stays in zip(*(view.kept[number] for view in views), strict=True)]
        for number in views[0].kept
    }
    return View(
        CONSENSUS,
        "",
        [keeping_level(count, len(views)) for count in keeping[budget]],
        [],
        kept={number: [count > 0 for count in counts] for number, counts in keeping.items()},
        keeping=keeping,
    )


def keeping_level(count: int, methods: int) -> int:
    """Shade of a head that so many of the methods keep."""
    return (LEVELS - 1) * count // methods


def _score_views(contents: Contents, heads: Heads) -> list[View]:
    scores, kept = contents.table("scores"), contents.table("kept")
    views = []
    for i, method in enumerate(contents.methods):
        rows = scores[scores["method"] == method]
        by_place = dict(zip(places(rows), rows.to_dict("records"), strict=True))
        values = [float(by_place.get(p, {}).get("score", math.nan)) for p in heads.places]
        finite = [value for value in values if math.isfinite(value)]
        low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
        by_budget = {}
        for budget, part in kept[kept["method"] == method].groupby("budget"):
            stays = dict(zip(places(part), part["kept"].astype(bool).tolist(), strict=True))
            # Heads that were not up for removal stay.
            by_budget[int(str(budget))] = [stays.get(p, True) for p in heads.places]
        views.append(
            View(
                method,
                f"m{i % 8}",
                [level(value, low, high) for value in values],
                [_with_error(by_place.get(p, {})) for p in heads.places],
                [int(by_place[p]["rank"]) if p in by_place else 0 for p in heads.places],
                by_budget,
            )
        )
    return views


def _with_error(row: Mapping[str, Any]) -> str:
    if not row:
        return "no score"
    error = row["stderr"]
    return number(row["score"]) + ("" if math.isnan(error) else f" ± {number(error)}")


def _effect_view(contents: Contents, heads: Heads) -> list[View]:
    """Effects as the only view, for a run without scores."""
    sign = -1.0 if contents.higher_is_better else 1.0
    values = [sign * float(heads.effects.get(p, {}).get("delta", math.nan)) for p in heads.places]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return []
    return [
        View(
            f"change of {contents.metric}",
            "m0",
            [level(value, min(finite), max(finite)) for value in values],
            [number(sign * value) for value in values],
        )
    ]


def _grid(heads: Heads, choices: Choices, which: int, kind: str, *, interactive: bool) -> Markup:
    view = choices.views[which]
    budget = choices.budgets[choices.budget][0] if choices.budgets else None
    stays = view.kept.get(budget) if budget is not None else None
    cells = {}
    for i, place in enumerate(heads.places):
        if place[0] != kind:
            continue
        verdict = heads.verdict(place)
        state = "" if stays is None else "kept" if stays[i] else "removed"
        step = view.levels[i]
        words = [heads.names[i], state, f"rank {view.ranks[i]}" if view.ranks else "", verdict]
        cells[place[1:]] = SquareCell(
            f"{state} s{step}" if step >= 0 else f"{state} unknown",
            ", ".join(word for word in words if word),
            verdict if interactive else "",
            i,
        )
    width = max(head for _, head in cells) + 1
    size = max(10, min(28, 680 // width)) if interactive else max(4, min(11, 150 // width))
    return head_grid(
        cells,
        label=f"{view.name}, {kind}",
        size=size,
        interactive=interactive,
        view=None if interactive else which,
    )


def _legend(heads: Heads, budgets: bool) -> list[tuple[str, str]]:
    legend = [("scale", "low to high score")]
    if budgets:
        legend += [("swatch kept", "kept"), ("swatch removed", "removed")]
    return legend + [(css, name) for css, name in verdict_legend(heads) if name != "undecided"]


def verdict_legend(heads: Heads) -> list[tuple[str, str]]:
    """The marks of the verdicts that occur."""
    found = {heads.verdict(place) for place in heads.places}
    return [(f"mark {verdict}", verdict) for verdict in VERDICTS if verdict in found]


def _caption(contents: Contents, heads: Heads, view: View, choices: Choices) -> str:
    if not view.ranks:
        return (
            f"Layers down, heads across: {view.name} when the head is closed. Darker heads matter "
            "more."
        )
    text = "Layers down, heads across; the shade is the method's score."
    if choices.budgets:
        text += " Filled heads are kept, hollow ones removed."
    if choices.views[-1].keeping:
        text += " The shade of the consensus is the number of methods that keep the head."
    if heads.tests:
        text += " The marks are verdicts on single heads; heads without a mark are undecided."
    return text


def _data(contents: Contents, heads: Heads, choices: Choices) -> dict[str, Any]:
    """What the page's script knows: everything as it is to be shown."""
    budgets = [budget for budget, _ in choices.budgets]
    return {
        "heads": heads.names,
        "facts": [_facts(contents, heads, place) for place in heads.places],
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
                "keeping": [
                    "".join(_DIGITS[count] for count in view.keeping[b])
                    for b in budgets
                    if b in view.keeping
                ],
            }
            for view in choices.views
        ],
        "budgets": [{"heads": budget, "share": share} for budget, share in choices.budgets],
        "metric": contents.metric,
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
    lines = [[f"{contents.metric} without it", number(row["delta"]) + interval]]
    if "p" in row:
        lines.append(
            ["p", f"{p_value(row['p'])}, adjusted {p_value(row['p_adjusted'])}".replace("p = ", "")]
        )
    if row.get("verdict"):
        lines.append(["verdict", str(row["verdict"])])
    if "mde" in row and not math.isnan(row["mde"]):
        lines.append(["detectable from", number(row["mde"])])
    return lines


def _left(contents: Contents, method: str, budget: int) -> list[str]:
    """What a method's mask leaves of the metric, and random masks like it."""
    curves = contents.table("curves")
    rows = curves[(curves["kind"] == "all") & (curves["draw"] == -1) & (curves["budget"] == budget)]
    found = []
    for name in (method, f"random-matched:{method}"):
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


def effects_section(contents: Contents, heads: Heads, text: Sequence[str]) -> Section | None:
    """What closing single heads changes, and the table of all heads."""
    if not heads.effects:
        return None
    metric = contents.metric
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
            label=f"Change of {metric} when a head is closed, all heads in ascending order",
            y_label=f"change of {metric}",
            margin=line,
            width=width,
        )
        for width in (960, 350)
    ]
    bars = (
        "intervals of "
        f"{percent(1 - float(contents.settings.get('alpha', 0.05)))} for each head alone"
        if heads.tests
        else "bars of one standard error"
    )
    caption = f"What closing one head changes on {main}, with {bars}."
    if math.isfinite(line):
        caption += f" The dashed line is the margin of {given(abs(line))}."
    legend = verdict_legend(heads)
    figure = Figure([Panel(drawings[0], narrow=drawings[1])], caption, legend=legend)
    return Section(
        "effects",
        "What single heads are worth",
        text=text,
        figures=[figure],
        tables=[_table(contents, heads)],
    )


def _table(contents: Contents, heads: Heads) -> DataTable:
    """Every head: effect, tests, and its rank by each method."""
    columns = [Column("head", is_number=False), Column("effect"), Column("interval")]
    tested = bool(heads.tests) and "p" in next(iter(heads.tests.values()))
    if tested:
        columns += [Column("p"), Column("adjusted p")]
    if heads.tests:
        columns.append(Column("verdict", is_number=False))
    if tested:
        columns.append(Column("detectable"))
    scores = contents.table("scores")
    ranks = {
        method: dict(zip(places(rows), rows["rank"].astype(int).tolist(), strict=True))
        for method in contents.methods
        if len(rows := scores[scores["method"] == method])
    }
    columns += [Column(f"{method} rank") for method in ranks]
    rows = []
    for i, place in enumerate(heads.places):
        row = heads.effects.get(place)
        if row is None:
            continue
        low, high = row.get("ci_low", math.nan), row.get("ci_high", math.nan)
        cells = [
            Cell(heads.names[i], float(i)),
            _number(row["delta"]),
            Cell("–" if math.isnan(low) else f"{digits(low)} to {digits(high)}", _order(low)),
        ]
        if tested:
            cells += [_number(row["p"]), _number(row["p_adjusted"])]
        if heads.tests:
            cells.append(
                Cell(str(row["verdict"]), str(row["verdict"]), f"verdict {row['verdict']}")
            )
        if tested:
            cells.append(_number(row["mde"]))
        cells += [
            Cell(str(by_place[place]), float(by_place[place])) if place in by_place else Cell("–")
            for by_place in ranks.values()
        ]
        rows.append(cells)
    return DataTable("every-head", f"All {len(rows)} heads", columns, rows, can_filter=True)


def _number(value: float) -> Cell:
    return Cell(digits(value), _order(value))


def _order(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
