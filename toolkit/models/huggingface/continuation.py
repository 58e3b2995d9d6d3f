"""What causal models of transformers write after a prompt, as ``generate`` searches it.

Many masks are searched side by side, by ``generate``'s own settings, as for translations. A few
prompts are first continued both ways. Where the two differ, settings are beyond these rules, or
rounding could decide, ``generate`` searches itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.models.examples import Batch, Row
from headtool.models.generation import Filling, Gates
from headtool.models.huggingface.generation import DEFAULT_LENGTH, HuggingFaceGenerator
from headtool.models.huggingface.plans import Plan, plan_by
from headtool.models.huggingface.prefixes import places_of
from headtool.models.huggingface.prompt_searches import PromptSearches
from headtool.models.huggingface.rows import gated
from headtool.models.huggingface.special import plain_ids

__all__ = ["Continuation"]

_ALIKE = 0.01  # of the largest logit; half precision differs by less

_CHECKED = 4  # prompts


class Continuation(HuggingFaceGenerator):
    """Continues prompts with a causal language model.

    Each prompt is continued as if alone. In a batch they are padded on the left, where nothing is
    attended to or counted as a position. Prompts of different lengths come into different batches
    where padding would change what is written: where settings ask for the tokens before, or how
    many there are, and with models that read padding.
    """

    def _limited(self, settings: Any, longest: int | None) -> int | None:
        # Fills rows up; what is not written is not read.
        self.options["pad_token_id"] = self.model.pad_id
        ends = settings.eos_token_id
        self._ends = set() if ends is None else {ends} if isinstance(ends, int) else set(ends)
        self._both: int | None = None  # tokens of prompt and continuation together
        if longest is not None:
            self.options |= {"max_new_tokens": longest, "max_length": None}
            return longest
        if settings.max_new_tokens is not None:
            return int(settings.max_new_tokens)
        if settings.max_length is not None:
            self._both = int(settings.max_length)
            return None
        self.options["max_new_tokens"] = DEFAULT_LENGTH
        return DEFAULT_LENGTH

    def source_length(self, row: Row) -> int:
        """Tokens of the prompt and its answer; a prompt that leaves no room is refused."""
        self._check(len(row["prompt"]))
        return len(row["input_ids"])

    def _check(self, prompt: int) -> None:
        if self._both is not None and prompt >= self._both:
            raise HeadtoolError(
                f"a prompt has {prompt:,} tokens, and the settings of {self.model.spec} allow "
                f"{self._both:,} for prompt and continuation together; give `max_length`"
            )
        total = self._both or prompt + (self.search.max_length or 0)
        if total > self.model.max_length:
            raise HeadtoolError(
                f"a prompt has {prompt:,} tokens and {total - prompt:,} are to be written, which "
                f"are more than the {self.model.max_length:,} that {self.model.spec} takes; give a "
                "smaller `max_length`, or shorten the prompt"
            )

    def decode(self, batch: Batch) -> list[list[int]]:
        """Return the best continuations as generated, with the token that ends them."""
        return self._written(batch.prompts)

    def _written(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        by_length: dict[int, list[int]] = {}
        together = self._pads and self._plain(prompts[0])
        for place, prompt in enumerate(prompts):
            by_length.setdefault(0 if together else len(prompt), []).append(place)
        found: dict[int, list[int]] = {}
        for places in by_length.values():
            ids, real = self._padded([prompts[place] for place in places])
            rows = self._generate(ids, real)[:, ids.shape[1] :].tolist()
            found |= zip(places, map(self._ended, rows), strict=True)
        return [found[place] for place in range(len(prompts))]

    def decode_masks(
        self, batch: Batch, masks: Sequence[Gates], filling: Filling
    ) -> list[list[list[int]]]:
        """Decode with all heads open and under each mask; see `Generator.decode_masks`."""
        plans = self._plans(batch.prompts) if any(masks) and self._shares and self._pads else None
        if plans is None:
            return super().decode_masks(batch, masks, filling)
        searches = PromptSearches(self.model, batch.prompts, masks, filling, plans, self.again)
        whole = searches.whole()
        if not self._checked:
            plain = self._written(batch.prompts[:_CHECKED])
            self._checked, self._shares = True, whole[:_CHECKED] == plain
            if not self._shares:
                return super().decode_masks(batch, masks, filling)
        return searches.masked(whole)

    def again(
        self,
        masks: Sequence[Gates],
        owners: Sequence[int],
        prompts: Sequence[Sequence[int]],
        filling: Filling,
    ) -> list[list[int]]:
        """Let ``generate`` continue pairs of a mask and a prompt, without padding.

        Parameters
        ----------
        masks
            Gates of each mask.
        owners, prompts
            Numbers of the pairs' masks, and their prompts.
        filling
            What closed heads put out; None for zero.
        """
        by_length: dict[int, list[int]] = {}
        for place, prompt in enumerate(prompts):
            by_length.setdefault(len(prompt), []).append(place)
        found: dict[int, list[int]] = {}
        for places in by_length.values():
            beams = [owners[place] for place in places for _ in range(self.search.beam or 1)]
            ids, real = self._padded([prompts[place] for place in places])
            with gated(self.model, self.model.sites, masks, beams, filling):
                rows = self._generate(ids, real)[:, ids.shape[1] :].tolist()
            found |= zip(places, map(self._ended, rows), strict=True)
        return [found[place] for place in range(len(prompts))]

    def _plans(self, prompts: Sequence[Sequence[int]]) -> list[Plan] | None:
        """What ``generate`` makes of the settings for each prompt, which depends on its length."""
        known: dict[int, Plan | None] = {}
        for prompt in prompts:
            if len(prompt) not in known:
                known[len(prompt)] = self._plan(prompt)
        plans = [known[len(prompt)] for prompt in prompts]
        found = [plan for plan in plans if plan is not None]
        return found if len(found) == len(plans) else None

    def _plain(self, prompt: Sequence[int]) -> bool:
        """Whether the settings ask for nothing but the scores of the next token."""
        plan = self._plan(prompt)
        return plan is not None and plan.plain and self._both is None

    def _plan(self, prompt: Sequence[int]) -> Plan | None:
        """What ``generate`` makes of the settings for a prompt; see `plan_by`."""
        padded = self._padded([prompt])
        return plan_by(lambda how: self._generate(*padded, custom_generate=how))

    @cached_property
    def _pads(self) -> bool:
        """Whether the model reads a text alike with padding before it."""
        text = plain_ids(self.model.config, self.model.special_ids.tolist())
        logits = []
        for padding in (0, 3):
            ids, real = self._padded([text, [*text, *text[:1] * padding]])
            more = places_of(self.module, real)
            with torch.no_grad():
                found = self.module(input_ids=ids, attention_mask=real, use_cache=False, **more)
            logits.append(found.logits[0, -1].float())
        alone, padded = logits
        return bool((alone - padded).abs().max() <= _ALIKE * alone.abs().max())

    def _padded(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Prompts side by side, and which of the positions are theirs."""
        longest = max(map(len, prompts))
        pad = self.model.pad_id
        ids = torch.tensor([[pad] * (longest - len(one)) + list(one) for one in prompts])
        real = torch.tensor([[0] * (longest - len(one)) + [1] * len(one) for one in prompts])
        return ids.to(self.model.device), real.to(self.model.device)

    def _generate(self, ids: Tensor, real: Tensor, **how: Any) -> Tensor:
        options = self.options | how
        result: Tensor = self.module.generate(input_ids=ids, attention_mask=real, **options)
        return result

    def _ended(self, ids: list[int]) -> list[int]:
        """Leave out what fills a row up behind its end."""
        end = next((place for place, token in enumerate(ids) if token in self._ends), len(ids))
        return ids[: end + 1]
