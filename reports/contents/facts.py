"""What texts and figures both look up in a run: its level and margin, budgets, noise ceilings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headtool.reports.contents.run import Contents
from headtool.reports.wording.words import number, percent

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MATCHED",
    "RANGES",
    "RULE_OF_THREE",
    "STABLE",
    "VERDICTS",
    "alpha_of",
    "band_of",
    "ceiling_of",
    "examples_note",
    "false_verdicts",
    "interval",
    "level_of",
    "margin_of",
    "matched",
    "signed",
    "tested_effects",
    "unchanged_note",
    "whole_models",
    "why_uncorrected",
]

VERDICTS = ("needed", "removable", "harmful", "undecided")
"""As `headtool.analysis.equivalence` has them, which takes a second to import."""

STABLE = 0.9
"""As `headtool.analysis.subsampling` has it, which takes a second to import."""

MATCHED = "random-matched:"
"""How the names of random masks begin that are matched to a method layer by layer."""

RANGES = {
    **dict.fromkeys(
        ("accuracy", "f1", "f1-macro", "em", "acc", "acc_norm", "acc_bytes"), (0.0, 1.0)
    ),
    **dict.fromkeys(("rouge1", "rouge2", "rougeL"), (0.0, 1.0)),
    **dict.fromkeys(("mcc", "pearson", "spearman"), (-1.0, 1.0)),
    **dict.fromkeys(("bleu", "chrf"), (0.0, 100.0)),
    **dict.fromkeys(("ter", "loss", "mse", "kl", "bits-per-byte"), (0.0, math.inf)),
    "perplexity": (1.0, math.inf),
    "logit-difference": (-math.inf, math.inf),
}
"""The values that each metric can have."""

RULE_OF_THREE = 3
"""What none of N examples does, up to this over N of all examples may still do (at about 95%)."""


def unchanged_note(examples: int) -> str:
    """How to read an interval without width, which no verdict takes for certainty."""
    share = percent(min(1.0, RULE_OF_THREE / examples))
    return (
        "An interval of width zero means that no example changed; with "
        f"{examples} examples, up to about {share} of other examples still could change, and "
        "the verdicts allow for that."
    )


def false_verdicts(alpha: float) -> str:
    """How often a verdict is false at most."""
    return (
        f"Needed and harmful have level {alpha:g} together, removable another {alpha:g}: one false "
        f"verdict of either sort or more has a probability of up to {min(1.0, 2 * alpha):g}."
    )


def examples_note(needed: Sequence[float]) -> str:
    """What the examples needed are worth: a plan only where the effect is known otherwise."""
    without = sum(1 for value in needed if math.isinf(value))
    beyond = f" {without} heads lie so close to the margin that no number would." if without else ""
    return (
        "Examples needed: how many would settle a head with 80% power if its true effect is the "
        f"one observed here. A plan only if you have reason to expect that effect.{beyond}"
    )


def matched(method: str) -> str:
    """Name of the random masks that remove as many heads of every layer as a method does."""
    return MATCHED + method


def alpha_of(contents: Contents) -> float:
    """Level of the run's tests; 0.05 if it does not tell."""
    value = contents.settings.get("alpha", 0.05)
    return float(value) if isinstance(value, int | float) else 0.05


def margin_of(contents: Contents) -> float:
    """Margin of the verdicts on the main data set, in the metric's unit; NaN if unknown."""
    used = contents.described("tests").get(contents.data[0]) if contents.data else None
    default = used.get("margin") if isinstance(used, dict) else None
    given_margin = contents.settings.get("margin")
    if given_margin is None and "sequential" in contents.tables:
        how = contents.described("provenance").get("sequential")
        given_margin = how["options"].get("margin") if isinstance(how, dict) else None
    value = default if given_margin is None else given_margin
    return float(value) if isinstance(value, int | float) else math.nan


def tested_effects(contents: Contents) -> pd.DataFrame:
    """Effects of single heads on every data set, with tests where the run has some."""
    effects = contents.table("tests" if "tests" in contents.tables else "ablation")
    return effects[effects["metric"] == contents.metric] if "metric" in effects else effects


def whole_models(contents: Contents) -> pd.DataFrame:
    """The models trained with different seeds, and what each is worth by the run's metric."""
    table = contents.table("replicates")
    return table[table["metric"] == contents.metric]


def level_of(contents: Contents) -> str:
    """Level of the run's intervals in percent."""
    return percent(1 - alpha_of(contents))


def interval(row: Any, name: str = "") -> str:
    """Ends of the interval of a row, or of one of its columns.

    Parameters
    ----------
    row
        A row with the columns ``low`` and ``high``, or ``NAME_low`` and ``NAME_high``.
    name
        Which of its columns the interval is of; empty for the row's own.
    """
    low, high = (row["low"], row["high"]) if not name else (row[f"{name}_low"], row[f"{name}_high"])
    if math.isnan(low) or math.isnan(high):
        return "no interval"
    return f"{number(low)} to {number(high)}"


def band_of(contents: Contents, rows: Any) -> tuple[Any, Any]:
    """Ends of the band of a curve around its values, within what the metric can be.

    The band is of differences from the whole model; put at its value, one may reach beyond what the
    metric allows. Takes one row of the curves, or several.

    Parameters
    ----------
    contents
        The run.
    rows
        One row of the curves, or several.
    """
    import numpy as np

    whole = rows["value"] - rows["delta"]
    least, most = RANGES.get(contents.metric, (-math.inf, math.inf))
    low, high = (np.clip(whole + rows[end], least, most) for end in ("low", "high"))
    return low, high


def signed(contents: Contents, delta: pd.Series) -> pd.Series:
    """Changes of the metric, positive for the better.

    Parameters
    ----------
    contents
        The run.
    delta
        Changes of its metric, masked minus whole.
    """
    return delta if contents.higher_is_better else -delta


def why_uncorrected(row: Any) -> str:
    """Why the correlation of a pair of data sets is not corrected for noise."""
    if math.isnan(row["reliability_x"]) or math.isnan(row["reliability_y"]):
        return "reliability unknown"
    return "correlation undefined" if math.isnan(row["pearson"]) else "reliability too low"


def ceiling_of(row: Any) -> float:
    """The correlation to expect of two noisy measurements of the same thing; NaN if undefined."""
    product = row["reliability_x"] * row["reliability_y"]
    if not (row["reliability_x"] > 0 and row["reliability_y"] > 0):
        return math.nan
    return min(1.0, math.sqrt(product))
