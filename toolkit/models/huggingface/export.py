"""Models of transformers as functions of tensors, as ONNX wants them."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from headtool.models.huggingface.network import HuggingFaceNetwork

__all__ = ["exported"]


def exported(
    model: HuggingFaceNetwork, *, batch: int, length: int
) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return a model as a function of tensors, and input whose last example is padded.

    Parameters
    ----------
    model
        The model.
    batch, length
        Examples, and tokens of each; a decoder gets two fewer.
    """
    text = model.config.get_text_config()
    known = text.vocab_size if model.tokenizer is None else len(model.tokenizer)
    ids = torch.arange(batch * length).reshape(batch, length) % known
    mask = torch.ones_like(ids)
    mask[-1, -1] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, : length - 2]
    return _Logits(model).eval(), {name: value.to(model.device) for name, value in inputs.items()}


class _Logits(nn.Module):
    """A model as a function of tensors."""

    def __init__(self, model: HuggingFaceNetwork) -> None:
        super().__init__()
        self.model = model.module
        # Caches are no tensors.
        self.options = {"use_cache": False} if model.task in ("causal-lm", "seq2seq") else {}

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor | None = None
    ) -> Tensor:
        """Return the logits."""
        decoder = {} if decoder_input_ids is None else {"decoder_input_ids": decoder_input_ids}
        output = self.model(
            input_ids=input_ids, attention_mask=attention_mask, **decoder, **self.options
        )
        return cast(Tensor, output.logits)
