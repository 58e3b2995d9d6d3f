"""Translations of transformers models, as ``generate`` searches them.

Many masks are searched side by side, by ``generate``'s own settings: what it would hand to its
search is taken from it, and sentences are searched by the same rules. A few are first searched
both ways. Where the two differ, settings are beyond these rules, or rounding could decide,
``generate`` searches itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from headtool.models.examples import Batch, Row
from headtool.models.generation import Filling, Gates
from headtool.models.huggingface.encodings import Encodings, sources
from headtool.models.huggingface.generation import DEFAULT_LENGTH, HuggingFaceGenerator
from headtool.models.huggingface.plans import Plan, plan_by
from headtool.models.huggingface.source_searches import SourceSearches

__all__ = ["Translation"]

_CHECKED = 4  # sentences


class Translation(HuggingFaceGenerator):
    """Translates, or writes summaries, with an encoder-decoder model."""

    _drafts = False

    def _limited(self, settings: Any, longest: int | None) -> int:
        own = settings.max_new_tokens
        if longest is not None:
            # generate lets the one setting win over the other, whichever it was given.
            if own is None and settings.max_length is not None:
                self.options["max_length"] = longest + 1
            else:
                self.options["max_new_tokens"] = longest
            return longest
        if own is None:
            own = DEFAULT_LENGTH if settings.max_length is None else settings.max_length - 1
        return max(2, int(own))

    def source_length(self, row: Row) -> int:
        """Tokens of the source, special ones included."""
        return len(row["input_ids"])

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
        searches = SourceSearches(
            self.model, plan, encodings, masks, partial(self._again, encodings)
        )
        whole = searches.whole()
        if not self._checked and searches.pays:
            some = searches.decided[:_CHECKED]
            self._checked, self._shares = True, self._agrees(whole, encodings, some)
            self._drafts = (
                self._shares and plan.rule.beam == 1 and searches.drafts_work(whole, some)
            )
        if not self._shares:
            return self._from_scratch(encodings, masks)
        return searches.masked(whole, drafts=self._drafts)

    def _from_scratch(self, encodings: Encodings, masks: Sequence[Gates]) -> list[list[list[int]]]:
        """Search with all heads open and under each mask, but encode what no mask changes once."""
        everyone = range(len(encodings.batch))
        rows = [self._again(encodings, [{}], [0] * len(everyone), everyone)]
        for number, gates in enumerate(masks):
            owners = [number] * len(everyone)
            rows.append(self._again(encodings, masks, owners, everyone) if gates else rows[0])
        return rows

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

    def _agrees(
        self, found: Sequence[list[int]], encodings: Encodings, places: Sequence[int]
    ) -> bool:
        """Whether ``generate`` writes the same with all heads open; a check of this whole way."""
        plain = self._again(encodings, [{}], [0] * len(places), places)
        return self.texts([found[place] for place in places]) == self.texts(plain)

    def _plan(self, encodings: Encodings) -> Plan | None:
        """What ``generate`` makes of the settings; None for what only it itself does."""
        everyone = range(len(encodings.batch))
        states = encodings.states([{}], [0] * len(everyone), everyone)
        sources = encodings.inputs(everyone)
        return plan_by(lambda how: self._generate(sources, states, custom_generate=how))

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
