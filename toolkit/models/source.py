"""How a model is named and loaded: one value that a process can hand to another.

Nothing heavy is imported, so that ``--help`` stays quick.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from headtool.errors import HeadtoolError, unknown

__all__ = ["DTYPES", "LOAD_IN", "ModelSource", "check_wrapped", "no_model"]

DTYPES = ("auto", "float32", "bfloat16", "float16")
"""Precisions of weights; ``auto`` is that of the checkpoint."""

LOAD_IN = ("8bit", "4bit")
"""What bitsandbytes can quantise weights to as they are loaded."""


@dataclass(frozen=True)
class ModelSource:
    """A model by its SPEC, and how to load it.

    An experiment loads it after everything else was checked, so that a wrong file name elsewhere
    does not cost a minute. It is hashable and can be pickled; a loaded model has its own as
    ``model.source``, from which another process loads the same (`headtool.models.load_source`).

    Attributes
    ----------
    spec
        The SPEC.
    device, dtype, fairseq_data, bpe, trust_checkpoint
        As for `headtool.load_model`.
    device_map
        The same; a mapping is kept as JSON.
    load_in
        The same.
    """

    spec: str = "builtin:nli"
    device: str = "auto"
    dtype: str = "float32"
    fairseq_data: str | None = None
    bpe: str | None = None
    trust_checkpoint: bool = False
    device_map: str | Mapping[str, str | int] | None = None
    load_in: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.spec, str):
            raise no_model(self.spec)
        if self.dtype not in DTYPES:
            raise unknown("dtype", self.dtype, DTYPES)
        if self.load_in is not None and self.load_in not in LOAD_IN:
            raise unknown("load_in", self.load_in, LOAD_IN)
        if self.device_map is None:
            return
        if not isinstance(self.device_map, str):
            object.__setattr__(self, "device_map", json.dumps(dict(self.device_map)))
        if self.device != "auto":
            raise HeadtoolError(
                f"`device_map` places the model, and so does `device={self.device}`; leave one out"
            )


def check_wrapped(model: object) -> None:
    """Refuse what is no model of headtool, such as a bare module of transformers.

    Parameters
    ----------
    model
        What was given as a model.

    Raises
    ------
    HeadtoolError
        Naming what makes one of it.
    """
    if not hasattr(model, "sites"):
        raise no_model(model)


def no_model(value: object) -> HeadtoolError:
    """Build the error for what stands where a model is expected, and is none.

    Parameters
    ----------
    value
        What was given.
    """
    return HeadtoolError(
        f"a {type(value).__name__} is no model of headtool; give a SPEC, or "
        "headtool.wrap(model, tokenizer)"
    )
