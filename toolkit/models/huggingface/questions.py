"""Questions with their texts as windows for an extractive question-answering model."""

from __future__ import annotations

import json
from typing import Any, Protocol

import numpy as np

from headtool.data import TextData
from headtool.data.messages import quoted
from headtool.errors import HeadtoolError
from headtool.models.examples import Examples, Row

__all__ = ["encode_questions"]

_WINDOW, _OVERLAP = 384, 128
"""Most tokens of a window, and how many two neighbours share, as in the evaluation of BERT."""


class _Model(Protocol):
    """What is asked of a model here."""

    @property
    def spec(self) -> str: ...

    @property
    def tokenizer(self) -> Any: ...

    @property
    def max_length(self) -> int: ...


def encode_questions(model: _Model, data: TextData, *, batch_tokens: int) -> Examples:
    """Tokenise each question with its text, in overlapping windows where that is long.

    Parameters
    ----------
    model
        The model.
    data
        Data of the kind ``questions``.
    batch_tokens
        Token budget of a batch.

    Raises
    ------
    HeadtoolError
        If a question leaves no room for its text, or the tokenizer does not tell characters.
    """
    if not model.tokenizer.is_fast:
        raise HeadtoolError(
            f"the tokenizer of {model.spec} does not say which characters a token stands for; save "
            "the model with a fast one (tokenizer.json)"
        )
    rows = [_row(model, data, number) for number in range(len(data))]
    lengths = np.array([len(row["input_ids"]) for row in rows], dtype=np.int64)
    return Examples(data, tuple(rows), lengths, batch_tokens)


def _row(model: _Model, data: TextData, number: int) -> Row:
    question, context = (data.columns[name][number] for name in ("question", "context"))
    room = min(_WINDOW, model.max_length)
    asked = len(model.tokenizer(question.strip(), "")["input_ids"])
    place = 1 + (number if data.rows is None else data.rows[number])
    if asked >= room - 1 or not context.strip():
        what = f"a question of {asked} tokens" if context.strip() else "no text"
        raise HeadtoolError(
            f"{data.spec}, example {place}: {what}, and {model.spec} reads {room} tokens with the "
            f"text; shorten or remove it ({quoted(question)})"
        )
    encoded = model.tokenizer(
        question.strip(),
        context,
        truncation="only_second",
        max_length=room,
        stride=min(_OVERLAP, (room - asked) // 2),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    answers = json.loads(data.columns["answers"][number])
    span = (answers[0][1], answers[0][1] + len(answers[0][0])) if answers else None
    windows = [_window(model, encoded, place, span) for place in range(len(encoded["input_ids"]))]
    holding = (window for window in windows if window["labels"] != [window["none"]] * 2)
    return {**next(holding, windows[0]), "windows": windows}


def _window(model: _Model, encoded: Any, place: int, span: tuple[int, int] | None) -> Row:
    """One window, and the first and last token of the answer in it."""
    ids = list(encoded["input_ids"][place])
    inside = [spot for spot, part in enumerate(encoded.sequence_ids(place)) if part == 1]
    offsets = [list(pair) for pair in encoded["offset_mapping"][place]]
    start = model.tokenizer.cls_token_id
    none = ids.index(start) if start in ids else 0
    row: dict[str, Any] = {
        "input_ids": ids,
        "labels": [none, none],
        "first": inside[0],
        "last": inside[-1],
        "none": none,
        "offsets": offsets,
    }
    if "token_type_ids" in encoded:
        row["token_type_ids"] = list(encoded["token_type_ids"][place])
    if span and offsets[inside[0]][0] <= span[0] and span[1] <= offsets[inside[-1]][1]:
        first = max(spot for spot in inside if offsets[spot][0] <= span[0])
        last = min(spot for spot in inside if offsets[spot][1] >= span[1])
        row["labels"] = [first, max(first, last)]
    return row
