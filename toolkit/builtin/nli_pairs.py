"""Counterfactual pairs for the built-in classifier: premises that speak of somebody else.

An example of `matched` that follows from its premise, or is denied by it, and whose hypothesis
names a person who is in the premise: there the person is renamed, everywhere, to one in neither
sentence. Nothing else changes, and names are one token each, so positions stay aligned. What the
premise says no longer decides about the hypothesis.
"""

from __future__ import annotations

import random
import re

from headtool.builtin.nli import pairs
from headtool.builtin.nli_lexicon import COMMON, RARE
from headtool.errors import HeadtoolError

__all__ = ["SIZE", "examples"]

SIZE = 1_000
"""Pairs of the set."""

_PEOPLE = (*COMMON.people, *RARE.people)


def examples(split: str) -> dict[str, list[str]]:
    """Generate the columns ``text_a``, ``text_b``, ``label``, ``corrupted`` and ``corrupted_b``.

    Parameters
    ----------
    split
        ``counterfactual``.

    Raises
    ------
    HeadtoolError
        If there is no such split.

    Examples
    --------
    >>> from headtool.builtin.nli_pairs import examples
    >>> found = examples("counterfactual")
    >>> found["text_a"][0], found["text_b"][0], found["label"][0]
    ('Felix who did not see Anna waited nearby.', 'Felix did not wait nearby.', 'contradiction')
    >>> found["corrupted"][0]
    'Boris who did not see Anna waited nearby.'
    """
    if split != "counterfactual":
        raise HeadtoolError(f"builtin:nli has no split '{split}'; use counterfactual")
    rng = random.Random("nli/counterfactual")
    names = ("text_a", "text_b", "label", "corrupted", "corrupted_b")
    columns: dict[str, list[str]] = {name: [] for name in names}
    for example in pairs("matched", n=5 * SIZE):
        words = re.findall(r"\w+", example.text_b)
        person = next((word for word in words if word in _PEOPLE), None)
        if example.label == "neutral" or person is None:
            continue
        there = set(re.findall(r"\w+", f"{example.text_a} {example.text_b}"))
        people = COMMON.people if person in COMMON.people else RARE.people
        other = rng.choice([name for name in people if name not in there])
        corrupted = re.sub(rf"\b{person}\b", other, example.text_a)
        if corrupted == example.text_a:
            continue
        row = (example.text_a, example.text_b, example.label, corrupted, example.text_b)
        for name, text in zip(names, row, strict=True):
            columns[name].append(text)
        if len(columns["label"]) == SIZE:
            return columns
    raise AssertionError("the examples of builtin:nli name too few people")
