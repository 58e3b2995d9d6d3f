"""Figures for a paper: PDF, SVG and PNG, with fonts that journals take (Type 42)."""

from __future__ import annotations

import contextlib
import logging
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.reports.charts.roles import HeadRoles, letter_of
from headtool.reports.charts.svg import clip
from headtool.reports.contents.facts import band_of, ceiling_of, matched
from headtool.reports.contents.heads import Heads, places
from headtool.reports.contents.run import Contents, records
from headtool.reports.formats.role_figures import ROLE_COLOURS, draw_scores, draw_survival, shaped
from headtool.reports.sections.gates import sweep_of
from headtool.reports.sections.views import choices_of
from headtool.reports.wording.words import names, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FORMATS", "write_figures"]

FORMATS = ("pdf", "svg", "png")

_LOGGER = logging.getLogger("headtool.reports")

# Okabe and Ito's colours, told apart with any colour vision, and a dash for print in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5A00", "#4338A8")
_DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (8, 2)))
_GREY = "#6F757C"
_VERDICTS = {
    "needed": ("o", "#D55E00", "#D55E00"),
    "removable": ("o", "#FFFFFF", "#0072B2"),
    "harmful": ("^", "#CC79A7", "#CC79A7"),
    "undecided": (".", _GREY, _GREY),
}
_STYLE: Any = {
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.hashsalt": "headtool",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "text.parse_math": False,  # a name with dollar signs is a name
    "figure.constrained_layout.use": True,
    "savefig.dpi": 300,
}
_MISSING = r"Glyph (\d+) \(.*\) missing from"
_WIDTH = 5.5  # inches: the text width of most conferences


def write_figures(
    contents: Contents, folder: Path, *, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write every figure that the run has tables for, in each of the formats.

    Letters that the font lacks, in a name of somebody's, are drawn as boxes; a log record says so.
    """
    import matplotlib as mpl

    written = []
    with mpl.rc_context(_STYLE), _telling_missing_letters():
        for name, draw in _drawings(contents):
            figure = draw()
            figure.draw_without_rendering()  # lays it out, once for all formats
            figure.set_layout_engine("none")
            for ending in formats:
                path = folder / f"{name}.{ending}"
                dated = {"pdf": "CreationDate", "svg": "Date"}.get(ending)
                figure.savefig(path, format=ending, metadata={dated: None} if dated else None)
                written.append(path)
    return written


@contextlib.contextmanager
def _telling_missing_letters() -> Iterator[None]:
    """Say once which letters are missing, instead of Matplotlib for each time that it draws one."""
    letters: dict[str, None] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message=_MISSING)
        yield
    for warning in caught:
        if found := re.match(_MISSING, str(warning.message)):
            letters[chr(int(found[1]))] = None
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    if letters:
        _LOGGER.warning(
            "the font of the figures (%s) lacks %s; boxes stand for them",
            _STYLE["font.sans-serif"][0],
            " ".join(letters),
        )


def _drawings(contents: Contents) -> Iterator[tuple[str, Callable[[], Figure]]]:
    heads = Heads(contents)
    roles = HeadRoles(contents, heads)
    curves = contents.table("curves")
    if choices_of(contents, heads, roles) is not None:
        yield "heads", lambda: _heads(contents, heads, roles)
    if len(curves):
        yield "curves", lambda: _curves(contents)
        if curves["method"].astype(str).str.startswith("random-matched:").any():
            yield "against-random", lambda: _against_random(contents)
    if sweep_of(contents) is not None:
        yield "sweep", lambda: _sweep(contents)
    if len(contents.table("agreement")):
        yield "agreement", lambda: _agreement(contents)
        yield "scores", lambda: _scores(contents, heads, roles)
    if all(shaped(contents)):
        yield "role-survival", lambda: _survival(contents)
    if heads.effects:
        yield "effects", lambda: _effects(contents, heads)
    if len(contents.table("correlations")):
        yield "data-sets", lambda: _data_sets(contents, heads)


def _new(
    rows: int = 1, columns: int = 1, *, width: float = _WIDTH, height: float = 2.6
) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(rows, columns, squeeze=False)


def _style(contents: Contents, method: str) -> dict[str, Any]:
    if method not in contents.methods:
        return {"color": _GREY, "linestyle": "-", "linewidth": 1.0}
    place = contents.methods.index(method) % len(_COLOURS)
    return {"color": _COLOURS[place], "linestyle": _DASHES[place]}


def _survival(contents: Contents) -> Figure:
    """Heads of each role that each method keeps."""
    methods, roles = shaped(contents)
    width = max(2.2, min(7.5, 0.5 + 1.05 * roles))
    figure, axes = _new(methods, roles, width=width, height=0.35 + 0.95 * methods)
    draw_survival(contents, axes)
    return figure


def _scores(contents: Contents, heads: Heads, roles: HeadRoles) -> Figure:
    """Two methods' scores of every head, relevance over confidence where both are there."""
    figure, axes = _new(width=3.4, height=2.9)
    draw_scores(contents, heads, roles, axes[0][0])
    return figure


def _heads(contents: Contents, heads: Heads, roles: HeadRoles) -> Figure:
    """A grid for each method and kind; heads that the method removes are hollow.

    Letters in the last one are roles.
    """
    import numpy as np

    choices = choices_of(contents, heads, roles)
    assert choices is not None
    budget = choices.budgets[choices.budget][0] if choices.budgets else None
    rows, columns = len(heads.kinds), len(choices.views)
    tallest = max(layer for _, layer, _ in heads.places) + 1
    height = rows * (0.6 + 0.11 * tallest) + (0.6 if roles.names else 0)  # the legend of roles
    figure, axes = _new(rows, columns, height=height)
    for column, view in enumerate(choices.views):
        stays = view.kept.get(budget) if budget is not None else None
        for row, kind in enumerate(heads.kinds):
            members = [i for i, place in enumerate(heads.places) if place[0] == kind]
            shape = (
                max(heads.places[i][1] for i in members) + 1,
                max(heads.places[i][2] for i in members) + 1,
            )
            grid = np.full(shape, math.nan)
            for i in members:
                shown = not view.by_role and (stays is None or stays[i])
                grid[heads.places[i][1:]] = view.levels[i] if shown else math.nan
            axis = axes[row][column]
            axis.imshow(grid, cmap="Blues", vmin=-2, vmax=6.5, aspect="equal")
            axis.set_xticks(np.arange(-0.5, shape[1]), minor=True)
            axis.set_yticks(np.arange(-0.5, shape[0]), minor=True)
            axis.grid(which="minor", color="#DDDDDD", linewidth=0.4)
            axis.tick_params(which="both", length=0)
            axis.set_xticks([0, shape[1] - 1])
            axis.set_yticks([0, shape[0] - 1])
            for i in members if view.by_role else ():
                layer, head = heads.places[i][1:]
                first = roles.letters(i)[:1]
                axis.text(
                    head, layer, roles.letters(i), ha="center", va="center", fontsize=4,
                    color=ROLE_COLOURS.get(first),
                )  # fmt: skip
            axis.set_title(clip(view.name, 20) if row == 0 else "")
            if column == 0:
                axis.set_ylabel(f"{kind}\nlayer")
            if row == rows - 1:
                axis.set_xlabel("head")
    if roles.names:
        key = ", ".join(f"{letter_of(role)} {clip(role, 24)}" for role in roles.names)
        figure.supxlabel(key, fontsize=6)
    return figure


def _curve(axis: Axes, contents: Contents, rows: Any, style: dict[str, Any], label: str) -> None:
    ordered = rows.sort_values("share")
    share = 100 * ordered["share"]
    axis.plot(share, ordered["value"], label=label, **style)
    low, high = band_of(contents, ordered)
    axis.fill_between(share, low, high, color=style["color"], alpha=0.15, linewidth=0)


def _curves(contents: Contents) -> Figure:
    curves = contents.table("curves")
    kinds = sorted(curves["kind"].unique(), key=lambda kind: kind != "all")
    figure, axes = _new(1, len(kinds), width=_WIDTH if len(kinds) < 3 else 7.5)
    for axis, kind in zip(axes[0], kinds, strict=True):
        for method in [*contents.methods, "random"]:
            rows = curves[(curves["kind"] == kind) & (curves["method"] == method)]
            if len(rows):
                _curve(axis, contents, rows, _style(contents, method), clip(method, 20))
        axis.set_xlabel("heads removed (%)" if kind == "all" else f"{kind} heads removed (%)")
        axis.set_xlim(0, 100)
    axes[0][0].set_ylabel(contents.measure)
    axes[0][0].legend(loc="lower left")
    return figure


def _against_random(contents: Contents) -> Figure:
    curves = contents.table("curves")
    curves = curves[curves["kind"] == "all"]
    present = [m for m in contents.methods if (curves["method"] == matched(m)).any()]
    columns = min(4, len(present))
    rows = -(-len(present) // columns)
    figure, axes = _new(rows, columns, height=0.3 + 1.5 * rows)
    for place, axis in enumerate(axes.flat):
        if place >= len(present):
            axis.axis("off")
            continue
        method = present[place]
        random, own = (curves[curves["method"] == name] for name in (matched(method), method))
        _curve(axis, contents, random, _style(contents, ""), "random")
        _curve(axis, contents, own, _style(contents, method), method)
        axis.sharey(axes[0][0])
        axis.set_title(clip(method, 20))
        axis.set_xlabel("heads removed (%)")
        if place % columns == 0:
            axis.set_ylabel(contents.measure)
    return figure


def _sweep(contents: Contents) -> Figure:
    """Quality against heads kept, a point for each lambda."""
    sweep = sweep_of(contents)
    assert sweep is not None
    figure, axes = _new()
    axis = axes[0][0]
    axis.axhline(sweep.whole, color=_GREY, linewidth=0.8, label="whole model")
    for place, (name, points) in enumerate(sweep.lines.items()):
        axis.plot(
            *([point[i] for point in points] for i in (0, 1)),
            marker="o",
            markersize=3,
            color=_COLOURS[place],
            linestyle=_DASHES[place],
            label=name,
        )
    above = axis.secondary_xaxis("top")
    above.set_xticks(
        [heads for heads, _ in sweep.lambdas],
        [text for _, text in sweep.lambdas],
        rotation=45,
        ha="left",
        fontsize=6,
    )
    axis.set_xlim(0, sweep.total)
    axis.set_xlabel(f"heads kept of {sweep.total}")
    axis.set_ylabel(contents.measure if sweep.metric == contents.metric else sweep.metric)
    axis.legend(loc="best")
    return figure


def _agreement(contents: Contents) -> Figure:
    import numpy as np

    methods = contents.methods
    grid = np.full((len(methods), len(methods)), math.nan)
    for row in records(contents.table("agreement")):
        pair = [methods.index(str(row[name])) for name in ("method_x", "method_y")]
        grid[pair[0], pair[1]] = grid[pair[1], pair[0]] = row["tau_b"]
    for row in records(contents.table("stability")):
        if row["method"] in methods:
            place = methods.index(row["method"])
            grid[place, place] = row["tau_b"]
    size = 1.0 + 0.45 * len(methods)
    figure, axes = _new(width=size + 0.6, height=size)
    axis = axes[0][0]
    image = axis.imshow(grid, cmap="PuOr_r", vmin=-1, vmax=1)
    for i, j in zip(*np.nonzero(np.isfinite(grid)), strict=True):
        ink = "white" if abs(grid[i, j]) > 0.8 else "black"
        axis.text(j, i, f"{grid[i, j]:.2f}", ha="center", va="center", fontsize=7, color=ink)
    labels = [clip(method, 14) for method in methods]
    axis.set_xticks(range(len(methods)), labels, rotation=45, ha="right")
    axis.set_yticks(range(len(methods)), labels)
    figure.colorbar(image, label="Kendall's tau-b", shrink=0.8)
    return figure


def _effects(contents: Contents, heads: Heads) -> Figure:
    rows = sorted(
        (row for row in heads.effects.values() if math.isfinite(row["delta"])),
        key=lambda row: row["delta"],
    )
    figure, axes = _new(height=2.3)
    axis = axes[0][0]
    axis.axhline(0, color=_GREY, linewidth=0.6)
    for verdict, (marker, face, edge) in _VERDICTS.items():
        mine = [
            (place, row)
            for place, row in enumerate(rows)
            if row.get("verdict", "undecided") == verdict
        ]
        if not mine:
            continue
        x, y = [place for place, _ in mine], [row["delta"] for _, row in mine]
        if "ci_low" in mine[0][1]:
            low, high = ([row[end] for _, row in mine] for end in ("ci_low", "ci_high"))
            axis.vlines(x, low, high, color=edge, linewidth=0.5, alpha=0.7)
        axis.scatter(
            *(x, y), s=10, marker=marker, facecolor=face, edgecolor=edge, linewidth=0.7, zorder=3,
            label=verdict if heads.tests else None,
        )  # fmt: skip
    axis.set_xlabel("heads in the order of their effect")
    axis.set_ylabel(f"change of {contents.measure}")
    if heads.tests and rows:
        axis.legend(loc="lower right", handletextpad=0.2)
    return figure


def _data_sets(contents: Contents, heads: Heads) -> Figure:
    """A scatter plot for each pair of data sets, with its coefficients."""
    pairs = records(contents.table("correlations"))[:3]
    tests = contents.table("tests" if "tests" in contents.tables else "ablation")
    if "metric" in tests:
        tests = tests[tests["metric"] == contents.metric]
    short = names(contents.data)
    figure, axes = _new(1, len(pairs), width=2.8 * len(pairs), height=2.7)
    for axis, row in zip(axes[0], pairs, strict=True):
        effects = []
        for spec in (row["data_x"], row["data_y"]):
            part = tests[tests["data"] == spec]
            effects.append(dict(zip(places(part), part["delta"], strict=True)))
        common = [place for place in heads.places if all(place in e for e in effects)]
        x, y = ([effect[place] for place in common] for effect in effects)
        axis.axhline(0, color=_GREY, linewidth=0.5)
        axis.axvline(0, color=_GREY, linewidth=0.5)
        axis.scatter(x, y, s=10, facecolor="none", edgecolor=_COLOURS[0], linewidth=0.8)
        axis.set_xlabel(f"on {clip(short.get(row['data_x'], str(row['data_x'])), 30)}")
        axis.set_ylabel(f"on {clip(short.get(row['data_y'], str(row['data_y'])), 30)}")
        ceiling = ceiling_of(row)
        limit = f" (ceiling {number(ceiling)})" if math.isfinite(ceiling) else ""
        axis.set_title(f"r {number(row['pearson'])}{limit}, rho {number(row['spearman'])}")
    return figure
