"""Prompts, and what was written after them, as causal models read them: passes and their caches.

All rows of a pass end at the same column: what is shorter is padded on the left.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from headtool.attention.patching import answering
from headtool.models.generation import Filling, Gates
from headtool.models.huggingface.growing_cache import GrowingCache, Layers
from headtool.models.huggingface.network import HuggingFaceNetwork
from headtool.models.huggingface.plans import Plan
from headtool.models.huggingface.rows import blocks_of, gated, taken
from headtool.models.huggingface.shared_search import Best, best_of

__all__ = ["Prefix", "PrefixReader", "Recorded", "places_of", "processed"]


def places_of(module: Any, real: Tensor) -> dict[str, Tensor]:
    """Tell a model the positions of its tokens, if it is to be told.

    Parameters
    ----------
    module
        The model.
    real
        Which columns are no padding, [R, T].
    """
    if "position_ids" not in inspect.signature(module.forward).parameters:
        return {}
    return {"position_ids": (real.cumsum(1) - 1).clamp(min=0)}


class Recorded:
    """Passes over a batch of prompts with what may follow them, all heads open and under masks.

    The whole model runs at once. A masked pass starts at the first block that its masks change.

    Parameters
    ----------
    model
        The model.
    prompts
        Token ids of B prompts.
    written
        What follows each; its last token is not read.
    filling
        What closed heads put out; None for zero.
    """

    def __init__(
        self,
        model: HuggingFaceNetwork,
        prompts: Sequence[Sequence[int]],
        written: Sequence[Sequence[int]],
        filling: Filling,
    ) -> None:
        self.model, self.module, self.filling = model, cast(Any, model.module), filling
        self.left, self.count = max(map(len, prompts)), max(1, *map(len, written))
        pad = model.pad_id
        rows, real = [], []
        for prompt, after in zip(prompts, written, strict=True):
            before, behind = self.left - len(prompt), self.count - max(1, len(after))
            rows.append([pad] * before + [*prompt, *after[:-1]] + [pad] * behind)
            real.append([0] * before + [1] * (len(rows[-1]) - before))
        self.ids = torch.tensor(rows, device=model.device)
        self.real = torch.tensor(real, device=model.device)
        self.blocks = blocks_of(model, "dec-self")
        self.outputs: dict[nn.Module, Any] = {}
        with contextlib.ExitStack() as stack:
            for block in set(self.blocks.values()):
                stack.callback(block.register_forward_hook(self._keep).remove)
            self.logits, self.layers = self._run(self.ids, self.real)
        self.order = {block: number for number, block in enumerate(self.outputs)}

    def first(self, gates: Gates) -> int:
        """Return the number of the first block that a mask changes."""
        return min((self.order[self.blocks[site]] for site in gates if self.blocks), default=0)

    def masked(
        self, masks: Sequence[Gates], owners: Sequence[int], places: Sequence[int]
    ) -> tuple[Tensor, Layers]:
        """Run R pairs of a mask and a prompt.

        Parameters
        ----------
        masks
            Gates of each mask.
        owners, places
            Numbers of their masks, and of their prompts.

        Returns
        -------
        logits
            Of the tokens that follow the prompt and each token that was written, [R, count, V].
        layers
            Keys and values.
        """
        first = min(self.first(masks[owner]) for owner in set(owners))
        index = torch.tensor(list(places), device=self.model.device)
        with contextlib.ExitStack() as stack:
            for block, number in self.order.items():
                if number < first:
                    output = self.outputs[block]
                    known = taken(output, index, len(self.ids)) if number == first - 1 else None
                    stack.enter_context(answering(block, known))
            stack.enter_context(
                gated(self.model, self.model.sites, masks, list(owners), self.filling)
            )
            logits, layers = self._run(self.ids[index], self.real[index])
        below = len(self.layers) - len(layers)
        return logits, [*((k[index], v[index]) for k, v in self.layers[:below]), *layers]

    def _keep(self, block: nn.Module, args: Any, output: Any) -> None:
        self.outputs[block] = output

    def _run(self, ids: Tensor, real: Tensor) -> tuple[Tensor, Layers]:
        from transformers import DynamicCache

        more: dict[str, Any] = places_of(self.module, real)
        if self.module._supports_logits_to_keep():
            more["logits_to_keep"] = self.count
        cache = DynamicCache()
        out = self.module(
            input_ids=ids,
            attention_mask=real,
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
            **more,
        )
        layers = [
            (layer.keys, layer.values) for layer in cast(Any, cache).layers if layer.is_initialized
        ]
        return out.logits[:, -self.count :], layers


@dataclass
class Prefix:
    """What searches start from.

    Attributes
    ----------
    texts
        Token ids of the P prompts, with what is known of their continuations.
    layers
        What was read of them.
    logits
        Scores of what follows, [P, V].
    """

    texts: list[list[int]]
    layers: Layers
    logits: Tensor

    @classmethod
    def cut(
        cls, texts: list[list[int]], ends: Tensor, layers: Layers, logits: Tensor, rows: Tensor
    ) -> Prefix:
        """Cut rows of a pass where searches start.

        Parameters
        ----------
        texts
            Token ids of the P rows that are taken.
        ends
            Columns before the end of each, [P].
        layers
            Keys and values of the pass.
        logits
            Scores of what follows, [P, V].
        rows
            Which rows of the pass they are, [P].
        """
        width = int(ends.max())
        # All end at the last column; what moves in on the left is padding, and never read.
        columns = (torch.arange(width, device=ends.device) + (ends - width)[:, None]).clamp(min=0)
        moved = []
        for keys, values in layers:
            index = columns[:, None, :, None].expand(-1, keys.shape[1], -1, keys.shape[3])
            moved.append(tuple(part[rows].gather(2, index) for part in (keys, values)))
        return cls(texts, cast(Layers, moved), logits)

    @classmethod
    def together(cls, parts: Sequence[Prefix]) -> Prefix:
        """Put several side by side."""
        if len(parts) == 1:
            return parts[0]
        width = max(part.layers[0][0].shape[2] for part in parts)
        layers = []
        for same in zip(*(part.layers for part in parts), strict=True):
            keys, values = (
                torch.cat([nn.functional.pad(one, (0, 0, width - one.shape[2], 0)) for one in side])
                for side in zip(*same, strict=True)
            )
            layers.append((keys, values))
        texts = [text for part in parts for text in part.texts]
        return cls(texts, layers, torch.cat([part.logits for part in parts]))

    def ordered(self, order: Sequence[int]) -> Prefix:
        """The same in another order."""
        if list(order) == sorted(order):
            return self
        layers = [(keys[order], values[order]) for keys, values in self.layers]
        return Prefix([self.texts[row] for row in order], layers, self.logits[order])

    @property
    def cells(self) -> int:
        """Numbers that it holds."""
        return sum(keys.numel() + values.numel() for keys, values in self.layers)


class PrefixReader:
    """Reads for searches; see `Reader`.

    Parameters
    ----------
    module
        The model.
    plans
        How ``generate`` would search after each prefix, [P].
    prefix
        What they start from.
    gate
        Gates the rows of a forward pass by the numbers of their searches.
    """

    def __init__(
        self,
        module: Any,
        plans: Sequence[Plan],
        prefix: Prefix,
        gate: Callable[[list[int]], AbstractContextManager[None]],
    ) -> None:
        self.module, self.plans, self.gate = module, plans, gate
        self.texts, self.logits = prefix.texts, prefix.logits
        self.cache = GrowingCache(prefix.layers)
        self.width = prefix.layers[0][0].shape[2]
        lengths = [len(text) for text in self.texts]
        self.pads = self.width - torch.tensor(lengths, device=self.logits.device)

    def start(self, count: int) -> Best:
        """Rank what the passes before said; see `Reader`.

        Parameters
        ----------
        count
            How many continuations.
        """
        rows = torch.arange(len(self.texts), device=self.logits.device)
        return self._best(rows, self.pads.new_empty((len(rows), 0)), self.logits, count)

    def go_on(self, searches: Tensor, places: Tensor, written: Tensor, count: int) -> Best:
        """Read one more token of each live prefix; see `Reader`.

        Parameters
        ----------
        searches, places, written, count
            As for `Reader.go_on`.
        """
        rows = searches.repeat_interleave(len(places) // len(searches))
        self.cache.continued(places)
        columns = torch.arange(self.width + written.shape[1], device=rows.device)
        real = (columns >= self.pads[rows][:, None]).long()
        more = {name: one[:, -1:] for name, one in places_of(self.module, real).items()}
        with self.gate(rows.tolist()):
            out = self.module(
                input_ids=written[:, -1:],
                attention_mask=real,
                past_key_values=self.cache,
                use_cache=True,
                return_dict=True,
                **more,
            )
        return self._best(rows, written, out.logits[:, -1], count)

    def _best(self, rows: Tensor, written: Tensor, logits: Tensor, count: int) -> Best:
        return best_of(
            self.plans[0].rule,
            logits,
            count,
            lambda part, scores: self._processed(rows[part], written[part], scores),
        )

    def _processed(self, rows: Tensor, written: Tensor, scores: Tensor) -> Tensor:
        """Process scores as ``generate`` does for each prompt alone."""
        numbers = rows.tolist()
        if all(self.plans[row].plain for row in numbers):
            return scores
        return processed(
            [self.plans[row] for row in numbers],
            [self.texts[row] for row in numbers],
            written,
            scores,
        )


def processed(
    plans: Sequence[Plan], texts: Sequence[Sequence[int]], written: Tensor, scores: Tensor
) -> Tensor:
    """Do to scores what ``generate`` would do for each row alone.

    Parameters
    ----------
    plans
        How it would search in each row, [R]; one for all prompts of a length.
    texts
        What a row begins with.
    written
        What comes after it, [R, n].
    scores
        Scores of what follows, [R, V].
    """
    alike: dict[tuple[int, int], list[int]] = {}
    for row, (plan, text) in enumerate(zip(plans, texts, strict=True)):
        alike.setdefault((id(plan), len(text)), []).append(row)
    found = torch.empty_like(scores)
    for rows in alike.values():
        begun = torch.tensor([texts[row] for row in rows], device=scores.device)
        paths = torch.cat([begun, written[rows]], dim=1)
        found[rows] = plans[rows[0]].processors(paths, scores[rows])
    return found
