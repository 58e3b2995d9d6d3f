"""Several synthetic comparisons that fit together, as run directories."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from headtool.analysis.study_cells import StudyRun
from headtool.results.runs import Run, write_run

from .comparisons import comparison

MODELS = ("models/bert-seed1", "models/bert-seed2", "models/gpt", "models/t5")
TASKS = ("data/news.tsv", "data/reviews.tsv")
METHODS = ("gradient", "ablation", "gates", "confidence")
COST = (
    {"phase": "scores.gradient", "token_passes": 40, "seconds": 1.5},
    {"phase": "scores.gradient.steps", "token_passes": 40, "seconds": 0.5},
    {"phase": "curves", "token_passes": 400, "seconds": 8.0},
)


def write_cells(
    folder: Path,
    *,
    models: Sequence[str] = MODELS,
    tasks: Sequence[str] = TASKS,
    methods: Sequence[str] = METHODS,
    seed: int = 0,
    best: float = 0.06,
    **options: Any,
) -> list[Path]:
    """Write a comparison of every model on every task; the first method is better by `best`."""
    rng = np.random.default_rng(seed)
    places = []
    for number, (model, task) in enumerate(itertools.product(models, tasks)):
        place = folder / f"cell-{number}"
        tables, settings = comparison(
            model=model, data=[task], methods=methods, seed=seed + number, **options
        )
        tables["curve_tests"] = curve_tests(rng, methods, best)
        passes = {name: float(i) for i, name in enumerate(methods)}
        write_run(
            place,
            command="headtool compare",
            provenance={"compare": {**settings, "passes": passes}},
            tables=tables,
            cost=COST,
        )
        (place / "report.html").write_text("<p>the cell's own report</p>", encoding="utf-8")
        places.append(place)
    return places


def curve_tests(rng: np.random.Generator, methods: Sequence[str], best: float) -> pd.DataFrame:
    """Areas of all pairs, and over random masks; with 199 draws."""
    areas = {name: best * (i == 0) + 0.01 * rng.normal() for i, name in enumerate(methods)}
    none, rows = (np.nan,) * 5, []
    for x, y in itertools.combinations(methods, 2):
        gap = areas[x] - areas[y]
        p = 0.0001 if abs(gap) > 0.03 else 0.4
        rows.append(("all", x, y, gap, gap - 0.02, gap + 0.02, p, p, *none))
    for name, area in areas.items():
        won = area > 0.03
        p, beaten = (0.01, 199.0) if won else (0.7, 120.0)
        ends = (area - 0.02, area + 0.02)
        rows.append(("all", name, "random", area, *ends, np.nan, np.nan, beaten, 199.0, 12.0, p, p))
    columns = ["kind", "method_x", "method_y", "area", "low", "high", "p", "p_adjusted"]
    columns += ["draws_beaten", "draws", "draw_passes", "p_draws", "p_draws_adjusted"]
    rows = [row if len(row) == 13 else (*row, np.nan) for row in rows]
    return pd.DataFrame(rows, columns=columns)


def changed(place: Path, run: Run, **settings: Any) -> Path:
    """Write a run again with other settings."""
    source = run.manifest["provenance"]["compare"]
    tables = {name: run.table(name) for name in run.names}
    provenance = {"compare": {**source, **settings}}
    write_run(place, command="", provenance=provenance, tables=tables)
    return place


def area_of(run: StudyRun, method: str) -> float:
    """A method's area over random masks in a cell."""
    rows = run.tests[(run.tests["method_x"] == method) & (run.tests["method_y"] == "random")]
    return float(rows["area"].iloc[0])
