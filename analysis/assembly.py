"""From scores, masks and outcomes to the tables of a comparison; nothing here runs a model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.agreement import agreement, concordance
from headtool.analysis.assessment import assess_outcomes
from headtool.analysis.correlation import correlate
from headtool.analysis.curve_bootstrap import CurveBootstrap, Line
from headtool.analysis.curves import (
    additivity,
    curve_draws,
    curve_frame,
    curve_tests,
    optimism,
)
from headtool.analysis.draw_plan import draws_needed
from headtool.analysis.draws import DrawTest
from headtool.analysis.faithfulness import (
    faithfulness,
    faithfulness_areas,
    faithfulness_notes,
)
from headtool.analysis.found import Assembled, Findings
from headtool.analysis.importance import Importance
from headtool.analysis.multiplicity import default_resamples
from headtool.analysis.overlap import consensus, kept_frame, overlap
from headtool.analysis.paired import Paired
from headtool.analysis.replacements import replacement_agreement, replacement_effects
from headtool.errors import HeadtoolError
from headtool.heads.masks import DealtMask
from headtool.masks.curves import layers_of
from headtool.masks.order import cut_ties
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["assemble", "check_scores"]


def assemble(
    found: Findings,
    *,
    alpha: float = 0.05,
    margin: float | None = None,
    resamples: int | None = None,
    seed: int = 0,
    against_random: Sequence[DrawTest] | None = None,
) -> Assembled:
    """Compute every table of a comparison but those about its data and failures.

    Parameters
    ----------
    found
        What was computed.
    alpha
        Level of tests and intervals.
    margin
        What a removable head may cost; see `headtool.analysis.assessment.assess`.
    resamples
        Bootstrap resamples of the curves. None: 10,000, and more where Holm's correction needs it.
    seed
        Seed of everything random.
    against_random
        The comparisons with random masks; None: with all draws among the curves.

    Returns
    -------
    Assembled
        The tables are described in `headtool.analysis.comparison`.
    """
    main, notes = found.curves[0], []
    layers = layers_of(found.sites)
    scores = {name: frame["score"].to_numpy(np.float64) for name, frame in found.scores.items()}
    kept = {
        name: {budget: ~row for budget, row in zip(main.budgets, closed, strict=True)}
        for name, closed in main.closed.items()
    }
    if len(scores) == 1 and found.singles:
        notes.append(
            f"agreement between methods is left out: {next(iter(scores))} is the only method"
        )
    tables: dict[str, pd.DataFrame] = {
        "scores": _score_table(found.scores, found.selection),
        "agreement": agreement(scores, layers, alpha=alpha, rng=seed),
        "concordance": concordance(scores, layers, rng=seed),
        "overlap": overlap(kept, layers),
        "kept": kept_frame(kept, found.sites.heads),
        "consensus": consensus(kept, found.sites.heads),
        "stability": _stability(found, scores, layers, alpha=alpha, seed=seed),
    }
    chosen = resamples or default_resamples("holm", alpha, _comparisons(found.lines))
    tables |= _curve_tables(
        found, notes, alpha=alpha, resamples=chosen, seed=seed, against_random=against_random
    )
    whole = {found.evaluation: found.outcomes.whole}
    whole |= {spec: outcomes.whole for spec, outcomes in found.singles.items()}
    settings: dict[str, Any] = {
        "resamples": chosen,
        "tests": {},
        "whole": {
            spec: {metric.name: _finite(metric.compute(columns)) for metric in found.metrics}
            for spec, columns in whole.items()
        },
    }
    tables |= _single_tables(found, settings, notes, alpha=alpha, margin=margin, seed=seed)
    tables |= _replacement_tables(found, tables["curves"], alpha, margin, chosen, seed)
    if against_random is None:
        notes += _draws_note(found.lines, alpha)
    elif against_random:
        settings["draws_plan"] = against_random[0].plan.described()
    else:
        notes.append("random masks are left out: every point of the curves closes no head or all")
    if not found.iterative:
        for name, frame in found.scores.items():
            notes += _tie_notes(name, frame, main.closed[name], len(main.tied.get(name, ())))
    undefined = sorted(set(tables["curves"].query("delta != delta")["method"]))
    if undefined:
        notes.append(
            f"{found.metrics[0].name} is undefined at some points of the curve of "
            f"{', '.join(undefined)}"
        )
    return Assembled(tables, {**settings, "notes": notes})


def _replacement_tables(
    found: Findings,
    curves: pd.DataFrame,
    alpha: float,
    margin: float | None,
    resamples: int,
    seed: int,
) -> dict[str, pd.DataFrame]:
    """What removed heads put out, side by side; no rows for one replacement alone."""
    names = ("replacements", "replacement_agreement", "replacement_curves")
    if not found.beside:
        return {name: TABLES[name].empty() for name in names}
    metric = found.metrics[0]
    methods = curves[curves["method"].isin(found.scores)]
    frames = [methods.assign(replacement=found.replacement)]
    for name, one in found.beside.items():
        paired = Paired.from_outcomes(one.outcomes, metric)
        drawn = CurveBootstrap(paired, one.lines, resamples=resamples, seed=seed)
        frames.append(curve_frame(drawn, alpha=alpha).assign(replacement=name))
    effects = TABLES["replacements"].empty()
    agree = TABLES["replacement_agreement"].empty()
    if found.singles:
        effects = replacement_effects(
            {found.replacement: found.ablations[found.evaluation], **found.effects}
        )
        count = range(len(found.singles[found.evaluation].masks))
        outcomes = {name: one.outcomes.take(count) for name, one in found.beside.items()}
        agree = replacement_agreement(
            {found.replacement: found.singles[found.evaluation], **outcomes},
            metric,
            alpha=alpha,
            margin=margin,
            seed=seed,
        )
    tables = (effects, agree, TABLES["replacement_curves"].joined(frames))
    return dict(zip(names, tables, strict=True))


def _draws_note(lines: Sequence[Line], alpha: float) -> list[str]:
    """Say if there are too few random masks for any claim, unless there are none."""
    draws = max((len(line.masks) for line in lines if line.is_random), default=0)
    methods = len({line.method for line in lines if not (line.is_random or line.again)})
    needed = draws_needed(alpha, methods)
    if not 0 < draws < needed:
        return []
    return [
        f"{draws} draws of random masks show no method to be better or worse than random at "
        f"{alpha:g}, whatever the curves: with {methods} methods that takes {needed}"
    ]


def _tie_notes(
    method: str, scores: pd.DataFrame, closed: NDArray[np.bool_], orders: int
) -> list[str]:
    """Say at which points the method's scores do not tell which heads go, and what does."""
    cut = cut_ties(scores["score"], closed)
    left = cut_ties(scores["mean_rank"], closed)  # where the loss does not tell either
    by_loss = {budget: heads for budget, heads in cut.items() if budget not in left}
    averaged = f", and the curve is the mean over {orders} random orders of them" if orders else ""
    return [
        f"{method} gives one score to heads that go and heads that stay, {_where(points)}: "
        + decider
        for points, decider in (
            (by_loss, "the loss decides which of them go"),
            (left, f"the seed decides which of them go{averaged}"),
        )
        if points
    ]


def _where(points: Mapping[int, int]) -> str:
    """At which points of a curve how many heads have one score."""
    if len(points) == 1:
        ((budget, heads),) = points.items()
        return f"{heads} of them with {budget} removed"
    low, high = min(points.values()), max(points.values())
    heads_ = f"{low}" if low == high else f"{low} to {high}"
    return f"{heads_} of them at {len(points)} points of its curve"


def _score_table(scores: Mapping[str, pd.DataFrame], selection: str) -> pd.DataFrame:
    frames = [frame.assign(data=selection) for frame in scores.values()]
    return TABLES["scores"].joined(frames, "data")


def _stability(
    found: Findings,
    scores: Mapping[str, Array],
    layers: NDArray[np.int64],
    *,
    alpha: float,
    seed: int,
) -> pd.DataFrame:
    """Agreement of every method with itself on other examples."""
    frames = []
    for name, again in found.again.items():
        pair = {name: scores[name], f"{name} again": again["score"].to_numpy(np.float64)}
        frames.append(agreement(pair, layers, alpha=alpha, rng=seed).assign(method=name))
    return TABLES["stability"].joined(frames)


def _comparisons(lines: Sequence[Line]) -> int:
    """How many curve tests there are at most: pairs of methods, two baselines for each."""
    methods = len({line.method for line in lines if not (line.is_random or line.again)})
    return methods * (methods - 1) // 2 + 2 * methods


def _curve_tables(
    found: Findings,
    notes: list[str],
    *,
    alpha: float,
    resamples: int,
    seed: int,
    against_random: Sequence[DrawTest] | None,
) -> dict[str, pd.DataFrame]:
    metric = found.metrics[0]
    closed_alone = {
        head: number
        for number, mask in enumerate(found.outcomes.masks)
        if not isinstance(mask, DealtMask) and len(mask.closed) == 1
        for head in mask.closed
    }
    singles = {}
    if found.singles:
        for place, line in enumerate(found.lines):
            if line.is_random or line.again or line.kind != found.curves[0].kind:
                continue
            main = found.curves[0]
            orders = main.tied.get(line.method, main.closed[line.method][None])
            singles[place] = [
                np.array(
                    [closed_alone[found.sites.heads[i]] for i in np.nonzero(rows)[1]], np.int64
                )
                for rows in np.moveaxis(orders, 1, 0)
            ]
    evaluation = CurveBootstrap(
        Paired.from_outcomes(found.outcomes, metric),
        found.lines,
        singles,
        resamples=resamples,
        seed=seed,
        keeping=found.keeping,
    )
    notes += faithfulness_notes(evaluation, alpha=alpha)
    return {
        "curves": curve_frame(evaluation, alpha=alpha),
        "curve_draws": curve_draws(evaluation),
        "curve_tests": curve_tests(evaluation, alpha=alpha, against_random=against_random),
        "optimism": optimism(evaluation, alpha=alpha),
        "additivity": additivity(evaluation, alpha=alpha),
        "faithfulness": faithfulness(evaluation, alpha=alpha),
        "faithfulness_areas": faithfulness_areas(evaluation, alpha=alpha),
    }


def _single_tables(
    found: Findings,
    settings: dict[str, Any],
    notes: list[str],
    *,
    alpha: float,
    margin: float | None,
    seed: int,
) -> dict[str, pd.DataFrame]:
    """Ablations, tests and correlations of single heads; fills in settings and notes."""
    import pandas as pd

    ablations, tests = [], []
    for spec, outcomes in found.singles.items():
        ablations.append(found.ablations[spec].assign(data=spec))
        result = assess_outcomes(outcomes, found.metrics[0], alpha=alpha, margin=margin, rng=seed)
        tests.append(result.frame.assign(data=spec))
        notes += [f"{spec}: {line}" for line in result.notes]
        described = dataclasses.asdict(dataclasses.replace(result, frame=pd.DataFrame()))
        settings["tests"][spec] = {
            name: value
            for name, value in described.items()
            if name not in ("frame", "notes", "whole")
        }
    correlations = TABLES["correlations"].empty()
    if len(found.singles) > 1:
        if found.sites.n_heads < 3:
            notes.append("correlation across data sets is left out: it needs three heads")
        else:
            sets = [
                Importance.from_outcomes(spec, outcomes, found.metrics[0])
                for spec, outcomes in found.singles.items()
            ]
            correlations = correlate(sets, alpha=alpha, rng=seed)
            notes += [note for note in correlations["note"] if note]
    return {
        "ablation": TABLES["ablation"].joined(ablations, "data"),
        "tests": TABLES["tests"].joined(tests, "data"),
        "correlations": correlations,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def check_scores(method: str, frame: pd.DataFrame, heads: int) -> None:
    """Refuse scores that leave heads out: rankings and curves need the same heads.

    Parameters
    ----------
    method, frame, heads
        Name of the method, its scores with a row per head, and how many heads must have one.

    Raises
    ------
    HeadtoolError
        If a score is missing, NaN or infinite.
    """
    scored = np.isfinite(frame["score"].to_numpy(np.float64))
    if len(frame) == heads and scored.all():
        return
    places = frame.loc[~scored, ["kind", "layer", "head"]].head(1).to_numpy().tolist()
    first = f" (not {'.'.join(map(str, places[0]))})" if places else ""
    raise HeadtoolError(
        f"{method} scores {int(scored.sum())} of {heads} heads{first}, and methods are compared "
        "over the same ones; choose with `kinds` what it scores, or leave it out"
    )
