"""Models of transformers that are in memory, such as after ``trainer.train()``."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from headtool.data.arrays import ARRAYS
from headtool.errors import HeadtoolError
from headtool.models.examples import Task
from headtool.models.fingerprints import weights_sha256, weights_state
from headtool.models.huggingface.checking import check_config, check_parts
from headtool.models.huggingface.loading import task_of
from headtool.models.huggingface.model import HuggingFaceArrayModel, HuggingFaceModel
from headtool.models.huggingface.processors import check_processor

__all__ = ["WrappedModel", "wrap"]


class WrappedModel(HuggingFaceModel):
    """A transformers model that was in memory; see `wrap`.

    Parameters
    ----------
    kind
        Name of its class.
    task, module, tokenizer
        As for `HuggingFaceModel`.
    """

    _plain: type[HuggingFaceModel] = HuggingFaceModel

    def __init__(self, kind: str, task: Task, module: nn.Module, tokenizer: Any) -> None:
        self._sha256 = weights_sha256(module)
        super().__init__(f"memory:{kind}@{self._sha256[:8]}", task, module, tokenizer)
        self.loaded = weights_state(module)

    @property  # looked at each time, since the model may have been trained further
    def fingerprint(self) -> str:
        """SHA-256 over the weights as they were wrapped; others are refused."""
        state = weights_state(self.module)
        if state != self.loaded:
            if weights_sha256(self.module) != self._sha256:
                raise HeadtoolError(
                    f"the weights of {self.spec} have changed since it was wrapped; wrap it again"
                )
            self.loaded = state
        return self._sha256

    def with_module(self, module: nn.Module) -> HuggingFaceModel:  # type: ignore[override]
        """Make an ordinary model; see `ModelAdapter.with_module`."""
        return self._plain(self.spec, self.task, module, self.tokenizer)


class WrappedArrayModel(WrappedModel, HuggingFaceArrayModel):
    """A transformers model of images or sound that was in memory; see `wrap`."""

    _plain = HuggingFaceArrayModel


def wrap(model: Any, tokenizer: Any = None) -> WrappedModel:
    """Take a transformers model that is in memory, wherever a model's SPEC goes.

    The model stays as it is: in training or evaluation mode, with its hooks, its gradients and what
    of it is trained. Its weights are shared, not copied. Training it further is free, but makes the
    wrapped model stale: wrap it again then. Runs record its class and the hash of its weights.

    Parameters
    ----------
    model
        A classifier (also of images or sound), or a causal, masked or sequence-to-sequence language
        model; what `headtool.load_model` takes from a folder. It may come out of
        ``trainer.train()``.
    tokenizer
        Its tokenizer, image processor or feature extractor. Without one it takes data with the
        columns ``input_ids`` (or ``pixel_values``, ``input_values``, ``input_features``, as its
        forward pass does) and ``labels``, and the configuration says which tokens are special.
        Texts, images, sound (``audio``), translations that are decoded and roles need one.

    Returns
    -------
    WrappedModel
        What `headtool.score`, `headtool.compare` and all others take as `model`.

    Raises
    ------
    HeadtoolError
        If it is another model, or its heads cannot be told apart.

    Examples
    --------
    >>> import headtool
    >>> from transformers import BertConfig, BertForSequenceClassification
    >>> size = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    >>> config = BertConfig(vocab_size=20, num_hidden_layers=2, **size)
    >>> model = headtool.wrap(BertForSequenceClassification(config))
    >>> data = [{"input_ids": [5, 6, 7 + i % 3], "labels": i % 2} for i in range(8)]
    >>> headtool.score(model, data, methods=["gradient"]).frame.shape[0]
    4
    """
    kind = type(model).__name__
    name = f"the {kind} in memory"
    _check_kind(model, name)
    task, _ = task_of(name, model.config, [known.__name__ for known in type(model).__mro__])
    check_config(name, model.config)
    try:
        module = _view(model)
    except (TypeError, RuntimeError) as error:
        raise HeadtoolError(
            f"{name} cannot be copied without its weights ({error}); save it, and give its folder"
        ) from error
    if module.main_input_name in ARRAYS:
        return WrappedArrayModel(kind, task, module, check_processor(name, tokenizer))
    check_parts(name, module, tokenizer)
    return WrappedModel(kind, task, module, tokenizer)


def _check_kind(model: Any, name: str) -> None:
    """Refuse what is no model of transformers, or is wrapped in something else."""
    from transformers import PreTrainedModel

    if isinstance(model, PreTrainedModel):
        if any(weight.device.type == "meta" for weight in model.parameters()):
            raise HeadtoolError(
                f"some weights of {name} wait on the CPU or on disk; save it, and give its folder "
                "with `device_map`"
            )
        return
    if hasattr(model, "merge_and_unload"):
        raise HeadtoolError(f"{name} has adapters; give wrap model.merge_and_unload()")
    if isinstance(getattr(model, "module", None), PreTrainedModel):
        raise HeadtoolError(f"{name} holds another model; give wrap model.module")
    raise HeadtoolError(
        f"{name} is no model of transformers; headtool.wrap takes these, and other models have a "
        "library of their own (CONTRIBUTING: how to add a model library)"
    )


def _view(model: Any) -> Any:
    """The same model with modules of its own: weights are shared, gradients are not."""
    shared: dict[int, Any] = {id(buffer): buffer for buffer in model.buffers()}
    for weight in model.parameters():
        known = type(weight) is nn.Parameter  # quantised weights are of classes of their own
        shared[id(weight)] = (
            nn.Parameter(weight.detach(), requires_grad=weight.requires_grad) if known else weight
        )
    view = copy.deepcopy(model, shared)
    if "_original_forward" in vars(view):  # accelerate computes with lower precision in training
        view.forward = view._original_forward
    return view.eval()
