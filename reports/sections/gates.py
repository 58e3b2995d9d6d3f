"""The report's section on trained gates: what they kept, and quality against heads kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.lines import Curve, line_chart
from headtool.reports.charts.svg import series_class
from headtool.reports.contents.run import Contents, records
from headtool.reports.wording.words import given, listed, number

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["Sweep", "gates_section", "sweep_of"]

_METHODS = ("gates", "dsp")
_KINDS = ("enc-self", "dec-self", "cross")
_WEIGHTS = {
    "kept heads, original weights": "original weights",
    "kept heads, adapted weights": "adapted weights",
    "kept heads from scratch": "from scratch",
}
"""Rows of the table that are drawn, and what they are called."""


@dataclass(frozen=True)
class Sweep:
    """Quality against heads kept, over the weights of the penalty.

    Attributes
    ----------
    rows
        A row for each lambda and kind of weights.
    metric
        The column that is drawn.
    total
        Heads that were gated.
    whole
        The whole model's value.
    """

    rows: Sequence[Mapping[str, Any]]
    metric: str
    total: int
    whole: float

    @property
    def lines(self) -> dict[str, list[tuple[int, float]]]:
        """By weights: heads kept and the metric, from few heads to many."""
        found: dict[str, list[tuple[int, float]]] = {}
        for model, name in _WEIGHTS.items():
            points = {
                (int(row["heads"]), float(row[self.metric]))
                for row in self.rows
                if row["model"] == model
            }
            if points:
                found[name] = sorted(points)
        return found

    @property
    def lambdas(self) -> list[tuple[int, str]]:
        """Heads kept, with the lambdas that keep as many."""
        by_heads: dict[int, list[float]] = {}
        for row in self.rows:
            values = by_heads.setdefault(int(row["heads"]), [])
            if row["lambda"] not in values:
                values.append(row["lambda"])
        return [
            (heads, "λ " + ", ".join(given(value) for value in sorted(values)))
            for heads, values in sorted(by_heads.items())
        ]


def sweep_of(contents: Contents) -> Sweep | None:
    """The sweep of a run; None where it has none."""
    rows = [row for row in records(contents.table("gates.sweep")) if row["model"] in _WEIGHTS]
    whole = _whole(contents, "gates")
    if not rows or whole is None:
        return None
    metric = contents.metric if contents.metric in rows[0] else "loss"
    return Sweep(rows, metric, int(whole["heads"]), float(whole[metric]))


def gates_section(contents: Contents) -> Section | None:
    """What training gates kept, and for a sweep quality against heads kept."""
    tables = [table for method in _METHODS if (table := _evaluation(contents, method))]
    if not tables:
        return None
    text, figures = [], []
    sweep = sweep_of(contents)
    if sweep is not None:
        text.append(_finding(contents, sweep))
        figures.append(_figure(contents, sweep))
        tables.insert(0, _sweep_table(contents, sweep))
    text.append(_measured_on(contents))
    text += [_scratch(contents, method) for method in _METHODS]
    return Section(
        "gates",
        "What trained gates keep",
        text=[line for line in text if line],
        figures=figures,
        tables=tables,
    )


def _whole(contents: Contents, method: str) -> Mapping[str, Any] | None:
    rows = records(contents.table(f"{method}.evaluation"))
    return next((row for row in rows if row["model"] == "whole model"), None)


def _measured_on(contents: Contents) -> str:
    """How many examples quality is measured on, where all methods held out as many."""
    counts = set()
    for method in _METHODS:
        row, how = _whole(contents, method), contents.described("provenance").get(method, {})
        if row is not None and "examples" in row:
            data = how.get("data") if isinstance(how, Mapping) else None
            given = data.get("examples") if isinstance(data, Mapping) else None
            counts.add((int(row["examples"]), given == int(row["examples"])))
    if len(counts) != 1:
        return ""
    amount, is_all = counts.pop()
    how_used = "the gates were trained on too" if is_all else "were held out of training"
    return f"Quality is measured on {amount} examples that {how_used}."


def _finding(contents: Contents, sweep: Sweep) -> str:
    """What the heaviest penalty leaves, and the whole model."""
    fewest = min(int(row["heads"]) for row in sweep.rows)
    rows = [row for row in sweep.rows if int(row["heads"]) == fewest]
    heaviest = max(float(row["lambda"]) for row in rows)
    values = [
        f"{number(float(row[sweep.metric]))} {'on ' * ('scratch' not in name)}{name}"
        for row in rows
        for model, name in _WEIGHTS.items()
        if row["lambda"] == heaviest and row["model"] == model
    ]
    how = contents.described("provenance").get("gates")
    main = how.get("lambda") if isinstance(how, Mapping) else None
    scores = f"The scores are those of lambda {given(main)}. " if isinstance(main, float) else ""
    measure = contents.measure if sweep.metric == contents.metric else sweep.metric
    return (
        f"Gates were trained once for each weight lambda of the penalty on open heads. {scores}"
        f"With lambda {given(heaviest)}, {fewest} of {sweep.total} heads stay: {measure} is "
        f"{listed(values)}, and {number(sweep.whole)} for the whole model."
    )


def _scratch(contents: Contents, method: str) -> str:
    """How models were trained from scratch, and what they may be compared with."""
    how = contents.described("provenance").get(method)
    recipe = how.get("scratch") if isinstance(how, Mapping) else None
    if not isinstance(recipe, Mapping):
        return ""
    return (
        f"From scratch means {recipe.get('steps')} steps of {recipe.get('batch_size')} examples "
        f"from fresh weights ({number(float(recipe.get('passes', math.nan)))} passes over "
        f"{recipe.get('examples')} examples), with the closed heads closed throughout. Such models "
        "compare with all heads from scratch, which had as many steps, and not with the whole "
        "model, whose training was another."
    )


def _figure(contents: Contents, sweep: Sweep) -> Figure:
    wide, narrow = (_chart(contents, sweep, width) for width in (720, 360))
    return Figure(
        [Panel(wide, narrow=narrow)],
        "Quality against heads kept: one point for each weight of the penalty (λ), each trained "
        "from the same start.",
    )


def _chart(contents: Contents, sweep: Sweep, width: int) -> Markup:
    measure = contents.measure if sweep.metric == contents.metric else sweep.metric
    lines = [
        Curve(
            name,
            [float(heads) for heads, _ in points],
            [value for _, value in points],
            series_class(place),
            label=name,
        )
        for place, (name, points) in enumerate(sweep.lines.items())
    ]
    return line_chart(
        lines,
        label=f"{measure} against heads kept",
        x_label="heads kept",
        y_label=measure,
        width=width,
        height=320 if width > 400 else 280,
        reference=(sweep.whole, "whole model"),
        heads=sweep.total,
        marks=[(float(heads), text) for heads, text in sweep.lambdas],
    )


def _kinds(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [kind for kind in _KINDS if kind in rows[0]]


def _sweep_table(contents: Contents, sweep: Sweep) -> DataTable:
    """A row for each lambda: heads kept, of which kinds, and quality by weights."""
    kinds, names = _kinds(sweep.rows), list(sweep.lines)
    metrics = list(dict.fromkeys([sweep.metric, "loss"]))
    titles = {sweep.metric: contents.measure if sweep.metric == contents.metric else sweep.metric}
    columns = [Column("lambda"), Column("heads kept"), *(Column(kind) for kind in kinds)]
    columns += [
        Column(f"{titles.get(metric, metric)}, {name}") for metric in metrics for name in names
    ]
    rows = []
    for value in sorted({float(row["lambda"]) for row in sweep.rows}):
        mine = {_WEIGHTS[r["model"]]: r for r in sweep.rows if r["lambda"] == value}
        first = next(iter(mine.values()))
        counts = [int(first[name]) for name in ("heads", *kinds)]
        rows.append(
            [
                Cell(given(value), value),
                *(Cell.count(amount) for amount in counts),
                *(
                    Cell.number(float(mine[name][metric])) if name in mine else Cell("–")
                    for metric in metrics
                    for name in names
                ),
            ]
        )
    return DataTable("sweep", "Quality against heads kept, by penalty", columns, rows)


def _evaluation(contents: Contents, method: str) -> DataTable | None:
    """What a method's gates keep, on the weights that there are."""
    found = records(contents.table(f"{method}.evaluation"))
    if not found:
        return None
    kinds = _kinds(found)
    metrics = [name for name in dict.fromkeys([contents.metric, "loss"]) if name in found[0]]
    columns = [
        Column("model", is_number=False),
        *(Column(name) for name in ("heads", *kinds)),
        *(Column(contents.measure if name == contents.metric else name) for name in metrics),
    ]
    rows = [
        [
            Cell(str(row["model"])),
            *(Cell.count(row[name]) for name in ("heads", *kinds)),
            *(Cell.number(float(row[name])) for name in metrics),
        ]
        for row in found
    ]
    return DataTable(f"{method}-evaluation", f"What {method} keeps", columns, rows)
