"""Which token numbers are special: by the tokenizer, or without one by the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["SpecialIds", "plain_ids", "special_ids"]

_ROLES = ("pad", "bos", "eos", "sep", "cls", "mask", "decoder_start")
_PROBED = 5  # tokens


@dataclass(frozen=True)
class SpecialIds:
    """Special tokens by their numbers.

    Attributes
    ----------
    pad
        Fills batches up.
    eos
        Ends a text (BERT-type models: separates texts); -1 without any.
    every
        All of them, in ascending order.
    """

    pad: int
    eos: int
    every: tuple[int, ...]


def special_ids(config: Any, tokenizer: Any) -> SpecialIds:
    """Find the special tokens of a model.

    Parameters
    ----------
    config
        Its configuration.
    tokenizer
        Its tokenizer; None where there is none, and the configuration decides.
    """
    if tokenizer is None:
        own = {role: _number(config, role) for role in _ROLES}
        every = sorted({number for number in own.values() if number is not None})
    else:
        own = {role: getattr(tokenizer, f"{role}_token_id", None) for role in ("pad", "eos", "sep")}
        every = sorted(tokenizer.all_special_ids)
    first_known = (own["pad"], _number(config, "pad"), own["eos"], 0)
    eos = own["eos"] if own["eos"] is not None else own["sep"]
    pad = next(number for number in first_known if number is not None)
    return SpecialIds(int(pad), -1 if eos is None else int(eos), tuple(every))


def _number(config: Any, role: str) -> int | None:
    """A token of the configuration that there is; of several that end a text, the first."""
    found = getattr(config, f"{role}_token_id", None)
    if isinstance(found, list | tuple):
        found = found[0] if found else None
    return found if found is not None and 0 <= found < _size(config) else None


def _size(config: Any) -> int:
    return int(getattr(config.get_text_config(), "vocab_size", 0) or 0)


def plain_ids(config: Any, special: list[int]) -> list[int]:
    """Choose a few tokens that are not special, for input that is made up.

    Parameters
    ----------
    config
        The model's configuration.
    special
        Its special tokens.
    """
    return [number for number in range(_size(config)) if number not in special][:_PROBED]
