"""How many tokens a batch can have: measured on one example, for the memory that there is."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.engine.freezing import frozen
from headtool.heads import AttentionSite
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

__all__ = ["activation_bytes", "fitting_tokens"]

_SHARE = 0.6  # of what weights leave: a pass needs more than is counted, and so do others
_MOST = {"cpu": 8192}  # where more tokens are no faster
_MOST_ELSEWHERE = 131_072


def fitting_tokens(model: ModelAdapter, examples: Examples) -> int:
    """Return how many tokens a batch can have so that a backward pass fits into the memory.

    What one token of the longest example takes is measured. The memory is what the machine (or its
    limit) has in all, and the result a power of two, so that the same machine gives the same number
    whatever else runs on it. Where that is too much, units are run in parts
    (`headtool.engine.stepping`).

    Parameters
    ----------
    model
        The model.
    examples
        The examples, of which the longest is run.
    """
    longest = np.argsort(examples.lengths, kind="stable")[-1:]
    per_token = activation_bytes(model, examples, longest) / int(examples.lengths[longest[0]])
    taken: dict[torch.device, int] = {model.device: 0}
    for weight in model.module.parameters():
        if weight.device.type != "meta":
            size = weight.numel() * weight.element_size()
            taken[weight.device] = taken.get(weight.device, 0) + size
    left = min(_room(device) - weights for device, weights in taken.items())
    fitting = max(1.0, _SHARE * left / per_token)
    most = _MOST.get(model.device.type, _MOST_ELSEWHERE)
    return int(min(most, 1 << int(fitting).bit_length() - 1))


def activation_bytes(model: ModelAdapter, examples: Examples, index: NDArray[np.int64]) -> int:
    """Count what a backward pass of a batch needs of its forward pass, in bytes.

    These are the tensors that torch keeps to differentiate (each storage once, weights left out),
    the heads' outputs and the logits.

    Parameters
    ----------
    model, examples
        The model and its examples.
    index
        Which of them form the batch.
    """
    weights = {p.untyped_storage().data_ptr() for p in model.module.parameters()}
    sizes: dict[int, int] = {}
    held: list[Tensor] = []  # else an address would be used again

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
            held.append(tensor)
        return tensor

    def leaf(site: AttentionSite, contexts: Tensor) -> Tensor:
        count(contexts)
        return contexts if contexts.requires_grad else contexts.detach().requires_grad_()

    batch = model.collate(examples, index)
    kept = torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor)
    with frozen(model.module), torch.enable_grad(), kept, model.intercept(leaf, batch):
        result = model.forward(batch)
    if result.logits is not None:
        count(result.logits)
    return sum(sizes.values())


def _room(device: torch.device) -> int:
    """Bytes of memory that a device has in all, or that this process may use."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory())
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for place in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # no such group, or no limit
            limits.append(int((Path("/sys/fs/cgroup") / place).read_text()))
    with contextlib.suppress(ImportError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            limits.append(soft)
    return min(limits)
