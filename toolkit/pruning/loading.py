"""Load pruned models for use without headtool's adapters."""

from __future__ import annotations

import os
from pathlib import Path

from torch import nn

from headtool.models import DEFAULT_LIBRARY, model_library
from headtool.surgery.record import read_record

__all__ = ["load_pruned"]


def load_pruned(folder: str | Path) -> nn.Module:
    """Load a pruned model as its library has it: float32, on the CPU, in evaluation mode.

    A transformers model is of its usual class and can be trained, saved with ``save_pretrained``,
    and used for generation.

    Parameters
    ----------
    folder
        What ``headtool prune`` wrote, or what ``save_pretrained`` or a ``Trainer`` wrote of such a
        model later.

    Raises
    ------
    HeadtoolError
        If there is no pruned model, or if record and weights do not fit together.
    """
    place = Path(os.path.expanduser(folder))
    record = read_record(place)
    library = model_library(DEFAULT_LIBRARY if record is None else record["library"])
    return library.load_pruned_module(place, record)
