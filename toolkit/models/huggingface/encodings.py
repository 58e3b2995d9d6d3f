"""What a translation model's encoder makes of one batch, with and without some of its heads."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
from torch import Tensor, nn

from headtool.attention.gating import Gating
from headtool.attention.patching import answering
from headtool.heads import AttentionSite
from headtool.models.examples import Batch
from headtool.models.generation import Filling, Gates
from headtool.models.huggingface.network import HuggingFaceNetwork
from headtool.models.huggingface.rows import blocks_of, gated

__all__ = ["Encodings", "sources"]

_Key = tuple[tuple[AttentionSite, tuple[float, ...]], ...]


class Encodings:
    """The encoder's states of a batch under masks, from the first block that a mask changes.

    Parameters
    ----------
    model
        The model.
    batch
        The sentences.
    filling
        What closed heads put out; None for zero.

    Attributes
    ----------
    whole
        The states with all heads open, [B, S, E].
    """

    def __init__(self, model: HuggingFaceNetwork, batch: Batch, filling: Filling) -> None:
        self.model, self.batch, self.filling = model, batch, filling
        self._encoder = cast(Any, model.module).get_encoder()
        self._sources = sources(batch)
        self._blocks = blocks_of(model, "enc-self")
        self._outputs: dict[nn.Module, Any] = {}
        with contextlib.ExitStack() as stack:
            for block in set(self._blocks.values()):
                stack.callback(block.register_forward_hook(self._keep).remove)
            self.whole = self._run()
        self._order = {block: number for number, block in enumerate(self._outputs)}
        self._kept: dict[_Key, Tensor] = {(): self.whole}

    def inputs(self, places: Sequence[int]) -> dict[str, Tensor]:
        """What the encoder is given of some sentences."""
        index = torch.tensor(list(places), device=self.model.device)
        return {name: tensor[index] for name, tensor in self._sources.items()}

    def width(self, places: Sequence[int]) -> int:
        """Return how many columns some sentences fill."""
        real = self.inputs(places).get("attention_mask")
        if real is None:
            return self.whole.shape[1]
        return 1 + int(real.any(dim=0).nonzero().max())

    def states(
        self, masks: Sequence[Gates], owners: Sequence[int], places: Sequence[int]
    ) -> Tensor:
        """Return the states of P pairs of a mask and a sentence, [P, S, E].

        Parameters
        ----------
        masks
            Gates of each mask.
        owners, places
            Numbers of their masks, and of their sentences.
        """
        keys = {owner: _key(masks[owner]) for owner in dict.fromkeys(owners)}
        known = {key: self._kept[key] for key in ((), *keys.values()) if key in self._kept}
        for owner, key in keys.items():
            if key not in known:
                known[key] = self._masked({site: masks[owner][site] for site, _ in key})
        self._kept = known  # neighbouring pairs have the same masks
        if len(known) == 1:
            return known[()][torch.tensor(list(places), device=self.model.device)]
        return torch.stack([known[keys[o]][p] for o, p in zip(owners, places, strict=True)])

    def gated(self, masks: Sequence[Gates], owners: Sequence[int]) -> AbstractContextManager[None]:
        """Gate each row of the decoder's passes by its own mask.

        Parameters
        ----------
        masks
            Gates of each mask.
        owners
            Number of each row's mask, [R].
        """
        sites = [site for site in self.model.sites if site.kind != "enc-self"]
        return gated(self.model, sites, masks, owners, self.filling)

    def _run(self) -> Tensor:
        return cast(Tensor, self._encoder(**self._sources, return_dict=True).last_hidden_state)

    def _keep(self, block: nn.Module, args: Any, output: Any) -> None:
        self._outputs[block] = output

    def _masked(self, gates: Gates) -> Tensor:
        """Run the encoder from the first block where a head is closed."""
        first = min((self._order[self._blocks[site]] for site in gates if self._blocks), default=0)
        with contextlib.ExitStack() as stack:
            for block, number in self._order.items():
                if number < first:
                    stack.enter_context(answering(block, self._outputs[block]))
            stack.enter_context(self.model.intercept(Gating(gates, self.filling), self.batch))
            return self._run()


def sources(batch: Batch) -> dict[str, Tensor]:
    """What the encoder is given of a batch."""
    return {k: v for k, v in batch.inputs.items() if not k.startswith("decoder")}


def _key(gates: Gates) -> _Key:
    """What a mask is to the encoder."""
    return tuple(
        (site, tuple(values.tolist())) for site, values in gates.items() if site.kind == "enc-self"
    )
