"""Which heads a model loses: by scores, by verdicts, or by a mask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.analysis.assessment import assess_outcomes
from headtool.data import TextData
from headtool.errors import HeadtoolError, unknown
from headtool.experiments.ablation import Ablation
from headtool.experiments.score import Scoring
from headtool.heads import HeadMask, Sites, head_name
from headtool.masks.selection import (
    budget,
    by_scores,
    by_verdicts,
    from_file,
    scores_of,
    scores_of_ablation,
    tied_at_cut,
)
from headtool.metrics import metric_of_run
from headtool.models.base import ModelAdapter
from headtool.results.runs import Run, read_run

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Choice", "Scores", "ScoresLike", "check_heads", "one_method", "open_scores", "shape_of"]

_VERDICTS = ("removable", "harmful")
_BLIND = ("magnitude", "random")  # methods that look at no example

Scores = Run | Scoring | Ablation
"""Scores of heads, or outcomes of closing them."""

ScoresLike = Scores | Path | str
"""The same, or the run directory that holds them."""


def open_scores(scores: ScoresLike) -> Scores:
    """Open a run directory, unless it is open already.

    Raises
    ------
    HeadtoolError
        If it is damaged, or no run.
    """
    return read_run(scores) if isinstance(scores, Path | str) else scores


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which heads to remove.

    Attributes
    ----------
    scores, method, remove, keep_heads, verdict, mask, keep_one_per_layer
        As for `headtool.prune`.

    Raises
    ------
    HeadtoolError
        If this does not say which heads, or says it twice.
    """

    scores: ScoresLike | None = None
    method: str | None = None
    remove: str | None = None
    keep_heads: int | None = None
    verdict: str | None = None
    mask: HeadMask | Path | str | None = None
    keep_one_per_layer: bool = False

    def __post_init__(self) -> None:
        ways = {
            "remove": self.remove,
            "keep_heads": self.keep_heads,
            "verdict": self.verdict,
            "mask": self.mask,
        }
        given = [f"`{name}`" for name, value in ways.items() if value is not None]
        if len(given) != 1:
            raise HeadtoolError(
                "say which heads to remove by one of `remove`, `keep_heads`, `verdict` and `mask`; "
                f"{' and '.join(given) or 'none of them'} {'are' if len(given) > 1 else 'is'} given"
            )
        if self.mask is not None:
            others = {
                "scores": self.scores is not None,
                "method": self.method is not None,
                "keep_one_per_layer": self.keep_one_per_layer,
            }
            for name, is_given in others.items():
                if is_given:
                    raise HeadtoolError(f"`mask` names the heads itself; leave `{name}` out")
        elif self.scores is None:
            maker = "ablate" if self.verdict is not None else "score"
            raise HeadtoolError(
                f"{given[0]} needs `scores`, the run that headtool {maker} writes to its `out`"
            )
        if self.verdict is not None:
            if self.verdict not in _VERDICTS:
                raise unknown("verdict to remove", self.verdict, _VERDICTS)
            if self.method is not None:
                raise HeadtoolError(
                    "`verdict` comes from outcomes, not from a method; leave `method` out"
                )

    def described(self) -> dict[str, Any]:
        """What the record of a pruned model says of it; as JSON."""
        folder = getattr(self.scores, "folder", self.scores)
        mask = self.mask
        return {
            "run": None if folder is None else str(folder),
            "method": self.method,
            "remove": self.remove,
            "keep_heads": self.keep_heads,
            "verdict": self.verdict,
            "mask": mask.to_json() if isinstance(mask, HeadMask) else mask and str(mask),
            "keep_one_per_layer": self.keep_one_per_layer,
        }

    def scored_by(self, scores: Scores | None) -> str:
        """Name the method whose scores choose the heads; empty where none do.

        Parameters
        ----------
        scores
            What `open_scores` made of the field.
        """
        if scores is None or (self.remove is None and self.keep_heads is None):
            return ""
        return str(one_method(scores, self.method)[0]["method"].iloc[0])

    def saw(self, scores: Scores | None, data: TextData) -> bool:
        """Return whether the heads were chosen on a data set, or on some of its examples.

        Parameters
        ----------
        scores
            What `open_scores` made of the field.
        data
            The data set.
        """
        if self.scored_by(scores) in _BLIND:
            return False
        made: Any = {}
        if isinstance(scores, Run):
            made = scores.manifest["provenance"]
        elif isinstance(scores, Ablation):
            made = scores.source
        elif scores is not None:
            made = [result.provenance for result in scores.results]
        known = {data.spec, data.fingerprint}
        return any(known & {source["spec"], source["sha256"]} for source in _sources(made))

    def of(
        self, model: ModelAdapter, scores: Scores | None, *, unit: str = "head", seed: int = 0
    ) -> HeadMask:
        """Return the mask that closes these heads of a model.

        Parameters
        ----------
        model
            The model.
        scores
            What `open_scores` made of the field.
        unit
            ``head`` or ``group``; see `headtool.masks.selection.by_scores`.
        seed
            Draws the resamples behind verdicts.

        Raises
        ------
        HeadtoolError
            If `scores` are of another model, or so many heads cannot go.
        """
        if self.mask is not None:
            given = self.mask
            return given if isinstance(given, HeadMask) else from_file(Path(given), model.sites)
        assert scores is not None
        keep_one = self.keep_one_per_layer
        if self.verdict is not None:
            frame = _verdicts(scores, model, seed)
            return by_verdicts(frame, model.sites, self.verdict, unit=unit, keep_one=keep_one)
        table = _one_method(scores, model, self.method)
        count = budget(self.remove, self.keep_heads, model.sites.n_heads)
        return by_scores(table, model.sites, count, unit=unit, keep_one=keep_one)

    def tied(
        self, model: ModelAdapter, scores: Scores | None, mask: HeadMask, *, unit: str = "head"
    ) -> dict[str, int] | None:
        """Say how many heads have equal scores on both sides of the cut, and how many of them go.

        Parameters
        ----------
        model, scores, unit
            As for `of`.
        mask
            What `of` returned.

        Returns
        -------
        dict
            ``heads`` and ``removed``; None where scores tell all heads apart, or do not choose.
        """
        if scores is None or self.mask is not None or self.verdict is not None:
            return None
        found = tied_at_cut(_one_method(scores, model, self.method), mask, unit=unit)
        return None if found is None else dict(zip(("heads", "removed"), found, strict=True))


def one_method(scores: Scores, method: str | None) -> tuple[pd.DataFrame, Mapping[str, Any]]:
    """Return the scores by one method, and their provenance.

    Parameters
    ----------
    scores
        What `open_scores` returned.
    method
        The method; None where there is one only.

    Raises
    ------
    HeadtoolError
        If there are several methods, or none of that name.
    """
    made: Mapping[str, Any]
    if isinstance(scores, Run):
        table, made = scores_of(scores), scores.manifest["provenance"]
    elif isinstance(scores, Ablation):
        table, made = scores_of_ablation(scores.frame, scores.source), {"ablate": scores.source}
    else:
        table = scores.frame
        made = {result.method: result.provenance for result in scores.results}
    methods = list(table["method"].unique())
    if method is None and len(methods) > 1:
        raise HeadtoolError(
            f"{_name(scores)} has scores of {', '.join(methods)}; choose one with `method`"
        )
    if method is not None and method not in methods:
        raise unknown(f"method in {_name(scores)}:", method, methods)
    name = method or methods[0]
    return table[table["method"] == name], made.get(name) or made.get("ablate") or {}


def _sources(described: Any) -> Iterator[Mapping[str, Any]]:
    """The descriptions of data sets in a provenance, wherever they stand."""
    if isinstance(described, Mapping):
        if {"spec", "sha256", "examples"} <= described.keys():
            yield described
        described = list(described.values())
    if isinstance(described, list):
        for part in described:
            yield from _sources(part)


def check_heads(frame: pd.DataFrame, sites: Sites, place: str) -> None:
    """Refuse scores that do not cover the heads of the kinds that they are about, or others.

    Scores that were imported without their model are known to fit only by that.

    Parameters
    ----------
    frame
        Kind, layer and head of every score.
    sites
        The model's sites.
    place
        What to call the scores.

    Raises
    ------
    HeadtoolError
        If their heads are not the model's.
    """
    rows = zip(frame["kind"], frame["layer"], frame["head"], strict=True)
    there = {(str(kind), int(layer), int(head)) for kind, layer, head in rows}
    wanted = {
        (head.kind, head.layer, head.index)
        for head in sites.heads
        if head.kind in {kind for kind, _, _ in there}
    }
    if there != wanted:
        raise HeadtoolError(
            f"{place} has scores of {len(there)} heads ({shape_of(frame)}), and the model has "
            f"{sites.summary}; they are of another model"
        )


def shape_of(frame: pd.DataFrame) -> str:
    """Describe heads in a few words, such as ``dec-self 32 layers, 1024 heads``.

    Parameters
    ----------
    frame
        A row for each head.
    """
    return ", ".join(
        f"{kind} {part['layer'].nunique()} layers, {len(part)} heads"
        for kind, part in frame.groupby("kind", sort=False)
    )


def _one_method(scores: Scores, model: ModelAdapter, method: str | None) -> pd.DataFrame:
    """The scores by one method, and none of another model."""
    chosen, source = one_method(scores, method)
    name = str(chosen["method"].iloc[0])
    _check_model(scores, model, source)
    if "imported" in source and "sha256" not in source.get("model", {}):
        check_heads(chosen, model.sites, _name(scores))
    missing = chosen[chosen["score"].isna()]
    if len(missing):
        raise HeadtoolError(
            f"{len(missing)} heads have no score by {name} in {_name(scores)}, such as "
            f"{head_name(missing.iloc[0])}; choose another `method`, or name the heads in a `mask`"
        )
    return chosen


def _verdicts(scores: Scores, model: ModelAdapter, seed: int) -> pd.DataFrame:
    if isinstance(scores, Scoring):
        raise HeadtoolError("`verdict` needs outcomes of closed heads; give what ablate returns")
    source = scores.source
    _check_model(scores, model, source)
    metric = metric_of_run(source)
    return assess_outcomes(scores.outcomes(metric), metric, rng=seed).frame


def _check_model(scores: Scores, model: ModelAdapter, source: Mapping[str, Any] | None) -> None:
    """Refuse scores of another model."""
    recorded = (source or {}).get("model", {})
    if recorded.get("sha256") not in (None, model.fingerprint):
        raise HeadtoolError(
            f"{_name(scores)} is about other weights ({recorded.get('spec')}, "
            f"{recorded.get('dtype')}) than {model.spec}; score this model, or name the heads in "
            "a `mask`"
        )


def _name(scores: Scores) -> str:
    return str(scores.folder or "what `scores` holds")
