"""Scores of runs as the importance of heads, for correlations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.analysis.importance import Importance
from headtool.analysis.kinds import of_kinds
from headtool.errors import HeadtoolError
from headtool.experiments.ablation import Ablation
from headtool.experiments.choosing import Scores, ScoresLike, one_method, open_scores
from headtool.experiments.inputs import HasOutcomes
from headtool.experiments.repeats import repeats_of
from headtool.experiments.score import Scoring
from headtool.heads import Head, Kind
from headtool.metrics import metric_of_run
from headtool.results.runs import Run

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["has_outcomes", "importance_of", "open_any"]


def open_any(run: HasOutcomes | ScoresLike) -> HasOutcomes | Scores:
    """Open a run directory, unless it is open already.

    Raises
    ------
    HeadtoolError
        If it is damaged, or no run.
    """
    return open_scores(run) if isinstance(run, Path | str) else run


def has_outcomes(run: HasOutcomes | Scores) -> bool:
    """Whether a run keeps outcomes of examples; one without scores is taken to, and complains."""
    if isinstance(run, Run):
        return "scores" not in run.names or "ablation" in run.names
    return not isinstance(run, Scoring)


def importance_of(
    runs: Sequence[HasOutcomes | Scores],
    *,
    kinds: Collection[Kind] | None,
    metric: str | None,
) -> tuple[list[Importance], dict[str, Any]]:
    """Return what each method of each run says of the heads, and where that comes from.

    Parameters
    ----------
    runs
        The runs, all of one model.
    kinds
        Attention kinds to keep; None for all.
    metric
        The metric of outcomes; None for their own.

    Raises
    ------
    HeadtoolError
        If the runs are of different models.
    """
    found: list[tuple[str, str, Importance]] = []
    sources: dict[str, Any] = {}
    for run in runs:
        place = str(run.folder or "")
        for name, source, importance in _of_run(run, kinds, metric):
            _check_model(place or name, source, sources)
            sources[f"{place} {name}".strip()] = dict(source)
            found.append((name, place, importance))
    names = [name for name, _, _ in found]
    renamed = [
        Importance(
            name if names.count(name) == 1 else f"{name} of {place}",
            *(one.heads, one.scores, one.n_examples, one.rescore),
        )
        for name, place, one in found
    ]
    return renamed, sources


def _of_run(
    run: HasOutcomes | Scores, kinds: Collection[Kind] | None, metric: str | None
) -> Iterator[tuple[str, Mapping[str, Any], Importance]]:
    """Every method of a run: its name, provenance and scores."""
    if isinstance(run, Scoring | Run) and not has_outcomes(run):
        methods = run.frame if isinstance(run, Scoring) else run.table("scores")
        if "data" in methods:
            raise HeadtoolError(
                f"{run.folder} is a comparison, which has correlations of its own; give runs of "
                "score, ablate or import"
            )
        for name in methods["method"].unique().tolist():
            frame, source = one_method(run, str(name))
            if kinds is not None:
                frame = frame[frame["kind"].isin(list(kinds))]
            yield str(name), source, _importance(str(name), run, frame)
        return
    assert isinstance(run, Ablation | Run) or hasattr(run, "outcomes")
    outcomes: Any = run
    source = outcomes.source
    chosen = metric_of_run(source, metric)
    kept = of_kinds(outcomes.outcomes(chosen), kinds)
    name = source["data"]["spec"]
    yield name, source, Importance.from_outcomes(name, kept, chosen)


def _importance(name: str, run: Scoring | Run, frame: pd.DataFrame) -> Importance:
    rows = zip(frame["kind"], frame["layer"], frame["head"], strict=True)
    heads = [Head(kind, int(layer), int(index)) for kind, layer, index in rows]
    if isinstance(run, Run) and "score_repeats" in run.names:
        return Importance.from_contributions(name, heads, repeats_of(run, frame))
    return Importance.from_scores(name, heads, frame["score"].to_numpy())


def _check_model(place: str, source: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Refuse runs of different weights, as far as they say."""
    own = source.get("model", {})
    for other in others.values():
        known = other.get("model", {})
        if None in (own.get("sha256"), known.get("sha256")):
            continue
        if own["sha256"] != known["sha256"]:
            raise HeadtoolError(
                f"{place} is of {own.get('spec')} and another run of {known.get('spec')}, another "
                "model; correlate runs of one model"
            )
