"""What closing heads costs: all masks of a comparison, each run once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.curve_lines import MaskNumbers, lines_of
from headtool.analysis.draw_plan import inner_points
from headtool.analysis.equivalence import check_margin
from headtool.analysis.found import Beside, Findings
from headtool.analysis.paired import Paired
from headtool.engine.replacement import replacement as named_replacement
from headtool.experiments.effects import ablation_frame
from headtool.experiments.selecting import Chosen, Roster, ScoringRound, choose
from headtool.experiments.setup import Setup
from headtool.experiments.stages import Stages
from headtool.heads import HeadMask
from headtool.masks.curves import CurveMasks, closed_in_order
from headtool.masks.keeping import by_size, keep_only
from headtool.masks.order import tied_closed
from headtool.masks.singles import single_masks
from headtool.progress import labelled, phase
from headtool.results.outcomes import Outcomes

__all__ = ["BAND", "evaluate_chosen"]

BAND = 20
"""Random rankings whose keep-only curves make a band, at most."""


def evaluate_chosen(setup: Setup, kept: Stages, roster: Roster, chosen: Chosen) -> Findings:
    """Run the whole model, every head closed alone, and every point of the curves.

    For ``compare``, the methods score and choose on the evaluation examples as well.

    Parameters
    ----------
    setup
        What the comparison works on.
    kept
        Keeps what is finished, and runs no mask twice.
    roster
        The methods that are left.
    chosen
        What they say on the selection examples.

    Raises
    ------
    HeadtoolError
        If no method is left, or the model cannot be evaluated.
    """
    first, *others = setup.split.evaluation
    alone = single_masks(setup.model.sites, setup.sites.heads) if setup.name == "compare" else []
    numbers = MaskNumbers()
    places = [numbers.add(item.mask) for item in alone]
    drawn = _draw(setup, roster, chosen)
    again = None
    if alone:
        # Ablation scores by these too, and a margin that makes no sense is best told now.
        measured = _outcomes(setup, kept, "singles", first, numbers.masks)
        check_margin(Paired.from_outcomes(measured, setup.measures.metric), setup.request.margin)
        now = ScoringRound.on_evaluation(setup)
        again = choose(setup, kept, roster, now, setup.families[:1])
    curves = tuple(masks.only(roster.names) for masks in drawn)
    lines = [
        line
        for masks in curves
        for line in lines_of(
            masks,
            again.closed.get(masks.kind, {}) if again is not None else {},
            setup.model.sites,
            numbers.add,
            again_tied=_tied(setup, masks, again),
            again_at=None
            if setup.request.draws is not None
            else inner_points(masks.budgets, masks.sites.n_heads),
        )
    ]
    keeping = [
        line
        for masks in _keep_only(setup, roster, chosen)
        for line in lines_of(masks, {}, setup.model.sites, numbers.add)
    ]
    outcomes = _outcomes(setup, kept, "curves", first, numbers.masks)
    singles = {first: outcomes.take(places)} if alone else {}
    for number, spec in enumerate(others if alone else (), start=2):
        masks = [item.mask for item in alone]
        singles[spec] = _outcomes(setup, kept, f"singles.{number}", spec, masks)
    beside = {
        name: _beside(setup, kept, name, curves, [item.mask for item in alone])
        for name in setup.request.beside
    }
    return Findings(
        sites=setup.sites,
        metrics=setup.measures.metrics,
        scores={name: chosen.scores[name].frame for name in roster.names},
        selection=setup.split.selection_spec,
        evaluation=first,
        singles=singles,
        ablations={
            spec: ablation_frame(alone, result, setup.measures.metrics)
            for spec, result in singles.items()
        },
        curves=curves,
        outcomes=outcomes,
        lines=tuple(lines),
        keeping=tuple(keeping),
        beside=beside,
        replacement=setup.request.replacement,
        effects={
            name: ablation_frame(
                alone, one.outcomes.take(range(len(alone))), setup.measures.metrics
            )
            for name, one in beside.items()
            if alone
        },
        again={name: again.scores[name].frame for name in roster.names} if again else {},
        iterative=setup.request.iterative,
    )


def _draw(setup: Setup, roster: Roster, chosen: Chosen) -> list[CurveMasks]:
    """The masks of the curves: those of the methods, and random ones beside them."""
    found = []
    for family in setup.families:
        masks = CurveMasks.draw(
            family.kind,
            family.sites,
            family.budgets,
            {name: chosen.closed[family.kind][name] for name in roster.names},
            draws=setup.request.draws,
            keep_one=family.keep_one,
            seed=setup.request.seed,
            deal=setup.deal(setup.split.first),
        )
        found.append(replace(masks, tied=_tied(setup, masks, chosen)))
    return found


def _keep_only(setup: Setup, roster: Roster, chosen: Chosen) -> list[CurveMasks]:
    """The masks of the keep-only curves; none where they were not asked for, or cannot be."""
    request, found = setup.request, []
    if not request.faithfulness or request.keep_one_per_layer:
        return []
    scores = {name: chosen.scores[name].frame for name in roster.names}
    if request.absolute:
        scores = {name: by_size(frame) for name, frame in scores.items()}
    for family in map(keep_only, setup.families):
        orders = {
            name: family.order(frame) if request.absolute else chosen.orders[family.kind][name]
            for name, frame in scores.items()
        }
        masks = CurveMasks.draw(
            family.kind,
            family.sites,
            family.budgets,
            {
                name: closed_in_order(order, family.budgets, family.sites.n_heads)
                for name, order in orders.items()
            },
            draws=request.draws if request.draws is None else min(request.draws, BAND),
            keep_one=False,
            seed=request.seed,
            deal=setup.deal(setup.split.first),
        )
        tied = {} if request.iterative else tied_closed(family, scores, masks.keys)
        found.append(replace(masks, matched={}, tied=tied))
    return found


def _beside(
    setup: Setup,
    kept: Stages,
    name: str,
    curves: Sequence[CurveMasks],
    alone: Sequence[HeadMask],
) -> Beside:
    """Single heads and the methods' curves under another replacement, without random masks."""
    numbers = MaskNumbers()
    for mask in alone:
        numbers.add(mask)
    lines = [
        line
        for masks in curves
        for line in lines_of(
            replace(masks, random=masks.random[:0], matched={}, dealt=None),
            {},
            setup.model.sites,
            numbers.add,
        )
    ]
    measured = kept.measure(
        f"replacement.{name}",
        setup.model,
        setup.split.first,
        numbers.masks,
        setup.measures.metric,
        search=setup.measures.search,
        replacement=named_replacement(name, seed=setup.request.seed),
        progress=labelled(kept.progress, f"replacement {name}"),
    )
    return Beside(tuple(lines), measured.outcomes)


def _tied(setup: Setup, masks: CurveMasks, chosen: Chosen | None) -> dict[str, NDArray[np.bool_]]:
    """By method whose scores leave points of the curve open: its masks in several orders."""
    if chosen is None or setup.request.iterative or masks.kind not in chosen.closed:
        return {}  # if scored again at every step, each has scores of its own
    (family,) = (one for one in setup.families if one.kind == masks.kind)
    scores = {name: one.frame for name, one in chosen.scores.items()}
    return tied_closed(family, scores, masks.keys)


def _outcomes(
    setup: Setup, kept: Stages, stage: str, spec: str, masks: Sequence[HeadMask]
) -> Outcomes:
    """Run masks on the evaluation examples of a data set."""
    with phase(kept.progress, stage):
        return kept.measure(
            stage,
            setup.model,
            setup.split.evaluation[spec],
            masks,
            setup.measures.metric,
            search=setup.measures.search,
            replacement=setup.replacement,
            chained=None if stage == "curves" else False,
            progress=labelled(kept.progress, stage),
        ).outcomes
