"""How many bytes of a text its tokens stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["byte_counter"]

_CONTEXT = 8  # tokens in front that decide how the next ones are written


def byte_counter(tokenizer: Any, text: str, ids: Sequence[int]) -> Callable[[int, int], int]:
    """Return what counts the UTF-8 bytes that some of a text's tokens stand for.

    The counts of neighbouring stretches add up: what no token covers, such as a space, belongs to
    the next one, and a character that several tokens share to the first of them.

    Parameters
    ----------
    tokenizer
        The tokenizer. One that does not say where in the text its tokens are is asked to decode
        them.
    text, ids
        The text and its tokens, without special ones.

    Returns
    -------
    Callable
        Takes the first token and the one after the last.
    """
    if not getattr(tokenizer, "is_fast", False):

        def decoded(first: int, last: int) -> int:
            start = max(0, first - _CONTEXT)
            before, whole = (
                len(tokenizer.decode(ids[start:end]).encode("utf-8", "replace"))
                for end in (first, last)
            )
            return whole - before

        return decoded
    options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
    offsets = tokenizer(text, **options)["offset_mapping"]
    sizes = np.array([len(character.encode("utf-8", "replace")) for character in text], dtype=int)
    before = np.concatenate([[0], sizes.cumsum()])
    ends = before[np.maximum.accumulate([0, *(end for _, end in offsets)])]
    return lambda first, last: int(ends[last] - ends[first])
