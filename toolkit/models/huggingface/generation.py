"""Text of transformers models, by their own generation settings: what all models have in common."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from headtool.errors import HeadtoolError
from headtool.models.generation import Generator
from headtool.models.huggingface.checking import readable_errors
from headtool.models.huggingface.network import HuggingFaceNetwork
from headtool.searching import Search

__all__ = ["DEFAULT_LENGTH", "HuggingFaceGenerator", "fixed_length"]

DEFAULT_LENGTH = 20
"""Tokens that ``generate`` writes where the model has no setting."""


class HuggingFaceGenerator(Generator):
    """Decodes with a transformers model and its own generation settings.

    Parameters
    ----------
    model
        The model.
    search
        The settings; what they leave open is the model's own.

    Raises
    ------
    HeadtoolError
        If these settings are neither greedy nor beam search, or cannot be followed.
    """

    model: HuggingFaceNetwork

    def __init__(self, model: HuggingFaceNetwork, search: Search) -> None:
        with readable_errors("follow the generation settings", model.spec):
            self._set_up(model, search)
            self._try()

    def _set_up(self, model: HuggingFaceNetwork, search: Search) -> None:
        self.model = model
        self.module = cast(Any, model.module)
        settings = self.module.generation_config
        if settings.do_sample:
            raise HeadtoolError(
                f"{model.spec} is set up to sample its output (do_sample in "
                "generation_config.json); set that to false, for greedy or beam search"
            )
        self.options: dict[str, Any] = {}
        if search.beam is not None:
            self.options["num_beams"] = search.beam
        if search.beam == 1:  # generate points out what has no effect on greedy search
            self.options |= {"early_stopping": False, "length_penalty": 1.0}
        elif search.length_penalty is not None:
            self.options["length_penalty"] = search.length_penalty
        longest = self._limited(settings, search.max_length)
        penalty = search.length_penalty
        if penalty is None:
            penalty = 1.0 if settings.length_penalty is None else float(settings.length_penalty)
        self.search = Search(search.beam or settings.num_beams or 1, penalty, longest)
        asked = type(settings)(**{**settings.to_dict(), **self.options})
        mode = asked.get_generation_mode().value
        if mode not in ("greedy_search", "beam_search"):
            raise HeadtoolError(
                f"{model.spec} is set up for {mode.replace('_', ' ')} in generation_config.json, "
                "which headtool does not follow under masks; set it up for greedy or beam search"
            )
        # In half precision most hypotheses are near ties.
        self._shares = self.module.dtype in (torch.float32, torch.float64)
        self._checked = False

    @abstractmethod
    def _limited(self, settings: Any, longest: int | None) -> int | None:
        """Put the most tokens that are written into the options; return what they come to."""

    def _try(self) -> None:
        """Write two tokens: much that is wrong with the settings shows only then."""
        options = self.options | {"max_new_tokens": 2}
        options.pop("max_length", None)
        ids = torch.zeros((1, 1), dtype=torch.long, device=self.model.device)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # of settings that suit longer texts
            self.module.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options)

    def texts(self, hypotheses: Sequence[Sequence[int]]) -> list[str]:
        """Decode without the special tokens."""
        return list(
            self.model.tokenizer.batch_decode(
                [list(ids) for ids in hypotheses], skip_special_tokens=True
            )
        )


def fixed_length(
    model: HuggingFaceNetwork, *, batch: int, length: int, beam: int
) -> Callable[[], object]:
    """Prepare the generation of an exact number of tokens; see `ModelAdapter.decoding`.

    Language models start from one token.

    Parameters
    ----------
    model
        The model.
    batch
        Rows.
    length
        Tokens that each row generates, and that its source has.
    beam
        Width of the beam.
    """
    if model.task not in ("causal-lm", "seq2seq"):
        raise HeadtoolError(f"{model.spec} is a {model.task} model and does not decode")
    source = length if model.task == "seq2seq" else 1
    ids = torch.full((batch, source), model.pad_id, device=model.device)
    module: Any = model.module
    options = {"num_beams": beam, "do_sample": False, "pad_token_id": model.pad_id}
    return lambda: module.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        min_new_tokens=length,
        max_new_tokens=length,
        **options,
    )
