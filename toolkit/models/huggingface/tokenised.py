"""Texts that were tokenised before, as rows for a transformers model."""

from __future__ import annotations

import json
from typing import Any, Protocol

import numpy as np
from torch import nn

from headtool.data import TextData, match_labels, regression_targets
from headtool.errors import HeadtoolError
from headtool.models.examples import Examples, Task
from headtool.models.huggingface.checking import check_ids

__all__ = ["encode_tokens"]

_UNSCORED = -100


class _Model(Protocol):
    """What is asked of a model here."""

    @property
    def spec(self) -> str: ...

    @property
    def task(self) -> Task: ...

    @property
    def module(self) -> nn.Module: ...

    @property
    def max_length(self) -> int: ...

    def label2id(self) -> dict[str, int]: ...


def encode_tokens(model: _Model, data: TextData, *, batch_tokens: int) -> Examples:
    """Make examples of token numbers: without padding, and cut to the model's length.

    Padding is where ``attention_mask`` is 0. Labels of a language model stand at the tokens that
    they are about, as its own loss takes them; a causal one without labels predicts every token.

    Parameters
    ----------
    model
        The model.
    data
        The data set.
    batch_tokens
        Token budget of a batch, padding included.

    Raises
    ------
    HeadtoolError
        If labels are missing or not of the form that the task needs, or columns differ in length.
    """
    targets = _targets(model, data)
    rows, truncated = [], 0
    for number in range(len(data)):
        row, cut = _row(model, data, number)
        truncated += cut
        rows.append(row if targets is None else {**row, "target": targets[number]})
    check_ids(model.spec, model.module, (row["input_ids"] for row in rows))
    if model.task == "seq2seq":
        check_ids(model.spec, model.module, (row["labels"] for row in rows), written=True)
    lengths = [max(len(row["input_ids"]), len(row.get("labels", ()))) for row in rows]
    return Examples(data, tuple(rows), np.asarray(lengths), batch_tokens, truncated)


def _targets(model: _Model, data: TextData) -> list[Any] | None:
    """Class or number of each row, for a model that predicts one; others need lists."""
    if model.task in ("classification", "regression"):
        if not data.labels:
            found = "lists" if "labels" in data.columns else "no labels"
            raise HeadtoolError(
                f"{data.spec} has {found}, and {model.spec} is a {model.task} model; give one "
                "label for each row"
            )
        if model.task == "regression":
            return list(regression_targets(data.labels, spec=data.spec, rows=data.rows).tolist())
        return list(match_labels(data.labels, model.label2id(), spec=data.spec).tolist())
    if model.task == "question-answering":
        raise HeadtoolError(
            f"{data.spec} holds token numbers, and {model.spec} answers questions about texts; "
            "give question, context and answers"
        )
    if data.labels or ("labels" not in data.columns and model.task != "causal-lm"):
        found = "one label for each row" if data.labels else "no labels"
        raise HeadtoolError(
            f"{data.spec} has {found}, and {model.spec} is a {model.task} model; give lists of "
            "token numbers as labels"
        )
    return None


def _row(model: _Model, data: TextData, number: int) -> tuple[dict[str, Any], bool]:
    """One example, and whether it was cut."""
    row: dict[str, list[int]] = {
        name: json.loads(values[number]) for name, values in data.columns.items() if name != "label"
    }
    own = row.pop("labels", None) if model.task == "seq2seq" else None  # of a length of its own
    count, limit = len(row["input_ids"]), model.max_length
    for name, numbers in row.items():
        if len(numbers) != count:
            place = number if data.rows is None else data.rows[number]
            raise HeadtoolError(
                f"{data.spec}, example {place + 1}: {count} numbers in input_ids and "
                f"{len(numbers)} in {name}; make them equally long"
            )
    real = [place for place, on in enumerate(row.pop("attention_mask", [1] * count)) if on]
    if not real:
        place = number if data.rows is None else data.rows[number]
        raise HeadtoolError(
            f"{data.spec}, example {place + 1}: attention_mask is 0 throughout; remove the row"
        )
    cut = {name: [numbers[place] for place in real[:limit]] for name, numbers in row.items()}
    truncated = len(real) > limit
    if own is not None:
        own = [token for token in own if token != _UNSCORED]
        cut["labels"], truncated = own[:limit], truncated or len(own) > limit
    elif model.task == "causal-lm" and "labels" in cut:  # the token that follows each
        cut["labels"] = [*cut["labels"][1:], _UNSCORED]
    return cut, truncated
