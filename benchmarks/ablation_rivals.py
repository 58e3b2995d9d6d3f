"""Single-head ablation of a causal language model as it is written with other libraries."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headtool.engine.units import Unit
from headtool.heads import HeadMask
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

Plain = Callable[[HeadMask, Unit], np.ndarray]


def transformer_lens(model: ModelAdapter, examples: Examples) -> Plain:
    """A hook on `hook_z` that sets the head to zero, and the loss of each token."""
    _need("transformer_lens", "transformer-lens")
    from tokenizers import Tokenizer, models
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import PreTrainedTokenizerFast

    # The bridge asks for a tokenizer and never uses it: it is given token ids.
    words = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    special = {"eos_token": "a", "pad_token": "a", "unk_token": "a"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **special)
    bridge: Any = TransformerBridge.boot_transformers(
        "gpt2", hf_model=_copied(model), tokenizer=tokenizer, device="cpu"
    )

    def run(mask: HeadMask, unit: Unit) -> np.ndarray:
        (head,) = mask.closed

        def zero(z: Tensor, hook: object) -> Tensor:
            z[:, :, head.index] = 0
            return z

        with torch.inference_mode():
            losses = bridge.run_with_hooks(
                _ids(examples, unit),
                return_type="loss",
                loss_per_token=True,
                prepend_bos=False,
                fwd_hooks=[(f"blocks.{head.layer}.attn.hook_z", zero)],
            )
        return losses.sum(dim=1).double().numpy()

    return run


def nnsight(model: ModelAdapter, examples: Examples) -> Plain:
    """The output projection's input with the head set to zero, and the loss of each token."""
    _need("nnsight", "nnsight")
    from nnsight import NNsight

    module = _copied(model)
    traced: Any = NNsight(module)
    width = module.config.n_embd // module.config.n_head

    def run(mask: HeadMask, unit: Unit) -> np.ndarray:
        (head,) = mask.closed
        ids, start = _ids(examples, unit), head.index * width
        with torch.inference_mode():
            with traced.trace(ids, use_cache=False):
                z = traced.transformer.h[head.layer].attn.c_proj.input
                z[..., start : start + width] = 0
                logits = traced.output.logits.save()
            losses = nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
            )
        return losses.view(len(ids), -1).sum(dim=1).double().numpy()

    return run


RIVALS: dict[str, Callable[[ModelAdapter, Examples], Plain]] = {
    "transformer-lens": transformer_lens,
    "nnsight": nnsight,
}


def _need(package: str, name: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise SystemExit(f"--against {name} needs {name}: pip install {name}")


def _copied(model: ModelAdapter) -> Any:
    """The model with weights of its own, since these libraries change modules."""
    source: Any = model.module
    copied = type(source)(source.config).eval()
    copied.load_state_dict(source.state_dict())
    return copied


def _ids(examples: Examples, unit: Unit) -> Tensor:
    return torch.tensor([examples.rows[i]["input_ids"] for i in unit.examples.tolist()])
