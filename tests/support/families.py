"""Small models of many families, randomly initialised from a seed; nothing is downloaded.

Sizes are chosen so that a mix-up shows: 4 heads of width 6, 2 layers or more, decoders with 3 heads
of width 8, inputs of 5 and 3 tokens, and, where a family allows it, a model width that is not the
heads' total width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as tf
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headtool.attention.probing import Probe
from headtool.heads import Kind

VOCAB = 60
SOURCE, TARGET = 5, 3
PADDED = 2
"""How many tokens of the second example are padding, where `inputs` are padded."""

Layers = dict[Kind, dict[int, tuple[int, int, int]]]
"""Per kind and layer: heads, key/value heads, width of a head."""


@dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes
    ----------
    build
        Makes one; weights are initialised again by `model`.
    layers
        Its sites.
    untied
        For a model that shares weights between layers: makes one that computes the same with a
        layer's weights each, given the shared one.
    sdpa
        Whether it has SDPA beside eager attention.
    """

    build: Callable[[], nn.Module]
    layers: Layers
    untied: Callable[[nn.Module], nn.Module] | None = None
    sdpa: bool = True

    def model(self, seed: int = 0) -> Any:
        """A model in evaluation mode whose heads all matter."""
        torch.manual_seed(seed)
        model = self.build()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                # Wide enough that attention is far from uniform; biases and norms not neutral.
                spread = torch.randn_like(weight) * (0.3 if weight.ndim > 1 else 0.1)
                weight.copy_(weight + spread if weight.ndim == 1 or "norm" in name else spread)
        return model.eval()


def self_attention(kind: Kind, *layers: int, heads: int = 4, kv: int = 4, dim: int = 6) -> Layers:
    return {kind: dict.fromkeys(layers, (heads, kv, dim))}


def encoder(count: int, **widths: int) -> Layers:
    return self_attention("enc-self", *range(count), **widths)


def decoder(count: int, **widths: int) -> Layers:
    return self_attention("dec-self", *range(count), **widths)


def pair(encoder_layers: int, decoder_layers: int, heads: int, dim: int) -> Layers:
    """An encoder of 4 heads of width 6, and a decoder."""
    sites = dict.fromkeys(range(decoder_layers), (heads, heads, dim))
    return {**encoder(encoder_layers), "dec-self": sites, "cross": sites}


BERT: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 20,
    "num_labels": 3,
}
LLAMA: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "intermediate_size": 28,
    "max_position_embeddings": 20,
    "pad_token_id": 0,
}
FALCON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2: dict[str, Any] = {
    "vocab_size": VOCAB,
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 20,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
BART: dict[str, Any] = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 20,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}


def bert(**changes: Any) -> nn.Module:
    return tf.BertForSequenceClassification(tf.BertConfig(**{**BERT, **changes}))


def albert(groups: int = 1) -> nn.Module:
    config = tf.AlbertConfig(
        **{**BERT, "num_hidden_layers": 3}, embedding_size=10, num_hidden_groups=groups
    )
    return tf.AlbertForSequenceClassification(config)


def untied_albert(tied: nn.Module) -> nn.Module:
    """The same function with weights for each layer."""
    model = albert(groups=3)
    shared = tied.state_dict()
    model.load_state_dict(
        {
            name: shared[name.replace("groups.1", "groups.0").replace("groups.2", "groups.0")]
            for name in model.state_dict()
        }
    )
    return model.to(next(tied.parameters()).dtype).eval()


def falcon(**changes: Any) -> nn.Module:
    return tf.FalconForCausalLM(tf.FalconConfig(**{**FALCON, **changes}))


def llama(**changes: Any) -> nn.Module:
    return tf.LlamaForCausalLM(tf.LlamaConfig(**{**LLAMA, **changes}))


FAMILIES: dict[str, Family] = {
    "BERT": Family(bert, encoder(2)),
    "RoBERTa": Family(
        lambda: tf.RobertaForSequenceClassification(tf.RobertaConfig(**BERT)), encoder(2)
    ),
    "DistilBERT": Family(
        lambda: tf.DistilBertForSequenceClassification(
            tf.DistilBertConfig(
                vocab_size=VOCAB, dim=24, n_layers=2, n_heads=4, hidden_dim=20, num_labels=3
            )
        ),
        encoder(2),
    ),
    "ALBERT": Family(albert, encoder(3), untied=untied_albert),
    "ELECTRA": Family(
        lambda: tf.ElectraForSequenceClassification(tf.ElectraConfig(**BERT, embedding_size=10)),
        encoder(2),
    ),
    "ModernBERT": Family(
        lambda: tf.ModernBertForSequenceClassification(
            tf.ModernBertConfig(
                **{**BERT, "num_hidden_layers": 3},
                global_attn_every_n_layers=2,
                local_attention=4,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
                cls_token_id=1,
                sep_token_id=2,
            )
        ),
        encoder(3),
    ),
    "DeBERTa-v2": Family(
        lambda: tf.DebertaV2ForSequenceClassification(
            tf.DebertaV2Config(
                **BERT,
                relative_attention=True,
                pos_att_type=["p2c", "c2p"],
                position_buckets=4,
                norm_rel_ebd="layer_norm",
                share_att_key=True,
                pooler_hidden_size=24,
            )
        ),
        encoder(2),
        sdpa=False,
    ),
    "GPT-2": Family(lambda: tf.GPT2LMHeadModel(tf.GPT2Config(**GPT2)), decoder(2)),
    "GPT-J": Family(
        lambda: tf.GPTJForCausalLM(tf.GPTJConfig(**GPT2, rotary_dim=4)), decoder(2), sdpa=False
    ),
    "GPT-NeoX": Family(
        lambda: tf.GPTNeoXForCausalLM(
            tf.GPTNeoXConfig(
                **BERT,
                rope_parameters={
                    "rope_type": "default",
                    "partial_rotary_factor": 0.67,
                    "rope_theta": 10000.0,
                },
            )
        ),
        decoder(2),
    ),
    "GPTBigCode": Family(
        lambda: tf.GPTBigCodeForCausalLM(tf.GPTBigCodeConfig(**GPT2, multi_query=True)),
        decoder(2, kv=1),
    ),
    "OPT": Family(
        lambda: tf.OPTForCausalLM(
            tf.OPTConfig(
                vocab_size=VOCAB,
                hidden_size=24,
                num_hidden_layers=2,
                num_attention_heads=4,
                ffn_dim=20,
                max_position_embeddings=20,
                word_embed_proj_dim=10,
            )
        ),
        decoder(2),
    ),
    "MPT": Family(
        lambda: tf.MptForCausalLM(
            tf.MptConfig(vocab_size=VOCAB, d_model=24, n_heads=4, n_layers=2, max_seq_len=20)
        ),
        decoder(2),
        sdpa=False,
    ),
    "Bloom": Family(
        lambda: tf.BloomForCausalLM(
            tf.BloomConfig(vocab_size=VOCAB, hidden_size=24, n_layer=2, n_head=4)
        ),
        decoder(2),
        sdpa=False,
    ),
    "Falcon, multi-head": Family(
        lambda: falcon(multi_query=False, alibi=True, bias=True), decoder(2)
    ),
    "Falcon, multi-query": Family(lambda: falcon(multi_query=True), decoder(2, kv=1)),
    "Falcon, grouped": Family(
        lambda: falcon(new_decoder_architecture=True, num_kv_heads=2), decoder(2, kv=2)
    ),
    "Llama": Family(llama, decoder(2, kv=2)),
    "Mistral": Family(
        lambda: tf.MistralForCausalLM(tf.MistralConfig(**LLAMA, sliding_window=2)),
        decoder(2, kv=2),
    ),
    "Phi-3": Family(
        lambda: tf.Phi3ForCausalLM(tf.Phi3Config(**LLAMA, bos_token_id=1, eos_token_id=2)),
        decoder(2, kv=2),
    ),
    "Qwen3": Family(lambda: tf.Qwen3ForCausalLM(tf.Qwen3Config(**LLAMA)), decoder(2, kv=2)),
    "Qwen3-Next": Family(
        # Gates the heads' outputs, and attends in its second layer only.
        lambda: tf.Qwen3NextForCausalLM(
            tf.Qwen3NextConfig(
                **LLAMA,
                layer_types=["linear_attention", "full_attention"],
                mlp_only_layers=[0, 1],
                linear_num_key_heads=2,
                linear_num_value_heads=2,
                linear_key_head_dim=4,
                linear_value_head_dim=4,
            )
        ),
        self_attention("dec-self", 1, kv=2),
    ),
    "LFM2": Family(
        # Convolutions, and attention in layers 1 and 3.
        lambda: tf.Lfm2ForCausalLM(
            tf.Lfm2Config(
                **{**LLAMA, "num_hidden_layers": 4, "hidden_size": 24},
                layer_types=["conv", "full_attention", "conv", "full_attention"],
            )
        ),
        self_attention("dec-self", 1, 3, kv=2),
    ),
    "Gemma3": Family(
        lambda: tf.Gemma3ForCausalLM(
            tf.Gemma3TextConfig(
                **{**LLAMA, "num_hidden_layers": 3, "num_key_value_heads": 1},
                sliding_window=2,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                query_pre_attn_scalar=6,
            )
        ),
        decoder(3, kv=1),
    ),
    "T5": Family(
        lambda: tf.T5ForConditionalGeneration(
            tf.T5Config(
                vocab_size=VOCAB,
                d_model=20,
                d_kv=6,
                num_layers=2,
                num_decoder_layers=3,
                num_heads=4,
                d_ff=28,
                decoder_start_token_id=0,
            )
        ),
        pair(2, 3, heads=4, dim=6),
    ),
    "BART": Family(
        lambda: tf.BartForConditionalGeneration(tf.BartConfig(vocab_size=VOCAB, **BART)),
        pair(2, 3, heads=3, dim=8),
    ),
    "Marian": Family(
        lambda: tf.MarianMTModel(
            tf.MarianConfig(vocab_size=VOCAB, decoder_vocab_size=VOCAB, **BART)
        ),
        pair(2, 3, heads=3, dim=8),
    ),
    "M2M-100": Family(
        lambda: tf.M2M100ForConditionalGeneration(tf.M2M100Config(vocab_size=VOCAB, **BART)),
        pair(2, 3, heads=3, dim=8),
    ),
    "FSMT": Family(
        lambda: tf.FSMTForConditionalGeneration(
            tf.FSMTConfig(langs=["de", "en"], src_vocab_size=VOCAB, tgt_vocab_size=VOCAB, **BART)
        ),
        pair(2, 3, heads=3, dim=8),
        sdpa=False,
    ),
    "ViT": Family(
        lambda: tf.ViTForImageClassification(
            tf.ViTConfig(
                hidden_size=24,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=20,
                image_size=8,
                patch_size=4,
                num_labels=3,
            )
        ),
        encoder(2),
    ),
}


# -- inputs -------------------------------------------------------------------------------------


def inputs(model: Any, *, padded: bool = False) -> dict[str, Tensor]:
    """Keyword arguments of a forward pass.

    With `padded`, the last `PADDED` tokens of the second example's text are padding.
    """
    generator = torch.Generator().manual_seed(1)
    config = model.config
    if model.main_input_name == "pixel_values":
        shape = (2, config.num_channels, config.image_size, config.image_size)
        dtype = next(model.parameters()).dtype
        return {"pixel_values": torch.randn(shape, generator=generator, dtype=dtype)}
    ids = torch.stack(
        [5 + torch.randperm(VOCAB - 5, generator=generator)[:SOURCE] for _ in range(2)]
    )
    mask = torch.ones_like(ids)
    if padded:
        mask[1, -PADDED:] = 0
        ids[1, -PADDED:] = config.pad_token_id or 0
    arguments = {"input_ids": ids, "attention_mask": mask}
    if config.is_encoder_decoder:
        arguments["decoder_input_ids"] = torch.randint(5, VOCAB, (2, TARGET), generator=generator)
    return arguments


def probe(model: Any) -> Probe:
    """The probe that `discover` wants; ViT sees four patches and its class token."""
    arguments = inputs(model)
    target = TARGET if model.config.is_encoder_decoder else 0
    return Probe(lambda: model(**arguments), batch=2, source=SOURCE, target=target)


class TrueFloat64(TorchFunctionMode):
    """Stop models from computing parts in single precision (norms, softmax) when given doubles.

    Without it, finite differences see rounding.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        is_double = bool(args) and isinstance(args[0], Tensor) and args[0].dtype == torch.float64
        if is_double:
            if func is Tensor.float:
                return args[0]
            args = tuple(torch.float64 if arg is torch.float32 else arg for arg in args)
            kwargs = {
                key: torch.float64 if value is torch.float32 else value
                for key, value in kwargs.items()
            }
        return func(*args, **kwargs)
