"""Load pruned models: build the whole model, carry out the recorded plans, fill in the weights."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn

from headtool.errors import HeadtoolError
from headtool.models.fairseq.pruned import pruned_fairseq
from headtool.surgery.record import pruned_class, read_record

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
    if record is not None and record["library"] == "fairseq" and record["form"] == "pruned":
        cpu = torch.device("cpu")
        return pruned_fairseq(place, record, device=cpu, dtype=torch.float32).module
    if not (place / "config.json").is_file():
        raise HeadtoolError(f"{folder} holds no pruned model; headtool prune writes one")
    from headtool.models.huggingface.loading import load_config, load_weights

    spec, options = str(folder), {"trust_remote_code": False}
    config = load_config(str(place), spec=spec, local=True, options=options)
    loader = pruned_class(config, spec)
    if loader is None:
        raise HeadtoolError(
            f"no head is missing in {folder}: it is no pruned model; load it with from_pretrained"
        )
    module = load_weights(
        loader, str(place), config, spec=spec, dtype=torch.float32, options=options
    )
    return module.eval()
