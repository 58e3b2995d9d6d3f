"""Attention of many prefixes to the sources of a few searches, without a copy for each prefix."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

__all__ = ["CrossAttention"]

_FEW = 0.75  # of the sources; for fewer, theirs are copied together


class _Source(Protocol):
    @property
    def states(self) -> Tensor: ...

    @property
    def real(self) -> Tensor | None: ...


class CrossAttention:
    """Gives the decoder one step's cache, with keys and values of sources once a search.

    Transformers keeps them once a prefix. Its attention functions get them as they lie in the
    cache; a function in place of SDPA puts the queries of one search side by side, where they read
    the same keys. With other attention there are copies for each prefix here too.

    Parameters
    ----------
    module
        The model.
    cache
        The cache of the first pass, one row a search.
    source
        What was read.
    beam
        Prefixes of a search.
    """

    def __init__(self, module: Any, cache: Any, source: _Source, beam: int) -> None:
        self.cache, self.source, self.beam = cache, source, beam
        self.shared = module.config._attn_implementation == "sdpa"
        self.held = torch.arange(len(source.states), device=source.states.device)

    @contextlib.contextmanager
    def of(self, searches: Tensor, places: Tensor) -> Iterator[dict[str, Any]]:
        """Prepare a pass of the live prefixes, and yield what the model is to be given.

        Parameters
        ----------
        searches
            The A searches that go on, in ascending order.
        places
            Row of the last pass that each of the R = A * beam prefixes continues.
        """
        rows = searches.repeat_interleave(self.beam)
        self.cache.self_attention_cache.batch_select_indices(places)
        states, real = self.source.states, self.source.real
        reading = {
            "past_key_values": self.cache,
            # Its keys and values are known; only its shape is asked for.
            "encoder_outputs": (states.new_zeros(1).expand(len(rows), *states.shape[1:]),),
            "attention_mask": None if real is None else real[rows],
        }
        cross = self.cache.cross_attention_cache
        if not self.shared:
            cross.batch_select_indices(torch.searchsorted(self.held, rows))
            self.held = rows
            yield reading
            return
        if len(searches) < _FEW * len(self.held):
            cross.batch_select_indices(torch.searchsorted(self.held, searches))
            self.held = searches
        with _replaced(self._grouped(cross, torch.searchsorted(self.held, searches))):
            yield reading

    def _grouped(self, cross: Any, places: Tensor) -> Callable[[Callable[..., Any]], Any]:
        """Make an attention function that serves cross-attention, of the usual one."""
        known = {id(layer.keys) for layer in cross.layers}
        count, beam, every = len(self.held), self.beam, len(places) == len(self.held)
        real = self.source.real
        mask = None if real is None else real[self.held].bool()[:, None, None]

        def made(usual: Callable[..., Any]) -> Callable[..., Any]:
            def attend(
                module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *args: Any, **how: Any
            ) -> Any:
                if id(key) not in known:
                    return usual(module, query, key, value, *args, **how)
                together = query.reshape(-1, beam, *query.shape[1:]).squeeze(3)
                if not every:
                    room = together.new_zeros((count, *together.shape[1:]))
                    together = room.index_copy_(0, places, together)
                how["is_causal"] = False
                together = together.transpose(1, 2)
                found, _ = usual(module, together, key, value, mask, *args[1:], **how)
                if not every:
                    found = found.index_select(0, places)
                return found.flatten(0, 1).unsqueeze(1), None

            return attend

        return made


@contextlib.contextmanager
def _replaced(made: Callable[[Callable[..., Any]], Any]) -> Iterator[None]:
    """Let transformers' models compute SDPA with a function made of the usual one."""
    from transformers import modeling_utils

    functions: Any = modeling_utils.ALL_ATTENTION_FUNCTIONS
    functions["sdpa"] = made(functions["sdpa"])
    try:
        yield
    finally:
        del functions["sdpa"]
