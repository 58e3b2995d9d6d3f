"""What the whole model wrote, read by the decoder under masks: how far each mask writes the same.

A masked pass starts at the first block that its mask changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from headtool.attention.patching import answering
from headtool.models.generation import Gates
from headtool.models.huggingface.begun import Begun, reading, rows_of
from headtool.models.huggingface.encodings import Encodings
from headtool.models.huggingface.growing_cache import GrowingCache, Layers
from headtool.models.huggingface.network import HuggingFaceNetwork
from headtool.models.huggingface.plans import Plan
from headtool.models.huggingface.rows import blocks_of, taken
from headtool.models.huggingface.source_reader import best_after

__all__ = ["Drafts"]

_LOGITS = 2**25  # of one pass: 128 MB in float32

_TOKENS = 4_096  # of one pass


class Drafts:
    """Reads what the whole model wrote of some sentences of a batch.

    Parameters
    ----------
    model
        The model.
    plan
        How to search.
    encodings
        The sources.
    written
        What the whole model wrote of each of B; or anything else that masks may write.
    """

    def __init__(
        self,
        model: HuggingFaceNetwork,
        plan: Plan,
        encodings: Encodings,
        written: Mapping[int, Sequence[int]],
    ) -> None:
        self.model, self.module, self.plan = model, cast(Any, model.module), plan
        self.encodings = encodings
        self.row = {place: row for row, place in enumerate(written)}
        self.lengths = torch.tensor(list(map(len, written.values())), device=model.device)
        self.count = max(1, int(self.lengths.max()))
        self.width = encodings.width(list(written))
        rows = [[*ids, *[-1] * (self.count - len(ids))] for ids in written.values()]
        self.tokens = torch.tensor(rows, device=model.device)
        real = torch.where(self.tokens < 0, model.pad_id, self.tokens)
        self.texts = torch.cat([plan.prompt[list(written)], real], dim=1)
        self.blocks = {**blocks_of(model, "dec-self"), **blocks_of(model, "cross")}
        self.outputs: dict[nn.Module, Any] = {}
        self.crossed: Layers = []
        with contextlib.ExitStack() as stack:
            for block in set(self.blocks.values()):
                stack.callback(block.register_forward_hook(self._keep).remove)
            logits, self.read, self.crossed = self._run(
                [{}], [0] * len(written), list(written), 0, 1
            )
        self.vocabulary = logits.shape[-1]
        self.order = {block: number for number, block in enumerate(self.outputs)}

    @property
    def at_once(self) -> int:
        """How many pairs to read in one pass."""
        width = self.texts.shape[1]
        return max(1, min(_LOGITS // (width * self.vocabulary), _TOKENS // width))

    def first(self, gates: Gates) -> int:
        """Return the number of the first block of the decoder that a mask changes."""
        if any(site.kind == "enc-self" for site in gates):
            return 0
        return min((self.order[self.blocks[site]] for site in gates if self.blocks), default=0)

    def accepted(
        self, masks: Sequence[Gates], owners: Sequence[int], places: Sequence[int]
    ) -> tuple[Tensor, Tensor, Begun]:
        """Read drafts under masks that change the same block first.

        Parameters
        ----------
        masks
            Gates of each mask.
        owners, places
            Numbers of R pairs' masks, and of their sentences.

        Returns
        -------
        accepted
            How many tokens of its draft each pair writes, [R].
        tied
            Where it is a tie what follows, [R].
        begun
            The others that do not write all of it.
        """
        index = self._index(places)
        logits, read, crossed = self._run(
            masks, owners, places, self.first(masks[owners[0]]), self.count
        )
        expected, lengths = self.tokens[index], self.lengths[index]
        values, tokens = self._ranked(self.texts[index], logits)
        close = values[..., 0] - values[..., 1] < self.plan.rule.tolerance
        off = (close | (tokens != expected)) & (expected >= 0)
        known = torch.where(off.any(dim=1), off.int().argmax(dim=1), lengths)
        at = known.clamp(max=self.count - 1)[:, None]
        tied = (off & close).gather(1, at).squeeze(1)
        rows = ((known < lengths) & ~tied).nonzero().squeeze(1)
        chosen = rows.tolist()
        texts = expected[rows].scatter(1, at[rows], tokens[rows].gather(1, at[rows]))
        below = len(self.read) - len(read)
        begun = Begun(
            [owners[row] for row in chosen],
            [places[row] for row in chosen],
            texts,
            known[rows] + 1,
            [*rows_of(self.read[:below], index[rows]), *rows_of(read, rows)],
            rows_of(crossed, rows) if crossed else rows_of(self.crossed, index[rows]),
        )
        return known, tied, begun

    def _index(self, places: Sequence[int]) -> Tensor:
        return torch.tensor([self.row[place] for place in places], device=self.model.device)

    def _keep(self, block: nn.Module, args: Any, output: Any) -> None:
        self.outputs[block] = output

    def _ranked(self, texts: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The two highest scores at each step, [R, count, 2], and the token of the first."""
        before = texts.shape[1] - self.count
        if self.plan.plain:
            values, tokens = best_after(self.plan, texts, logits.flatten(0, 1), 2)
            shape = (*logits.shape[:2], 2)
            return values.view(shape), tokens.view(shape)[..., 0]
        steps = [
            best_after(self.plan, texts[:, : before + step], logits[:, step], 2)
            for step in range(self.count)
        ]
        values, tokens = (torch.stack(part, dim=1) for part in zip(*steps, strict=True))
        return values, tokens[..., 0]

    def _run(
        self,
        masks: Sequence[Gates],
        owners: Sequence[int],
        places: Sequence[int],
        first: int,
        count: int,
    ) -> tuple[Tensor, Layers, Layers]:
        """Read drafts from a block on: the last logits [R, count, V], and what was read from there.

        Keys and values of the source are left out where they are the whole model's.
        """
        from transformers import DynamicCache, EncoderDecoderCache

        index = self._index(places)
        order = self.order.items() if first else ()
        own = not self.crossed or any(
            site.kind == "enc-self" for owner in set(owners) for site in masks[owner]
        )
        states = self.encodings.states(masks, owners, places) if own else None
        crossing = DynamicCache() if own else GrowingCache(rows_of(self.crossed, index))
        cache: Any = EncoderDecoderCache(DynamicCache(), crossing)
        more = {"logits_to_keep": count} if self.module._supports_logits_to_keep() else {}
        with contextlib.ExitStack() as stack:
            for block, number in order:
                if number < first:
                    output = self.outputs[block]
                    known = taken(output, index, len(self.texts)) if number == first - 1 else output
                    stack.enter_context(answering(block, known))
            stack.enter_context(self.encodings.gated(masks, owners))
            out = self.module(
                decoder_input_ids=self.texts[index, :-1],
                use_cache=True,
                return_dict=True,
                past_key_values=cache,
                **reading(self.encodings, states, places, self.width),
                **more,
            )
        return (
            out.logits[:, -count:],
            _held(cache.self_attention_cache),
            (_held(cache.cross_attention_cache) if own else []),
        )


def _held(cache: Any) -> Layers:
    return [(layer.keys, layer.values) for layer in cache.layers if layer.is_initialized]
