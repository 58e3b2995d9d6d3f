"""What a comparison computed, and the tables made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headtool.analysis.curve_bootstrap import Line
from headtool.heads import Sites
from headtool.masks.curves import CurveMasks
from headtool.metrics.base import Metric
from headtool.results.outcomes import Outcomes

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Assembled", "Beside", "Findings"]


@dataclass(frozen=True, eq=False)
class Beside:
    """What was measured under another replacement.

    Attributes
    ----------
    lines
        The methods' curves, with the numbers of their masks in `outcomes`.
    outcomes
        The outcomes of single heads, where there are any, and of the masks of the curves.
    """

    lines: tuple[Line, ...]
    outcomes: Outcomes


@dataclass(frozen=True, eq=False)
class Findings:
    """What was computed with the model.

    Attributes
    ----------
    sites
        The sites of the heads that were up for removal.
    metrics
        What the outcomes are measured by; the first is the comparison's.
    scores
        Per method its scores, a row per head of `sites`.
    selection
        What the heads were scored on.
    evaluation
        The data set of the curves.
    singles
        By data set, the outcomes of closing the heads one at a time; none for ``curve``.
    ablations
        By data set, what `headtool.experiments.effects.ablation_frame` makes of them.
    curves
        The masks of the curves; the first are over all heads of `sites`.
    outcomes
        The outcomes of all masks of the curves, and of single heads, on the first data set.
    lines
        The curves, with the numbers of their masks there.
    keeping
        The keep-only curves; see `headtool.analysis.faithfulness`.
    replacement
        What removed heads put out in all but `beside`.
    beside
        By further replacement, what was measured under it.
    effects
        The same, what `headtool.experiments.effects.ablation_frame` made of single heads.
    again
        Per method its scores on the evaluation examples; none for ``curve``.
    iterative
        Whether heads were scored again after every step.
    """

    sites: Sites
    metrics: tuple[Metric, ...]
    scores: Mapping[str, pd.DataFrame]
    selection: str
    evaluation: str
    singles: Mapping[str, Outcomes]
    ablations: Mapping[str, pd.DataFrame]
    curves: tuple[CurveMasks, ...]
    outcomes: Outcomes
    lines: tuple[Line, ...]
    again: Mapping[str, pd.DataFrame]
    keeping: tuple[Line, ...] = ()
    replacement: str = "zero"
    beside: Mapping[str, Beside] = dataclasses.field(default_factory=dict)
    effects: Mapping[str, pd.DataFrame] = dataclasses.field(default_factory=dict)
    iterative: bool = False


@dataclass(frozen=True, eq=False)
class Assembled:
    """The tables of a comparison, and what goes with them into its settings.

    Attributes
    ----------
    tables, settings
        Every table by name, but those about data and failures; whole models, tests used and notes.
    """

    tables: Mapping[str, pd.DataFrame]
    settings: Mapping[str, Any]
