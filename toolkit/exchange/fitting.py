"""Hold scores made elsewhere against the heads that a model has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headtool.errors import HeadtoolError
from headtool.exchange.foreign import MOST_HEADS, Foreign, Row
from headtool.heads import KINDS, Head, Kind, Sites

__all__ = ["Fitted", "fit", "parse_shape"]

_UNNAMED: Kind = "dec-self"
"""Kind of heads where neither file, user nor model says: what others score are language models."""

_SHAPE = re.compile(r"(\d{1,6})\s*[xX]\s*(\d{1,6})")


@dataclass(frozen=True, eq=False)
class Fitted:
    """Scores of heads.

    Attributes
    ----------
    heads
        M heads in canonical order.
    score, stderr
        Their scores and standard errors, shape [M]; NaN for no standard error.
    repeats
        Measurements of every head, shape [R, M], of which `score` is the mean; None without any, or
        if some heads have more than others.
    uneven
        Fewest and most measurements of a head, where they differ.
    """

    heads: tuple[Head, ...]
    score: NDArray[np.float64]
    stderr: NDArray[np.float64]
    repeats: NDArray[np.float64] | None = None
    uneven: tuple[int, int] | None = None


def parse_shape(text: str) -> tuple[int, int]:
    """Read layers and heads of a layer, such as ``32x32``.

    Parameters
    ----------
    text
        The shape.

    Raises
    ------
    HeadtoolError
        If it is none.

    Examples
    --------
    >>> from headtool.exchange.fitting import parse_shape
    >>> parse_shape("12 x 16")
    (12, 16)
    """
    found = _SHAPE.fullmatch(text.strip())
    layers, heads = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= layers * heads <= MOST_HEADS:
        raise HeadtoolError(
            f"`heads` takes layers and heads of a layer, such as 32x32, got {text[:50]!r}"
        )
    return layers, heads


def fit(
    foreign: Foreign,
    sites: Sites | None,
    *,
    kind: Kind | None = None,
    shape: tuple[int, int] | None = None,
    absolute: bool = False,
) -> Fitted:
    """Give every head its score.

    Parameters
    ----------
    foreign
        The content of a file.
    sites
        The model's sites; None where the model is not at hand.
    kind
        Kind of the heads, where the file names none and the model has several.
    shape
        Layers and heads of a layer, instead of `sites`; None: as the file says, or as its largest
        numbers tell.
    absolute
        Take the scores without their signs.

    Raises
    ------
    HeadtoolError
        If heads are missing, or there are others.
    """
    kinds = _kinds(foreign, sites, kind)
    known = _known(foreign, sites, kinds, shape)
    rows = dict(_expanded(foreign, known, kinds))
    if foreign.format == "hf":
        _refuse_strangers(rows, known)
        gone = set(rows)
        score = np.array([0.0 if head in gone else 1.0 for head in known])
        return Fitted(known, score, np.full(len(known), math.nan))
    _refuse_strangers(rows, known)
    missing = [head for head in known if head not in rows]
    if missing:
        raise HeadtoolError(
            f"{len(missing)} of {len(known)} heads are missing, such as "
            f"{', '.join(map(str, missing[:3]))}; every head needs a score"
        )
    ordered = [rows[head] for head in known]
    values = np.array([[row.score, row.stderr] for row in ordered], dtype=np.float64)
    counts = {len(row.repeats) for row in ordered}
    several = len(counts) == 1 and max(counts) > 1
    repeats = np.array([row.repeats for row in ordered], dtype=np.float64).T if several else None
    score, stderr = values[:, 0], values[:, 1]
    if absolute:
        score = np.abs(score)
        repeats = None if repeats is None else np.abs(repeats)
        if repeats is not None:
            score = repeats.mean(axis=0)
            stderr = repeats.std(axis=0, ddof=1) / math.sqrt(len(repeats))
    uneven = (min(counts), max(counts)) if len(counts) > 1 else None
    return Fitted(known, score, stderr, repeats, uneven)


def _kinds(foreign: Foreign, sites: Sites | None, kind: Kind | None) -> tuple[Kind, ...]:
    """The kinds of attention that the file is about."""
    named = {row.kind for row in foreign.rows} - {None}
    if named:
        if kind is not None:
            raise HeadtoolError(f"the file names the kinds itself; leave `kind` {kind} out")
        found: tuple[Kind, ...] = tuple(one for one in KINDS if one in named)
        return found
    if kind is not None:
        return (kind,)
    if sites is None:
        return (_UNNAMED,)
    if len(sites.kinds) > 1:
        raise HeadtoolError(
            f"the file names no kind of attention, and the model has {', '.join(sites.kinds)}; "
            "name one by `kind`"
        )
    return sites.kinds


def _known(
    foreign: Foreign, sites: Sites | None, kinds: Sequence[Kind], shape: tuple[int, int] | None
) -> tuple[Head, ...]:
    """The heads that need a score, in canonical order."""
    if sites is not None:
        return sites.restrict(kinds).heads
    if shape is None and foreign.format == "hf":
        raise HeadtoolError(
            "{layer: [heads]} does not say how many heads there are; give `model`, or `heads` such "
            "as 12x12"
        )
    shape = shape or foreign.shape
    heads: list[Head] = []
    for kind in kinds:
        rows = [row for row in foreign.rows if row.kind in (None, kind)]
        layers, width = shape or (
            1 + max(row.layer for row in rows),
            1 + max(row.head for row in rows),
        )
        if layers * width > MOST_HEADS:
            last = max(rows, key=lambda row: (row.layer, row.head))
            raise HeadtoolError(
                f"it has {len(rows)} heads, which do not fill {layers} layers of {width} "
                f"(see {last.place}); give `model` if layers differ"
            )
        heads += [Head(kind, layer, index) for layer in range(layers) for index in range(width)]
    return tuple(heads)


def _expanded(
    foreign: Foreign, known: Sequence[Head], kinds: Sequence[Kind]
) -> Iterable[tuple[Head, Row]]:
    """Rows by head; the heads of a key/value group share its row."""
    if foreign.format != "duo":
        for row in foreign.rows:
            yield Head(row.kind or kinds[0], row.layer, row.head), row
        return
    layers: dict[int, list[Head]] = {}
    for head in known:
        layers.setdefault(head.layer, []).append(head)
    assert foreign.shape is not None
    count, groups = foreign.shape
    sizes = {len(heads) for heads in layers.values()}
    if count != len(layers) or any(size % groups for size in sizes):
        has = " or ".join(str(size) for size in sorted(sizes))
        raise HeadtoolError(
            f"it has {count} layers of {groups} groups, which does not fit {len(layers)} layers of "
            f"{has} heads"
        )
    for row in foreign.rows:
        members = layers.get(row.layer, [])
        size = len(members) // groups
        for head in members[row.head * size : (row.head + 1) * size]:
            yield head, row


def _refuse_strangers(rows: dict[Head, Row], known: Sequence[Head]) -> None:
    """Refuse heads that the model does not have."""
    there = set(known)
    strangers = [(head, row) for head, row in rows.items() if head not in there]
    if strangers:
        head, row = strangers[0]
        layers = len({(one.kind, one.layer) for one in known})
        raise HeadtoolError(
            f"{row.place}: there is no head {head} among the model's {len(known)} in {layers} "
            f"layers; {len(rows)} are in the file"
        )
