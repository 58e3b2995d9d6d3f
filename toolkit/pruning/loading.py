"""Load pruned models: build the whole model, carry out the recorded plans, fill in the weights."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from headtool.errors import HeadtoolError
from headtool.models.base import ModelAdapter
from headtool.pruning.models import History, record_history
from headtool.pruning.plan import Plan, carry_out
from headtool.pruning.saving import read_record

__all__ = ["load_pruned", "pruned_class", "pruned_fairseq"]


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
    from headtool.models.huggingface_loading import load_config, load_weights

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


def pruned_class(config: Any, spec: str) -> type | None:
    """Class that builds a transformers model without the heads that a configuration records.

    None where it records none.
    """
    import transformers

    recorded = getattr(config, "headtool_pruned", None)
    if recorded is None:
        return None
    plans = _plans(recorded, spec)
    whole: Any = getattr(transformers, str((config.architectures or [""])[0]), None)
    if not isinstance(whole, type) or not issubclass(whole, transformers.PreTrainedModel):
        raise HeadtoolError(f"{spec} names no model class of transformers in its config.json")

    def build(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        whole.__init__(self, config, *args, **kwargs)
        for plan in plans:
            carry_out(plan, self)
        self.__class__ = whole

    return type(whole.__name__, (whole,), {"__init__": build, "__module__": whole.__module__})


def _plans(recorded: Any, spec: str) -> list[Plan]:
    try:
        return [Plan.from_json(step) for step in recorded["steps"]]
    except (KeyError, TypeError) as error:
        raise HeadtoolError(
            f"the record of removed heads in {spec} is damaged: {error!r}; prune the model again"
        ) from error


def pruned_fairseq(
    folder: Path, record: Mapping[str, Any], *, device: torch.device, dtype: torch.dtype
) -> ModelAdapter:
    """Load the adapter of a pruned fairseq model."""
    from safetensors.torch import load_file

    from headtool.models.fairseq import FairseqModel, require_fairseq
    from headtool.models.fairseq_parts import load_dictionaries, load_segmentation, silence

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
    for plan in _plans(record["history"], str(folder)):
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
