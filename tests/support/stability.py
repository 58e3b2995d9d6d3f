"""A comparison of two methods, scored on random halves as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from headtool.analysis.subsampling import selection_frequency, subsample_agreement
from headtool.analysis.subsampling import subsample_overlap as overlap_of
from headtool.heads import Head
from headtool.results.runs import Run, write_run

from .comparisons import comparison

HALVES = 8


METHODS = ("gradient", "ablation")


def stability_tables(heads: pd.DataFrame, budgets: list[int]) -> dict[str, pd.DataFrame]:
    """Tables of two methods: one steady, one at random."""
    rng = np.random.default_rng(3)
    count = len(heads)
    worth = rng.normal(size=count)
    scores = {
        "gradient": worth + 0.2 * rng.normal(size=(HALVES, count)),
        "ablation": rng.normal(size=(HALVES, count)),
    }
    ranks = {name: np.argsort(np.argsort(-rows, axis=1), axis=1) for name, rows in scores.items()}
    kept = {name: {b: rows < count - b for b in budgets} for name, rows in ranks.items()}
    places = [Head(*place) for place in heads.itertuples(index=False)]
    return {
        "subsamples": subsample_agreement(scores, examples=50),
        "subsample_overlap": overlap_of(kept, heads["layer"].to_numpy()),
        "selection_frequency": selection_frequency(kept, places),
    }


def write_subsampled(folder: Path) -> Run:
    """Write the comparison as `headtool compare --stability` does."""
    tables, settings = comparison(methods=METHODS)
    heads = tables["scores"].query("method == 'gradient'")[["kind", "layer", "head"]]
    tables |= stability_tables(heads, settings["budgets"])
    return write_run(folder, command="", provenance={"compare": settings}, tables=tables)
