"""Heads that a cheap method leaves open, to be ablated exactly; the others are not tested.

A cheap score says well enough which heads are far above and far below the point at which heads
would be cut off. What it cannot tell is the order around that point. So only the N heads whose
ranks lie nearest to it are ablated. Which heads these are is decided on one half of the examples,
and what they are worth is measured on the other: the tests know nothing of the choice, and hold
their level over the N heads, whatever chose them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.errors import HeadtoolError, unknown
from headtool.heads import Head
from headtool.results.scores import ranks
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "NOT_TESTED",
    "SCREENS",
    "Screen",
    "asked_screen",
    "halves",
    "screening_frame",
    "screening_note",
    "with_untested",
]

NOT_TESTED = "not tested"
"""The verdict on a head that was screened out."""

SCREENS = ("attribution", "gradient")
"""Methods that screen."""


@dataclass(frozen=True)
class Screen:
    """Which heads are ablated exactly.

    Attributes
    ----------
    heads
        How many: those whose ranks lie nearest to the cut.
    by
        The method that ranks all heads, one of `SCREENS`.
    cut
        Share of the heads that would be cut off; 1 ablates the heads that rank highest, 0 those
        that rank lowest.

    Raises
    ------
    HeadtoolError
        If a value makes no sense.
    """

    heads: int
    by: str = "attribution"
    cut: float = 0.5

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise HeadtoolError(f"`screen` must be at least 1, got {self.heads}")
        if self.by not in SCREENS:
            raise unknown("`screen_by`", self.by, SCREENS)
        if not 0 <= self.cut <= 1:
            raise HeadtoolError(f"`screen_cut` must be between 0 and 1, got {self.cut:g}")

    def check(self, heads: int) -> None:
        """Refuse to screen out no head.

        Parameters
        ----------
        heads
            How many heads there are.
        """
        if self.heads >= heads:
            raise HeadtoolError(
                f"`screen` {self.heads} leaves out none of {heads} heads; give a smaller number, "
                "or leave it out"
            )

    def choose(self, rank: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Choose the heads nearest to the cut.

        Parameters
        ----------
        rank
            Ranks of the heads, 1 for the most important, shape [n].

        Returns
        -------
        ndarray
            Which heads are to be ablated, shape [n].

        Examples
        --------
        >>> import numpy as np
        >>> from headtool.analysis.screening import Screen
        >>> Screen(2).choose(np.array([4, 1, 2, 3])).tolist()
        [False, False, True, True]
        >>> Screen(2, cut=1).choose(np.array([4, 1, 2, 3])).tolist()
        [False, True, True, False]
        """
        count = len(rank)
        self.check(count)
        start = round(self.cut * count) - self.heads // 2
        start = min(max(0, start), count - self.heads)
        place = count - rank  # from the least important, 0
        chosen: NDArray[np.bool_] = (place >= start) & (place < start + self.heads)
        return chosen

    def described(self, *, of: int, selection: int, evaluation: int) -> dict[str, Any]:
        """What a manifest says of it.

        Parameters
        ----------
        of
            How many heads there are.
        selection, evaluation
            Examples that chose, and examples that the chosen heads are ablated on.
        """
        return {
            "heads": self.heads,
            "by": self.by,
            "cut": float(self.cut),
            "of": of,
            "selection_examples": selection,
            "evaluation_examples": evaluation,
        }


def asked_screen(screen: int | None, by: str, cut: float) -> Screen | None:
    """Put a screen together; None where none was asked for.

    Parameters
    ----------
    screen, by, cut
        ``Screen.heads``, ``Screen.by`` and ``Screen.cut``.

    Raises
    ------
    HeadtoolError
        If a value makes no sense, or is for a screen that there is not.
    """
    if screen is not None:
        return Screen(screen, by, cut)
    plain = Screen(1)
    for name, given, default in (("by", by, plain.by), ("cut", cut, plain.cut)):
        if given != default:
            raise HeadtoolError(
                f"`screen_{name}` is for `screen`; add it, or leave `screen_{name}` out"
            )
    return None


def halves(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide examples at random into those that choose heads and those that test them.

    Parameters
    ----------
    count
        How many examples there are.
    seed
        Draws the halves.

    Returns
    -------
    selection, evaluation
        Indices in ascending order; the second half is larger by one if any.

    Raises
    ------
    HeadtoolError
        If there are fewer than four examples.
    """
    if count < 4:
        raise HeadtoolError(
            f"`screen` chooses heads on one half of the examples and tests them on the other, "
            f"which takes 4, and there are {count}; give more"
        )
    order = np.random.default_rng([seed, 37]).permutation(count)
    return np.sort(order[: count // 2]), np.sort(order[count // 2 :])


def screening_frame(
    heads: Sequence[Head], score: NDArray[np.float64], screen: Screen, *, seed: int
) -> pd.DataFrame:
    """Rank heads by a cheap score and say which are to be ablated.

    Parameters
    ----------
    heads
        The n heads.
    score
        Their scores, higher is more important, shape [n].
    screen
        How many are ablated, and where the cut is.
    seed
        Ranks heads with equal scores.

    Returns
    -------
    DataFrame
        The table ``screening``, a row per head.
    """
    rank, _ = ranks(score, seed=seed)
    tested = screen.choose(rank)
    rows = [
        (head.kind, head.layer, head.index, value, int(place), bool(chosen))
        for head, value, place, chosen in zip(heads, score, rank, tested, strict=True)
    ]
    return TABLES["screening"].frame(rows)


def screening_note(screened: Mapping[str, Any], tested: int | None = None) -> str:
    """Say in a line which heads were not tested.

    Parameters
    ----------
    screened
        What `Screen.described` says.
    tested
        How many heads the correction is over; None where there is none.
    """
    return (
        f"{screened['of'] - screened['heads']} of {screened['of']} heads are not tested: on "
        f"{screened['selection_examples']} other examples {screened['by']} ranks them further from "
        f"the cut at {100 * screened['cut']:g}%"
        + ("" if tested is None else f"; the correction is over the {tested} that are")
    )


def with_untested(frame: pd.DataFrame, screening: pd.DataFrame | None) -> pd.DataFrame:
    """Add a row for each head that was screened out: NaN, and the verdict ``not tested``.

    Parameters
    ----------
    frame
        Tests, or effects, of the other heads.
    screening
        Which heads were screened out; None: none.

    Returns
    -------
    DataFrame
        In the order of `screening`, by metric where there are several.
    """
    import pandas as pd

    if screening is None:
        return frame
    place = ["kind", "layer", "head"]
    everyone = screening[screening["kind"].isin(frame["kind"])][place]
    if "metric" in frame.columns:
        parts = [
            everyone.merge(part, on=place, how="left").assign(metric=metric)
            for metric, part in frame.groupby("metric", sort=False)
        ]
        whole = pd.concat(parts, ignore_index=True)
    else:
        whole = everyone.merge(frame, on=place, how="left")
    texts = {"verdict": NOT_TESTED, "reason": ""}
    whole = whole.fillna({name: text for name, text in texts.items() if name in whole.columns})
    # Counts of heads that were not tested are not known, which whole numbers cannot say.
    types = {name: kind for name, kind in frame.dtypes.items() if name != "n_differing"}
    return whole[list(frame.columns)].astype(types)
