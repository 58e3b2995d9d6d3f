"""Masks that close single heads, or all heads of a site but one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask, Sites

__all__ = ["Ablated", "keep_one_masks", "single_masks"]


@dataclass(frozen=True)
class Ablated:
    """A head and the mask that ablates it.

    Attributes
    ----------
    head
        The head that the mask is about.
    mask
        It alone is closed, or it alone is open in its site.
    """

    head: Head
    mask: HeadMask


def single_masks(sites: Sites, heads: Iterable[Head]) -> list[Ablated]:
    """Close one head at a time.

    Parameters
    ----------
    sites
        The sites that the masks are over.
    heads
        The heads to close, one mask each.

    Raises
    ------
    HeadtoolError
        For a head that the sites lack, or one given twice.
    """
    chosen = list(heads)
    for head in chosen:
        sites.position(head)
        if chosen.count(head) > 1:
            raise HeadtoolError(f"head {head} is given twice")
    return [Ablated(head, HeadMask.without(sites, [head])) for head in chosen]


def keep_one_masks(sites: Sites, within: Sites) -> list[Ablated]:
    """Leave one head of a site open at a time.

    Parameters
    ----------
    sites
        The sites that the masks are over.
    within
        The sites of the heads that are left alone; one with a single head has none to close.
    """
    return [
        Ablated(head, HeadMask.without(sites, [other for other in site.heads if other != head]))
        for site in within
        if site.n_heads > 1
        for head in site.heads
    ]
