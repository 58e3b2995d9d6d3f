"""Memory of large tensors: given back when they are freed, and recognised when it runs out."""

from __future__ import annotations

import ctypes
import functools
import platform

__all__ = ["is_out_of_memory", "return_large_blocks"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's settings
_LARGE = 4 << 20
_KEPT = 256 << 20
# How libraries put it that have no error of their own for it.
_NO_MEMORY = (
    "bad_alloc",
    "can't allocate memory",
    "cannot allocate memory",
    "could not create a primitive",  # oneDNN
    "cublas_status_alloc_failed",
    "not enough memory",
    "out of memory",
)


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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is no memory for a tensor, on a GPU or the CPU.

    Parameters
    ----------
    error
        What was raised.

    Examples
    --------
    >>> from headtool.models.memory import is_out_of_memory
    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("a bug"))
    (True, False)
    >>> is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB."))
    True
    """
    if isinstance(error, MemoryError):
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in said for words in _NO_MEMORY)
