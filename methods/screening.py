"""Screen heads by a cheap method before they are ablated one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headtool.analysis.screening import Screen, halves, screening_frame
from headtool.engine.units import Executor, in_turn
from headtool.heads import Head, Sites
from headtool.methods.attribution import Attribution
from headtool.methods.base import Method
from headtool.methods.gradient import Gradient
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import Progress, silent

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Screened", "screen_heads", "screening_method"]

_BASELINES = ("zero", "mean", "resample", "counterfactual")


@dataclass(frozen=True, eq=False)
class Screened:
    """What is left to be ablated.

    Attributes
    ----------
    frame
        The table ``screening``, a row per head.
    heads
        The heads that are to be ablated.
    selection, evaluation
        The examples that chose them, and those that they are to be ablated on.
    screen
        How they were chosen.
    """

    frame: pd.DataFrame
    heads: Sequence[Head]
    selection: Examples
    evaluation: Examples
    screen: Screen

    @property
    def described(self) -> dict[str, Any]:
        """What a manifest says of it."""
        return self.screen.described(
            of=len(self.frame), selection=len(self.selection), evaluation=len(self.evaluation)
        )


def screening_method(screen: Screen, replacement: str) -> Method:
    """Return the method that screens for an ablation.

    Parameters
    ----------
    screen
        How heads are screened.
    replacement
        What a closed head puts out; attribution estimates the effect of the same, or for
        ``optimal`` of the mean.
    """
    if screen.by == "gradient":
        return Gradient()
    return Attribution(baseline=replacement if replacement in _BASELINES else "mean")


def screen_heads(
    model: ModelAdapter,
    examples: Examples,
    sites: Sites,
    screen: Screen,
    *,
    replacement: str = "zero",
    seed: int = 0,
    execute: Executor = in_turn,
    progress: Progress = silent,
) -> Screened:
    """Choose the heads to ablate on one half of the examples, and leave the other for that.

    Parameters
    ----------
    model, examples
        The model and its data.
    sites
        The sites whose heads are screened.
    screen
        How many are ablated, and which method chooses them.
    replacement
        What a closed head puts out.
    seed
        Draws the halves.
    execute
        Who runs the units.
    progress
        Reports progress.

    Raises
    ------
    HeadtoolError
        If no head would be screened out, or there are too few examples.
    """
    screen.check(sites.n_heads)
    selection, evaluation = (examples.take(half) for half in halves(len(examples), seed))
    scores = screening_method(screen, replacement).score(
        model, selection, kinds=sites.kinds, seed=seed, execute=execute, progress=progress
    )
    score = scores.frame["score"].to_numpy(np.float64)
    frame = screening_frame(sites.heads, score, screen, seed=seed)
    heads = [head for head, chosen in zip(sites.heads, frame["tested"], strict=True) if chosen]
    return Screened(frame, heads, selection, evaluation, screen)
