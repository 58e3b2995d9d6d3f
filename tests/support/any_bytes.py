"""Files that are nearly right: bytes and JSON documents, mutated."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

# What has broken readers before, anywhere.
_PIECES = [
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\xed\xa0\x80",
    b"\r",
    b"\n",
    b"\t",
    b'"',
    b"[" * 3000,
    b'{"a":' * 3000,
    b"9" * 5000,
    b"-1",
    b"1e999",
    b"NaN",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"4294967296",
    b"18446744073709551616",
]
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**30, 10**400]),
    st.floats(),
    st.sampled_from(["", "x", "0", "\x00", "\ud800", "a\nb", "../x", "é" * 300]),
)
VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)


def mutated(valid: bytes) -> st.SearchStrategy[bytes]:
    """Bytes that differ from a valid file in a few places, and now and then in all."""
    place = st.integers(0, len(valid))
    edit = st.tuples(place, st.integers(0, 12), st.sampled_from(_PIECES) | st.binary(max_size=6))

    def apply(edits: list[tuple[int, int, bytes]]) -> bytes:
        content = bytearray(valid)
        for start, length, piece in edits:
            content[start : start + length] = piece
        return bytes(content)

    cut = place.map(lambda end: valid[:end])
    return st.one_of(st.lists(edit, min_size=1, max_size=3).map(apply), cut, st.binary())


def mutated_json(valid: Any) -> st.SearchStrategy[bytes]:
    """JSON documents that differ from a valid one in a few entries, and sometimes no JSON."""
    paths = st.sampled_from(list(_paths(valid)))
    edit = st.tuples(paths, st.none() | VALUES.map(lambda value: (value,)))

    def apply(edits: list[tuple[tuple[Any, ...], tuple[Any] | None]]) -> bytes:
        document = copy.deepcopy(valid)
        for path, value in edits:
            _put(document, path, value)
        return json.dumps(document).encode()

    several = st.lists(edit, min_size=1, max_size=2).map(apply)
    return several | several | mutated(json.dumps(valid).encode())


def _paths(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    parts: Any = ()
    if isinstance(document, dict):
        parts = document.items()
    elif isinstance(document, list):
        parts = enumerate(document[:5])
    for name, value in parts:
        yield (*path, name)
        yield from _paths(value, (*path, name))


def _put(document: Any, path: tuple[Any, ...], value: tuple[Any] | None) -> None:
    """Replace an entry, or remove it; an earlier edit may have taken its place away."""
    *above, name = path
    for part in above:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return
    is_there = isinstance(document, list) and isinstance(name, int) and name < len(document)
    if isinstance(document, dict) or is_there:
        if value is not None:
            document[name] = value[0]
        elif isinstance(document, dict):
            document.pop(name, None)
        else:
            document.pop(name)
