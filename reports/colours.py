"""Colours and dashes of methods: a method has the same in every run and in every format."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

__all__ = ["DASHES", "HUES", "Look", "look_of"]

HUES = (
    *("#0B5CAD", "#B23A00", "#00724F", "#8A2A7C", "#7A5A00"),
    *("#4338A8", "#00687A", "#9D174D", "#4D6B00", "#6B4423"),
)
"""Colours of methods on paper; the page's style sheet has them again, for light and dark."""

DASHES = (
    *("", "7 3", "2 3", "8 3 2 3", "12 3 2 3 2 3"),
    *("4 2", "10 4", "1 3"),
)
"""Dashes of methods, as SVG writes them; the first is a line without any."""


@dataclass(frozen=True)
class Look:
    """A colour with a dash.

    Attributes
    ----------
    hue, dash
        Places in `HUES` and `DASHES`.
    """

    hue: int
    dash: int

    @property
    def css(self) -> str:
        """Classes of the page's style sheet."""
        return f"m{self.hue} k{self.dash}"


# The methods that are most often compared differ in colour, all in colour and dash together.
_KNOWN = {
    "gradient": Look(0, 0),
    "ablation": Look(1, 1),
    "fisher": Look(2, 2),
    "confidence": Look(3, 3),
    "magnitude": Look(4, 4),
    "gates": Look(5, 5),
    "attribution": Look(6, 6),
    "lrp": Look(7, 7),
    "shapley": Look(8, 0),
    "taylor": Look(9, 1),
    "integrated": Look(8, 3),
    "dsp": Look(5, 2),
    "activation": Look(3, 0),
    "wanda": Look(4, 0),
    "flap": Look(1, 0),
    "retrieval": Look(2, 0),
}


def look_of(method: str) -> Look:
    """Look up how a method is drawn; one that is not known has a look of its name's own.

    Parameters
    ----------
    method
        Its name, as the run has it.

    Examples
    --------
    >>> from headtool.reports.colours import look_of
    >>> look_of("gradient").css
    'm0 k0'
    >>> look_of("mine") == look_of("mine")
    True
    """
    if method in _KNOWN:
        return _KNOWN[method]
    taken = set(_KNOWN.values())
    free = [
        look
        for hue in range(len(HUES))
        for dash in range(len(DASHES))
        if (look := Look(hue, dash)) not in taken
    ]
    return free[int.from_bytes(hashlib.sha256(method.encode()).digest()[:4]) % len(free)]
