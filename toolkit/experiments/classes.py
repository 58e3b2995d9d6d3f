"""Which classes the examples have: what one class alone, or a missing one, makes of a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from headtool.data.messages import quoted
from headtool.models.examples import Examples

__all__ = ["class_notes", "selection_notes"]

_MOST = 8  # classes that a line names


def class_notes(parts: Sequence[Examples]) -> list[str]:
    """Say where the examples of a data set are of one class, or a limit leaves a class out.

    Parameters
    ----------
    parts
        The examples of one data set: all of them, or its halves.

    Returns
    -------
    list of str
        A line for each fault; none where labels are no classes.
    """
    counts = sum((Counter(part.classes) for part in parts), Counter[str]())
    if counts.total() < 2:
        return []
    data, notes = parts[0].data, []
    before = {} if data.drawn is None else data.drawn.labels
    lost = {label: count for label, count in before.items() if label not in counts}
    if data.drawn is not None and lost:
        remedy = "give a larger one"
        if data.drawn.order == "first":
            remedy += ", or let it draw (`limit_order` seeded)"
        notes.append(
            f"{data.spec}: `limit` {data.drawn.limit} leaves out every example of "
            f"{_counted(lost)}; {remedy}"
        )
    if len(counts) == 1:
        ((only, count),) = counts.items()
        notes.append(
            f"{data.spec}: all {count} examples are of class {quoted(only)}, so that a model which "
            "always answers it makes no mistake; give examples of every class"
        )
    return notes


def selection_notes(selection: Examples, evaluation: Examples) -> list[str]:
    """Say which classes only one of selection and evaluation examples has.

    Parameters
    ----------
    selection, evaluation
        The examples on which heads are scored, and those that show what that is worth.

    Returns
    -------
    list of str
        A line for each of the two that lacks a class; none where labels are no classes.
    """
    notes = []
    for use, part, other in (
        ("select heads", selection, evaluation),
        ("evaluate them", evaluation, selection),
    ):
        missing = _missing(part, other)
        if missing:
            notes.append(
                f"{part.data.spec}: no example of {_counted(missing)} is among the {len(part)} "
                f"that {use} ({_counted(part.classes)}); give more examples"
            )
    return notes


def _missing(part: Examples, other: Examples) -> dict[str, int]:
    """Classes of `other` that `part` lacks, by the model's numbers: files may differ in names."""
    if not part.classes or not other.classes:
        return {}
    here = {row["target"] for row in part.rows}
    labels = zip(other.rows, other.data.labels, strict=True)
    return Counter(label.strip() for row, label in labels if row["target"] not in here)


def _counted(classes: Mapping[str, int]) -> str:
    shown = [f"{quoted(label)} ({count})" for label, count in sorted(classes.items())]
    more = [f"{len(shown) - _MOST} more"] if len(shown) > _MOST else []
    return ", ".join(shown[:_MOST] + more)
