"""What ``generate`` of transformers makes of its settings, for those who search as it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.generation import logits_process, stopping_criteria

from headtool.models.huggingface.beams import Rule

__all__ = ["Plan", "plan_by", "plan_of"]

_TIE = 1e-4  # in nats; the same sum in another order differs by less

_ALONE = {
    "MinLengthLogitsProcessor",
    "MinNewTokensLengthLogitsProcessor",
    "RepetitionPenaltyLogitsProcessor",
    "NoRepeatNGramLogitsProcessor",
    "NoBadWordsLogitsProcessor",
    "ForcedBOSTokenLogitsProcessor",
    "ForcedEOSTokenLogitsProcessor",
    "SuppressTokensLogitsProcessor",
    "SuppressTokensAtBeginLogitsProcessor",
    "SequenceBiasLogitsProcessor",
    "ExponentialDecayLengthPenalty",
    "InfNanRemoveLogitsProcessor",
    "LogitNormalization",
}
"""Processors that treat each row for itself."""


@dataclass(frozen=True)
class Plan:
    """How ``generate`` would search, as it prepared it.

    Attributes
    ----------
    rule
        The rules.
    processors
        What is done to the scores of tokens.
    prompt
        What hypotheses start with, one row a sentence.
    longest
        Most tokens that are written.
    plain
        Whether nothing is done to the scores.
    """

    rule: Rule
    processors: Callable[[Tensor, Tensor], Tensor]
    prompt: Tensor
    longest: int
    plain: bool


def plan_of(prompt: Tensor, processors: Any, criteria: Any, settings: Any) -> Plan | None:
    """Read what ``generate`` hands to the function that searches.

    Parameters
    ----------
    prompt
        Its ``input_ids``, each row repeated for all beams.
    processors, criteria, settings
        Its ``logits_processor``, ``stopping_criteria`` and ``generation_config``.

    Returns
    -------
    Plan or None
        None where anything depends on more than a row of tokens and scores.
    """
    known = {getattr(logits_process, name, None) for name in _ALONE}
    stops = (stopping_criteria.MaxLengthCriteria, stopping_criteria.EosTokenCriteria)
    if not all(type(one) in known for one in processors):
        return None
    if not all(type(one) in stops for one in criteria):
        return None
    beam = settings.num_beams or 1
    prompt = prompt[::beam]
    ends = settings._eos_token_tensor
    rule = Rule(
        beam=beam,
        length_penalty=float(settings.length_penalty if beam > 1 else 1.0),
        early_stopping=settings.early_stopping if beam > 1 else False,
        ends=torch.empty(0, dtype=torch.long, device=prompt.device) if ends is None else ends,
        tolerance=_TIE,
    )
    longest = settings.max_length - prompt.shape[1]
    return Plan(rule, processors, prompt, longest, plain=not processors)


def plan_by(generate: Callable[[Callable[..., Tensor]], object]) -> Plan | None:
    """Let ``generate`` prepare a search, and read how it would go; nothing is searched.

    Parameters
    ----------
    generate
        Calls it with the function given as its ``custom_generate``.

    Returns
    -------
    Plan or None
        As `plan_of`.
    """
    plans: list[Plan | None] = []

    def prepared(
        model: Any,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **arguments: Any,
    ) -> Tensor:
        plans.append(plan_of(input_ids, logits_processor, stopping_criteria, generation_config))
        return input_ids

    generate(prepared)
    return plans[0]
