"""Translations of transformers models, as ``generate`` searches them.

Many masks are searched side by side, by ``generate``'s own settings: what it would hand to its
search is taken from it, and sentences are searched by the same rules. A few are first searched
both ways. Where the two differ, settings are beyond these rules, or rounding could decide,
``generate`` searches itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.models.examples import Batch, Row
from headtool.models.generation import Filling, Gates, Generator
from headtool.models.huggingface.checking import readable_errors
from headtool.models.huggingface.encodings import Encodings, sources
from headtool.models.huggingface.network import HuggingFaceNetwork
from headtool.models.huggingface.plans import Plan, plan_of
from headtool.models.huggingface.shared_search import Source, search
from headtool.searching import Search

__all__ = ["HuggingFaceGenerator", "fixed_length"]

_DEFAULT_LENGTH = 20  # what generate does where the model has no setting

_CHECKED = 4  # sentences

_PREFIXES = 1_024  # of one step, in one forward pass


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
        if search.max_length is not None:
            # generate lets the one setting win over the other, whichever it was given.
            if settings.max_new_tokens is None and settings.max_length is not None:
                self.options["max_length"] = search.max_length + 1
            else:
                self.options["max_new_tokens"] = search.max_length
        own = settings.max_new_tokens
        if own is None:
            own = _DEFAULT_LENGTH if settings.max_length is None else settings.max_length - 1
        penalty = search.length_penalty
        if penalty is None:
            penalty = 1.0 if settings.length_penalty is None else float(settings.length_penalty)
        self.search = Search(
            search.beam or settings.num_beams or 1,
            penalty,
            search.max_length or max(2, int(own)),
        )
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

    def _try(self) -> None:
        """Write two tokens: much that is wrong with the settings shows only then."""
        options = self.options | {"max_new_tokens": 2}
        options.pop("max_length", None)
        ids = torch.zeros((1, 1), dtype=torch.long, device=self.model.device)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # of settings that suit longer texts
            self.module.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options)

    def source_length(self, row: Row) -> int:
        """Tokens of the source, special ones included."""
        return len(row["input_ids"])

    def texts(self, hypotheses: Sequence[Sequence[int]]) -> list[str]:
        """Decode without the special tokens."""
        return list(
            self.model.tokenizer.batch_decode(
                [list(ids) for ids in hypotheses], skip_special_tokens=True
            )
        )

    def decode(self, batch: Batch) -> list[list[int]]:
        """Return the best hypotheses as generated, without the start and without padding."""
        return self._rows(self._generate(sources(batch), None))

    def decode_masks(
        self, batch: Batch, masks: Sequence[Gates], filling: Filling
    ) -> list[list[list[int]]]:
        """Decode with all heads open and under each mask; see `Generator.decode_masks`."""
        numbers = [number for number, gates in enumerate(masks) if gates]
        encodings = Encodings(self.model, batch, filling)
        plan = self._plan(encodings) if numbers and self._shares else None
        if plan is None:
            return self._from_scratch(encodings, masks)
        whole = self._searched(plan, encodings, [{}], [0] * len(batch), range(len(batch)))
        if not self._checked:
            self._checked, self._shares = True, self._agrees(whole, encodings)
            if not self._shares:
                return self._from_scratch(encodings, masks)
        rows = [list(whole) for _ in range(1 + len(masks))]
        pairs = [(number, place) for number in numbers for place in range(len(batch))]
        at_once = max(len(batch), _PREFIXES // plan.rule.beam)
        for start in range(0, len(pairs), at_once):
            part = pairs[start : start + at_once]
            owners, places = map(list, zip(*part, strict=True))
            found = self._searched(plan, encodings, masks, owners, places)
            for (number, place), ids in zip(part, found, strict=True):
                rows[1 + number][place] = ids
        return rows

    def _from_scratch(self, encodings: Encodings, masks: Sequence[Gates]) -> list[list[list[int]]]:
        """Search with all heads open and under each mask, but encode what no mask changes once."""
        everyone = range(len(encodings.batch))
        rows = [self._again(encodings, [{}], [0] * len(everyone), everyone)]
        for number, gates in enumerate(masks):
            owners = [number] * len(everyone)
            rows.append(self._again(encodings, masks, owners, everyone) if gates else rows[0])
        return rows

    def _searched(
        self,
        plan: Plan,
        encodings: Encodings,
        masks: Sequence[Gates],
        owners: Sequence[int],
        places: Sequence[int],
    ) -> list[list[int]]:
        """Search pairs of a mask and a sentence, and anew with ``generate`` where it is a tie."""
        index = torch.tensor(list(places), device=self.model.device)

        def gate(rows: Tensor) -> AbstractContextManager[None]:
            return encodings.gated(masks, [owners[row] for row in rows.tolist()])

        source = Source(
            encodings.states(masks, owners, places),
            encodings.inputs(places).get("attention_mask"),
            gate,
        )
        found = search(self.module, plan, plan.prompt[index], source)
        tied = found.tied.nonzero().squeeze(1).tolist()
        if tied:
            again = self._again(
                encodings, masks, [owners[i] for i in tied], [places[i] for i in tied]
            )
            for row, ids in zip(tied, again, strict=True):
                found.hypotheses[row] = ids
        return found.hypotheses

    def _again(
        self,
        encodings: Encodings,
        masks: Sequence[Gates],
        owners: Sequence[int],
        places: Sequence[int],
    ) -> list[list[int]]:
        """Let ``generate`` search pairs of a mask and a sentence."""
        states = encodings.states(masks, owners, places)
        beams = [owner for owner in owners for _ in range(self.search.beam or 1)]
        with encodings.gated(masks, beams):
            return self._rows(self._generate(encodings.inputs(places), states))

    def _agrees(self, found: Sequence[list[int]], encodings: Encodings) -> bool:
        """Whether ``generate`` writes the same with all heads open; a check of this whole way."""
        some = range(min(len(found), _CHECKED))
        plain = self._again(encodings, [{}], [0] * len(some), some)
        return self.texts(found[: len(some)]) == self.texts(plain)

    def _plan(self, encodings: Encodings) -> Plan | None:
        """What ``generate`` makes of the settings; None for what only it itself does."""
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

        everyone = range(len(encodings.batch))
        states = encodings.states([{}], [0] * len(everyone), everyone)
        self._generate(encodings.inputs(everyone), states, custom_generate=prepared)
        return plans[0]

    def _generate(self, sources: Mapping[str, Tensor], states: Tensor | None, **how: Any) -> Tensor:
        if states is not None:
            from transformers.modeling_outputs import BaseModelOutput

            how["encoder_outputs"] = BaseModelOutput(last_hidden_state=states)
        result: Tensor = self.module.generate(**sources, **self.options, **how)
        return result

    def _rows(self, generated: Tensor) -> list[list[int]]:
        rows = []
        for ids in generated[:, 1:].tolist():
            end = len(ids)
            while end and ids[end - 1] == self.model.pad_id:
                end -= 1
            rows.append(ids[:end])
        return rows


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
