"""A random causal language model of twenty words, in double precision."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from headtool.models.huggingface.model import HuggingFaceModel

WORDS = tuple(f"w{i}" for i in range(20))


def words_tokenizer(*, start: bool = True, longest: int = 32) -> PreTrainedTokenizerFast:
    """A word is a token; with `start`, texts begin with a special one."""
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<unk>", "<s>", "</s>", *WORDS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if start:
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 2)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        model_max_length=longest,
    )


def language_model(
    *, start: bool = True, longest: int = 32, dtype: torch.dtype = torch.float64
) -> HuggingFaceModel:
    """Two layers of four heads whose weights are large enough for heads to matter."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=24,
        hidden_size=16,
        intermediate_size=20,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=longest,
        initializer_range=0.5,
    )
    module = LlamaForCausalLM(config).to(dtype)
    tokenizer = words_tokenizer(start=start, longest=longest)
    return HuggingFaceModel("words-llama", "causal-lm", module, tokenizer)
