"""How much work a unit holds, and a phase of a plan: in token-passes, see `headtool.work`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from headtool.engine.replay import Replay
from headtool.engine.stepping import batches_of
from headtool.engine.units import MASKS_PER_UNIT, Unit
from headtool.heads import HeadMask, Sites
from headtool.metrics.base import Metric
from headtool.metrics.translation import TranslationMetric
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.searching import Search
from headtool.work import Passes, Phase, Size

__all__ = ["mask_shares", "phase_of", "size_of", "unit_tokens", "unit_work"]


def unit_tokens(examples: Examples, unit: Unit) -> float:
    """Count the tokens of a unit's examples, without padding.

    Parameters
    ----------
    examples
        The data set.
    unit
        The unit.
    """
    return float(examples.lengths[unit.examples].sum())


def unit_work(examples: Examples, passes: Passes) -> Callable[[Unit], float]:
    """Make what says how many token-passes a unit takes that makes each pass once.

    Parameters
    ----------
    examples
        The data set.
    passes
        What is done with each example.
    """
    return lambda unit: passes.weight * unit_tokens(examples, unit)


def mask_shares(
    model: ModelAdapter, masks: Sequence[HeadMask], *, chained: bool = False
) -> list[float]:
    """Share of a forward pass that each mask takes: what lies above the first site it changes.

    Parameters
    ----------
    model
        The model; where nothing can be taken over from another pass, each share is one.
    masks
        The masks.
    chained
        Whether each mask changes the one before it, not the whole model.
    """
    sites = model.sites
    if not Replay.suits(model) or any(mask.sites != sites for mask in masks):
        return [1.0] * len(masks)
    place = np.repeat(np.arange(len(sites)), [site.n_heads for site in sites])
    shares, before = [], np.ones(sites.n_heads, dtype=np.bool_)
    for mask in masks:
        changed = place[np.atleast_2d(mask.open != before).any(axis=0)]
        shares.append(1 - float(changed[0]) / len(sites) if len(changed) else 0.0)
        before = mask.open if chained else before
    return shares


def size_of(
    model: ModelAdapter,
    examples: Examples,
    sites: Sites,
    metric: Metric,
    search: Search | None = None,
) -> Size:
    """Say what the work of a method depends on.

    Parameters
    ----------
    model, examples
        The model and its data set.
    sites
        The sites whose heads are scored.
    metric
        What the model is measured by.
    search
        How it decodes, where the metric does; None for the model's own settings.
    """
    order = {site: place for place, site in enumerate(model.sites)}
    share = 1.0
    if Replay.suits(model):
        above = [(1 - order[site] / len(order)) * site.n_heads for site in sites]
        share = sum(above) / sites.n_heads
    beam = 0
    if isinstance(metric, TranslationMetric):
        beam = (search if search and search.beam else model.generator(Search()).search).beam or 1
    return Size(len(examples), sites.n_heads, len(sites), share, beam)


def phase_of(
    name: str, passes: Passes, model: ModelAdapter, examples: Examples, *, masks: int = 0
) -> Phase:
    """Make a phase of a plan.

    Parameters
    ----------
    name
        Its name.
    passes
        The passes.
    model, examples
        What they are over.
    masks
        How many masks are run; without any, a unit of work is a batch.
    """
    tokens = int(examples.lengths.sum())
    length = float((examples.lengths.astype(float) ** 2).sum() / max(1, tokens))
    batches = examples.batches() if passes.decoded else batches_of(model, examples)
    units = 0 if passes.steps or not passes.weight else len(batches)
    units *= max(1, math.ceil(masks / MASKS_PER_UNIT))
    return Phase(name, passes, len(examples), tokens, length, units)
