"""A fairseq decoder, computed for any set of prefixes at once, and an encoder in the same way.

fairseq's own decoder reads whole sequences, or one more symbol of each. Here the positions of many
prefixes that share beginnings, a *tree* of them, run in one pass; and a pass can start at the first
attention site that a mask touches, from what the whole model left there. Heads meet their gates
where `headtool.attention.gating` lets them: between attention and output projection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from headtool.attention.gating import Handler, SiteHandle
from headtool.heads import AttentionSite

__all__ = ["DecoderStack", "EncoderStack", "Trace"]

Attend = Callable[[int, Tensor], Tensor]
"""Self-attention: takes scaled queries, keys and values [R, 3 E], returns heads' outputs [R, E]."""

CrossAttend = Callable[[int, Tensor], Tensor]
"""Attention of a layer to the source: takes queries [R, E], returns heads' outputs [R, E]."""

_ABSENT_IN_LAYER = ("c_attn", "attn_ln", "ffn_layernorm", "w_resid")


@dataclass
class Trace:
    """What a pass left at each site, in the order of the pass: residual and heads' outputs."""

    at: dict[AttentionSite, tuple[Tensor, Tensor]] = field(default_factory=dict)


class _Joined:
    """Several projections of the same states in one product; `scale` is that of the first."""

    def __init__(self, *parts: Any, scale: float = 1.0) -> None:
        scales = [scale, *(1.0 for _ in parts[1:])]
        pairs = list(zip(parts, scales, strict=True))
        self.weight = torch.cat([part.weight.detach() * by for part, by in pairs])
        self.bias: Tensor | None = None
        if parts[0].bias is not None:
            self.bias = torch.cat([part.bias.detach() * by for part, by in pairs])

    @classmethod
    def within(cls, attention: Any) -> _Joined:
        """Scaled queries, keys and values of self-attention."""
        parts = (attention.q_proj, attention.k_proj, attention.v_proj)
        return cls(*parts, scale=attention.scaling)

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


class DecoderStack:
    """The layers of a fairseq decoder as functions of flat rows, one row a position.

    Parameters
    ----------
    decoder
        fairseq's decoder.
    handles
        The model's sites.
    longest
        Most positions that will be asked for.
    """

    def __init__(self, decoder: Any, handles: Sequence[SiteHandle], longest: int) -> None:
        self.decoder = decoder
        self.layers: list[Any] = list(decoder.layers)
        by_module = {handle.module: handle.site for handle in handles}
        self.self_sites = [by_module[layer.self_attn.out_proj] for layer in self.layers]
        self.cross_sites = [by_module[layer.encoder_attn.out_proj] for layer in self.layers]
        self.projections = [_Joined.within(layer.self_attn) for layer in self.layers]
        attentions = [layer.encoder_attn for layer in self.layers]
        self.query_projections = [_Joined(part.q_proj, scale=part.scaling) for part in attentions]
        self.source_projections = [_Joined(part.k_proj, part.v_proj) for part in attentions]
        self.positions: Tensor | None = None
        if decoder.embed_positions is not None:
            device = decoder.embed_tokens.weight.device
            filled = torch.full((1, longest), decoder.dictionary.eos(), device=device)
            self.positions = decoder.embed_positions(filled)[0].detach()
        self.projection: Tensor = decoder.output_projection.weight.detach()

    @staticmethod
    def suits(decoder: Any) -> bool:
        """Whether the decoder has nothing but what is computed here."""
        plain: bool = (
            decoder.quant_noise is None
            and decoder.adaptive_softmax is None
            and not decoder.cross_self_attention
            and getattr(decoder.output_projection, "bias", None) is None
            and decoder.embed_tokens.weight.dtype == torch.float32
        )
        return plain and all(
            layer.encoder_attn is not None
            and all(getattr(layer, name, None) is None for name in _ABSENT_IN_LAYER)
            and all(_is_plain(attention) for attention in (layer.self_attn, layer.encoder_attn))
            for layer in decoder.layers
        )

    def embed(self, tokens: Tensor, depth: Tensor) -> Tensor:
        """Embed symbols.

        Parameters
        ----------
        tokens
            Symbols, [R].
        depth
            Their positions, counted from zero, [R].
        """
        decoder = self.decoder
        x: Tensor = decoder.embed_scale * decoder.embed_tokens(tokens)
        if decoder.project_in_dim is not None:
            x = decoder.project_in_dim(x)
        if self.positions is not None:
            x = x + self.positions[depth]
        if decoder.layernorm_embedding is not None:
            x = decoder.layernorm_embedding(x)
        return x

    def source_keys(self, encoded: Tensor) -> list[Tensor]:
        """Keys and values [R, 2 E] of every layer for encoder states [R, E]."""
        return [projection(encoded) for projection in self.source_projections]

    def run(
        self,
        x: Tensor,
        attend: Attend,
        cross: CrossAttend,
        handler: Handler | None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Run the layers on embedded rows.

        Parameters
        ----------
        x
            Embedded rows, [R, E].
        attend
            Attends within a layer.
        cross
            Attends to the source within a layer.
        handler
            Sees and changes the heads' outputs; None for nothing.
        trace
            Records the pass; None for nothing.

        Returns
        -------
        Tensor
            Features, [R, E].
        """
        for number in range(len(self.layers)):
            contexts = attend(number, self.projected(number, x))
            contexts = _seen(self.self_sites[number], x, contexts, handler, trace)
            x = self.leave(number, False, x, contexts)
            contexts = cross(number, self.queries(number, x))
            contexts = _seen(self.cross_sites[number], x, contexts, handler, trace)
            x = self.feed_forward(number, self.leave(number, True, x, contexts))
        return self.finish(x)

    # -- the parts of a layer ---------------------------------------------------------------

    def projected(self, number: int, x: Tensor) -> Tensor:
        """Scaled queries, keys and values [R, 3 E] of a layer's self-attention.

        Parameters
        ----------
        number
            Number of the layer.
        x
            States [R, E] that it reads.
        """
        return _projected(self.layers[number], self.projections[number], x)

    def queries(self, number: int, x: Tensor) -> Tensor:
        """Scaled queries [R, E] of a layer's attention to the source.

        Parameters
        ----------
        number
            Number of the layer.
        x
            States [R, E] that it reads.
        """
        layer = self.layers[number]
        y = layer.encoder_attn_layer_norm(x) if layer.normalize_before else x
        return self.query_projections[number](y)

    def leave(self, number: int, cross: bool, residual: Tensor, contexts: Tensor) -> Tensor:
        """Leave a layer's attention with the heads' outputs [R, E]; to the source if `cross`.

        Parameters
        ----------
        number
            Number of the layer.
        cross
            Whether it is the attention to the source.
        residual
            States [R, E] that the attention read.
        contexts
            The heads' outputs.
        """
        layer = self.layers[number]
        if cross:
            attention, norm = layer.encoder_attn, layer.encoder_attn_layer_norm
        else:
            attention, norm = layer.self_attn, layer.self_attn_layer_norm
        return _leave(layer, attention, norm, residual, contexts)

    def feed_forward(self, number: int, x: Tensor) -> Tensor:
        """Run the last part of a layer.

        Parameters
        ----------
        number
            Number of the layer.
        x
            States [R, E] that it reads.
        """
        return _feed_forward(self.layers[number], x)

    def finish(self, x: Tensor) -> Tensor:
        """Turn the last layer's states into features, [R, E]."""
        decoder = self.decoder
        if decoder.layer_norm is not None:
            x = decoder.layer_norm(x)
        if decoder.project_out_dim is not None:
            x = decoder.project_out_dim(x)
        return x


class EncoderStack:
    """The layers of a fairseq encoder as functions of flat rows.

    Parameters
    ----------
    encoder
        fairseq's encoder.
    handles
        The model's sites.
    """

    def __init__(self, encoder: Any, handles: Sequence[SiteHandle]) -> None:
        self.encoder = encoder
        self.layers: list[Any] = list(encoder.layers)
        by_module = {handle.module: handle.site for handle in handles}
        self.sites = [by_module[layer.self_attn.out_proj] for layer in self.layers]
        self.projections = [_Joined.within(layer.self_attn) for layer in self.layers]

    @staticmethod
    def suits(encoder: Any) -> bool:
        """Whether the encoder has nothing but what is computed here."""
        return encoder.quant_noise is None and all(
            _is_plain(layer.self_attn) for layer in encoder.layers
        )

    def embed(self, tokens: Tensor) -> Tensor:
        """Embed sources [B, S]; rows [B * S, E]."""
        x, _ = self.encoder.forward_embedding(tokens)
        real = tokens != self.encoder.padding_idx
        return cast(Tensor, (x * real[:, :, None]).flatten(0, 1))

    def run(
        self,
        x: Tensor,
        attend: Attend,
        trace: Trace | None = None,
    ) -> Tensor:
        """Run the layers on embedded rows.

        Parameters
        ----------
        x
            Embedded rows, [R, E].
        attend
            Attends within a layer.
        trace
            Records the pass; None for nothing.

        Returns
        -------
        Tensor
            Encoder states, [R, E].
        """
        for number in range(len(self.layers)):
            contexts = attend(number, self.projected(number, x))
            contexts = _seen(self.sites[number], x, contexts, None, trace)
            x = self.leave(number, x, contexts)
        return self.finish(x)

    # -- the parts of a layer ---------------------------------------------------------------

    def projected(self, number: int, x: Tensor) -> Tensor:
        """Scaled queries, keys and values [R, 3 E] of a layer.

        Parameters
        ----------
        number
            Number of the layer.
        x
            States [R, E] that it reads.
        """
        return _projected(self.layers[number], self.projections[number], x)

    def leave(self, number: int, residual: Tensor, contexts: Tensor) -> Tensor:
        """Leave a layer, given the heads' outputs, [R, E].

        Parameters
        ----------
        number
            Number of the layer.
        residual
            States [R, E] that the attention read.
        contexts
            The heads' outputs.
        """
        layer = self.layers[number]
        norm = layer.self_attn_layer_norm
        return _feed_forward(layer, _leave(layer, layer.self_attn, norm, residual, contexts))

    def finish(self, x: Tensor) -> Tensor:
        """Turn the last layer's states into what decoders read."""
        norm = self.encoder.layer_norm
        return x if norm is None else cast(Tensor, norm(x))


def _projected(layer: Any, projection: _Joined, x: Tensor) -> Tensor:
    """Scaled queries, keys and values of a layer's self-attention."""
    return projection(layer.self_attn_layer_norm(x) if layer.normalize_before else x)


def _seen(
    site: AttentionSite,
    residual: Tensor,
    contexts: Tensor,
    handler: Handler | None,
    trace: Trace | None,
) -> Tensor:
    """Record the heads' outputs, and let the handler change them."""
    if trace is not None:
        trace.at[site] = residual, contexts
    if handler is None:
        return contexts
    changed = handler(site, contexts.view(len(contexts), 1, site.n_heads, site.head_dim))
    return contexts if changed is None else changed.reshape(contexts.shape)


def _leave(
    layer: Any, attention: Any, norm: nn.Module, residual: Tensor, contexts: Tensor
) -> Tensor:
    """Project the heads, add the residual, and normalise where that comes after."""
    x: Tensor = attention.out_proj(contexts)
    x += residual
    return x if layer.normalize_before else cast(Tensor, norm(x))


def _feed_forward(layer: Any, x: Tensor) -> Tensor:
    y = layer.final_layer_norm(x) if layer.normalize_before else x
    y = layer.fc2(layer.activation_fn(layer.fc1(y)))
    y += x
    normed: Tensor = y if layer.normalize_before else layer.final_layer_norm(y)
    return normed


def _is_plain(attention: Any) -> bool:
    """Whether attention has no additions, and has heads left where some were pruned."""
    return (
        attention.bias_k is None
        and not attention.add_zero_attn
        and isinstance(attention.out_proj, nn.Linear)
    )
