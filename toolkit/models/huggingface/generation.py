"""Translations of transformers models, as ``generate`` searches them.

Every hypothesis is ``generate``'s own. Two things are shared between masks: the encoder's states,
where a mask closes heads of the decoder only; and greedy hypotheses that a mask leaves as they are.
Those are found by one forward pass over what the whole model wrote, with the same processing of
logits that ``generate`` applies; only the other sentences are decoded again. A beam's losers can
change its winner, so beam search starts anew under every mask.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from headtool.attention.gating import Gating
from headtool.errors import HeadtoolError
from headtool.models.examples import Batch, Row
from headtool.models.generation import Filling, Gates, Generator
from headtool.models.huggingface.checking import readable_errors
from headtool.models.huggingface.network import HuggingFaceNetwork
from headtool.searching import Search

__all__ = ["HuggingFaceGenerator", "fixed_length"]

_DEFAULT_LENGTH = 20  # what generate does where the model has no setting

_TIE = 1e-4  # logits of one position and of many are summed in another order


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
        self.greedy = mode == "greedy_search" and not (asked.max_time or asked.stop_strings)

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
        return self._rows(self._generate(_sources(batch)))

    def decode_masks(
        self, batch: Batch, masks: Sequence[Gates], filling: Filling
    ) -> list[list[list[int]]]:
        """Decode with all heads open and under each mask; see `Generator.decode_masks`."""
        sources = _sources(batch)
        encoded = self.module.get_encoder()(**sources, return_dict=True)
        whole = self._generate(sources, encoded)
        kept = self._rows(whole)
        rows = [kept]
        for gates in masks:
            if not gates:
                rows.append(kept)
                continue
            shared = encoded if all(site.kind != "enc-self" for site in gates) else None
            with self.model.intercept(Gating(gates, filling), batch):
                again = self._changed(sources, shared, whole) if self._verifies else None
            if again is None:
                again = list(range(len(batch)))
            row = list(kept)
            if again:
                part, states = _some(sources, shared, again)
                smaller = _some_rows(batch, again)
                with self.model.intercept(Gating(gates, filling), smaller):
                    for place, ids in zip(
                        again, self._rows(self._generate(part, states)), strict=True
                    ):
                        row[place] = ids
            rows.append(row)
        return rows

    @property
    def _verifies(self) -> bool:
        """Whether hypotheses can be checked: not in half precision, where most are near ties."""
        return self.greedy and self.module.dtype in (torch.float32, torch.float64)

    def _generate(self, sources: Mapping[str, Tensor], encoded: Any = None, **how: Any) -> Tensor:
        if encoded is not None:
            how["encoder_outputs"] = type(encoded)(**encoded)  # generate changes it in place
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

    def _changed(self, sources: Mapping[str, Tensor], encoded: Any, whole: Tensor) -> list[int]:
        """Which sentences' greedy hypotheses are not, or not clearly, what is written now."""
        differs = torch.zeros(len(whole), dtype=torch.bool, device=whole.device)

        def verify(
            model: Any,
            input_ids: Tensor,
            logits_processor: Any,
            stopping_criteria: Any,
            generation_config: Any,
            **arguments: Any,
        ) -> Tensor:
            logits = model(
                decoder_input_ids=whole[:, :-1],
                encoder_outputs=arguments["encoder_outputs"],
                attention_mask=arguments.get("attention_mask"),
                use_cache=False,
                return_dict=True,
            ).logits
            ended = torch.zeros_like(differs)
            ends = generation_config._eos_token_tensor
            for step in range(whole.shape[1] - 1):
                scores = logits_processor(whole[:, : step + 1], logits[:, step].float())
                best, tokens = scores.topk(2, dim=1)
                written = whole[:, step + 1]
                agrees = (tokens[:, 0] == written) & (best[:, 0] - best[:, 1] > _TIE)
                differs.logical_or_(~agrees & ~ended)
                if ends is not None:
                    ended |= torch.isin(written, ends)
            return input_ids

        self._generate(sources, encoded, custom_generate=verify)
        return cast(list[int], differs.nonzero().squeeze(1).tolist())


def _sources(batch: Batch) -> dict[str, Tensor]:
    return {k: v for k, v in batch.inputs.items() if not k.startswith("decoder")}


def _some_rows(batch: Batch, rows: Sequence[int]) -> Batch:
    """A batch of as many rows; hooks on flat layouts count them."""
    return Batch(batch.index[list(rows)], {}, batch.targets[list(rows)], {})


def _some(
    sources: Mapping[str, Tensor], encoded: Any, rows: Sequence[int]
) -> tuple[dict[str, Tensor], Any]:
    """Some sentences' inputs and, where known, encoder states."""
    index = torch.tensor(rows, device=sources["input_ids"].device)
    part = {name: tensor[index] for name, tensor in sources.items()}
    if encoded is None:
        return part, None
    return part, type(encoded)(last_hidden_state=encoded.last_hidden_state[index])


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
