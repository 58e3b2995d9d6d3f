"""Prompts with several answers: what is run for each, and what an example's outcome is.

The rows of such examples hold the right answer, which is their target. Where all answers are one
token, a row has them as `rivals`, and one forward pass scores them all. Otherwise a row has them
as `answers`, rows of their own; `spread` puts these in its place, and `gathered` makes outcomes of
examples from theirs. `gold` says which answer is right, `sizes` how long each is in characters and
in bytes. The windows in which a question's text is read (`headtool.models.questions`) take the same
way.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headtool.models.examples import Examples, Row
from headtool.models.questions import gathered_windows

__all__ = ["gathered", "has_answers", "spread"]

_Columns = Mapping[str, NDArray[np.float64]]


def has_answers(examples: Examples) -> bool:
    """Whether the examples have several answers each."""
    return "gold" in examples.rows[0]


def spread(examples: Examples) -> Examples:
    """Return examples with a row for everything that is run: one, or one for every answer.

    Parameters
    ----------
    examples
        Examples as a model encoded them.
    """
    if not any("answers" in row or "windows" in row for row in examples.rows):
        return examples
    rows: list[Row] = []
    owners: list[int] = []
    for number, row in enumerate(examples.rows):
        answers = row.get("answers") or row.get("windows") or [row]
        rows += answers
        owners += [number] * len(answers)
    return Examples(
        examples.data,
        tuple(rows),
        np.array([len(row["input_ids"]) for row in rows], dtype=np.int64),
        examples.batch_tokens,
        owners=np.array(owners, dtype=np.int64),
    )


def gathered(examples: Examples, columns: _Columns) -> dict[str, NDArray[np.float64]]:
    """Turn columns of what `spread` returned into columns of the examples.

    With answer and wrong answer, ``wrong_loss`` is the loss of the wrong one. With choices, ``acc``
    says whether the right one has the highest log-probability, summed over its tokens; ``acc_norm``
    whether it has after division by its length in characters, and ``acc_bytes`` in bytes. Of equal
    ones the first counts.

    Parameters
    ----------
    examples
        The examples, N of them.
    columns
        Columns of their rows by name, each [.., rows].

    Returns
    -------
    dict
        Columns [.., N]: those of the right answer, and what is said above.
    """
    if "windows" in examples.rows[0]:
        return gathered_windows(examples, columns)
    if not has_answers(examples):
        return dict(columns)
    plain = [name for name in columns if not name.startswith("rival")]
    leading = next(iter(columns.values())).shape[:-1]
    found = {name: np.empty((*leading, len(examples))) for name in plain}
    start = 0
    for number, row in enumerate(examples.rows):
        count, gold = len(row["sizes"]), row["gold"]
        if "answers" in row:
            losses = columns["loss"][..., start : start + count]
            right = start + gold
            start += count
        else:
            losses = np.stack([columns[f"rival{k}_loss"][..., start] for k in range(count)], -1)
            right = start
            start += 1
        for name in plain:
            found[name][..., number] = columns[name][..., right]
        for name, values in _compared(row, losses).items():
            found.setdefault(name, np.empty((*leading, len(examples))))[..., number] = values
    return found


def _compared(row: Row, losses: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """What the losses [.., answers] of one example say beside that of the right answer."""
    gold = row["gold"]
    if row["kind"] == "prompt":
        return {"wrong_loss": losses[..., 1 - gold]}
    characters, size = np.array(row["sizes"], dtype=np.float64).T
    weights = {"acc": np.ones(len(size)), "acc_norm": characters, "acc_bytes": size}
    return {
        name: ((-losses / weight).argmax(axis=-1) == gold).astype(np.float64)
        for name, weight in weights.items()
    }
