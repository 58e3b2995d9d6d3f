"""How much of the difference between methods holds everywhere, and how much varies with what.

In a cell (a model, trained from one seed, on one task) every method has a value, such as its
advantage over random masks. Only differences between methods count: what all methods of a cell
share says nothing about which is better. So each cell's M values are turned into M - 1 orthonormal
contrasts y, and

    y = mu + model + task + model's seed + rest + examples

with fixed mu (what holds everywhere) and independent random parts, whose variances are the same for
all contrasts. The variance from examples is known: the bootstrap in the cell gives that of the
difference of any two methods, and half its mean over pairs is that of a contrast. The others are
estimated by REML (Patterson & Thompson 1971), not below 0, with profile-likelihood intervals.

A part with one level cannot be told. Parts that coincide, such as models and tasks where each model
has a task of its own, are one part with both names. With one value in each cell, what models and
tasks do together is in ``rest``.

References
----------
Patterson & Thompson (1971), Recovery of inter-block information when block sizes are unequal.
Searle, Casella & McCulloch (1992), Variance Components.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import helmert
from scipy.optimize import brentq, minimize
from scipy.stats import chi2

from headtool.analysis.levels import check_level
from headtool.metrics.base import Array

__all__ = ["Part", "variance_parts"]

METHODS, REST, EXAMPLES = "methods", "rest", "examples"
_FLOOR = 1e-7  # of the whole variance: where a likelihood is still defined
_MOST = 1e5  # times the whole variance: where a search ends
_UNKNOWN = "the comparisons do not tell it"
_OWN = "every comparison has its own"
_FAR = 1e4  # times the whole variance: no upper end of an interval


@dataclass(frozen=True)
class Part:
    """A part of the variance of differences between methods.

    Attributes
    ----------
    name
        ``methods``, one of the labels, ``rest`` or ``examples``.
    levels
        How many levels it has.
    variance
        Its estimate; NaN if it cannot be told.
    low, high
        Ends of its interval; NaN where there is none.
    share
        Its share of the sum of all parts that can be told.
    reason
        Why it cannot be told, or what else is in it; empty else.
    """

    name: str
    levels: int
    variance: float = math.nan
    low: float = math.nan
    high: float = math.nan
    share: float = math.nan
    reason: str = ""


def variance_parts(
    values: Array,
    labels: Mapping[str, Sequence[str]],
    sampling: Sequence[float] | Array,
    *,
    alpha: float = 0.05,
) -> list[Part]:
    """Divide the variance of differences between methods.

    Parameters
    ----------
    values
        A value for each cell and method, shape [C, M], without missing values.
    labels
        By part, the level of each cell, from the most general part to the least; each C long.
    sampling
        For each cell, the variance from examples of the difference between two methods, the mean
        over pairs; shape [C]. NaN where it is unknown: it then is in ``rest``.
    alpha
        Intervals have level ``1 - alpha``.

    Returns
    -------
    list of Part
        ``methods`` first, then the parts of `labels`, ``rest`` and ``examples``.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.variance_parts import variance_parts
    >>> values = np.array([[5.0, 1.0], [5.2, 0.9], [3.0, 1.1], [2.8, 1.0]])
    >>> parts = variance_parts(values, {"model": ["a", "a", "b", "b"]}, [0.0] * 4)
    >>> [(part.name, round(part.share, 2)) for part in parts]
    [('methods', 0.74), ('model', 0.25), ('rest', 0.0), ('examples', 0.0)]
    """
    check_level(alpha)
    cells, methods = values.shape
    named = {name: _codes(given) for name, given in labels.items()}
    counts = {name: int(codes.max()) + 1 for name, codes in named.items()}
    known = not bool(np.isnan(np.asarray(sampling, dtype=np.float64)).any())
    noise = np.asarray(sampling, dtype=np.float64) / 2 if known else np.zeros(cells)
    if methods < 2 or cells < 2:
        why = "there is one method" if methods < 2 else "there is one cell"
        return [Part(name, 0, reason=why) for name in (METHODS, *labels, REST, EXAMPLES)]
    told, hidden, mixed = _told(named, cells)
    contrasts = values @ helmert(methods).T
    scale = float(np.mean(contrasts**2)) or 1.0
    kernels = [_alike(named[name]) for name in told]
    model = _Reml(contrasts / math.sqrt(scale), [*kernels, np.eye(cells)], noise / scale)
    best = model.fit()
    ends = [model.interval(place, best, alpha) for place in range(len(best))]
    mean, doubt = model.means(best)
    spread = max(0.0, float(np.mean(mean**2)) - doubt)
    parts = [Part(METHODS, methods, spread * scale)]
    for name in labels:
        if name not in told:
            parts.append(Part(name, counts[name], reason=hidden[name]))
            continue
        inside = [other for other in hidden if hidden[other] == _same(name)]
        reason = _held(inside, mixed.get(name, []))
        place = told.index(name)
        low, high = (end * scale for end in ends[place])
        variance = float(best[place]) * scale
        parts.append(Part(name, counts[name], variance, low, high, reason=reason))
    inside = [name for name, why in hidden.items() if why == _OWN] + ([] if known else [EXAMPLES])
    low, high = (end * scale for end in ends[-1])
    rest = float(best[-1]) * scale
    reason = _held(inside, mixed.get(REST, []))
    parts.append(Part(REST, cells, rest, low, high, reason=reason))
    chance = float(noise.mean()) if known else math.nan
    parts.append(Part(EXAMPLES, cells, chance, reason="" if known else _UNKNOWN))
    whole = sum(part.variance for part in parts if not math.isnan(part.variance))
    return [replace(p, share=p.variance / whole if whole > 0 else math.nan) for p in parts]


def _codes(given: Sequence[str]) -> np.ndarray:
    """Number the levels in the order in which they come."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(str(name), len(seen)) for name in given])


def _same(name: str) -> str:
    return f"it coincides with {name}"


def _held(inside: Sequence[str], mixed: Sequence[str]) -> str:
    """What else is in a part."""
    parts = (("including", inside), ("mixed with", mixed))
    return ", ".join(f"{word} {' and '.join(names)}" for word, names in parts if names)


def _told(
    named: Mapping[str, np.ndarray], cells: int
) -> tuple[list[str], dict[str, str], dict[str, list[str]]]:
    """Which parts can be told, why the others cannot, and what is mixed with which of these."""
    told: list[str] = []
    hidden: dict[str, str] = {}
    for name, codes in named.items():
        levels = int(codes.max()) + 1
        if levels == 1:
            hidden[name] = "there is only one"
        elif levels == cells:
            hidden[name] = _OWN
        elif twin := next((n for n in told if (named[n] == codes).all()), None):
            hidden[name] = _same(twin)
        else:
            told.append(name)
    mixed: dict[str, list[str]] = {}
    while dependent := _dependent([*(_alike(named[name]) for name in told), np.eye(cells)]):
        names = [*told, REST]
        last = told.pop(max(place for place in dependent if place < len(told)))
        hidden[last] = "the design does not tell it from others"
        for place in dependent:
            if names[place] != last:
                mixed.setdefault(names[place], []).append(last)
    return told, hidden, mixed


def _alike(codes: np.ndarray) -> Array:
    """Whether cells have the same level."""
    return np.asarray(codes[:, None] == codes[None, :], dtype=np.float64)


def _dependent(kernels: Sequence[Array]) -> list[int]:
    """Which covariances are sums of the others, differences between cells considered alone."""
    cells = len(kernels[0])
    center = np.eye(cells) - 1 / cells
    rows = np.stack([(center @ kernel @ center).ravel() for kernel in kernels])
    rank = np.linalg.matrix_rank(rows, tol=1e-8 * cells)
    if rank == len(rows):
        return []
    return [
        place
        for place in range(len(rows))
        if np.linalg.matrix_rank(np.delete(rows, place, axis=0), tol=1e-8 * cells) == rank
    ]


class _Reml:
    """Restricted likelihood of contrasts that have independent, equal parts."""

    def __init__(self, contrasts: Array, kernels: Sequence[Array], noise: Array) -> None:
        self.contrasts, self.kernels, self.noise = contrasts, list(kernels), noise

    def _projected(self, parts: Array) -> tuple[float, Array]:
        """Minus twice the restricted log-likelihood without constants, and its projection."""
        covariance = np.diag(self.noise + _FLOOR)
        for variance, kernel in zip(parts, self.kernels, strict=True):
            covariance = covariance + variance * kernel
        inverse = np.linalg.inv(covariance)
        ones = inverse.sum(axis=1)
        weight = float(ones.sum())
        projection = inverse - np.outer(ones, ones) / weight
        count = self.contrasts.shape[1]
        logs = float(np.linalg.slogdet(covariance)[1]) + math.log(weight)
        fit = float(np.einsum("cj,cd,dj->", self.contrasts, projection, self.contrasts))
        return count * logs + fit, projection

    def objective(self, parts: Array) -> tuple[float, Array]:
        """Minus twice the log-likelihood, and its gradient."""
        value, projection = self._projected(parts)
        seen = projection @ self.contrasts
        count = self.contrasts.shape[1]
        slope = [
            count * float((projection * kernel).sum()) - float((seen * (kernel @ seen)).sum())
            for kernel in self.kernels
        ]
        return value, np.array(slope)

    def fit(self) -> Array:
        """Estimate the variances."""
        parts = len(self.kernels)
        found = [self._minimum(np.full(parts, start / parts)) for start in (1.0, 0.1)]
        return min(found, key=lambda one: one[0])[1]

    def _minimum(self, first: Array, held: int | None = None) -> tuple[float, Array]:
        """The least value of the objective from a start; one variance may be held as it is."""
        bounds = [(0.0, _MOST) if i != held else (first[i], first[i]) for i in range(len(first))]
        done = minimize(self.objective, first, jac=True, bounds=bounds, method="L-BFGS-B")
        return float(done.fun), np.asarray(done.x)

    def interval(self, place: int, best: Array, alpha: float) -> tuple[float, float]:
        """Profile-likelihood interval of a variance; infinite above where nothing bounds it."""
        least = self.objective(best)[0]
        limit = float(chi2.ppf(1 - alpha, 1))

        def beyond(value: float) -> float:
            first = np.maximum(best, 1e-3)
            first[place] = value
            return self._minimum(first, place)[0] - least - limit

        at = float(best[place])
        low = 0.0 if at == 0 or beyond(0.0) <= 0 else float(brentq(beyond, 0.0, at, rtol=1e-2))
        end = 4 * at + 0.1
        while beyond(end) < 0:
            end *= 4
            if end > _FAR:
                return low, math.inf
        return low, float(brentq(beyond, at, end, rtol=1e-2))

    def means(self, parts: Array) -> tuple[Array, float]:
        """Weighted means of the contrasts over cells, and the variance of each."""
        covariance = np.diag(self.noise + _FLOOR)
        for variance, kernel in zip(parts, self.kernels, strict=True):
            covariance = covariance + variance * kernel
        ones = np.linalg.solve(covariance, np.ones(len(covariance)))
        weight = float(ones.sum())
        return ones @ self.contrasts / weight, 1 / weight
