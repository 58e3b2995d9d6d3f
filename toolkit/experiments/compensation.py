"""What makes up for heads that are gone: what goes together, and what is measured on the way."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headtool.engine.constants import CONSTANTS, Constants, constants_of, passes_of
from headtool.engine.measurement import Measures
from headtool.errors import HeadtoolError, unknown
from headtool.experiments.choosing import Choice, Scores
from headtool.experiments.fitting import Parts
from headtool.experiments.planning import Plan, Sketch
from headtool.experiments.recovery import Recovery
from headtool.experiments.worth import Candidate
from headtool.heads import AttentionSite, HeadMask
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.work import Passes

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["check_fitting", "curve_candidates", "curve_masks", "sketch", "stages_of"]

_SHARES = (20, 40, 60, 80)


def check_fitting(
    replace: str | None,
    recovery: Recovery,
    *,
    finetune: bool,
    rescale: str | None,
    bake: bool,
) -> None:
    """Refuse what does not go together.

    Parameters
    ----------
    replace, rescale, bake
        As for `headtool.prune`.
    recovery
        How the model would be trained.
    finetune
        Whether it is.

    Raises
    ------
    HeadtoolError
        Where an option is unknown, or would have no effect.
    """
    if replace is not None and replace not in CONSTANTS:
        raise unknown("replacement", replace, CONSTANTS)
    if replace is not None and rescale is not None:
        raise HeadtoolError("`rescale` makes up for heads that put out nothing; leave it out")
    if finetune and bake:
        raise HeadtoolError(
            "`finetune` would train the silenced heads of a model of full size as well; leave "
            "`bake` out"
        )
    if not finetune and recovery != Recovery():
        given = next(
            part.name
            for part in dataclasses.fields(Recovery)
            if getattr(recovery, part.name) != part.default
        )
        raise HeadtoolError(f"`{given}` is for `finetune`; add it, or leave `{given}` out")


def sketch(
    model: ModelAdapter,
    parts: Parts | None,
    measures: Measures | None,
    *,
    rescale: str | None,
    replace: str | None,
    recovery: Recovery | None,
) -> Plan:
    """Say what pruning will cost beyond the surgery itself.

    Parameters
    ----------
    model
        The whole model.
    parts
        The examples; None without data.
    measures
        What the models are measured by; None if they are not.
    rescale, replace
        As for `headtool.prune`.
    recovery
        How the pruned model is trained; None if it is not.
    """
    found = Sketch("prune", model)
    if parts is not None:
        if rescale is not None:
            found.add("rescale", Passes(forward=2 * len(model.sites)), parts.fit)
        if replace is not None:
            found.add("constants", passes_of(replace, len(parts.fit)), parts.fit)
        if recovery is not None:
            run = recovery.steps * min(recovery.batch_size, len(parts.fit)) / len(parts.fit)
            passes = Passes(forward=run, backward=run, steps=recovery.steps, weights=True)
            found.add("fine-tune", passes, parts.fit)
        if measures is not None:
            stages = 1 + (replace is not None) + (recovery is not None)
            curve = 2 * len(_SHARES) if replace is not None else 0
            found.masks("quality", stages + curve, parts.test, measures)
    return found.plan()


def stages_of(
    model: ModelAdapter,
    mask: HeadMask,
    rescale: str | None,
    replace: str | None,
    constants: Mapping[AttentionSite, Tensor] | None,
) -> list[Candidate]:
    """List what becomes of the whole model until it is trained; the last one is the pruned model.

    Parameters
    ----------
    model
        The whole model.
    mask
        Closes the heads that go.
    rescale, replace
        As for `headtool.prune`.
    constants
        What the heads put out then.
    """
    if rescale is not None:
        return [Candidate("zero", model, mask), Candidate("rescaled", model, mask)]
    found = [Candidate("zero", model, mask)]
    if replace is not None and constants is not None:
        found.append(Candidate(replace, model, mask, Constants(constants)))
    return found


def curve_masks(
    choice: Choice, model: ModelAdapter, scores: Scores | None, *, unit: str, seed: int
) -> list[HeadMask]:
    """Return the mask that was chosen, and those of other shares by the same scores.

    Parameters
    ----------
    choice
        Which heads were chosen.
    model, scores, unit, seed
        As for `Choice.of`.
    """
    found = [choice.of(model, scores, unit=unit, seed=seed)]
    for share in _SHARES:
        other = dataclasses.replace(choice, remove=f"{share}%", keep_heads=None)
        with contextlib.suppress(HeadtoolError):  # so many cannot go
            found.append(other.of(model, scores, unit=unit, seed=seed))
    return list({len(mask.closed): mask for mask in found}.values())


def curve_candidates(
    replace: str,
    model: ModelAdapter,
    examples: Examples,
    masks: Sequence[HeadMask],
    known: Mapping[AttentionSite, Tensor],
    *,
    seed: int,
) -> list[Candidate]:
    """List every mask with its heads at zero and at constants; means are the same for all masks.

    Parameters
    ----------
    replace
        ``mean`` or ``optimal``.
    model
        The whole model.
    examples
        What constants are fitted on.
    masks
        What `curve_masks` returned.
    known
        The constants of the first.
    seed
        As for `headtool.engine.constants.constants_of`.
    """
    found = []
    for mask in masks:
        constants = known
        if replace != "mean" and mask is not masks[0]:
            constants = constants_of(replace, model, examples, mask, seed=seed)
        count = len(mask.closed)
        found.append(Candidate("zero", model, mask, place=count))
        found.append(Candidate(replace, model, mask, Constants(constants), place=count))
    return found
