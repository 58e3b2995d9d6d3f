"""Heads and the attention sites that hold them.

Heads are counted from zero and written ``kind.layer.head``, such as ``enc-self.3.7``. Wherever
heads are laid out in one flat array, the order is canonical: kinds in the order of `KINDS`, then
layers, then heads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from headtool.errors import HeadtoolError, unknown

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "KINDS",
    "MICHEL_LETTERS",
    "AttentionSite",
    "Head",
    "Kind",
    "Sites",
    "head_name",
    "parse_kinds",
]

Kind = Literal["enc-self", "dec-self", "cross"]
KINDS: tuple[Kind, ...] = ("enc-self", "dec-self", "cross")

MICHEL_LETTERS: dict[Kind, str] = {"enc-self": "E", "dec-self": "D", "cross": "A"}
"""How Michel et al.'s code writes the kinds."""
_HEAD = re.compile(r"(enc-self|dec-self|cross)\.(\d{1,9})\.(\d{1,9})")
_MICHEL = re.compile(r"([EDA]):(\d{1,9}):(\d{1,9})")


def parse_kinds(text: str) -> tuple[Kind, ...]:
    """Read a comma-separated list of kinds, such as ``enc-self,cross``, into canonical order."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in KINDS:
            raise unknown("kind", name, KINDS)
    if not names:
        raise HeadtoolError(f"no attention kind in '{text}' (known: {', '.join(KINDS)})")
    return tuple(kind for kind in KINDS if kind in names)


@dataclass(frozen=True)
class Head:
    """One attention head, written ``kind.layer.index``.

    Attributes
    ----------
    kind
        Kind of attention: ``enc-self``, ``dec-self`` or ``cross``.
    layer
        The layer of its site within the kind, from 0.
    index
        Its place in the site, from 0.

    Examples
    --------
    >>> from headtool import Head
    >>> Head.parse("enc-self.3.7")
    Head(kind='enc-self', layer=3, index=7)
    >>> str(Head("cross", 0, 2))
    'cross.0.2'
    """

    kind: Kind
    layer: int
    index: int

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}.{self.index}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read ``enc-self.3.7`` or Michel's one-based ``E:4:8``."""
        if match := _HEAD.fullmatch(text.strip()):
            return cls(cast(Kind, match[1]), int(match[2]), int(match[3]))
        if match := _MICHEL.fullmatch(text.strip()):
            kind = next(kind for kind, letter in MICHEL_LETTERS.items() if letter == match[1])
            layer, index = int(match[2]) - 1, int(match[3]) - 1
            if layer >= 0 and index >= 0:
                return cls(kind, layer, index)
        shown = repr(text if len(text) <= 60 else f"{text[:60]}...")
        raise HeadtoolError(f"{shown} is not a head; write kind.layer.head such as enc-self.3.7")


def head_name(row: Mapping[Any, Any] | pd.Series[Any]) -> str:
    """Return the text form of the head that a row of a table is about.

    Parameters
    ----------
    row
        A row with the columns ``kind``, ``layer`` and ``head``.

    Examples
    --------
    >>> from headtool.heads import head_name
    >>> head_name({"kind": "enc-self", "layer": 3, "head": 7, "score": 0.25})
    'enc-self.3.7'
    """
    return str(Head(row["kind"], int(row["layer"]), int(row["head"])))


@dataclass(frozen=True)
class AttentionSite:
    """One multi-head attention block as the forward pass meets it.

    Attributes
    ----------
    kind, layer
        Identify the site; layers count from zero within a kind. A model that shares one set of
        weights between layers (ALBERT) has one site per layer *call*.
    n_heads, n_kv_heads
        Query heads and key/value heads; they differ under grouped-query attention.
    head_dim
        Width of one head's output before the output projection.
    projection
        Qualified name of the output-projection module.
    """

    kind: Kind
    layer: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    projection: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}"

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """The site's heads in order."""
        return tuple(Head(self.kind, self.layer, index) for index in range(self.n_heads))


@dataclass(frozen=True)
class Sites(Sequence[AttentionSite]):
    """The attention sites of a model (or some of them) in canonical order."""

    items: tuple[AttentionSite, ...]
    _starts: dict[tuple[Kind, int], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.items, key=lambda site: (KINDS.index(site.kind), site.layer)))
        starts: dict[tuple[Kind, int], int] = {}
        start = 0
        for site in ordered:
            if (site.kind, site.layer) in starts:
                raise ValueError(f"two sites are called {site}")
            starts[site.kind, site.layer] = start
            start += site.n_heads
        object.__setattr__(self, "items", ordered)
        object.__setattr__(self, "_starts", starts)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[AttentionSite]:
        return iter(self.items)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds present, in canonical order."""
        return tuple(kind for kind in KINDS if any(site.kind == kind for site in self.items))

    @property
    def n_heads(self) -> int:
        """Heads over all sites."""
        return sum(site.n_heads for site in self.items)

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """All heads in canonical order."""
        return tuple(head for site in self.items for head in site.heads)

    def columns(self, site: AttentionSite) -> slice:
        """Where a site's heads stand in a flat array over all heads."""
        start = self._starts[site.kind, site.layer]
        return slice(start, start + site.n_heads)

    def position(self, head: Head) -> int:
        """Where a head stands in a flat array over all heads; an unknown head is an error."""
        for site in self.items:
            if (site.kind, site.layer) == (head.kind, head.layer) and head.index < site.n_heads:
                return self._starts[head.kind, head.layer] + head.index
        raise HeadtoolError(f"the model has no head {head}; it has {self.summary}")

    def restrict(self, kinds: Iterable[Kind] | None) -> Sites:
        """Keep the sites of some kinds (None: all); a kind that the model lacks is an error."""
        if kinds is None:
            return self
        wanted = tuple(kinds)
        for kind in wanted:
            if kind not in self.kinds:
                raise HeadtoolError(
                    f"the model has no {kind} attention; it has {', '.join(self.kinds)}"
                )
        return Sites(tuple(site for site in self.items if site.kind in wanted))

    @property
    def summary(self) -> str:
        """For example ``enc-self 6 x 12``; uneven layers as ``enc-self 6 layers, 40 heads``."""
        parts = []
        for kind in self.kinds:
            widths = [site.n_heads for site in self.items if site.kind == kind]
            if len(set(widths)) == 1:
                parts.append(f"{kind} {len(widths)} x {widths[0]}")
            else:
                parts.append(f"{kind} {len(widths)} layers, {sum(widths)} heads")
        return ", ".join(parts)
