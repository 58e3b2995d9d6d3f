"""What one forward pass of a model takes: operations, and memory."""

from __future__ import annotations

from dataclasses import dataclass

from headtool.models.base import ModelAdapter

__all__ = ["ModelCost", "model_cost"]

_KEPT = 34  # bytes a token and unit of width that a layer keeps in half precision for the backward
_MAPS = 5  # the same for each pair of tokens and head (Korthikanti et al. 2022, eq. 2)


@dataclass(frozen=True)
class ModelCost:
    """What one forward pass of a model takes.

    Attributes
    ----------
    spec
        The model.
    device
        Where it is.
    parameters, bytes
        Number and size of its weights.
    linear
        Weights that take part in matrix products: each costs two operations a token.
    width
        Channels of all heads together, over all layers: each costs four operations for every pair
        of tokens.
    heads, layers
        Heads, and sites that they belong to.
    outputs
        Largest number of outputs of any layer, such as the size of the vocabulary.
    """

    spec: str
    device: str
    parameters: int
    bytes: int
    linear: int
    width: int
    heads: int
    layers: int
    outputs: int

    def flops(self, length: float) -> float:
        """Operations of a forward pass for a token of an example of `length` tokens."""
        return 2.0 * self.linear + 4.0 * self.width * length

    def memory(self, batch_tokens: int, length: float, *, backward: bool) -> float:
        """Estimate the peak memory in bytes: weights, what a batch keeps, and its outputs.

        Parameters
        ----------
        batch_tokens
            Tokens in a batch.
        length
            Tokens of an example.
        backward
            Whether gradients are taken, for which every layer keeps what it computed.
        """
        wide = self.bytes / max(1, self.parameters) / 2  # against half precision
        hidden = self.width / max(1, self.layers)
        heads = self.heads / max(1, self.layers)
        layer = batch_tokens * (_KEPT * hidden + _MAPS * heads * length) * wide
        outputs = batch_tokens * self.outputs * 4 * (3 if backward else 2)
        return self.bytes + layer * (self.layers if backward else 1) + outputs


def model_cost(model: ModelAdapter) -> ModelCost:
    """Count what a forward pass of a model takes, from the shapes of its weights.

    Every weight of a linear layer takes a multiplication and an addition for each token, so do the
    scores and the sums of attention for each pair of tokens. Embeddings that are looked up cost
    nothing. Norms and activations are left out.
    """
    from torch import nn

    weights = list(model.module.parameters())
    looked_up = {
        id(part.weight) for part in model.module.modules() if isinstance(part, nn.Embedding)
    }
    linear = outputs = 0
    for part in model.module.modules():
        for weight in part.parameters(recurse=False):
            if weight.ndim != 2 or isinstance(part, nn.Embedding):
                continue
            linear += weight.numel()
            # A vocabulary that is shared with the embeddings counts as what it is here: outputs.
            is_output = id(weight) in looked_up or isinstance(part, nn.Linear)
            outputs = max(outputs, weight.shape[0] if is_output else 0)
    return ModelCost(
        model.spec,
        str(model.device),
        sum(weight.numel() for weight in weights),
        sum(weight.numel() * weight.element_size() for weight in weights),
        linear,
        sum(site.n_heads * site.head_dim for site in model.sites),
        model.sites.n_heads,
        len(model.sites),
        outputs if model.task in ("causal-lm", "masked-lm", "seq2seq") else len(model.labels) or 1,
    )
