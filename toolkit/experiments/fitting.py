"""Which examples fit what a pruned model gets, and which show what it is worth: never the same."""

from __future__ import annotations

from dataclasses import dataclass

from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.experiments.splitting import split_data
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

__all__ = ["Parts", "parts_of"]


@dataclass(frozen=True, eq=False)
class Parts:
    """Examples by their use.

    Attributes
    ----------
    fit
        On which constants are found and weights are trained.
    test
        On which the models are measured.
    note
        Which are which, in a line.
    """

    fit: Examples
    test: Examples
    note: str


def parts_of(
    model: ModelAdapter,
    data: TextData | None,
    finetune: TextData | None,
    *,
    batch_tokens: int | None,
    seed: int,
) -> Parts:
    """Say what fits and what tests.

    One data set is halved at random, as `headtool.compare` halves it with the same seed. Of two,
    the one to fine-tune on fits, without examples that are in the other one.

    Parameters
    ----------
    model
        The model.
    data
        The data set to measure on; None: the one to fine-tune on.
    finetune
        The data set to fine-tune on; None: `data`.
    batch_tokens, seed
        As for `headtool.experiments.inputs.tokenise`; the seed also draws the halves.

    Raises
    ------
    HeadtoolError
        If there is no data set, or too little of it.
    """
    test, fit = data or finetune, finetune or data
    assert test is not None
    assert fit is not None
    if test.spec == fit.spec or test.fingerprint == fit.fingerprint:
        split = split_data(model, [test], None, batch_tokens=batch_tokens, seed=seed)
        said = f"one half of {test.spec}", "the other half"
    else:
        fit, shared = _without(fit, test)
        split = split_data(model, [test], fit, batch_tokens=batch_tokens, seed=seed)
        less = f" ({shared} that it shares with the other set are left out)" if shared else ""
        said = f"{fit.spec}{less}", test.spec
    note = (
        f"fitted on {said[0]}, {len(split.selection)} examples; measured on {said[1]}, "
        f"{len(split.first)} examples"
    )
    return Parts(split.selection, split.first, note)


def _without(data: TextData, other: TextData) -> tuple[TextData, int]:
    """Leave out what another data set holds as well, whatever its label; and count that."""
    names = sorted(set(data.columns) & set(other.columns) - {"label", "target"})
    held = set(zip(*(other.columns[name] for name in names), strict=True))
    rows = list(zip(*(data.columns[name] for name in names), strict=True))
    left = [place for place, row in enumerate(rows) if row not in held]
    if not left:
        raise HeadtoolError(
            f"all of {data.spec} is in {other.spec}, which measures; fine-tune on other data, or "
            "give one data set alone, which is halved"
        )
    return (data.take(left) if len(left) < len(data) else data), len(rows) - len(left)
