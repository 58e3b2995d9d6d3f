"""What a comparison will cost: its stages one by one, with what may end early."""

from __future__ import annotations

from collections.abc import Sequence

from headtool.analysis.draw_plan import FEW, DrawPlan, inner_points
from headtool.engine.counting import size_of
from headtool.experiments.evaluating import BAND
from headtool.experiments.planning import Plan, Sketch
from headtool.experiments.setup import Setup
from headtool.masks.curves import SHOWN
from headtool.masks.keeping import keep_only
from headtool.masks.order import Family
from headtool.methods.ablation import Ablation
from headtool.methods.base import Method

__all__ = ["comparison_plan", "scoring_passes"]


def comparison_plan(setup: Setup) -> Plan:
    """Plan a comparison, stage by stage.

    Counted at most: masks that several stages share run once, and random masks are run on more
    examples only if a comparison hangs on them. Orders of heads that only chance ranks are not
    counted.

    Parameters
    ----------
    setup
        What the comparison works on.
    """
    sketch, request, split = Sketch(setup.name, setup.model), setup.request, setup.split
    first, *others = split.evaluation.values()
    methods, sites = setup.methods, setup.sites
    steps = sum(_inner(family) for family in setup.families) if request.iterative else 0
    chosen = [(f"scores.{method.name}", method) for method in methods]
    sketch.methods(chosen, split.selection, sites, setup.measures)
    for name, method in chosen if steps else ():
        sketch.method(f"{name}.steps", method, split.selection, sites, setup.measures, times=steps)
    share = _single_share(setup)
    if setup.name == "compare":
        _filling(setup, sketch, "singles")
        sketch.masks("singles", sites.n_heads, first, setup.measures, share=share)
        again = [
            (f"again.{method.name}", method.scores_only())
            for method in methods
            if not _shares_masks(method, setup)
        ]
        sketch.methods(again, first, sites, setup.measures)
        for name, method in again if request.iterative else ():
            inner = _inner(setup.families[0])
            sketch.method(f"{name}.steps", method, first, sites, setup.measures, times=inner)
    _filling(setup, sketch, "curves")
    sketch.masks("curves", _curve_masks(setup), first, setup.measures)
    for name in request.beside:
        points = sum(len(family.budgets) - 1 for family in setup.families) * len(methods)
        count = points + (sites.n_heads if setup.name == "compare" else 0)
        sketch.masks(f"replacement.{name}", count, first, setup.measures)
    for number, examples in enumerate(others if setup.name == "compare" else (), start=2):
        name = f"singles.{number}"
        sketch.masks(name, sites.n_heads, examples, setup.measures, share=share)
    if request.stability:
        halves = request.stability / 2
        scorers = [
            ("stability", method.scores_only())
            for method in methods
            if not _shares_masks(method, setup) or request.iterative
        ]
        sketch.methods(scorers, split.selection, sites, setup.measures, times=halves)
        for name, method in scorers if request.iterative else ():
            times = halves * _inner(setup.families[0])
            sketch.method(name, method, split.selection, sites, setup.measures, times=times)
    for replicate in setup.replicates:
        part = replicate.split
        scorers = [("replicates", method.scores_only()) for method in methods]
        sketch.methods(scorers, part.selection, sites, setup.measures)
        for name, method in scorers if request.iterative else ():
            times = _inner(setup.families[0])
            sketch.method(name, method, part.selection, sites, setup.measures, times=times)
        own = len(methods) + _random_masks(setup)
        masks = _inner(setup.families[0]) * own
        sketch.masks("replicates", masks, part.first, setup.measures)
    if request.draws is None:
        for family in setup.families:
            _draws(setup, sketch, family)
    if setup.name == "compare":
        sketch.rounding(first, setup.measures.metrics)
    return sketch.plan()


def scoring_passes(setup: Setup, plan: Plan, methods: Sequence[str]) -> dict[str, float | None]:
    """Say how many forward passes over the selection examples scoring by each method takes alone.

    Parameters
    ----------
    setup
        What the comparison works on.
    plan
        Its plan.
    methods
        Names of methods.

    Returns
    -------
    dict
        By method, backward passes counted as forward ones; at most, and None where nobody knows.
    """
    measures = setup.measures
    size = size_of(
        *(setup.model, setup.split.selection, setup.sites, measures.metric), measures.search
    )
    found: dict[str, float | None] = {}
    for method in setup.methods:
        if method.name in methods:
            own = method.cost(size)
            steps = [part for part in plan.phases if part.name == f"scores.{method.name}.steps"]
            again = sum(part.passes.weight for part in steps)
            passes = None if own is None else sum(one.weight for one in own) + again
            found[method.name] = None if passes is None else round(passes, 3)
    return found


def _filling(setup: Setup, sketch: Sketch, name: str) -> None:
    """What it takes to know what closed heads put out."""
    size = size_of(setup.model, setup.split.first, setup.sites, setup.measures.metric)
    for passes in setup.replacement.cost(size):
        sketch.add(name, passes, setup.split.first)


def _inner(family: Family) -> int:
    """Points of a curve that close some heads."""
    return sum(budget > 0 for budget in family.budgets)


def _single_share(setup: Setup) -> float:
    """Share of a forward pass that closing one head takes on average."""
    return size_of(setup.model, setup.split.first, setup.sites, setup.measures.metric).share


def _shares_masks(method: Method, setup: Setup) -> bool:
    """Whether a method runs the masks of single heads, which run once for whoever wants them."""
    if not isinstance(method, Ablation):
        return False
    return method.screen is None and method.replacement == setup.request.replacement


def _random_masks(setup: Setup) -> int:
    """Random masks at a point of the curves: the shown ones, or all that were asked for."""
    if setup.request.draws is None:
        return _shown(setup)
    return setup.request.draws * (1 + len(setup.methods))


def _shown(setup: Setup) -> int:
    """Random masks of any heads at a point where comparisons with them have their own."""
    return 1 if setup.deal(setup.split.first) else SHOWN


def _curve_masks(setup: Setup) -> int:
    """Masks of all curves, those of selecting on the evaluation examples included."""
    count, request = 0, setup.request
    if request.faithfulness and not request.keep_one_per_layer:
        shown = _shown(setup) if request.draws is None else min(request.draws, BAND)
        for plain, family in zip(setup.families, map(keep_only, setup.families), strict=True):
            # Points are those of the pruning curves, but for new budgets, and for methods whose
            # heads stay by size.
            new = set(family.budgets) - set(plain.budgets)
            own = set(family.budgets) if request.absolute else new
            count += len(own - {0}) * len(setup.methods) + len(new) * shown
    for number, family in enumerate(setup.families):
        inner = _inner(family)
        count += inner * (len(setup.methods) + _random_masks(setup))
        if number == 0 and setup.name == "compare":
            points = len(inner_points(family.budgets, family.sites.n_heads))
            few = request.draws is None
            count += len(setup.methods) * (points if few else inner)
    return count


def _draws(setup: Setup, sketch: Sketch, family: Family) -> None:
    """Random masks that methods are compared with: common ones, and those of each one's layers."""
    first, methods = setup.split.first, len(setup.methods)
    planned = DrawPlan.of(
        family.budgets,
        family.sites.n_heads,
        [""] * len(first),
        methods=methods,
        alpha=setup.request.alpha,
        seed=setup.request.seed,
    )
    if planned is None:
        return
    models = 1 + (len(setup.replicates) if family is setup.families[0] else 0)
    most = (planned.passes() * (1 + methods) + FEW * planned.shown * methods) / len(first)
    soon = planned.fields[0] * planned.sizes[0] / len(first)
    sketch.masks(
        *("draws", most * models, first, setup.measures),
        least=min(1.0, soon / most),
        what=f"{family.kind}: at most {planned.most} draws of each sort",
    )
