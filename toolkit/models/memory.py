"""Memory of large tensors: given back when they are freed, and recognised when it runs out."""

from __future__ import annotations

import ctypes
import functools
import platform

__all__ = ["return_large_blocks"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's settings
_LARGE = 4 << 20
_KEPT = 256 << 20


@functools.cache
def return_large_blocks() -> bool:
    """Let glibc give blocks of 4 MB and more back to the system when they are freed.

    By default its limit grows with the blocks it sees, and activations of a language model then
    break its heap into pieces that cannot be used again: a quarter more memory for a backward pass.

    Returns
    -------
    bool
        Whether the C library is glibc and took the setting.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    # Either setting ends the growth of both; so much of the heap's end stays, which is quicker.
    return bool(library.mallopt(_MMAP_THRESHOLD, _LARGE)) and bool(
        library.mallopt(_TRIM_THRESHOLD, _KEPT)
    )
