"""Every method on other models than classifiers: shared keys and values, and translation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from headtool.data import TextData
from headtool.methods import BUILTIN, get_method
from headtool.models import load_model
from headtool.models.huggingface.model import HuggingFaceModel

from .conftest import WORDS

QUICK = {
    "dsp": {"steps": 3, "batch_size": 2},
    "gates": {"steps": 3, "batch_size": 2, "init": "released"},
    "shapley": {"permutations": 4},
}


@pytest.fixture
def llama(tokenizer) -> HuggingFaceModel:
    """A random language model: 2 layers of 4 query heads with 2 key/value heads."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=25,
        hidden_size=20,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=6,
        intermediate_size=28,
        max_position_embeddings=12,
        pad_token_id=0,
        initializer_range=0.3,
    )
    return HuggingFaceModel("tiny-llama", "causal-lm", LlamaForCausalLM(config), tokenizer)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(BUILTIN) - {"retrieval"}))  # it needs longer texts
def test_query_heads_that_share_keys_and_values_are_scored_one_by_one(
    name: str, llama: HuggingFaceModel
) -> None:
    text = " ".join(np.random.default_rng(0).choice(WORDS, size=60))
    examples = llama.encode(TextData("book.txt", "text", {"text": (text,)}))
    assert len(examples) > 3
    frame = get_method(name)(**QUICK.get(name, {})).score(llama, examples).frame
    assert frame["kind"].tolist() == ["dec-self"] * 8
    assert np.isfinite(frame["score"]).all()
    assert frame["score"].nunique() == 8


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(BUILTIN) - {"retrieval"}))
def test_translation_models_of_fairseq_have_three_kinds(name: str, save_fairseq) -> None:
    model = load_model(f"fairseq:{save_fairseq()}")
    data = TextData(
        "t",
        "translation",
        {"source": ("a b c", "b a", "c d e f", "a"), "target": ("c d", "a b", "f e", "b b a")},
    )
    method = get_method(name)(**QUICK.get(name, {}))
    whole = method.score(model, model.encode(data)).frame
    assert whole["kind"].value_counts().to_dict() == {"enc-self": 8, "dec-self": 8, "cross": 8}
    assert np.isfinite(whole["score"]).all()
    some = method.score(model, model.encode(data), kinds=["cross"]).frame
    assert some["kind"].tolist() == ["cross"] * 8
    if name not in ("dsp", "gates", "random", "shapley"):  # there the other heads take part
        np.testing.assert_allclose(
            some["score"], whole.loc[whole["kind"] == "cross", "score"], rtol=1e-6
        )
