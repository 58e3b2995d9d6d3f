"""What a method returns, checked: methods of other packages may return anything, or raise."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from headtool.errors import HeadtoolError

__all__ = ["BUGS", "checked_scores"]

T = TypeVar("T")

_LOG = logging.getLogger("headtool")

BUGS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What bugs of other people's methods raise; interrupts and a process that ends are none."""


def checked_scores(
    compute: Callable[[], T], kind: type[T], heads: int, *, name: str, module: str
) -> T:
    """Let a method compute its scores, and check that there is one for every head.

    Parameters
    ----------
    compute
        Computes them.
    kind
        The class of what it is to return, `headtool.methods.base.Scored`.
    heads
        How many heads are scored.
    name, module
        The method's name, and the module of its class.

    Raises
    ------
    HeadtoolError
        If the method is of another package and raises, or if what it returns are not scores;
        naming the method. The traceback is logged as information (``--verbose``).
    """
    owner = f"method '{name}' ({module})"
    try:
        scored = compute()
    except BUGS as error:
        if module.startswith("headtool."):
            raise  # a bug of ours
        _LOG.info("%s", traceback.format_exc().rstrip())
        reason = " ".join(str(error).split())[:300]
        what = f"raised {type(error).__name__}: {reason}".rstrip(": ")
        raise _wrong(owner, what) from error
    if not isinstance(scored, kind):
        raise _wrong(owner, f"returned {type(scored).__name__} instead of a {kind.__name__}")
    _check(owner, scored, heads)
    return scored


def _check(owner: str, scored: Any, heads: int) -> None:
    numbers = {"score": scored.score, "stderr": scored.stderr}
    if scored.tie_break is not None:
        numbers["tie_break"] = scored.tie_break
    if not isinstance(scored.columns, Mapping):
        raise _wrong(owner, f"returned {type(scored.columns).__name__} as its columns")
    for name, values in (numbers | dict(scored.columns)).items():
        if not isinstance(values, np.ndarray) or values.shape != (heads,):
            shape = getattr(values, "shape", type(values).__name__)
            raise _wrong(owner, f"returned {shape} as '{name}' where ({heads},) is one per head")
    for name, values in numbers.items():
        if values.dtype.kind not in "fiu":
            raise _wrong(owner, f"returned {values.dtype} values as '{name}' instead of numbers")
    if np.isinf(scored.score).any():
        raise _wrong(owner, "returned an infinite score")


def _wrong(owner: str, what: str) -> HeadtoolError:
    return HeadtoolError(f"{owner} {what}; correct or update its package")
