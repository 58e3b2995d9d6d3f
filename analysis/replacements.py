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

from headtool.analysis.assessment import assess_outcomes
from headtool.analysis.rank_correlation import kendall, spearman
from headtool.metrics.base import Metric
from headtool.results.outcomes import Outcomes
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["replacement_agreement", "replacement_effects"]

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
        As for `headtool.analysis.assessment.assess_outcomes`.
    """
    deltas, verdicts = {}, {}
    for name, one in outcomes.items():
        whole = metric.compute(one.whole)
        deltas[name] = np.array([metric.compute(one.row(i)) - whole for i in range(len(one.masks))])
        judged = assess_outcomes(one, metric, alpha=alpha, margin=margin, rng=seed)
        verdicts[name] = judged.frame["verdict"].to_numpy()
    rows = []
    for x, y in itertools.combinations(outcomes, 2):
        known = np.isfinite(deltas[x]) & np.isfinite(deltas[y])
        first, second = deltas[x][known], deltas[y][known]
        tau = rho = math.nan
        if len(first) >= _LEAST:
            pair = first[None], second[None]
            tau, rho = float(kendall(*pair)[0]), float(spearman(*pair)[0])
        same = float(np.mean(verdicts[x] == verdicts[y]))
        rows.append((x, y, metric.name, len(first), tau, rho, same))
    return TABLES["replacement_agreement"].frame(rows)
