"""Needles in haystacks: contexts that hold a span of text to be copied out of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headtool.errors import HeadtoolError
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.pieces import Pieces

__all__ = ["Needle", "hide_needles", "texts_of"]


@dataclass(frozen=True)
class Needle:
    """A needle in its haystack.

    Attributes
    ----------
    prompt
        Token ids: the haystack with the needle in it, and the needle's first tokens again.
    start, end
        Where the needle lies in the prompt.
    answer
        The tokens of the needle that come after those first ones.
    """

    prompt: tuple[int, ...]
    start: int
    end: int
    answer: tuple[int, ...]

    @property
    def tokens(self) -> frozenset[int]:
        """The needle's tokens."""
        return frozenset(self.prompt[self.start : self.end])


def texts_of(examples: Examples, pieces: Pieces[ModelAdapter]) -> list[tuple[int, ...]]:
    """Return the token ids of every example, special ones left out.

    Parameters
    ----------
    examples
        The data set.
    pieces
        The model's tokens.
    """
    special = set(pieces.special("dec-self"))
    texts: list[tuple[int, ...]] = [()] * len(examples)
    for index in examples.batches():
        batch = pieces.model.collate(examples, index)
        ids, real = pieces.ids(batch, "dec-self").tolist(), batch.queries["dec-self"].real.tolist()
        for place, row, counted in zip(index.tolist(), ids, real, strict=True):
            kept = (token for token, is_real in zip(row, counted, strict=True) if is_real)
            texts[place] = tuple(token for token in kept if token not in special)
    return texts


def hide_needles(
    texts: Sequence[tuple[int, ...]],
    *,
    prefix: Sequence[int],
    number: int,
    size: int,
    cue: int,
    lengths: Sequence[int],
    kind: str,
    seed: int,
) -> list[Needle]:
    """Hide needles in haystacks of other examples, at depths from the start to the end.

    A ``text`` needle is the span of an example whose tokens are in the fewest other examples; a
    ``random`` one is made of tokens of the data that its haystack does not hold. A haystack is
    made of the examples that share the fewest tokens with a text needle.

    Parameters
    ----------
    texts
        Token ids of the examples.
    prefix
        What the tokenizer puts before every text.
    number
        How many needles.
    size, cue
        Tokens of a needle, and how many of them the prompt ends with.
    lengths
        Tokens of contexts, answers included, which take turns.
    kind
        ``text`` or ``random``.
    seed
        Seed of all that is drawn.

    Raises
    ------
    HeadtoolError
        If the examples do not suffice.
    """
    found_in = Counter(token for text in texts for token in set(text))
    long = [place for place, text in enumerate(texts) if len(text) >= size]
    if len(texts) < 2 or not long:
        raise HeadtoolError(
            f"retrieval needs two examples, and one of {size} tokens or more, to hide a needle in "
            f"another; the data have {len(texts)}, of up to {max(map(len, texts), default=0)} "
            "tokens; use more data, or a smaller retrieval.tokens"
        )
    needles = []
    for place in range(number):
        rng = np.random.default_rng([seed, place])
        room = lengths[place % len(lengths)] - len(prefix) - size - size
        depth = place // len(lengths) / max(1, (number - 1) // len(lengths))
        source = long[int(rng.integers(len(long)))]
        order = [one for one in rng.permutation(len(texts)).tolist() if one != source]
        needle = _rarest_span(texts[source], found_in, size)
        if kind == "text":
            order.sort(key=lambda one: len(set(needle).intersection(texts[one])))
        haystack = _filled([texts[one] for one in order], room)
        if kind == "random":
            unused = sorted(found_in.keys() - set(haystack))
            if len(unused) < size:
                raise HeadtoolError(
                    f"the data have {len(unused)} tokens that a haystack of {room} lacks, too few "
                    f"for a random needle of {size}; use more data, or shorter retrieval.lengths"
                )
            needle = tuple(rng.choice(unused, size=size, replace=False).tolist())
        before = round(depth * len(haystack))
        start = len(prefix) + before
        parts = (*prefix, *haystack[:before], *needle, *haystack[before:], *needle[:cue])
        needles.append(Needle(parts, start, start + size, needle[cue:]))
    return needles


def _rarest_span(text: tuple[int, ...], found_in: Counter[int], size: int) -> tuple[int, ...]:
    """The span whose tokens are in the fewest examples, without repetition if there is one."""

    def common(start: int) -> tuple[int, int]:
        span = text[start : start + size]
        return size - len(set(span)), sum(found_in[token] for token in span)

    start = min(range(len(text) - size + 1), key=common)
    return text[start : start + size]


def _filled(texts: Sequence[tuple[int, ...]], room: int) -> tuple[int, ...]:
    """Texts one after the other, as many tokens as there is room for."""
    haystack: tuple[int, ...] = ()
    for text in texts:
        if len(haystack) >= room:
            break
        haystack += text
    return haystack[:room]
