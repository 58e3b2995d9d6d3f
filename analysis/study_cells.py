"""What each cell of a study says: one comparison, and its methods, in a row each.

The numbers are those of the comparisons, put side by side. An area between curves is in the unit
of its metric; ``advantage`` divides it by what all heads together are worth there, the distance of
the whole model to the model with no head, so that cells of several metrics can be averaged.

In each cell, ``p`` asks whether random masks could do as well, or as badly, as a method
(`headtool.analysis.draws`). Over methods and cells it is corrected by Holm (any false claim) and by
Benjamini-Hochberg (the share of false claims), on which claims about single cells rest: where the
number of draws is left open, the smallest p-value of a cell is its alpha over its number of
methods, and Holm's correction over many cells cannot reach that, whatever the methods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from headtool.analysis.comparison import Comparison
from headtool.analysis.multiplicity import adjust
from headtool.analysis.rank_correlation import kendall, spearman
from headtool.analysis.ranking import ranks_of
from headtool.analysis.replication import layer_ranks
from headtool.metrics.base import Array
from headtool.results.studies import Cell
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["StudyRun", "cell_frame", "kept_values", "pair_frame", "result_frame", "seed_frame"]

RANDOM = "random"


@dataclass(frozen=True, eq=False)
class StudyRun:
    """A cell of a study, and its comparison.

    Attributes
    ----------
    cell
        The cell.
    comparison
        Its comparison.
    cost
        What its manifest says of the work, phase by phase.
    """

    cell: Cell
    comparison: Comparison
    cost: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    @property
    def settings(self) -> Mapping[str, Any]:
        """What was asked of the comparison, and found."""
        return self.comparison.settings

    @property
    def metric(self) -> str:
        """Name of its metric."""
        return str(self.settings["metric"])

    @property
    def methods(self) -> list[str]:
        """Methods that have a curve, in the order given."""
        held = set(self.curves["method"].astype(str))
        return [str(name) for name in self.settings["methods"] if name in held]

    @property
    def curves(self) -> pd.DataFrame:
        """Its curves of heads of any kind."""
        rows = self.comparison.curves
        return rows[rows["kind"] == "all"]

    @property
    def tests(self) -> pd.DataFrame:
        """Its tests of these curves."""
        rows = self.comparison.curve_tests
        return rows[rows["kind"] == "all"]

    @property
    def whole(self) -> float:
        """The whole model's value."""
        rows = self.curves[self.curves["budget"] == 0]["value"]
        return float(rows.iloc[0]) if len(rows) else math.nan

    @property
    def none(self) -> float:
        """The value with no head; NaN where neither curves nor keep-only curves go that far."""
        rows = self.curves[self.curves["share"] >= 1]["value"]
        if len(rows):
            return float(rows.iloc[0])
        areas = self.comparison.faithfulness_areas
        held = areas[areas["kind"] == "all"]["none"].dropna()
        return float(held.iloc[0]) if len(held) else math.nan

    @property
    def worth(self) -> float:
        """What all heads together are worth; NaN if that is nothing, or not known."""
        distance = abs(self.whole - self.none)
        return distance if distance > 1e-9 else math.nan

    @property
    def seconds(self) -> float:
        """How long the comparison took, as far as its manifest says; NaN if it does not."""
        known = [float(part["seconds"]) for part in self.cost if "seconds" in part]
        return sum(known) if known else math.nan

    def seconds_of(self, method: str) -> float:
        """How long scoring by a method took; NaN if its manifest does not say.

        Parameters
        ----------
        method
            The method.
        """
        own = (f"scores.{method}", f"scores.{method}.steps")
        known = [float(part["seconds"]) for part in self.cost if part.get("phase") in own]
        return sum(known) if known else math.nan


def cell_frame(runs: Sequence[StudyRun]) -> pd.DataFrame:
    """Tabulate the cells, the table ``study_cells``.

    Parameters
    ----------
    runs
        The cells.
    """
    return TABLES["study_cells"].frame(
        {
            "cell": run.cell.id,
            "model": run.cell.model,
            "replicate": run.cell.replicate,
            "task": run.cell.task,
            "metric": run.metric,
            "higher_is_better": bool(run.settings.get("higher_is_better", True)),
            "methods": len(run.methods),
            "heads": int(run.settings.get("heads", 0)),
            "examples": _examples(run),
            "whole": run.whole,
            "none": run.none,
            "seconds": run.seconds,
        }
        for run in runs
    )


def _examples(run: StudyRun) -> int | None:
    splits = run.comparison.splits
    first = next(iter(run.settings.get("data", ())), None)
    count = int(((splits["data"] == first) & (splits["split"] == "evaluation")).sum())
    return count or None


def result_frame(runs: Sequence[StudyRun], *, alpha: float = 0.05) -> pd.DataFrame:
    """Tabulate every method in every cell, ``study_results``.

    Parameters
    ----------
    runs
        The cells.
    alpha
        Level of claims: at most so many of them are false, on average.
    """
    rows = []
    for run in runs:
        mine = [_result(run, method) for method in run.methods]
        areas = np.array([row["area"] for row in mine], dtype=np.float64)
        for row, rank in zip(mine, _ranks(areas), strict=True):
            rows.append(row | {"rank": rank})
    p = np.array([row["p"] for row in rows], dtype=np.float64)
    corrected = zip(rows, adjust(p, "holm"), adjust(p, "bh"), strict=True)
    return TABLES["study_results"].frame(
        row | {"p_holm": holm, "p_bh": bh, "claim": _claim(row, bh, alpha)}
        for row, holm, bh in corrected
    )


def _result(run: StudyRun, method: str) -> dict[str, Any]:
    tests = run.tests
    rows = tests[(tests["method_x"] == method) & (tests["method_y"] == RANDOM)]
    test = rows.iloc[0].to_dict() if len(rows) else {}
    area = float(test.get("area", math.nan))
    stability, areas = run.comparison.stability, run.comparison.faithfulness_areas
    areas = areas[areas["kind"] == "all"]
    passes = run.settings.get("passes", {}).get(method)
    return {
        "cell": run.cell.id,
        "method": method,
        "area": area,
        "low": float(test.get("low", math.nan)),
        "high": float(test.get("high", math.nan)),
        "advantage": area / run.worth,
        "p": float(test.get("p_draws", math.nan)),
        "beaten": float(test.get("draws_beaten", math.nan)),
        "draws": float(test.get("draws", math.nan)),
        "self_agreement": _of(stability, method, "tau_b"),
        "cpr": _of(areas, method, "cpr"),
        "cmd": _of(areas, method, "cmd"),
        "passes": math.nan if passes is None else float(passes),
        "seconds": run.seconds_of(method),
    }


def _of(frame: pd.DataFrame, method: str, column: str) -> float:
    """A method's number in a table; NaN where it has none."""
    rows = frame[frame["method"] == method][column]
    return float(rows.iloc[0]) if len(rows) else math.nan


def _ranks(areas: Array) -> Array:
    """Rank those that have an area, 1 for the largest."""
    ranks = np.full(len(areas), math.nan)
    known = ~np.isnan(areas)
    if known.any():
        ranks[known] = ranks_of(areas[known][None])[0]
    return ranks


def _claim(row: Mapping[str, Any], p: float, alpha: float) -> str:
    if not p <= alpha:  # also where there is no p-value
        return "open"
    return "better" if 2 * row["beaten"] > row["draws"] else "worse"


def pair_frame(runs: Sequence[StudyRun]) -> pd.DataFrame:
    """Return every pair of methods in every cell: area, its variance over examples, and p-values.

    Parameters
    ----------
    runs
        The cells.

    Returns
    -------
    pandas.DataFrame
        Columns ``cell``, ``method_x``, ``method_y``, ``area``, ``variance``, ``p`` and ``p_bh``,
        the same corrected by Benjamini-Hochberg over pairs and cells.
    """
    import pandas as pd

    rows = []
    for run in runs:
        wide = 2 * norm.ppf(1 - float(run.settings.get("alpha", 0.05)) / 2)
        tests = run.tests
        for row in tests[~tests["method_y"].astype(str).str.startswith(RANDOM)].to_dict("records"):
            variance = ((row["high"] - row["low"]) / wide) ** 2
            place = (run.cell.id, str(row["method_x"]), str(row["method_y"]))
            rows.append((*place, float(row["area"]), float(variance), float(row["p"])))
    columns = ["cell", "method_x", "method_y", "area", "variance", "p"]
    frame = pd.DataFrame(rows, columns=columns).astype({"area": float, "variance": float})
    frame["p_bh"] = adjust(frame["p"].to_numpy(np.float64), "bh")
    return frame


def kept_values(run: StudyRun, method: str, shares: Sequence[float], *, scaled: bool) -> Array:
    """Return what is left of the metric at some shares of heads removed, interpolated.

    Parameters
    ----------
    run
        The cell.
    method
        A method, or ``random``.
    shares
        Shares of the heads removed.
    scaled
        Whether to return shares of what all heads are worth, 1 for the whole model and 0 for the
        model with no head.

    Returns
    -------
    numpy.ndarray
        Shape [shares]; NaN where the curve does not go, or the scale is unknown.
    """
    rows = run.curves[run.curves["method"] == method].sort_values("share")
    if rows.empty:
        return np.full(len(shares), math.nan)
    x, y = rows["share"].to_numpy(float), rows["value"].to_numpy(float)
    found = np.interp(np.asarray(shares), x, y, left=math.nan, right=math.nan)
    if scaled:
        found = (found - run.none) / math.copysign(run.worth, run.whole - run.none)
    return np.asarray(found, dtype=np.float64)


def seed_frame(runs: Sequence[StudyRun]) -> pd.DataFrame:
    """Compare how a method ranks heads in training runs of one model on one task, ``study_seeds``.

    Heads of different initialisations have no counterparts, layers have; see
    `headtool.analysis.replication`.

    Parameters
    ----------
    runs
        The cells.
    """
    groups: dict[tuple[str, str], list[StudyRun]] = {}
    for run in runs:
        groups.setdefault((run.cell.model, run.cell.task), []).append(run)
    rows: list[dict[str, Any]] = []
    for (model, task), members in groups.items():
        place = {"model": model, "task": task}
        for i, first in enumerate(members):
            for second in members[i + 1 :]:
                names = {"replicate_x": first.cell.replicate, "replicate_y": second.cell.replicate}
                for method in [m for m in first.methods if m in second.methods]:
                    alike = _alike(first, second, method)
                    rows.append({"method": method, **place, **names, **alike})
        for run in members:
            for row in run.comparison.replicate_agreement.to_dict("records"):
                names = {f"replicate_{end}": str(row[f"model_{end}"]) for end in "xy"}
                found = {name: row[name] for name in ("method", "tau_b", "layer_spearman")}
                rows.append(found | place | names)
    return TABLES["study_seeds"].frame(rows)


def _alike(first: StudyRun, second: StudyRun, method: str) -> dict[str, float]:
    """How alike a method ranks the heads of two models, and their layers."""
    place = ["kind", "layer", "head"]
    frames = []
    for run in (first, second):
        scores = run.comparison.scores
        own = scores[scores["method"] == method]
        if "data" in own:
            own = own[own["data"] == own["data"].iloc[0]] if len(own) else own
        frames.append(own.set_index(place)["score"])
    x, y = frames
    if len(x) < 2 or set(x.index) != set(y.index):
        return {"tau_b": math.nan, "layer_spearman": math.nan}
    y = y.loc[x.index]
    sites = {site: i for i, site in enumerate(dict.fromkeys(key[:2] for key in x.index))}
    layers = np.array([sites[key[:2]] for key in x.index])
    a, b = x.to_numpy(float), y.to_numpy(float)
    found = {"tau_b": float(kendall(a[None], b[None])[0]), "layer_spearman": math.nan}
    if len(sites) > 2:
        ranks = [layer_ranks(values, layers)[None] for values in (a, b)]
        found["layer_spearman"] = float(spearman(*ranks)[0])
    return found
