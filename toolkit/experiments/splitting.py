"""Which examples select heads, and which show what the selection is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.data import TextData
from headtool.engine.provenance import data_provenance
from headtool.errors import HeadtoolError
from headtool.experiments.classes import class_notes, selection_notes
from headtool.experiments.inputs import tokenise
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Split", "split_data"]

_LEAST = 4  # examples of a set that is halved; two are what a test needs


@dataclass(frozen=True, eq=False)
class Split:
    """Examples by their use.

    Attributes
    ----------
    selection
        The examples on which heads are scored.
    evaluation
        By data set, the examples on which everything else is measured.
    selection_spec, select_data
        The data set that selects, and the same if it was asked for, else None.
    frame
        Columns data, example and split; see `headtool.analysis.comparison`.
    notes
        What makes results on them misleading: one class alone, or classes that are missing.
    """

    selection: Examples
    evaluation: Mapping[str, Examples]
    selection_spec: str
    select_data: str | None
    frame: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> Examples:
        """The evaluation examples of the first data set."""
        return next(iter(self.evaluation.values()))

    @property
    def sources(self) -> dict[str, dict[str, Any]]:
        """Provenance of the evaluation examples by data set."""
        return {spec: data_provenance(examples) for spec, examples in self.evaluation.items()}

    @property
    def selection_source(self) -> dict[str, Any]:
        """Provenance of the examples that select."""
        return data_provenance(self.selection)


def split_data(
    model: ModelAdapter,
    data: Sequence[TextData],
    select_data: TextData | None,
    *,
    batch_tokens: int | None,
    seed: int,
) -> Split:
    """Tokenise the data sets, and halve the first at random unless another one selects.

    Parameters
    ----------
    model
        The model.
    data
        The data sets, as `headtool.experiments.inputs.read_data` returned them.
    select_data
        The one that selects heads; None halves the first.
    batch_tokens, seed
        As for `headtool.experiments.inputs.tokenise`; the seed also draws the halves.

    Raises
    ------
    HeadtoolError
        If there is no data set, two are the same, or one is too small.
    """
    import pandas as pd

    _check_different([*data, *([] if select_data is None else [select_data])])
    encoded = partial(tokenise, model, batch_tokens=batch_tokens, seed=seed)
    first, *others = data
    rows = []
    if select_data is not None:
        selection, evaluation = encoded(select_data), encoded(first)
        rows.append((select_data.spec, np.arange(len(selection)), "selection"))
        rows.append((first.spec, np.arange(len(evaluation)), "evaluation"))
    elif first.kind == "text":
        whole = encoded(first)
        halves = _halves(len(whole), first.spec, seed)
        selection, evaluation = (whole.take(half) for half in halves)
        rows += [(first.spec, *row) for row in zip(halves, _USES, strict=True)]
    else:
        # Taken from the text, so that whatever looks at it later (references, say) sees the same.
        halves = _halves(len(first), first.spec, seed)
        selection, evaluation = (encoded(first.take(half.tolist())) for half in halves)
        rows += [(first.spec, *row) for row in zip(halves, _USES, strict=True)]
    evaluated = {first.spec: evaluation}
    for text in others:
        evaluated[text.spec] = encoded(text)
        rows.append((text.spec, np.arange(len(evaluated[text.spec])), "evaluation"))
    for spec, examples in evaluated.items():
        if len(examples) < 2:
            raise HeadtoolError(f"{spec} has one example, and nothing can be tested; give more")
    frames = [
        pd.DataFrame({"data": spec, "example": index, "split": use}) for spec, index, use in rows
    ]
    return Split(
        selection,
        evaluated,
        (select_data or first).spec,
        None if select_data is None else select_data.spec,
        pd.concat(frames, ignore_index=True),
        tuple(_notes(selection, evaluated, halved=select_data is None)),
    )


def _notes(
    selection: Examples, evaluated: Mapping[str, Examples], *, halved: bool
) -> Iterator[str]:
    first, *others = evaluated.values()
    for parts in ([selection, first],) if halved else ([selection], [first]):
        yield from class_notes(parts)
    yield from selection_notes(selection, first)
    for other in others:
        yield from class_notes([other])


_USES = ("selection", "evaluation")


def _halves(count: int, spec: str, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Two random halves, each in the order of the data; the second is larger by one if any."""
    if count < _LEAST:
        raise HeadtoolError(
            f"{spec} gives {count} examples, too few to select heads on one half and evaluate "
            f"them on the other, which takes {_LEAST}; give more, or another data set with "
            "`select_data`"
        )
    order = np.random.default_rng([seed, 11]).permutation(count)
    return np.sort(order[: count // 2]), np.sort(order[count // 2 :])


def _check_different(data: Sequence[TextData]) -> None:
    if not data:
        raise HeadtoolError("no data set to compare on; name one or more")
    for number, text in enumerate(data):
        for other in data[:number]:
            if text.spec == other.spec:
                raise HeadtoolError(f"data set {text.spec} is given twice; leave one out")
            if text.fingerprint == other.fingerprint:
                raise HeadtoolError(
                    f"{text.spec} holds the same as {other.spec}, so that one would select heads "
                    "for the other or agree with it by construction; leave one out"
                )
