"""A race of masks: all run on a few examples, and those ahead on ever more.

Whether any random mask does as well as a method's is decided by the best of them, so passes are
spent on these. In the first round all masks, the method's own among them, are run on a few
examples. Those whose area is largest are run on more of them; after each round the rest drops out.
In the same way a race is run for the smallest area, and only those are run that are still in a race
of which the method has not dropped out.

**Exact.** The method's mask is treated in a race as every other one. So if it is one more draw, all
places are as likely: the share of masks that get at least as far (dropped out no earlier, with an
area at least as large there) is a p-value, whatever the number of rounds, masks and examples, as
long as these are fixed beforehand. Twice the smaller of those of both races is a two-sided one.

This is successive halving, which Karnin, Koren and Somekh propose to find the best of many arms.

References
----------
Karnin, Koren & Somekh (2013), Almost optimal exploration in multi-armed bandits.
Besag & Clifford (1989), Generalized Monte Carlo significance tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headtool.metrics.base import Array

__all__ = ["Round", "Tally", "going_on", "standing", "tally"]

_ROUNDING = 1e-12  # areas that differ by less are equal
_DECIMALS = 10

Round = tuple[Array, Array | None]
"""Areas of the method's own mask and of n draws after a round, [1 + n], and by the loss, if that
decides between equal ones; higher is better. Those of masks that were not run may be anything."""


@dataclass(frozen=True)
class Tally:
    """How a method's area stands among those of random draws.

    Attributes
    ----------
    draws
        How many there are.
    beaten
        How many of them have a smaller area, or dropped out of the race for the largest earlier.
    p
        Two-sided p-value; NaN if the method's area is undefined.
    """

    draws: int
    beaten: int
    p: float

    @property
    def is_better(self) -> bool:
        """Whether most draws have a smaller area."""
        return 2 * self.beaten > self.draws


def tally(own: float, draws: Array) -> Tally:
    """Rank an area among those of random draws.

    Parameters
    ----------
    own
        The method's area; higher is better.
    draws
        Areas of the draws, shape [n]; undefined ones do as well and as badly.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.race import tally
    >>> tally(1.0, np.arange(39) / 39)
    Tally(draws=39, beaten=39, p=0.05)
    """
    if math.isnan(own):
        return Tally(len(draws), 0, math.nan)
    as_well = int(np.count_nonzero(~(draws < own - _ROUNDING)))
    as_badly = int(np.count_nonzero(~(draws > own + _ROUNDING)))
    p = 2 * (1 + min(as_well, as_badly)) / (1 + len(draws))
    return Tally(len(draws), len(draws) - as_well, float(min(1.0, p)))


def going_on(rounds: Sequence[Round], fields: Sequence[int]) -> NDArray[np.bool_]:
    """Tell which masks have to be run in the next round.

    Parameters
    ----------
    rounds
        What is known after each round so far.
    fields
        How many masks go into each round; those that are level with the last of them go as well.

    Returns
    -------
    ndarray
        Shape [1 + n]; none if the place of the method's own mask is settled.
    """
    return np.logical_or(*(_side(rounds, fields, sign)[0] for sign in (1, -1)))


def standing(rounds: Sequence[Round], fields: Sequence[int]) -> Tally:
    """Rank a method's own mask after the races.

    Parameters
    ----------
    rounds, fields
        As for `going_on`; no mask goes on.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.race import going_on, standing
    >>> first = np.array([8.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0])
    >>> going_on([(first, None)], (8, 2)).astype(int)
    array([1, 1, 0, 0, 0, 0, 0, 0])
    >>> second = np.array([2.0, 1.0, *[np.nan] * 6])
    >>> standing([(first, None), (second, None)], (8, 2))
    Tally(draws=7, beaten=7, p=0.25)
    """
    (_, as_well, _), (_, as_badly, worse) = (_side(rounds, fields, sign) for sign in (1, -1))
    draws = len(rounds[0][0]) - 1
    if as_well is None or as_badly is None:
        return Tally(draws, 0, math.nan)
    beaten = draws - as_well if as_well <= as_badly else worse
    p = 2 * (1 + min(as_well, as_badly)) / (1 + draws)
    return Tally(draws, beaten, float(min(1.0, p)))


def _side(
    rounds: Sequence[Round], fields: Sequence[int], sign: int
) -> tuple[NDArray[np.bool_], int | None, int]:
    """Run the race for the largest areas, or with -1 for the smallest, as far as it is known.

    Returns who goes on, nobody if the method's place is settled; how many draws got at least as far
    as its mask, None if its area is undefined in the end; and how many got farther.
    """
    alive = np.ones(len(rounds[0][0]), dtype=np.bool_)
    nobody = np.zeros_like(alive)
    for number, (areas, losses) in enumerate(rounds):
        last = number + 1 == len(fields)
        keys = np.full(len(alive), -np.inf)
        by_loss = None if losses is None else losses[alive]
        keys[alive] = sign * _ranks(areas[alive], by_loss, last=last)
        if last:
            draws = keys[1:][alive[1:]]
            as_far = None if math.isnan(keys[0]) else int(np.sum(~(draws < keys[0])))
            return nobody, as_far, int(np.sum(draws > keys[0]))
        keys[np.isnan(keys)] = -np.inf
        cut = np.sort(keys[alive])[::-1][: fields[number + 1]][-1]
        ahead = alive & (keys >= cut)
        if not ahead[0]:
            farther, out = int(ahead.sum()), keys[1:][(alive & ~ahead)[1:]]
            level = int(np.sum(out >= keys[0]))
            return nobody, farther + level, farther + int(np.sum(out > keys[0]))
        alive = ahead
    return alive, None, 0


def _ranks(areas: Array, losses: Array | None, *, last: bool) -> Array:
    """Turn areas into ranks, equal where areas are, unless the loss decides between them.

    Undefined areas have no rank. If some area is undefined on the few examples of a round that is
    not the last, the loss decides alone.
    """
    known = ~np.isnan(areas)
    if not last and losses is not None and not known.all():
        areas, known = losses, ~np.isnan(losses)
    keys = [np.where(known, areas, 0.0)]
    if losses is not None:
        keys.append(np.where(np.isnan(losses), -np.inf, losses))
    pairs = np.round(np.stack(keys), _DECIMALS)
    found = np.unique(pairs, axis=1, return_inverse=True)[1].ravel().astype(np.float64)
    found[~known] = math.nan
    return found
