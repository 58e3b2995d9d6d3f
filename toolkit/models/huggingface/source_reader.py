"""Encoder-decoder models that read what searches write, each beside its own source."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headtool.models.huggingface.cross_attention import CrossAttention
from headtool.models.huggingface.plans import Plan
from headtool.models.huggingface.shared_search import Best, best_of

__all__ = ["Source", "SourceReader", "best_after"]


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


class SourceReader:
    """Reads for searches; see `Reader`. What is read of a source is kept once a search.

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
    """

    def __init__(self, module: Any, plan: Plan, prompt: Tensor, source: Source) -> None:
        self.module, self.plan, self.prompt, self.source = module, plan, prompt, source
        self.crossing: CrossAttention | None = None

    def start(self, count: int) -> Best:
        """Read the beginning of each hypothesis; see `Reader`.

        Parameters
        ----------
        count
            How many continuations.
        """
        from transformers.modeling_outputs import BaseModelOutput

        source = self.source
        with source.gate(torch.arange(len(self.prompt), device=self.prompt.device)):
            out = self.module(
                decoder_input_ids=self.prompt,
                encoder_outputs=BaseModelOutput(last_hidden_state=source.states),
                attention_mask=source.real,
                use_cache=True,
                return_dict=True,
            )
        beam = self.plan.rule.beam
        self.crossing = CrossAttention(self.module, out.past_key_values, source, beam)
        return best_after(self.plan, self.prompt, out.logits[:, -1], count)

    def go_on(self, searches: Tensor, places: Tensor, written: Tensor, count: int) -> Best:
        """Read one more token of each live prefix; see `Reader`.

        Parameters
        ----------
        searches, places, written, count
            As for `Reader.go_on`.
        """
        assert self.crossing is not None
        rows = searches.repeat_interleave(self.plan.rule.beam)
        with self.source.gate(rows), self.crossing.of(searches, places) as reading:
            out = self.module(
                decoder_input_ids=written[:, -1:], use_cache=True, return_dict=True, **reading
            )
        texts = torch.cat([self.prompt[rows], written], dim=1)
        return best_after(self.plan, texts, out.logits[:, -1], count)


def best_after(plan: Plan, texts: Tensor, logits: Tensor, count: int) -> Best:
    """Find what best follows each of R texts as ``generate`` ranks it; see `best_of`.

    Parameters
    ----------
    plan
        How to search.
    texts
        What is written with what hypotheses start with, [R, n].
    logits
        Scores of what follows, [R, V].
    count
        How many continuations.
    """
    return best_of(
        plan.rule, logits, count, lambda part, scores: plan.processors(texts[part], scores)
    )
