"""Faithfulness of keeping only the most important heads, and the areas CPR and CMD.

    f(k) = (m(only k kept) - m(none)) / (m(all) - m(none))

is 1 for the whole model and 0 for the model without a head, in whichever direction the metric m is
better. CPR (circuit performance ratio) is the area under f over the share of heads kept, CMD
(circuit-model distance) that under abs(1 - f), both by the trapezoid rule between the shares of
`headtool.masks.keeping.SHARES`, as the code of the Mechanistic Interpretability Benchmark takes
them. Heads are what is kept; MIB's circuits may hold MLPs and edges as well.

References
----------
Mueller et al. 2025, "MIB: A Mechanistic Interpretability Benchmark", 2504.13151, sec. 3.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headtool.analysis.curve_bootstrap import CurveBootstrap, Line
from headtool.analysis.intervals import percentile_interval
from headtool.masks.keeping import SHARES, budgets_at_shares
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["areas", "faithfulness", "faithfulness_areas", "faithfulness_notes"]


def areas(shares: Array, faithful: Array) -> tuple[Array, Array]:
    """Take the areas CPR and CMD under curves of faithfulness.

    Parameters
    ----------
    shares
        Shares of the heads that stay, ascending, shape [P].
    faithful
        Faithfulness at each, shape [..., P].

    Returns
    -------
    cpr, cmd
        The area under it and under abs(1 - it), each [...].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.faithfulness import areas
    >>> cpr, cmd = areas(np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 1.0]))
    >>> float(cpr), float(cmd)
    (0.75, 0.25)
    """
    return (
        np.asarray(np.trapezoid(faithful, shares)),
        np.asarray(np.trapezoid(np.abs(1 - faithful), shares)),
    )


def faithfulness(bootstrap: CurveBootstrap, *, alpha: float = 0.05) -> pd.DataFrame:
    """Tabulate the keep-only curves, the table ``faithfulness`` of `headtool.schema`.

    Parameters
    ----------
    bootstrap
        The curves, of which those of `CurveBootstrap.keeping` are read, down to no head.
    alpha
        Intervals have level ``1 - alpha`` at each point by itself.
    """
    rows = []
    values = np.append(bootstrap.paired.masked_values, bootstrap.paired.whole_value)
    for line, drawn in zip(bootstrap.keeping, bootstrap.drawn_keeping, strict=True):
        found = _of_deltas(bootstrap.deltas(line))
        if len(line.draws):
            low, high = _span(_of_deltas(bootstrap.each_draw(line)), alpha)
        else:
            low, high = percentile_interval(_of_deltas(drawn), level=1 - alpha)
        low, high = (np.where(np.isnan(found), np.nan, end) for end in (low, high))
        numbers = zip(line.of(values), found, low, high, strict=True)
        for budget, row in list(zip(line.budgets, numbers, strict=True))[::-1]:
            kept = line.total - budget
            place = (line.kind, line.method, kept, kept / line.total, bootstrap.paired.name)
            rows.append((*place, *map(float, row)))
    return TABLES["faithfulness"].frame(rows)


def faithfulness_areas(bootstrap: CurveBootstrap, *, alpha: float = 0.05) -> pd.DataFrame:
    """Tabulate CPR and CMD of every method, ``faithfulness_areas``.

    Parameters
    ----------
    bootstrap, alpha
        As for `faithfulness`.
    """
    rows = []
    for line, drawn in zip(bootstrap.keeping, bootstrap.drawn_keeping, strict=True):
        draws = _areas_of_draws(bootstrap, line)
        none = bootstrap.paired.whole_value + float(bootstrap.deltas(line)[-1])
        if len(line.draws):
            own = [float(values.mean()) for values in draws]
            ends = [_span(values[:, None], alpha) for values in draws]
        else:
            own = [float(area) for area in _areas(line, bootstrap.deltas(line))]
            ends = [
                percentile_interval(area[:, None], level=1 - alpha) for area in _areas(line, drawn)
            ]
        reason = _reason(bootstrap, line)
        (cpr, cmd), ((cpr_low, cpr_high), (cmd_low, cmd_high)) = own, ends
        counted = np.nan if line.is_random or not len(draws[0]) or reason else float(len(draws[0]))
        beaten = [np.nan, np.nan]
        if np.isfinite(counted):
            beaten = [float((draws[0] < cpr).sum()), float((draws[1] > cmd).sum())]
        numbers = [cpr, cpr_low, cpr_high, cmd, cmd_low, cmd_high]
        rows.append(
            (
                *(line.kind, line.method),
                *(np.nan if reason else float(np.asarray(number).item()) for number in numbers),
                *(*beaten, counted, bootstrap.paired.whole_value, none, reason),
            )
        )
    return TABLES["faithfulness_areas"].frame(rows)


def faithfulness_notes(bootstrap: CurveBootstrap, *, alpha: float = 0.05) -> list[str]:
    """Say where faithfulness is undefined, or a ratio of differences that may be chance.

    Parameters
    ----------
    bootstrap, alpha
        As for `faithfulness`.
    """
    notes = {}
    for line, drawn in zip(bootstrap.keeping, bootstrap.drawn_keeping, strict=True):
        reason = _reason(bootstrap, line)
        low, high = percentile_interval(drawn[:, -1:], level=1 - alpha)
        of = "" if line.kind == "all" else f" of {line.kind}"
        if reason:
            notes[line.kind] = f"faithfulness{of} is undefined: {reason}"
        elif low[0] <= 0 <= high[0]:
            notes[line.kind] = (
                f"faithfulness{of} divides by the difference between the whole model and the model "
                "without a head, which may be chance here: more examples, or another metric such "
                "as the loss, would settle it"
            )
    return list(notes.values())


def _of_deltas(deltas: Array) -> Array:
    """Faithfulness from deltas to the whole model, of which the last is that of no head."""
    none = deltas[..., -1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 1 - deltas / none
    return np.where(np.isfinite(none) & (none != 0), found, np.nan)


def _areas(line: Line, deltas: Array) -> tuple[Array, Array]:
    """Both areas of deltas at the budgets of a line, [..., B]."""
    at = [line.budgets.index(budget) for budget in budgets_at_shares(line.total)]
    return areas(np.array(SHARES), _of_deltas(deltas)[..., at])


def _areas_of_draws(bootstrap: CurveBootstrap, line: Line) -> tuple[Array, Array]:
    """Both areas of every random ranking of the heads of a line."""
    for other in bootstrap.keeping:
        if other.is_random and other.kind == line.kind:
            return _areas(other, bootstrap.each_draw(other))
    return np.empty(0), np.empty(0)


def _span(draws: Array, alpha: float) -> tuple[Array, Array]:
    """Ends between which all but a share `alpha` of the draws lie, [P] each."""
    low, high = np.quantile(draws, [alpha / 2, 1 - alpha / 2], axis=0)
    return low, high


def _reason(bootstrap: CurveBootstrap, line: Line) -> str:
    """Why there is no faithfulness; empty where there is."""
    name, none = bootstrap.paired.name, float(bootstrap.deltas(line)[-1])
    if none == 0:
        return f"{name} of the whole model and of the model without a head is the same"
    undefined = not np.isfinite(bootstrap.deltas(line)).all()
    return f"{name} is undefined with some of the heads kept" if undefined else ""
