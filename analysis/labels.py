"""Heads as columns of tables, and back."""

from __future__ import annotations

from collections.abc import Sequence

from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask

__all__ = ["heads_of", "label_columns", "read_heads"]


def heads_of(masks: Sequence[HeadMask]) -> list[Head]:
    """Return the head that each mask is about: the only one closed, or the only one left at a site.

    Raises
    ------
    HeadtoolError
        If a mask is neither.
    """
    return [_head_of(mask) for mask in masks]


def _head_of(mask: HeadMask) -> Head:
    closed = mask.closed
    if len(closed) == 1:
        return closed[0]
    sites = [site for site in mask.sites if not mask.at(site).all()]
    if len(sites) == 1:
        left = [head for head in sites[0].heads if head not in closed]
        if len(left) == 1:
            return left[0]
    raise HeadtoolError(
        f"a mask that closes {len(closed)} heads is about no single head; "
        "test masks that close one head, or all but one of a layer"
    )


def label_columns(heads: Sequence[Head] | None, count: int) -> dict[str, list[str] | list[int]]:
    """Return the columns kind, layer and head of `count` masks.

    Parameters
    ----------
    heads
        The head of each mask. None where they are unknown: masks are then numbered from 0, under
        the kind ``mask``.
    count
        Number of masks.

    Raises
    ------
    HeadtoolError
        If the heads are not as many as the masks, or one occurs twice.

    Examples
    --------
    >>> from headtool.analysis.labels import label_columns
    >>> from headtool import Head
    >>> label_columns([Head.parse("enc-self.3.7")], 1)
    {'kind': ['enc-self'], 'layer': [3], 'head': [7]}
    """
    if heads is None:
        return {"kind": ["mask"] * count, "layer": [0] * count, "head": list(range(count))}
    if len(heads) != count:
        raise HeadtoolError(f"{len(heads)} heads for {count} masks: name the head of every mask")
    seen: set[Head] = set()
    for head in heads:
        if head in seen:
            raise HeadtoolError(f"head {head} occurs twice: test every head once")
        seen.add(head)
    return {
        "kind": [str(head.kind) for head in heads],
        "layer": [head.layer for head in heads],
        "head": [head.index for head in heads],
    }


def read_heads(heads: Sequence[Head | str]) -> tuple[Head, ...]:
    """Return heads from heads or their names, such as ``enc-self.3.7``."""
    return tuple(head if isinstance(head, Head) else Head.parse(head) for head in heads)
