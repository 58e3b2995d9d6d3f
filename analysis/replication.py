"""Does what is found of one model hold for others? The same architecture, trained again.

Models trained from different initialisations are permuted relative to each other: head 3 of a
layer of one has nothing to do with head 3 of the other, so that rankings of heads cannot be
expected to agree beyond the layers. Only models fine-tuned from one pretrained model share the
identity of their heads. What needs no correspondence is how much each *layer* matters: the mean
rank of its heads.

Curves are compared over all models by a bootstrap of two factors: each resample draws the models
with replacement, and examples with replacement, the same examples for all models, because they all
are evaluated on the same. A difference holds for other training runs as far as the models given are
a sample of them: few models have few resamples, and the variance of the mean of K models comes out
at (K - 1) / K of what it should be, so that intervals and p-values are too small.

References
----------
Owen (2007), The pigeonhole bootstrap.
Bouthillier et al. (2021), Accounting for variance in machine learning benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from headtool.analysis.agreement import agreement
from headtool.analysis.curve_bootstrap import CurveEnsemble
from headtool.analysis.curves import curve_frame
from headtool.analysis.head_permutation import permutation_p
from headtool.analysis.overlap import overlap
from headtool.analysis.rank_correlation import kendall, spearman
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "layer_ranks",
    "replicate_agreement",
    "replicate_curves",
    "replicate_overlap",
    "replicate_scores",
]

_MODELS = {"method_x": "model_x", "method_y": "model_y"}


ByModel = Mapping[str, Mapping[str, Array]]
"""By method and model: scores of the same M heads, each of shape [M]."""


def replicate_agreement(
    scores: ByModel,
    layers: NDArray[np.int64],
    *,
    alpha: float = 0.05,
    permutations: int = 10_000,
    rng: int = 0,
) -> pd.DataFrame:
    """Compare how a method ranks the heads, and the layers, of every pair of models.

    Parameters
    ----------
    scores
        Scores by method and model.
    layers
        A number per head, equal for heads of one attention site, shape [M].
    alpha, permutations
        As for `headtool.analysis.agreement.agreement`.
    rng
        Seed of the permutations.

    Returns
    -------
    pandas.DataFrame
        The table ``replicate_agreement``, a row per method and pair of models: those of
        ``agreement``, and the coefficients between the mean ranks of the layers, with p-values
        under any order of the layers; NaN for fewer than three.
    """
    import pandas as pd

    frames = []
    for method, by_model in scores.items():
        frame = agreement(by_model, layers, alpha=alpha, permutations=permutations, rng=rng)
        ranks = {model: layer_ranks(values, layers) for model, values in by_model.items()}
        pairs = zip(frame["method_x"], frame["method_y"], strict=True)
        generator = np.random.default_rng(rng)
        rows = [
            _layer_row(ranks[x], ranks[y], permutations=permutations, rng=generator)
            for x, y in pairs
        ]
        frame = frame.rename(columns=_MODELS).join(pd.DataFrame(rows, index=frame.index))
        frame.insert(0, "method", method)
        frames.append(frame)
    return TABLES["replicate_agreement"].joined(frames)


def layer_ranks(scores: Array, layers: NDArray[np.int64]) -> Array:
    """Return the mean rank of the heads of each layer, 1 for the least important head; [layers].

    Unlike sums of scores, mean ranks do not depend on a single head.

    Parameters
    ----------
    scores
        Shape [M]; higher means more important.
    layers
        A number per head, equal for heads of one attention site, shape [M].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.replication import layer_ranks
    >>> layer_ranks(np.array([0.1, 0.4, 0.9, 0.2]), np.array([0, 0, 1, 1]))
    array([2., 3.])
    """
    ranks = rankdata(scores)
    return np.array([ranks[layers == layer].mean() for layer in np.unique(layers)])


def replicate_overlap(
    kept: Mapping[str, Mapping[str, Mapping[int, NDArray[np.bool_]]]], layers: NDArray[np.int64]
) -> pd.DataFrame:
    """Compare the heads that a method keeps of every pair of models, budget by budget.

    Parameters
    ----------
    kept
        By method, model and budget, whether each head stays.
    layers
        A number per head, equal for heads of one attention site, shape [M].

    Returns
    -------
    pandas.DataFrame
        The table ``replicate_overlap``, a row per method, budget and pair; see
        `headtool.analysis.overlap.overlap`.
    """
    frames = []
    for method, by_model in kept.items():
        frame = overlap(by_model, layers).rename(columns=_MODELS)
        frame.insert(0, "method", method)
        frames.append(frame)
    return TABLES["replicate_overlap"].joined(frames)


def replicate_curves(
    ensemble: CurveEnsemble, models: Sequence[str], *, alpha: float = 0.05
) -> pd.DataFrame:
    """Tabulate the curves of every model, the table ``replicate_curves``.

    Bands are over examples, separately for every model.

    Parameters
    ----------
    ensemble
        The curves of several models.
    models
        Their names, in the same order.
    alpha
        The bands have level ``1 - alpha`` at each budget by itself.
    """
    frames = []
    for model, member in zip(models, ensemble.members, strict=True):
        frame = curve_frame(member, alpha=alpha)
        frame.insert(0, "model", model)
        frames.append(frame)
    return TABLES["replicate_curves"].joined(frames)


def replicate_scores(frames: Mapping[str, Mapping[str, pd.DataFrame]]) -> pd.DataFrame:
    """Join the scores by method and model, ``replicate_scores``."""
    return TABLES["replicate_scores"].joined(
        [
            frame.assign(model=model)
            for by_model in frames.values()
            for model, frame in by_model.items()
        ]
    )


def _layer_row(
    x: Array, y: Array, *, permutations: int, rng: np.random.Generator
) -> dict[str, float]:
    row: dict[str, float] = {"layers": len(x)}
    if len(x) < 3:
        names = ("layer_tau_b", "layer_tau_b_p", "layer_spearman", "layer_spearman_p")
        return row | dict.fromkeys(names, math.nan)
    p = permutation_p(x, y, permutations=permutations, rng=rng)
    return row | {
        "layer_tau_b": float(kendall(x[None], y[None])[0]),
        "layer_tau_b_p": p["kendall"],
        "layer_spearman": float(spearman(x[None], y[None])[0]),
        "layer_spearman_p": p["spearman"],
    }
