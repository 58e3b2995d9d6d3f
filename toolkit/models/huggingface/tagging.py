"""Sentences with a tag for every token as rows for a token classifier.

A word is cut into pieces of its own, and its first piece is what is tagged; the others, and special
tokens, are read but not scored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from headtool.data import TextData, match_labels
from headtool.errors import HeadtoolError
from headtool.models.examples import Examples, Row

__all__ = ["encode_tags"]


class _Model(Protocol):
    """What is asked of a model here."""

    @property
    def spec(self) -> str: ...

    @property
    def tokenizer(self) -> Any: ...

    @property
    def max_length(self) -> int: ...


def encode_tags(
    model: _Model, data: TextData, label2id: Mapping[str, int], *, batch_tokens: int
) -> Examples:
    """Tokenise sentences whose words are given.

    Parameters
    ----------
    model
        The model, a token classifier.
    data
        Data of the kind ``tokens``.
    label2id
        The model's tags and their numbers.
    batch_tokens
        Token budget of a batch.

    Raises
    ------
    HeadtoolError
        If the tags are not the model's, its tokenizer does not tell words, or a sentence has no
        token that it knows.
    """
    if not model.tokenizer.is_fast:
        raise HeadtoolError(
            f"the tokenizer of {model.spec} does not say which word a token belongs to; save the "
            "model with a fast one (tokenizer.json)"
        )
    words = [json.loads(cell) for cell in data.columns["tokens"]]
    tags = [json.loads(cell) for cell in data.columns["tags"]]
    numbers = iter(match_labels([tag for some in tags for tag in some], label2id, spec=data.spec))
    options = {"is_split_into_words": True, "truncation": True, "max_length": model.max_length}
    try:
        encoded = model.tokenizer(words, **options)
    except (AssertionError, ValueError) as error:  # such as GPT-2's without add_prefix_space
        raise HeadtoolError(
            f"the tokenizer of {model.spec} takes no separate words "
            f"({' '.join(str(error).split())}); save it with add_prefix_space=True"
        ) from error
    rows: list[Row] = []
    truncated = 0
    for place, some in enumerate(tags):
        gold = [int(next(numbers)) for _ in some]
        owners = encoded.word_ids(place)
        labels = [
            -100 if word is None or (spot and owners[spot - 1] == word) else gold[word]
            for spot, word in enumerate(owners)
        ]
        row = {key: value[place] for key, value in encoded.items() if key != "attention_mask"}
        if all(label == -100 for label in labels):
            number = place if data.rows is None else data.rows[place]
            raise HeadtoolError(
                f"{data.spec}, example {number + 1}: the tokenizer of {model.spec} leaves nothing "
                "of this sentence; remove it"
            )
        rows.append({**row, "labels": labels})
        last = max(word for word in owners if word is not None)
        truncated += len(owners) >= model.max_length and last < len(some) - 1
    lengths = np.array([len(row["input_ids"]) for row in rows], dtype=np.int64)
    return Examples(data, tuple(rows), lengths, batch_tokens, truncated)
