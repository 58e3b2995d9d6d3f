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

__all__ = ["DecoderStack", "EncoderStack", "Start", "Trace"]

Attend = Callable[[int, Tensor], Tensor]
"""Self-attention: takes scaled queries, keys and values [R, 3 E], returns heads' outputs [R, E]."""

CrossAttend = Callable[[int, Tensor], Tensor]
"""Attention of a layer to the source: takes queries [R, E], returns heads' outputs [R, E]."""

_ABSENT_IN_LAYER = ("c_attn", "attn_ln", "ffn_layernorm", "w_resid")


@dataclass
class Trace:
    """What a pass left at each site, in the order of the pass: residual and heads' outputs."""

    at: dict[AttentionSite, tuple[Tensor, Tensor]] = field(default_factory=dict)


@dataclass(frozen=True)
class Start:
    """Where a pass begins: at a site whose heads' outputs are known.

    Attributes
    ----------
    layer, cross
        The site: of self-attention, or of attention to the source.
    residual, contexts
        What the whole model has there, repeated for the rows of the pass; [R, E] each.
    """

    layer: int
    cross: bool
    residual: Tensor
    contexts: Tensor


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
        self.source_projections = [
            _Joined(layer.encoder_attn.k_proj, layer.encoder_attn.v_proj) for layer in self.layers
        ]
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
        x: Tensor | Start,
        attend: Attend,
        cross: CrossAttend,
        handler: Handler | None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Run the layers on embedded rows, or from a site on.

        Parameters
        ----------
        x
            Embedded rows, [R, E], or the site to start from.
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
        start, first = (x, x.layer) if isinstance(x, Start) else (None, 0)
        state = x if isinstance(x, Tensor) else x.residual
        for number in range(first, len(self.layers)):
            here = start if start is not None and number == first else None
            if here is None or not here.cross:
                state = self._self_attention(number, state, attend, handler, trace, here)
            state = self._cross_attention(
                number, state, cross, handler, trace, here if here and here.cross else None
            )
            state = _feed_forward(self.layers[number], state)
        decoder = self.decoder
        if decoder.layer_norm is not None:
            state = decoder.layer_norm(state)
        if decoder.project_out_dim is not None:
            state = decoder.project_out_dim(state)
        return state

    def _self_attention(
        self,
        number: int,
        x: Tensor,
        attend: Attend,
        handler: Handler | None,
        trace: Trace | None,
        start: Start | None,
    ) -> Tensor:
        layer = self.layers[number]
        attention, norm = layer.self_attn, layer.self_attn_layer_norm
        if start is not None:
            contexts = start.contexts
        else:
            y = norm(x) if layer.normalize_before else x
            contexts = attend(number, self.projections[number](y))
        site = self.self_sites[number]
        return _leave(site, layer, attention, norm, x, contexts, handler, trace)

    def _cross_attention(
        self,
        number: int,
        x: Tensor,
        cross: CrossAttend,
        handler: Handler | None,
        trace: Trace | None,
        start: Start | None,
    ) -> Tensor:
        layer = self.layers[number]
        attention, norm = layer.encoder_attn, layer.encoder_attn_layer_norm
        if start is not None:
            contexts = start.contexts
        else:
            y = norm(x) if layer.normalize_before else x
            contexts = cross(number, attention.q_proj(y) * attention.scaling)
        site = self.cross_sites[number]
        return _leave(site, layer, attention, norm, x, contexts, handler, trace)


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
        x: Tensor | Start,
        attend: Attend,
        handler: Handler | None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Run the layers on embedded rows, or from a site on.

        Parameters
        ----------
        x
            Embedded rows, [R, E], or the site to start from.
        attend
            Attends within a layer.
        handler
            Sees and changes the heads' outputs; None for nothing.
        trace
            Records the pass; None for nothing.

        Returns
        -------
        Tensor
            Encoder states, [R, E].
        """
        start = x if isinstance(x, Start) else None
        state = x if isinstance(x, Tensor) else x.residual
        for number in range(start.layer if start else 0, len(self.layers)):
            layer = self.layers[number]
            attention, norm = layer.self_attn, layer.self_attn_layer_norm
            if start is not None and number == start.layer:
                contexts = start.contexts
            else:
                y = norm(state) if layer.normalize_before else state
                contexts = attend(number, self.projections[number](y))
            site = self.sites[number]
            state = _leave(site, layer, attention, norm, state, contexts, handler, trace)
            state = _feed_forward(layer, state)
        norm = self.encoder.layer_norm
        return state if norm is None else cast(Tensor, norm(state))


def _leave(
    site: AttentionSite,
    layer: Any,
    attention: Any,
    norm: nn.Module,
    residual: Tensor,
    contexts: Tensor,
    handler: Handler | None,
    trace: Trace | None,
) -> Tensor:
    """Gate the heads, project them, add the residual, and normalise where that comes after."""
    if trace is not None:
        trace.at[site] = residual, contexts
    if handler is not None:
        per_head = contexts.view(len(contexts), 1, site.n_heads, site.head_dim)
        changed = handler(site, per_head)
        contexts = contexts if changed is None else changed.reshape(contexts.shape)
    x = attention.out_proj(contexts) + residual
    normed: Tensor = x if layer.normalize_before else norm(x)
    return normed


def _feed_forward(layer: Any, x: Tensor) -> Tensor:
    y = layer.final_layer_norm(x) if layer.normalize_before else x
    y = layer.fc2(layer.activation_fn(layer.fc1(y))) + x
    normed: Tensor = y if layer.normalize_before else layer.final_layer_norm(y)
    return normed


def _is_plain(attention: Any) -> bool:
    """Whether attention has no additions, and has heads left where some were pruned."""
    return (
        attention.bias_k is None
        and not attention.add_zero_attn
        and isinstance(attention.out_proj, nn.Linear)
    )
