"""Tiny models that classify sound, and sounds that they can learn to tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers as tf

_SIZE: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "id2label": {0: "low", 1: "high"},
}
_WAVES: dict[str, Any] = {
    **_SIZE,
    "conv_dim": (8, 8),
    "conv_kernel": (8, 4),
    "conv_stride": (4, 2),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "classifier_proj_size": 16,
    "vocab_size": 20,
}
_SPECTRA = {"max_length": 32, "num_mel_bins": 16, "patch_size": 8}
_STRIDES = {"time_stride": 6, "frequency_stride": 8}
_WHISPER: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 20,
    "decoder_layers": 1,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 20,
    "vocab_size": 50,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "num_mel_bins": 8,
    "max_source_positions": 16,
    "decoder_start_token_id": 1,
    "id2label": _SIZE["id2label"],
}

LISTENERS = {
    "Wav2Vec2": lambda: tf.Wav2Vec2ForSequenceClassification(tf.Wav2Vec2Config(**_WAVES)),
    "Wav2Vec2 with layer norms": lambda: tf.Wav2Vec2ForSequenceClassification(
        tf.Wav2Vec2Config(**_WAVES, feat_extract_norm="layer", do_stable_layer_norm=True)
    ),
    "HuBERT": lambda: tf.HubertForSequenceClassification(tf.HubertConfig(**_WAVES)),
    "AST": lambda: tf.ASTForAudioClassification(tf.ASTConfig(**_SIZE, **_SPECTRA, **_STRIDES)),
    "Whisper": lambda: tf.WhisperForAudioClassification(tf.WhisperConfig(**_WHISPER)),
}
_SHAPES = {"AST": (32, 16), "Whisper": (8, 32)}


def tones(name: str, count: int = 12, *, one_length: bool = False) -> list[dict[str, Any]]:
    """Noise with a low or a high tone in it, as a model's input; waves of several lengths."""
    rng = np.random.default_rng(3)
    rows = []
    for number in range(count):
        shape = _SHAPES.get(name, (200 if one_length else 150 + 25 * (number % 3),))
        steps = np.arange(int(np.prod(shape)))
        tone = np.sin(steps * (0.2, 0.9)[number % 2] + rng.uniform(0, 6))
        array = (tone + 0.3 * rng.standard_normal(len(steps))).reshape(shape)
        key = "input_features" if name == "Whisper" else "input_values"
        rows.append({key: array.astype(np.float32), "labels": number % 2})
    return rows


def listener(name: str) -> Any:
    """Train a model for a second, until it can tell most tones apart and is not yet sure of it."""
    torch.manual_seed(0)
    model: Any = LISTENERS[name]().train()
    rows = tones(name, 32, one_length=True)
    key = model.main_input_name
    inputs = torch.tensor(np.stack([row[key] for row in rows]))
    labels = torch.tensor([row["labels"] for row in rows])
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(60):
        optimiser.zero_grad()
        loss = model(**{key: inputs}, labels=labels).loss
        if loss < 0.4:
            break
        loss.backward()
        optimiser.step()
    return model.eval()
