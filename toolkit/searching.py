"""How translations, and continuations of prompts, are searched for."""

from __future__ import annotations

from dataclasses import dataclass

from headtool.errors import HeadtoolError

__all__ = ["Search"]

_MOST_PENALTY = 100  # a length to the power of more is beyond all numbers


@dataclass(frozen=True)
class Search:
    """How hypotheses are searched; None stands for the model's own setting.

    Attributes
    ----------
    beam
        Hypotheses kept at each step; 1 is greedy decoding.
    length_penalty
        Scores are divided by the length to the power of this.
    max_length
        Most tokens that are generated for a sentence or a prompt, the token that ends it included.

    Raises
    ------
    HeadtoolError
        If `beam` or `max_length` is too small.

    Examples
    --------
    >>> from headtool import Search
    >>> Search(beam=1)
    Search(beam=1, length_penalty=None, max_length=None)
    """

    beam: int | None = None
    length_penalty: float | None = None
    max_length: int | None = None

    def __post_init__(self) -> None:
        if self.beam is not None and self.beam < 1:
            raise HeadtoolError(f"`beam` must be at least 1, got {self.beam}")
        if self.length_penalty is not None and not abs(self.length_penalty) <= _MOST_PENALTY:
            raise HeadtoolError(
                f"`length_penalty` must be from -{_MOST_PENALTY} to {_MOST_PENALTY}, got "
                f"{self.length_penalty:g}"
            )
        if self.max_length is not None and self.max_length < 1:
            raise HeadtoolError(f"`max_length` must be at least 1, got {self.max_length}")
