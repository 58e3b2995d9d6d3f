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

    Returns
    -------
    torch.nn.Module
        The library's own model, with the heads removed.

    Raises
    ------
    HeadtoolError
        If there is no pruned model, or if record and weights do not fit together.

    Examples
    --------
    >>> from pathlib import Path
    >>> import headtool
    >>> from headtool.pruning.saving import save_pruned
    >>> from headtool.pruning.smaller import prune
    >>> model = headtool.load_model("builtin:nli")
    >>> smaller = prune(model, headtool.HeadMask.without(model.sites, model.sites.heads[:6]))
    >>> save_pruned(smaller, Path("smaller"), source={"by": "hand"}, force=False)
    >>> loaded = headtool.load_pruned("smaller")
    >>> loaded.bert.encoder.layer[0].attention.self.query.weight.shape
    torch.Size([24, 96])
    """
    place = Path(os.path.expanduser(folder))
    record = read_record(place)
    library = model_library(DEFAULT_LIBRARY if record is None else record["library"])
    return library.load_pruned_module(place, record)
