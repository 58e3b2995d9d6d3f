"""A comparison of two methods on three models of different seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from headtool.analysis.replication import replicate_agreement, replicate_overlap
from headtool.results.runs import Run, write_run

from .comparisons import comparison

METHODS = ("gradient", "ablation")


MODELS = ("models/first", "models/<b>second</b>", "models/third")


def write_replicated(folder: Path) -> Run:
    """Write the comparison as `headtool compare --replicate` does."""
    tables, settings = comparison(methods=METHODS)
    rng = np.random.default_rng(2)
    heads = tables["scores"].query("method == 'gradient'")
    layers = heads["layer"].to_numpy()
    by_layer = rng.normal(size=6)[layers]
    scores = {name: {model: by_layer + rng.normal(size=72) for model in MODELS} for name in METHODS}
    kept = {
        name: {model: {36: values > np.median(values)} for model, values in by_model.items()}
        for name, by_model in scores.items()
    }
    curves = tables["curves"]
    tables |= {
        "replicates": pd.DataFrame(
            [
                (model, "0" * 64, metric, 0.9 - 0.01 * place)
                for place, model in enumerate(MODELS)
                for metric in ("accuracy", "loss")
            ],
            columns=["model", "sha256", "metric", "value"],
        ),
        "replicate_agreement": replicate_agreement(scores, layers, permutations=200),
        "replicate_overlap": replicate_overlap(kept, layers),
        "replicate_curves": pd.concat([curves.assign(model=model) for model in MODELS]),
    }
    settings["replicates"] = dict.fromkeys(MODELS, "0" * 64)
    return write_run(folder, command="", provenance={"compare": settings}, tables=tables)
