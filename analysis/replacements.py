"""Does it matter what closed heads put out? Effects of heads under several replacements.

Miller et al. 2024 show that results of ablations depend on what stands in for what was removed.

References
----------
Miller, Chughtai & Saunders 2024, "Transformer Circuit Faithfulness Metrics Are Not Robust",
2407.08734.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.assessment import assess_outcomes
from headtool.analysis.rank_correlation import kendall, spearman
from headtool.heads import head_name
from headtool.metrics.base import Metric
from headtool.results.outcomes import Outcomes
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "agreement_of_scores",
    "agreement_of_tests",
    "replacement_agreement",
    "replacement_effects",
]

_LEAST = 3  # heads that a ranking needs


def replacement_effects(effects: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Put effects of heads under several replacements together, the table ``replacements``.

    Parameters
    ----------
    effects
        By replacement, what `headtool.experiments.effects.ablation_frame` made.
    """
    frames = [frame.assign(replacement=name) for name, frame in effects.items()]
    return TABLES["replacements"].joined(frames)


def replacement_agreement(
    outcomes: Mapping[str, Outcomes],
    metric: Metric,
    *,
    alpha: float = 0.05,
    margin: float | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Say how alike replacements rank heads, and judge them, ``replacement_agreement``.

    Parameters
    ----------
    outcomes
        By replacement, the outcomes of closing the same heads one at a time.
    metric
        What the effects are of.
    alpha, margin, seed
        As for `headtool.analysis.assessment.assess_outcomes`; the correction is over the heads,
        under each replacement apart.
    """
    judged = {
        name: assess_outcomes(one, metric, alpha=alpha, margin=margin, rng=seed).frame
        for name, one in outcomes.items()
    }
    return agreement_of_tests(judged, metric.name)


def agreement_of_tests(tests: Mapping[str, pd.DataFrame], metric: str) -> pd.DataFrame:
    """Say how alike tests of the same heads under several replacements are.

    Parameters
    ----------
    tests
        By replacement, a row per head: `headtool.analysis.assessment.HeadTests.frame`.
    metric
        Name of the metric.

    Returns
    -------
    DataFrame
        The table ``replacement_agreement``, a row per pair of replacements.
    """
    rows = []
    for x, y in itertools.combinations(tests, 2):
        first, second = tests[x], tests[y]
        agreed = _rank_agreement(first["delta"].to_numpy(), second["delta"].to_numpy())
        same = first["verdict"].to_numpy() == second["verdict"].to_numpy()
        changed = " ".join(map(head_name, first[~same].to_dict("records")))
        rows.append((x, y, metric, *agreed, float(np.mean(same)), changed))
    return TABLES["replacement_agreement"].frame(rows)


def agreement_of_scores(scores: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Say how alike one method scores heads under several replacements.

    Parameters
    ----------
    scores
        By replacement, `headtool.HeadScores.frame` of the same heads.

    Returns
    -------
    DataFrame
        The table ``replacement_score_agreement``, a row per pair of replacements.
    """
    rows = []
    for x, y in itertools.combinations(scores, 2):
        first, second = scores[x], scores[y]
        agreed = _rank_agreement(first["score"].to_numpy(), second["score"].to_numpy())
        rows.append((first["method"].iloc[0], x, y, *agreed))
    return TABLES["replacement_score_agreement"].frame(rows)


def _rank_agreement(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[int, float, float]:
    """Count the heads that are known under both; their Kendall's tau-b and Spearman's rho."""
    known = np.isfinite(x) & np.isfinite(y)
    tau = rho = math.nan
    if known.sum() >= _LEAST:
        pair = x[known][None], y[known][None]
        tau, rho = float(kendall(*pair)[0]), float(spearman(*pair)[0])
    return int(known.sum()), tau, rho
