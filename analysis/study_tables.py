"""What many comparisons say together: the tables of a study, made of those of its cells.

A cell is a model, trained from one seed, on one task. Methods are ranked in blocks (a model on a
task, the mean over its seeds), and means, intervals and tests are over units: families of models if
there are several, else models, else tasks, else seeds. Nothing is said about levels above the
units: several tasks of one model say nothing of other models.

A claim about a single cell is corrected over methods (or pairs) and cells by Benjamini-Hochberg. In
how many cells a method beats random masks at least is the largest u for which "in at least u" holds
(Benjamini & Heller 2008): ``(n - u + 1) p_(u)`` is at most alpha over the number of methods. Both
are valid for p-values that are independent or positively dependent.

References
----------
Benjamini & Hochberg (1995), Controlling the false discovery rate.
Benjamini & Heller (2008), Screening for partial conjunction hypotheses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headtool.analysis.levels import check_level
from headtool.analysis.partial_conjunction import partial_conjunction_p
from headtool.analysis.ranking import Ranking, mean_over_units, rank_methods, ranks_of
from headtool.analysis.study_cells import (
    RANDOM,
    StudyRun,
    cell_frame,
    kept_values,
    pair_frame,
    result_frame,
    seed_frame,
)
from headtool.analysis.study_conclusions import conclusions
from headtool.analysis.variance_parts import variance_parts
from headtool.errors import HeadtoolError
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SHARES", "StudyTables", "study_tables"]

SHARES = (0.25, 0.5, 0.75)
"""Shares of the heads removed at which quality is told."""

_ENOUGH = 0.8  # of the cells must have all methods that are ranked
_LEVELS = ("family", "model", "task", "replicate")


@dataclass(frozen=True, eq=False)
class StudyTables:
    """What many comparisons say together.

    Attributes
    ----------
    runs
        The cells.
    tables
        Tables by name, as `headtool.schema` describes them.
    ranked
        Methods that are ranked, the best first.
    methods
        All methods, ranked ones first.
    """

    runs: tuple[StudyRun, ...]
    tables: Mapping[str, pd.DataFrame]
    ranked: tuple[str, ...]
    methods: tuple[str, ...]

    @property
    def design(self) -> dict[str, Any]:
        """The row of ``study_design``."""
        return {str(k): v for k, v in self.tables["study_design"].iloc[0].to_dict().items()}


def study_tables(runs: Sequence[StudyRun], *, alpha: float = 0.05) -> StudyTables:
    """Put the comparisons of a study together.

    Parameters
    ----------
    runs
        The cells, with at least one method.
    alpha
        Level of intervals and claims.

    Raises
    ------
    HeadtoolError
        If there is no cell, or no method has a result in enough of them.
    """
    check_level(alpha)
    if not runs:
        raise HeadtoolError("there is no comparison to report on; run one first")
    return _Study(tuple(runs), alpha).tables()


class _Study:
    """The cells, and what several tables are made from."""

    def __init__(self, runs: tuple[StudyRun, ...], alpha: float) -> None:
        self.runs, self.alpha = runs, alpha
        self.results = result_frame(runs, alpha=alpha)
        self.pairs = pair_frame(runs)
        self.seeds = seed_frame(runs)
        metrics = {run.metric for run in runs}
        self.scaled = len(metrics) > 1
        self.unit = "share" if self.scaled else next(iter(metrics))
        self.column = "advantage" if self.scaled else "area"
        self.wide = self.results.pivot(index="cell", columns="method", values=self.column)
        self.wide = self.wide.reindex([run.cell.id for run in runs])
        self.methods = list(dict.fromkeys(name for run in runs for name in run.methods))
        self.candidates, self.ranked_runs = self._complete()
        full = self.wide.reindex(columns=self.methods).notna().all(axis=1)
        self.full_runs = [run for run in runs if full[run.cell.id]]

    def _complete(self) -> tuple[list[str], list[StudyRun]]:
        """Methods that are ranked, and the cells that have all of them.

        Cells with less than half of the usual methods do not count. Methods are taken in the order
        of how many of the others have them, as long as every model stays and enough cells.
        """
        known = self.wide.notna()
        order = [name for name in self.methods if name in known]
        measured = [run for run in self.runs if known.loc[run.cell.id].any()]
        times = {name: int(known[name].sum()) for name in order}
        usual = [name for name in order if 2 * times[name] > len(measured)]
        runs = [r for r in measured if 2 * known.loc[r.cell.id, usual].sum() >= len(usual) > 0]
        least, models = _ENOUGH * len(runs), {run.cell.model for run in runs}
        chosen: list[str] = []
        for name in sorted(usual, key=lambda name: -times[name]):
            rest = [run for run in runs if known.loc[run.cell.id, name]]
            if len(rest) >= least and {run.cell.model for run in rest} == models:
                chosen.append(name)
                runs = rest
        if not chosen:
            raise HeadtoolError(
                "no method has an area over random masks in enough of the comparisons; give "
                "comparisons with common methods and draws"
            )
        return [name for name in order if name in chosen], runs

    @cached_property
    def level(self) -> str:
        """What the units are."""
        labels = self._labels()
        return next((name for name, given in labels.items() if len(set(given)) > 1), "replicate")

    def _labels(self) -> dict[str, list[str]]:
        """By level, the label of every ranked cell; families only where they differ from models."""
        runs = self.ranked_runs
        labels = {name: [self._label(run, name) for run in runs] for name in _LEVELS}
        if _partition(labels["family"]) == _partition(labels["model"]):
            del labels["family"]
        return labels

    @staticmethod
    def _label(run: StudyRun, level: str) -> str:
        if level == "replicate":
            return f"{run.cell.model}\0{run.cell.replicate}"
        return str(getattr(run.cell, level))

    def _units(self, runs: Sequence[StudyRun]) -> list[str]:
        return [self._label(run, self.level) for run in runs]

    def _values(self, runs: Sequence[StudyRun], methods: Sequence[str]) -> Array:
        cells = [run.cell.id for run in runs]
        return np.asarray(self.wide.loc[cells, list(methods)].to_numpy(np.float64))

    @cached_property
    def ranking(self) -> Ranking:
        """The ranking of the candidates over blocks."""
        values, units = self._blocks(self.ranked_runs, self.candidates)
        return rank_methods(values, units, alpha=self.alpha)

    @cached_property
    def full_ranks(self) -> dict[str, float]:
        """Mean ranks among all methods, in the cells that have them all; empty if none has."""
        if not self.full_runs:
            return {}
        values, _ = self._blocks(self.full_runs, self.methods)
        return dict(zip(self.methods, ranks_of(values).mean(axis=0).tolist(), strict=True))

    def _blocks(self, runs: Sequence[StudyRun], methods: Sequence[str]) -> tuple[Array, list[str]]:
        """Values of blocks, models on tasks, and their units; single cells if there is one."""
        values = self._values(runs, methods)
        keys = [(run.cell.model, run.cell.task) for run in runs]
        if len(set(keys)) == 1:
            return values, self._units(runs)
        blocks = list(dict.fromkeys(keys))
        means = np.stack([values[[key == block for key in keys]].mean(axis=0) for block in blocks])
        return means, [self._units([runs[keys.index(block)]])[0] for block in blocks]

    def tables(self) -> StudyTables:
        """Make all tables."""
        place = np.argsort(self.ranking.mean_ranks, kind="stable")
        ranked = [self.candidates[i] for i in place]
        methods = (*ranked, *(name for name in self.methods if name not in ranked))
        tables = {
            "study_cells": cell_frame(self.runs),
            "study_results": self.results,
            "study_ranking": self._ranking_frame(methods),
            "study_design": self._design_frame(),
            "study_pairs": self._pair_frame(methods),
            "study_variance": self._variance_frame(),
            "study_budgets": self._budget_frame((*methods, RANDOM)),
            "study_seeds": self.seeds,
        }
        tables["study_conclusions"] = conclusions(tables)
        return StudyTables(self.runs, tables, tuple(ranked), methods)

    def _ranking_frame(self, methods: Sequence[str]) -> pd.DataFrame:
        ranks = dict(zip(self.candidates, self.ranking.mean_ranks.tolist(), strict=True))
        rows = []
        for method in methods:
            own = self.results[self.results["method"] == method]
            values = self.wide[method].to_numpy(np.float64)
            mean, low, high = mean_over_units(values, self._units(self.runs), alpha=self.alpha)
            seeds = self.seeds[self.seeds["method"] == method]
            best = own["rank"] == self.results.groupby("cell")["rank"].transform("min")[own.index]
            rows.append(
                {
                    "method": method,
                    "area": mean,
                    "low": low,
                    "high": high,
                    "mean_rank": ranks.get(method, math.nan),
                    "rank_among_all": self.full_ranks.get(method, math.nan),
                    "cells": int(own["area"].notna().sum()),
                    "best": int(best.sum()),
                    "better": int((own["claim"] == "better").sum()),
                    "worse": int((own["claim"] == "worse").sum()),
                    "at_least": self._at_least(own, len(methods)),
                    "self_agreement": float(own["self_agreement"].mean()),
                    "seed_agreement": float(seeds["tau_b"].mean()),
                    "seed_layers": float(seeds["layer_spearman"].mean()),
                    "cpr": float(own["cpr"].mean()),
                    "cmd": float(own["cmd"].mean()),
                    "passes": float(own["passes"].median()),
                    "seconds": float(own["seconds"].median()),
                }
            )
        return TABLES["study_ranking"].frame(rows)

    def _at_least(self, own: pd.DataFrame, methods: int) -> int:
        """In how many cells a method is better than random masks, at least."""
        tested = own[own["p"].notna()]
        if tested.empty:
            return 0
        is_better = tested["area"].to_numpy(float) > 0
        p = np.where(is_better, tested["p"].to_numpy(float), 1.0)
        held = np.flatnonzero(methods * partial_conjunction_p(p) <= self.alpha + 1e-12)
        return int(held[-1]) + 1 if len(held) else 0

    def _design_frame(self) -> pd.DataFrame:
        found = self.ranking
        draws = max((float(run.tests["draws"].max()) for run in self.runs), default=math.nan)
        row = {
            "unit": self.unit,
            "levels": self.level,
            "units": found.units,
            "blocks": found.blocks,
            "methods": len(self.candidates),
            "cells": len(self.ranked_runs),
            "cells_all": len(self.full_runs),
            "statistic": found.statistic,
            "p": found.p,
            "p_units": found.p_units,
            "critical": found.critical,
            "critical_units": found.critical_units,
            "alpha": self.alpha,
            "smallest_p": 2 / (1 + draws),
        }
        return TABLES["study_design"].frame([row])

    def _pair_frame(self, methods: Sequence[str]) -> pd.DataFrame:
        order = {name: i for i, name in enumerate(methods)}
        found = self.ranking
        place = {name: i for i, name in enumerate(self.candidates)}
        rows = []
        for x in methods:
            for y in methods[order[x] + 1 :]:
                values = (self.wide[x] - self.wide[y]).to_numpy(np.float64)
                mean, low, high = mean_over_units(values, self._units(self.runs), alpha=self.alpha)
                both = {
                    "rank_difference": math.nan,
                    "p_nemenyi": math.nan,
                    "p_units": math.nan,
                }
                if x in place and y in place:
                    i, j = place[x], place[y]
                    both = {
                        "rank_difference": float(found.mean_ranks[j] - found.mean_ranks[i]),
                        "p_nemenyi": float(found.p_pairs[i, j]),
                        "p_units": float(found.p_pairs_units[i, j]),
                    }
                cells, better, worse = self._in_cells(x, y)
                rows.append(
                    {"method_x": x, "method_y": y, "area": mean, "low": low, "high": high}
                    | both
                    | {"cells": cells, "better": better, "worse": worse}
                )
        return TABLES["study_pairs"].frame(rows)

    def _in_cells(self, x: str, y: str) -> tuple[int, int, int]:
        """How many cells compare two methods, and which of them is better in how many."""
        tests = self.pairs
        forward = tests[(tests["method_x"] == x) & (tests["method_y"] == y)]
        backward = tests[(tests["method_x"] == y) & (tests["method_y"] == x)]
        signs = np.concatenate([forward["area"], -backward["area"]])
        clear = np.concatenate([forward["p_bh"], backward["p_bh"]]) <= self.alpha
        return (
            len(signs),
            int((clear & (signs > 0)).sum()),
            int((clear & (signs < 0)).sum()),
        )

    def _variance_frame(self) -> pd.DataFrame:
        runs = self.ranked_runs
        values = self._values(runs, self.candidates)
        labels = self._labels()
        if not any(run.cell.replicate for run in runs):
            labels["replicate"] = ["one"] * len(runs)
        parts = variance_parts(values, labels, self._sampling(runs), alpha=self.alpha)
        return TABLES["study_variance"].frame(
            {
                "part": part.name,
                "levels": part.levels,
                "sd": math.sqrt(part.variance),
                "low": math.sqrt(part.low),
                "high": math.sqrt(part.high) if math.isfinite(part.high) else math.nan,
                "share": part.share,
                "reason": part.reason,
            }
            for part in parts
        )

    def _sampling(self, runs: Sequence[StudyRun]) -> list[float]:
        """Variance over examples of the difference of two ranked methods, by cell."""
        found = []
        for run in runs:
            rows = self.pairs[self.pairs["cell"] == run.cell.id]
            rows = rows[rows["method_x"].isin(self.candidates)]
            rows = rows[rows["method_y"].isin(self.candidates)]
            mean = float(rows["variance"].mean()) if len(rows) else math.nan
            found.append(mean / run.worth**2 if self.scaled else mean)
        return found

    def _budget_frame(self, methods: Sequence[str]) -> pd.DataFrame:
        rows = []
        for method in methods:
            values = np.stack(
                [kept_values(run, method, SHARES, scaled=self.scaled) for run in self.runs]
            )
            for share, column in zip(SHARES, values.T, strict=True):
                mean = mean_over_units(column, self._units(self.runs), alpha=self.alpha)[0]
                known = column[~np.isnan(column)]
                ends = (known.min(), known.max()) if len(known) else (math.nan, math.nan)
                rows.append((method, share, mean, *ends, len(known)))
        return TABLES["study_budgets"].frame(rows)


def _partition(labels: Sequence[str]) -> list[int]:
    return [labels.index(label) for label in labels]
