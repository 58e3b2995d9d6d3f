"""Head masks: which heads of a model are open, and the formats in which others write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headtool.errors import HeadtoolError
from headtool.heads.sites import MICHEL_LETTERS, AttentionSite, Head, Sites
from headtool.reading import parse_json

__all__ = ["DealtMask", "HeadMask"]


@dataclass(frozen=True, eq=False)
class HeadMask:
    """Which heads are open. Closing a head multiplies its output before W_O by zero.

    Attributes
    ----------
    sites
        The sites that the mask speaks of.
    open
        Boolean array over ``sites.heads``; False means closed (masked, removed).

    Examples
    --------
    >>> from headtool.heads import Sites
    >>> from headtool import AttentionSite, Head, HeadMask
    >>> sites = Sites((AttentionSite("enc-self", 0, 4, 4, 16, "layer.0.output"),))
    >>> mask = HeadMask.without(sites, [Head("enc-self", 0, 1)])
    >>> mask.open.tolist()
    [True, False, True, True]
    >>> mask.to_michel()
    'E:1:2'
    """

    sites: Sites
    open: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.open.shape != (self.sites.n_heads,) or self.open.dtype != np.bool_:
            raise ValueError(
                f"a mask over {self.sites.n_heads} heads needs as many booleans, "
                f"got {self.open.dtype} of shape {self.open.shape}"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HeadMask):
            return NotImplemented
        return self.sites == other.sites and bool((self.open == other.open).all())

    def __hash__(self) -> int:
        return hash((self.sites, self.open.tobytes()))

    @classmethod
    def full(cls, sites: Sites) -> HeadMask:
        """All heads open."""
        return cls(sites, np.ones(sites.n_heads, dtype=np.bool_))

    @classmethod
    def without(cls, sites: Sites, heads: Iterable[Head]) -> HeadMask:
        """Close some heads and leave all others open.

        Parameters
        ----------
        sites
            The sites that the mask is over.
        heads
            The heads to close.

        Raises
        ------
        HeadtoolError
            For a head that the sites lack.
        """
        is_open = np.ones(sites.n_heads, dtype=np.bool_)
        for head in heads:
            is_open[sites.position(head)] = False
        return cls(sites, is_open)

    @property
    def closed(self) -> tuple[Head, ...]:
        """The closed heads in canonical order."""
        return tuple(
            head for head, is_open in zip(self.sites.heads, self.open, strict=True) if not is_open
        )

    def at(self, site: AttentionSite) -> NDArray[np.bool_]:
        """The mask of one site, shape [n_heads]; of a `DealtMask` [N, n_heads]."""
        return self.open[..., self.sites.columns(site)]

    def to_json(self) -> str:
        """Write ``{"schema": "headtool/mask/1", "closed": ["enc-self.3.7", ...]}``."""
        closed = [str(head) for head in self.closed]
        return json.dumps({"schema": "headtool/mask/1", "closed": closed})

    @classmethod
    def from_json(cls, text: str, sites: Sites) -> HeadMask:
        """Read what `to_json` wrote.

        Parameters
        ----------
        text
            The document.
        sites
            The sites of the model that the mask is for.

        Raises
        ------
        HeadtoolError
            If it is no such document, or the model lacks a head in it.
        """
        document = parse_json(text, "the head mask")
        if not isinstance(document, dict) or document.get("schema") != "headtool/mask/1":
            raise HeadtoolError('the head mask lacks "schema": "headtool/mask/1"')
        closed = document.get("closed")
        if not isinstance(closed, list) or not all(isinstance(name, str) for name in closed):
            raise HeadtoolError('"closed" of the head mask must be a list such as ["enc-self.0.1"]')
        return cls.without(sites, map(Head.parse, closed))

    def to_huggingface(self) -> dict[int, list[int]]:
        """Return ``{layer: [closed heads]}``, the ``prune_heads`` format; one kind only."""
        if len(self.sites.kinds) != 1:
            raise HeadtoolError(
                "the {layer: [heads]} format names no kind, and this mask spans "
                f"{', '.join(self.sites.kinds)}; restrict it to one of them"
            )
        layers: dict[int, list[int]] = {}
        for head in self.closed:
            layers.setdefault(head.layer, []).append(head.index)
        return layers

    @classmethod
    def from_huggingface(cls, pruned: Mapping[int, Iterable[int]], sites: Sites) -> HeadMask:
        """Read ``{layer: [closed heads]}`` for a model with one kind of attention.

        Parameters
        ----------
        pruned
            Closed heads by layer, as ``prune_heads`` of transformers takes them.
        sites
            The sites of the model, all of one kind.

        Raises
        ------
        HeadtoolError
            If the sites are of several kinds, or lack one of the heads.

        Examples
        --------
        >>> from headtool.heads import Sites
        >>> from headtool import AttentionSite, HeadMask
        >>> sites = Sites((AttentionSite("enc-self", 0, 4, 4, 16, "layer.0.output"),))
        >>> [str(head) for head in HeadMask.from_huggingface({0: [1, 3]}, sites).closed]
        ['enc-self.0.1', 'enc-self.0.3']
        """
        if len(sites.kinds) != 1:
            raise HeadtoolError(
                f"{{layer: [heads]}} is ambiguous for a model with {', '.join(sites.kinds)}"
            )
        kind = sites.kinds[0]
        return cls.without(
            sites, (Head(kind, int(k), int(i)) for k, heads in pruned.items() for i in heads)
        )

    def to_michel(self) -> str:
        """Write the closed heads as Michel et al.'s code does: ``E:1:3 A:6:2``, one-based."""
        return " ".join(
            f"{MICHEL_LETTERS[head.kind]}:{head.layer + 1}:{head.index + 1}" for head in self.closed
        )

    @classmethod
    def from_michel(cls, text: str, sites: Sites) -> HeadMask:
        """Read the closed heads as Michel et al.'s code writes them, such as ``E:1:3 A:6:2``.

        Parameters
        ----------
        text
            The closed heads, counted from one, separated by spaces; E is enc-self, D dec-self, A
            cross.
        sites
            The sites of the model that the mask is for.

        Raises
        ------
        HeadtoolError
            For what is not a head, or not one of the model's.
        """
        return cls.without(sites, (Head.parse(word) for word in text.split()))


@dataclass(frozen=True, eq=False)
class DealtMask(HeadMask):
    """A mask for each example of a data set: what masks do on average, in one run.

    Attributes
    ----------
    open
        Boolean array [N, heads], a row for each of N examples.
    """

    def __post_init__(self) -> None:
        if self.open.shape != (len(self.open), self.sites.n_heads) or self.open.dtype != np.bool_:
            raise ValueError(
                f"masks over {self.sites.n_heads} heads need as many booleans for each example, "
                f"got {self.open.dtype} of shape {self.open.shape}"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DealtMask):
            return NotImplemented
        return self.sites == other.sites and np.array_equal(self.open, other.open)

    def __hash__(self) -> int:
        return super().__hash__()

    @property
    def closed(self) -> tuple[Head, ...]:
        """The heads that are closed for any example, in canonical order."""
        always = np.asarray(self.open.all(axis=0))
        return HeadMask(self.sites, always).closed

    def to_json(self) -> str:
        """Write the masks of all examples, packed; no other tool reads it."""
        packed = np.packbits(self.open, axis=1)
        return json.dumps({"schema": "headtool/dealt-mask/1", "open": packed.tobytes().hex()})
