"""Fingerprints of models: SHA-256 over their weights, kept for files that did not change."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headtool.attention.weights import weights

__all__ = ["WeightsState", "cache_folder", "weights_sha256", "weights_state"]

_FORMAT = 1
_SAMPLED = 64  # numbers of each tensor
_FORGOTTEN_AFTER = 10_000  # entries


WeightsState = tuple[tuple[int, int], ...]
"""Which tensors are a model's weights, and how often each was written to."""


def weights_state(module: nn.Module) -> WeightsState:
    """Tell whether weights were written to without reading them.

    Parameters
    ----------
    module
        The model.
    """
    # What waits on the CPU or on disk is another tensor after every pass, and cannot be written to.
    tensors = [t for t in (*module.parameters(), *module.buffers()) if t.device.type != "meta"]
    return tuple((id(t), 0 if t.is_inference() else t._version) for t in tensors)


def weights_sha256(module: nn.Module, files: Sequence[Path] = ()) -> str:
    """SHA-256 over names, shapes, types and bytes of all that a model's state holds.

    One tensor is read at a time. For a model from files, the result is kept in the user's cache
    under the identity of the files (path, size, inode, times of change) and a sample of the weights
    as they are in memory, so that the next run need not read them all.

    Parameters
    ----------
    module
        The model.
    files
        What it was loaded from; empty for a model that was made.
    """
    place = _place(module, files) if files else None
    if place is not None:
        with contextlib.suppress(OSError):
            known = place.read_text("ascii")
            if len(known) == 64 and set(known) <= set("0123456789abcdef"):
                return known
    digest = hashlib.sha256()
    for name, weight in weights(module):
        digest.update(_described(name, weight))
        digest.update(_bytes(weight.cpu().contiguous().view(-1)))
    found = digest.hexdigest()
    if place is not None:
        _keep(place, found)
    return found


def cache_folder() -> Path:
    """Return where fingerprints are kept: below ``$XDG_CACHE_HOME``, or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "headtool" / "fingerprints"


def _place(module: nn.Module, files: Sequence[Path]) -> Path | None:
    """The entry of a model in the cache; None where a file cannot be looked at."""
    try:
        identities = []
        for file in files:
            real = file.resolve()
            seen = real.stat()
            times = seen.st_mtime_ns, seen.st_ctime_ns
            identities.append([str(real), seen.st_size, seen.st_dev, seen.st_ino, *times])
    except OSError:
        return None
    digest = hashlib.sha256(json.dumps([_FORMAT, identities]).encode())
    for name, weight in sorted(module.state_dict().items()):
        if isinstance(weight, Tensor):
            digest.update(_described(name, weight))
            if weight.device.type != "meta":  # what waits on disk cannot have been changed
                flat = weight.detach().reshape(-1)
                digest.update(_bytes(flat[:: max(1, len(flat) // _SAMPLED)].cpu().contiguous()))
    return cache_folder() / digest.hexdigest()


def _described(name: str, weight: Tensor) -> bytes:
    return f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode()


def _bytes(flat: Tensor) -> Any:
    return flat.detach().view(torch.uint8).numpy()


def _keep(place: Path, found: str) -> None:
    """Write an entry, all of it or nothing; where there is no room for it, there is no cache."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        entries = list(place.parent.iterdir())
        for old in entries if len(entries) >= _FORGOTTEN_AFTER else ():
            old.unlink(missing_ok=True)
        number, made = tempfile.mkstemp(dir=place.parent)
        with os.fdopen(number, "w", encoding="ascii") as file:
            file.write(found)
        os.replace(made, place)
