"""Finds which shortcuts of `headtool.engine.replay` a model can take, by trying them once."""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.attention.gating import Gating
from headtool.engine.replay import Recording, Replay
from headtool.engine.stepping import with_fewer
from headtool.heads import AttentionSite
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples
from headtool.models.fingerprints import weights_state

__all__ = ["all_open", "working_replay"]

_SAME = 1e-4  # a shortcut whose losses differ by more, relative to one plus the loss, is not taken

# Work of many steps, such as pruning head by head, evaluates one model again and again.
_KNOWN: WeakKeyDictionary[ModelAdapter, tuple[Hashable, Replay | None]] = WeakKeyDictionary()


def all_open(model: ModelAdapter, site: AttentionSite) -> Gating:
    """Return gates of one for a site: they change nothing.

    Parameters
    ----------
    model, site
        The model and one of its sites.
    """
    return Gating({site: torch.ones(site.n_heads, device=model.device)})


def working_replay(
    model: ModelAdapter, examples: Examples, *, first_position: bool
) -> Replay | None:
    """Run gates of one through every shortcut on two examples; keep what changes nothing.

    What was found is used again until weights of the model are written to.

    Parameters
    ----------
    model
        The model.
    examples
        The data set.
    first_position
        Whether what comes after the last attention may be cut to the first position.

    Returns
    -------
    Replay or None
        None where no shortcut works.
    """
    if not Replay.suits(model):
        return None
    shortest, *others = examples.batches()[0].tolist()
    tried = np.array([shortest, *others[-1:]], dtype=np.int64)  # the longest is not padded
    state = (first_position, tuple(sorted(examples.rows[shortest])), model.handles, _state(model))
    if model not in _KNOWN or _KNOWN[model][0] != state:

        def find(index: NDArray[np.int64]) -> Replay | None:
            with torch.inference_mode():
                return _tried(model, model.collate(examples, index), first_position)

        _KNOWN[model] = state, with_fewer(tried, find)
    return _KNOWN[model][1]


def _state(model: ModelAdapter) -> Hashable:
    """What the model computes, as far as that is seen without running it."""
    hooked = sum(
        len(part._forward_hooks) + len(part._forward_pre_hooks) + ("forward" in vars(part))
        for part in model.module.modules()
    )
    return weights_state(model.module), hooked


def _tried(model: ModelAdapter, batch: Batch, first_position: bool) -> Replay | None:
    replay = Replay(model)
    passes: list[tuple[Recording, Tensor]] = []

    def recorded() -> Recording:
        with replay.record() as recording:
            losses = model.outcome(batch).losses
        passes.append((recording, losses))
        return recording

    unchanged = replay.find_unchanged(recorded, lambda: model.outcome(batch))
    recording, losses = passes[0]
    recording.unchanged.update(unchanged)
    sites = [event.sites[0] for event in recording.events]
    encoder = [site for site in sites if site.kind == "enc-self"]
    stacks = [encoder, sites[len(encoder) :]]
    # In the upper half, as what lies above a site is computed.
    tries = {*(stack[3 * len(stack) // 4] for stack in stacks if stack), sites[-1]}

    def harmless(site: AttentionSite) -> bool:
        gating = all_open(model, site)
        narrow = replay.reads_first and first_position
        resume = replay.resume(recording, [site], first_position_only=narrow)
        try:
            with model.intercept(gating, batch), resume:
                found = model.outcome(batch).losses
        except (RuntimeError, IndexError, KeyError, TypeError):
            return False  # the model's code cannot take the shortcut; it is computed in full
        return bool(((found - losses).abs() <= _SAME * (1 + losses.abs())).all())

    if all(harmless(site) for site in tries):
        return replay
    replay.reads_first = False
    return replay if all(harmless(site) for site in tries) else None
