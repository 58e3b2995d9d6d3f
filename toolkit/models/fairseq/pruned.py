"""Load fairseq models that were pruned."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch

from headtool.errors import HeadtoolError
from headtool.models.base import ModelAdapter
from headtool.surgery.history import History, record_history
from headtool.surgery.plan import carry_out
from headtool.surgery.record import read_plans

__all__ = ["pruned_fairseq"]


def pruned_fairseq(
    folder: Path, record: Mapping[str, Any], *, device: torch.device, dtype: torch.dtype
) -> ModelAdapter:
    """Load the adapter of a pruned fairseq model."""
    from safetensors.torch import load_file

    from headtool.models.fairseq.model import FairseqModel, require_fairseq
    from headtool.models.fairseq.parts import load_dictionaries, load_segmentation
    from headtool.quiet import silence

    require_fairseq(str(folder))
    with silence():
        from fairseq.models.transformer import TransformerModel

        languages = cast(tuple[str, str], tuple(record["languages"]))
        dictionaries = load_dictionaries(languages, folder / "model.safetensors", {}, str(folder))
        name, colon, file = str(record["bpe"]).partition(":")
        segmentation = load_segmentation(f"{name}{colon}{folder / file if file else ''}", folder)
        task = Namespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1])
        with torch.random.fork_rng(devices=[]):  # random weights, soon overwritten
            module = TransformerModel.build_model(Namespace(**record["architecture"]), task)
    history = History(**record["history"])
    for plan in read_plans(record["history"], str(folder)):
        carry_out(plan, module)
    try:
        module.load_state_dict(load_file(folder / "model.safetensors"))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise HeadtoolError(
            f"the record of removed heads in {folder} does not fit its weights: {reason[:200]}"
        ) from error
    vars(module)["architecture"] = dict(record["architecture"])
    record_history(module, history)
    module.to(device=device, dtype=dtype)
    return FairseqModel(str(folder), module, dictionaries, languages, segmentation)
