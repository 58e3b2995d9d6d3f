"""Searches of many sentences under many masks side by side, each under its own gates.

A forward pass holds the live prefixes of all of them. Searches that are decided leave at once,
while ``generate`` carries every sentence of a batch to the end of the longest. What is read of a
source is kept once a search, not once a prefix.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.models.huggingface.beams import Beams, Greedy
from headtool.models.huggingface.cross_attention import CrossAttention
from headtool.models.huggingface.plans import Plan

__all__ = ["Source", "search"]

_CELLS = 2**20
"""Scores of tokens that are ranked at the same time: what fits into the processor's cache."""


@dataclass(frozen=True)
class Source:
    """What the P searches read.

    Attributes
    ----------
    states
        The encoder's, [P, S, E].
    real
        Which positions are no padding, [P, S]; None for all.
    gate
        Gates the rows of a forward pass by the numbers of their searches, [R].
    """

    states: Tensor
    real: Tensor | None
    gate: Callable[[Tensor], AbstractContextManager[None]]


def search(module: Any, plan: Plan, prompt: Tensor, source: Source) -> Greedy:
    """Run searches side by side to their end.

    Parameters
    ----------
    module
        The model.
    plan
        How to search.
    prompt
        What hypotheses start with, [P, L].
    source
        What the model reads.

    Returns
    -------
    Greedy
        The searches, all decided.
    """
    from transformers.modeling_outputs import BaseModelOutput

    beam = plan.rule.beam
    searches = (Beams if beam > 1 else Greedy)(len(prompt), plan.rule)
    rows = searches.ids
    with source.gate(rows):
        out = module(
            decoder_input_ids=prompt,
            encoder_outputs=BaseModelOutput(last_hidden_state=source.states),
            attention_mask=source.real,
            use_cache=True,
            return_dict=True,
        )
    # In the first step all prefixes of a search are the same.
    values, tokens = (
        best[:, None].expand(-1, beam, -1)
        for best in _best(plan, out.logits[:, -1], prompt, searches.candidates)
    )
    places = rows[:, None].expand(-1, beam)  # of the live prefixes in the last pass
    crossing = CrossAttention(module, out.past_key_values, source, beam)
    while True:
        step = searches.step(values, tokens)
        if not len(searches.ids):
            return searches
        rows = searches.ids.repeat_interleave(beam)
        places = places[step.going].gather(1, step.parents)
        paths = torch.cat([prompt[rows], searches.paths.flatten(0, 1)], dim=1)
        with source.gate(rows), crossing.of(searches.ids, places.flatten()) as reading:
            out = module(
                decoder_input_ids=paths[:, -1:], use_cache=True, return_dict=True, **reading
            )
        best = _best(plan, out.logits[:, -1], paths, searches.candidates)
        values, tokens = (part.view(-1, beam, searches.candidates) for part in best)
        places = torch.arange(len(rows), device=rows.device).view(-1, beam)


def _best(plan: Plan, logits: Tensor, paths: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best continuations by their processed scores, [R, count] each."""
    values = torch.empty((len(logits), count), device=logits.device)
    tokens = torch.empty((len(logits), count), dtype=torch.long, device=logits.device)
    at_once = max(1, _CELLS // logits.shape[1])
    for start in range(0, len(logits), at_once):
        part = slice(start, start + at_once)
        scores = logits[part].float()
        if plan.rule.beam > 1:
            scores = scores.log_softmax(dim=1)
        scores = plan.processors(paths[part], scores)
        torch.topk(scores, count, dim=1, out=(values[part], tokens[part]))
    if values.isnan().any():
        raise HeadtoolError(
            "the model's scores are not finite; check the weights, or try `dtype=float32`"
        )
    return values, tokens
