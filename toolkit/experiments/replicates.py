"""Check that replicates are the same architecture trained again, and tokenise for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headtool.errors import HeadtoolError
from headtool.experiments.splitting import Split
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

__all__ = ["Replicate", "replicates_of"]


@dataclass(frozen=True, eq=False)
class Replicate:
    """Another model of the same architecture, with the same examples in its own tokens.

    Attributes
    ----------
    number
        Its number among the replicates, from 1.
    model
        The model.
    split
        The examples, in its own tokens.
    """

    number: int
    model: ModelAdapter
    split: Split

    @property
    def spec(self) -> str:
        """Its SPEC."""
        return self.model.spec


def replicates_of(
    model: ModelAdapter,
    split: Split,
    others: Sequence[ModelAdapter],
    tokenise: Callable[[ModelAdapter], Split],
) -> tuple[Replicate, ...]:
    """Check that models are alike but for their weights, and tokenise the examples for each.

    Parameters
    ----------
    model, split
        The model that they replicate, and its examples.
    others
        The replicates.
    tokenise
        Splits the same examples in a replicate's own tokens.

    Raises
    ------
    HeadtoolError
        If a model differs in more than its weights, or not in these.
    """
    known = {model.fingerprint: model.spec}
    for other in others:
        _check_alike(model, other)
        if other.fingerprint in known:
            raise HeadtoolError(
                f"`replicates`: {other.spec} has the same weights as {known[other.fingerprint]}; "
                "give a model that was trained with another seed"
            )
        known[other.fingerprint] = other.spec
    if len(set(known.values())) < len(known):
        raise HeadtoolError("two models with one SPEC and different weights; load them from two")
    found = []
    for number, other in enumerate(others, start=1):
        part = tokenise(other)
        for ours, theirs in ((split.selection, part.selection), (split.first, part.first)):
            _check_tokens(model, ours, other, theirs)
        found.append(Replicate(number, other, part))
    return tuple(found)


def _check_alike(model: ModelAdapter, other: ModelAdapter) -> None:
    """Refuse a model of another architecture, task or labels."""

    def shape(one: ModelAdapter) -> list[tuple[str, int, int]]:
        return [(site.kind, site.layer, site.n_heads) for site in one.sites]

    if other.task != model.task:
        raise HeadtoolError(
            f"`replicates`: {other.spec} is for {other.task}, and {model.spec} for {model.task}; "
            "give the same model, trained again"
        )
    if shape(other) != shape(model):
        raise HeadtoolError(
            f"`replicates`: {other.spec} has {other.sites.summary}, and {model.spec} has "
            f"{model.sites.summary}; give the same architecture, trained again"
        )
    if other.labels != model.labels:
        raise HeadtoolError(
            f"`replicates`: {other.spec} has the labels {', '.join(other.labels)}, and "
            f"{model.spec} {', '.join(model.labels)}; give a model with the same labels in the "
            "same order"
        )


def _check_tokens(
    model: ModelAdapter, ours: Examples, other: ModelAdapter, theirs: Examples
) -> None:
    """Refuse another vocabulary: what heads see must be the same."""
    if len(ours) == len(theirs):
        different = [a != b for a, b in zip(ours.rows, theirs.rows, strict=True)]
        if not any(different):
            return
    raise HeadtoolError(
        f"`replicates`: {other.spec} splits {ours.data.spec} into other tokens than {model.spec}; "
        "give a model with the same vocabulary"
    )
