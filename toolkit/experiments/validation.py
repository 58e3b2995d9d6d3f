"""Which methods find heads that are known to matter: what ``headtool validate`` does."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.known_truth import (
    area_under_roc,
    average_precision,
    mean_interval,
    share_above,
)
from headtool.builtin.planted import Truth, truth
from headtool.data import load_data
from headtool.engine.measurement import resolve
from headtool.engine.tallying import tally
from headtool.engine.units import Executor, in_turn
from headtool.errors import HeadtoolError
from headtool.experiments.planning import Plan, Sketch, begin
from headtool.methods import get_method, method_names
from headtool.methods.base import Method
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import Progress, ProgressLike, silent
from headtool.reports.contents.held import Held
from headtool.reports.results import Reported
from headtool.results.folders import check_output
from headtool.results.runs import write_run
from headtool.results.scores import json_rows
from headtool.results.versions import versions
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["VARIANTS", "Validation", "validate"]

_LOG = logging.getLogger("headtool")

VARIANTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "ablation": (
        {},
        {"replacement": "mean"},
        {"replacement": "resample"},
        {"replacement": "optimal"},
    ),
    "activation": ({}, {"variant": "contribution"}),
    "attribution": (
        {},
        {"baseline": "mean"},
        {"baseline": "resample"},
        {"backward": "relp"},
        {"sign": "signed"},
    ),
    "gates": ({}, {"heads": 3}),
    "gradient": ({}, {"granularity": "example"}),
    "integrated": ({}, {"path": "inputs"}, {"path": "attention"}),
    "taylor": ({}, {"granularity": "element"}),
}
"""By method, the options that matter most; other methods are tried with their defaults."""


@dataclass(frozen=True, eq=False, repr=False)
class Validation(Reported):
    """How well methods find the heads that matter, on models whose truth is known.

    Attributes
    ----------
    frame
        A row per method and options, the best first: the table ``validation`` of
        `headtool.schema`.
    heads
        The scores behind it: the table ``validation_heads``.
    provenance
        What reproduces the numbers.
    folder
        The run directory; None where none was asked for.
    """

    frame: pd.DataFrame
    heads: pd.DataFrame
    provenance: Mapping[str, Any]
    folder: Path | None = None

    def held(self) -> Held:
        """Return what its run directory holds, for its report."""
        tables = {"validation": self.frame, "validation_heads": self.heads}
        return Held({"validate": dict(self.provenance)}, tables)

    def document(self) -> dict[str, Any]:
        """Return the tables as JSON can hold them, in the format ``headtool/validation/1``."""
        return {
            "schema": "headtool/validation/1",
            "provenance": dict(self.provenance),
            "validation": json_rows(self.frame),
            "heads": json_rows(self.heads),
        }


def validate(
    methods: Sequence[Method | str] | None = None,
    *,
    models: int = 5,
    limit: int = 48,
    seed: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    command: str = "",
    execute: Executor = in_turn,
    progress: ProgressLike = silent,
) -> Validation:
    """Try scoring methods on models in which it is known what every head does.

    The models are `builtin:planted` with seeds that follow one another. Each has two necessary
    heads, two interchangeable ones of which either suffices, one that harms, one of large constant
    output, and six idle ones; see `headtool.builtin.planted`.

    Parameters
    ----------
    methods
        Scoring methods; a name stands for the variants of `VARIANTS`. None for all that there are,
        those of other packages included.
    models
        How many models.
    limit
        Examples to score on.
    seed
        Seed of the first model, of the examples, and of everything random in a method.
    out
        Run directory to write.
    force
        Replace a run that is there.
    command
        The command line that makes the run again, for its manifest.
    execute
        Runs the units of work.
    progress
        Reports progress; True shows a bar.

    Raises
    ------
    HeadtoolError
        If a method is unknown or fails.

    Examples
    --------
    >>> import headtool
    >>> found = headtool.validate(["ablation", "magnitude"], models=2, limit=16)
    >>> found.frame[found.frame["variant"] == ""][["method", "auroc_single"]].round(2)
          method  auroc_single
    2   ablation          1.00
    4  magnitude          0.25
    """
    import pandas as pd

    for name, number in (("models", models), ("limit", limit)):
        if number < 1:
            raise HeadtoolError(f"`{name}` must be at least 1, got {number}")
    tried = list(_variants(methods))
    folder = None if out is None else Path(out)
    check_output(folder, force=force)
    numbers = range(seed, seed + models)
    planted = [_planted(number, limit) for number in numbers]
    meter = begin(progress, _plan(tried, *planted[0], models), *planted[0])
    tables: dict[tuple[int, int], pd.DataFrame] = {}
    measured: dict[tuple[str, str], list[dict[str, float]]] = {}
    for place, one in enumerate(tried):
        try:
            with meter.phase(one.title):
                found = [
                    _tried(one, *current, number, execute, meter)
                    for number, current in zip(numbers, planted, strict=True)
                ]
        except HeadtoolError as error:
            if methods is not None:
                raise
            _LOG.warning("%s is left out: %s", one.title, error)
            continue
        tables |= {
            (number, place): scores for number, (scores, _) in zip(numbers, found, strict=True)
        }
        measured[one.key] = [values for _, values in found]
    if not measured:
        raise HeadtoolError("every method failed; name some with `methods`")
    frame = _summary(measured)
    heads = pd.concat([tables[place] for place in sorted(tables)], ignore_index=True)
    source: Mapping[str, Any] = {
        "models": [_spec(number) for number in numbers],
        "limit": limit,
        "seed": seed,
        "methods": {one.title: {**one.method.settings()} for one in tried if one.key in measured},
        "versions": versions(),
    }
    if folder is not None:
        write_run(
            folder,
            command=command,
            provenance={"validate": source},
            tables={"validation": frame, "validation_heads": heads},
            force=force,
        )
    return Validation(frame, heads, source, folder)


def _planted(seed: int, limit: int) -> tuple[ModelAdapter, Examples]:
    """A model and its examples."""
    model = load_model(_spec(seed))
    return model, model.encode(load_data("builtin:planted", limit=limit, seed=seed))


def _plan(tried: Sequence[_Variant], model: ModelAdapter, examples: Examples, models: int) -> Plan:
    """What all variants cost on all models, which are as large as the first."""
    sketch, measures = Sketch("validate", model), resolve(model, None)
    for one in tried:
        sketch.method(one.title, one.method, examples, model.sites, measures, times=models)
    return sketch.plan()


@dataclass(frozen=True)
class _Variant:
    """A method to try, and what its options are called."""

    method: Method
    options: str

    @property
    def key(self) -> tuple[str, str]:
        return self.method.name, self.options

    @property
    def title(self) -> str:
        return " ".join(self.key).strip()


def _variants(methods: Sequence[Method | str] | None) -> Iterator[_Variant]:
    """Build the methods; a name stands for all its variants."""
    for one in method_names() if methods is None else methods:
        if isinstance(one, Method):
            defaults = {option.name: option.default for option in one.options()}
            given = {k: v for k, v in one.settings().items() if v != defaults[k]}
            yield _Variant(one, _named(given))
        else:
            for options in VARIANTS.get(one, ({},)):
                yield _Variant(get_method(one)(**options), _named(options))


def _named(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.rstrip('_')}={value}" for name, value in options.items())


def _spec(seed: int) -> str:
    return f"builtin:planted?seed={seed}"


def _tried(
    one: _Variant,
    model: ModelAdapter,
    examples: Examples,
    seed: int,
    execute: Executor,
    progress: Progress,
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Score the heads of one model, and compare with the truth."""
    began = time.perf_counter()
    with tally(model) as ran:
        made = one.method.score(model, examples, seed=seed, execute=execute, progress=progress)
        frame = made.frame
    seconds = time.perf_counter() - began
    passes = float(examples.lengths.sum()) * len(model.sites)
    known = truth(seed)
    heads = model.sites.heads
    work = {head: name for name, head in known.heads.items()}
    table = TABLES["validation_heads"].frame(
        {
            "method": one.key[0],
            "variant": one.key[1],
            "model_seed": seed,
            "kind": head.kind,
            "layer": head.layer,
            "head": head.index,
            "work": work[head],
            "truth": known.kind(head),
            "score": float(score),
            "rank": int(rank),
        }
        for head, score, rank in zip(heads, frame["score"], frame["rank"], strict=True)
    )
    values = _compared(
        table["score"].to_numpy(dtype=np.float64),
        table["rank"].to_numpy(dtype=np.int64),
        known,
        model,
    )
    return table, {
        **values,
        "forward": ran.forward / passes,
        "backward": ran.backward / passes,
        "seconds": seconds,
    }


def _compared(
    scores: NDArray[np.float64], ranks: NDArray[np.int64], known: Truth, model: ModelAdapter
) -> dict[str, float]:
    """Compare the scores of one model's heads with the truth."""
    heads = model.sites.heads

    def of(kind: Any) -> NDArray[np.float64]:
        chosen = known.of_kind(kind)
        return scores[[head in chosen for head in heads]]

    necessary = np.array([head in known.necessary for head in heads])
    members = np.array([head in known.members for head in heads])
    ordered = [heads[place] for place in np.argsort(ranks)]
    sufficient = next(
        count for count in range(len(heads) + 1) if known.suffices(frozenset(ordered[:count]))
    )
    better = of("interchangeable").max(keepdims=True)
    return {
        "auroc_single": area_under_roc(scores, necessary),
        "ap_single": average_precision(scores, necessary),
        "auroc_set": area_under_roc(scores, members),
        "ap_set": average_precision(scores, members),
        "kept": float(sufficient),
        "necessary": share_above(of("necessary"), of("idle")),
        "interchangeable": share_above(better, of("idle")),
        "harmful": share_above(np.append(of("necessary"), better), of("harmful")),
        "constant": share_above(of("necessary"), of("constant")),
    }


def _summary(measured: Mapping[tuple[str, str], list[dict[str, float]]]) -> pd.DataFrame:
    """Average over models; the methods that find most of the sufficient sets come first."""
    rows = []
    for (method, variant), values in measured.items():
        row: dict[str, Any] = {"method": method, "variant": variant, "models": len(values)}
        for name in values[0]:
            mean, low, high = mean_interval([one[name] for one in values])
            row[name] = mean
            if name in ("auroc_single", "auroc_set", "kept"):
                row |= {f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    rows.sort(key=lambda row: (-row["auroc_set"], -row["auroc_single"], row["forward"]))
    return TABLES["validation"].frame(rows)
