"""Which heads an ablation closes, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headtool.analysis.screening import Screen, halves
from headtool.engine.counting import mask_shares, size_of
from headtool.engine.measurement import Measures
from headtool.engine.replacement import Replacement
from headtool.errors import HeadtoolError
from headtool.experiments.planning import Plan, Sketch
from headtool.heads import Head, Kind, Sites
from headtool.masks.singles import Ablated, keep_one_masks, single_masks
from headtool.methods.screening import screening_method
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

__all__ = ["ablated_heads", "ablation_plan", "heads_to_ablate"]


def ablation_plan(
    model: ModelAdapter,
    examples: Examples,
    ablated: Sequence[Ablated],
    sites: Sites,
    measures: Measures,
    fillings: Mapping[str, Replacement],
    screening: Screen | None,
) -> Plan:
    """Plan an ablation: the whole model, every mask, and what replaces heads.

    Parameters
    ----------
    model, examples
        What is run.
    ablated
        The masks.
    sites
        Where the heads are that may be closed.
    measures
        What the model is measured by.
    fillings
        What closed heads put out, by name; the masks are run with each.
    screening
        How many heads a cheap method leaves.
    """
    sketch = Sketch("ablate", model)
    share, count = sum(mask_shares(model, [item.mask for item in ablated])) / len(ablated), None
    if screening is not None:
        screening.check(sites.n_heads)
        choosing, examples = (examples.take(half) for half in halves(len(examples), 0))
        method = screening_method(screening, next(iter(fillings)))
        sketch.method("screen", method, choosing, sites, Measures((measures.metric,)))
        count = screening.heads
    size = size_of(model, examples, model.sites, measures.metric, measures.search)
    for number, (name, filling) in enumerate(fillings.items()):
        phase = f"replacement {name}" if number else "ablate"
        for passes in filling.cost(size):
            sketch.add(phase, passes, examples)
        sketch.masks(phase, count or len(ablated), examples, measures, share=share, what="masks")
    sketch.rounding(examples, measures.metrics)
    return sketch.plan()


def heads_to_ablate(
    heads: Sequence[Head | str] | None, kinds: Sequence[Kind] | None
) -> list[Head] | None:
    """Read which heads are meant, before there is a model.

    Parameters
    ----------
    heads
        Heads, or their names; None for all of `kinds`.
    kinds
        Attention kinds; None for all.

    Raises
    ------
    HeadtoolError
        If both are given, or a name is no head's.
    """
    if heads is None:
        return None
    if kinds is not None:
        raise HeadtoolError("`heads` and `kinds` exclude each other; leave one out")
    return [Head.parse(head) if isinstance(head, str) else head for head in heads]


def ablated_heads(
    model: ModelAdapter,
    heads: Sequence[Head] | None,
    kinds: Sequence[Kind] | None,
    *,
    all_but_one: bool = False,
) -> list[Ablated]:
    """Make the masks of an ablation.

    Parameters
    ----------
    model
        The model.
    heads, kinds
        What `heads_to_ablate` read.
    all_but_one
        Whether all heads of a site but one are closed.

    Raises
    ------
    HeadtoolError
        If the model lacks one of the heads or kinds, or has nothing to ablate.
    """
    sites = model.sites.restrict(kinds)
    if all_but_one:
        ablated = keep_one_masks(model.sites, sites)
    else:
        ablated = single_masks(model.sites, heads or sites.heads)
    if not ablated:
        raise HeadtoolError(f"{model.spec} has one head per site; there is nothing to ablate")
    return ablated
