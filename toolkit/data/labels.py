"""Labels as a model numbers them, and regression targets as numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from headtool.data.messages import listing, quoted
from headtool.errors import HeadtoolError

__all__ = ["match_labels", "regression_targets"]


def match_labels(
    raw: Sequence[str], label2id: Mapping[str, int], *, spec: str
) -> npt.NDArray[np.int64]:
    """Translate the labels of a data set into the model's class numbers.

    All labels are matched by one rule, the first that fits every one of them: by name exactly, by
    name regardless of case, by number. Models whose label names are numbers themselves (``"1"`` to
    ``"5"``) are matched by name only: there, the meaning of a ``"1"`` must not depend on which
    other labels happen to occur.

    Parameters
    ----------
    raw
        Labels as written in the data.
    label2id
        The model's label names and class numbers.
    spec
        The data set's name for the message.

    Returns
    -------
    numpy.ndarray
        Class numbers, int64, one per label.

    Raises
    ------
    HeadtoolError
        If no rule fits; the message shows both sets.

    Examples
    --------
    >>> from headtool.data import match_labels
    >>> match_labels(["negative", "positive"], {"NEGATIVE": 0, "POSITIVE": 1}, spec="dev.tsv")
    array([0, 1])
    """
    labels = [label.strip() for label in raw]
    distinct = set(labels)
    for rule in (_by_name(distinct, label2id), _by_folded_name(distinct, label2id)):
        if rule is not None:
            return np.array([rule[label] for label in labels], dtype=np.int64)
    numbers = _by_number(distinct, label2id)
    if numbers is not None:
        return np.array([numbers[label] for label in labels], dtype=np.int64)
    model = ", ".join(f"{quoted(name)} ({number})" for name, number in label2id.items())
    raise HeadtoolError(
        f"the labels of {spec!r} ({listing(sorted(distinct))}) are not the model's "
        f"({model}); write the model's names or numbers in the data, or name another column with "
        "`columns` label=NAME"
    )


def _by_name(distinct: set[str], label2id: Mapping[str, int]) -> Mapping[str, int] | None:
    return label2id if distinct <= set(label2id) else None


def _by_folded_name(distinct: set[str], label2id: Mapping[str, int]) -> Mapping[str, int] | None:
    folded = Counter(name.casefold() for name in label2id)
    ids = {name.casefold(): number for name, number in label2id.items()}
    if all(folded[label.casefold()] == 1 for label in distinct):
        return {label: ids[label.casefold()] for label in distinct}
    return None


def _by_number(distinct: set[str], label2id: Mapping[str, int]) -> Mapping[str, int] | None:
    if all(_whole_number(name) is not None for name in label2id):
        return None
    known = set(label2id.values())
    numbers: dict[str, int] = {}
    for label in distinct:
        number = _whole_number(label)
        if number is None or number not in known:
            return None
        numbers[label] = number
    return numbers


def _whole_number(text: str) -> int | None:
    """Return the whole number that `text` writes, ``1.0`` included, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def regression_targets(
    raw: Sequence[str], *, spec: str, rows: Sequence[int] | None = None
) -> npt.NDArray[np.float64]:
    """Translate the labels of a data set into numbers.

    Parameters
    ----------
    raw
        Labels as written in the data.
    spec
        The data set's name for the message.
    rows
        Which of its rows these are, from 0, for the message; None for all.

    Returns
    -------
    numpy.ndarray
        Targets, float64, one per label.

    Raises
    ------
    HeadtoolError
        If a label is not a finite number.
    """
    targets = np.empty(len(raw), dtype=np.float64)
    for row, label in enumerate(raw):
        try:
            targets[row] = float(label)
        except ValueError:
            targets[row] = math.nan
        if not math.isfinite(targets[row]):
            number = (row if rows is None else rows[row]) + 1
            raise HeadtoolError(
                f"{spec!r}, example {number}: the label {quoted(label)} is not a finite "
                "number, which a regression model needs; correct it, or name another column with "
                "`columns` label=NAME"
            )
    return targets
