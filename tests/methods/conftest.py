"""A two-head model whose every score has a closed form, and a small BERT with a real tokenizer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from headtool.attention.discovery import Probe, discover
from headtool.data import TextData, load_data
from headtool.methods import get_method
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples, Forward, Queries
from headtool.models.huggingface.model import HuggingFaceModel

WORDS = [f"w{i}" for i in range(20)]


class ToyModule(nn.Module):
    """One layer of two heads of width one with uniform attention.

    Head h puts out the mean over tokens of input feature h; the logit of class 1 is
    ``w_0 c_0 + w_1 c_1`` at the first position, that of class 0 is 0.
    """

    def __init__(self, weights: tuple[float, float]) -> None:
        super().__init__()
        self.output = nn.Linear(2, 1, bias=False)
        with torch.no_grad():
            self.output.weight.copy_(torch.tensor([weights]))

    def forward(self, features: Tensor, real: Tensor) -> Tensor:
        scores = torch.zeros(*real.shape, real.shape[1], dtype=features.dtype)[:, None].repeat(
            1, 2, 1, 1
        )
        scores = scores.masked_fill(~real[:, None, None, :], -torch.inf)
        attention = torch.softmax(scores, dim=-1)
        heads = attention @ features.transpose(1, 2)[..., None]
        contexts = heads.squeeze(-1).transpose(1, 2)
        logit = self.output(contexts)[:, 0, 0]
        return torch.stack([torch.zeros_like(logit), logit], dim=1)


class ToyModel(ModelAdapter):
    """Adapter of `ToyModule`; a text such as ``1:0 2:-1`` is two tokens of two features."""

    library = "toy"

    def __init__(self, weights: tuple[float, float]) -> None:
        module = ToyModule(weights).double().eval()
        handles = discover(module, self.probe(module, batch=2, source=3))
        super().__init__("toy", "classification", module, handles, ("no", "yes"))

    def probe(
        self, module: nn.Module, *, batch: int = 2, source: int = 5, target: int = 3
    ) -> Probe:
        features = torch.randn(
            batch, source, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
        )
        real = torch.ones(batch, source, dtype=torch.bool)
        return Probe(lambda: module(features, real), batch=batch, source=source)

    def encode(self, data: TextData, *, batch_tokens: int = 4096, seed: int = 0) -> Examples:
        def features(text: str) -> list[list[float]]:
            return [[float(x) for x in token.split(":")] for token in text.split()]

        rows = tuple(
            {"features": features(text), "target": int(label)}
            for text, label in zip(data.columns["text_a"], data.columns["label"], strict=True)
        )
        if "corrupted" in data.columns:
            others = [{"features": features(text)} for text in data.columns["corrupted"]]
            rows = tuple(
                {**row, "corrupted": other} for row, other in zip(rows, others, strict=True)
            )
        lengths = np.array([len(row["features"]) for row in rows])
        return Examples(data, rows, lengths, batch_tokens)

    def collate(self, examples: Examples, index: np.ndarray) -> Batch:
        rows = [examples.rows[i] for i in index]
        width = max(len(row["features"]) for row in rows)
        features = torch.zeros(len(rows), width, 2, dtype=torch.float64)
        real = torch.zeros(len(rows), width, dtype=torch.bool)
        for i, row in enumerate(rows):
            features[i, : len(row["features"])] = torch.tensor(row["features"], dtype=torch.float64)
            real[i, : len(row["features"])] = True
        queries = Queries(real, torch.zeros_like(real), torch.zeros_like(real))
        return Batch(
            index,
            {"features": features, "real": real},
            torch.tensor([row["target"] for row in rows]),
            {"enc-self": queries},
        )

    def forward(self, batch: Batch, *, label_smoothing: float = 0.0) -> Forward:
        logits = self.module(**batch.inputs)
        losses = nn.functional.cross_entropy(
            logits, batch.targets, reduction="none", label_smoothing=label_smoothing
        )
        plain = nn.functional.cross_entropy(logits, batch.targets, reduction="none")
        return Forward(
            losses,
            {
                "loss": plain.detach(),
                "tokens": torch.ones_like(plain),
                "prediction": logits.argmax(dim=1),
                "gold": batch.targets,
            },
        )


@pytest.fixture
def toy() -> Callable[[tuple[float, float]], ToyModel]:
    """Build the two-head model from its output weights."""
    return ToyModel


@pytest.fixture
def toy_data() -> TextData:
    """Twelve examples of two to four tokens; feature 0 tells the label, feature 1 does not."""
    rng = np.random.default_rng(5)
    labels = np.arange(12) % 2
    texts = []
    for label in labels:
        center = np.array([2.0 * label - 1.0, 0.3])
        tokens = rng.normal(center, size=(rng.integers(2, 5), 2))
        texts.append(" ".join(":".join(f"{x:.3f}" for x in token) for token in tokens))
    return TextData(
        "toy.tsv",
        "classification",
        {"text_a": tuple(texts), "label": tuple(str(label) for label in labels)},
    )


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """Word-level tokenizer with BERT's special tokens."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: i for i, word in enumerate(specials + WORDS)}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=32,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


@pytest.fixture
def bert(tokenizer: PreTrainedTokenizerFast) -> HuggingFaceModel:
    """A random BERT classifier in double precision: 2 layers x 4 heads, 3 labels."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=25,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=20,
        max_position_embeddings=32,
        num_labels=3,
        initializer_range=0.3,
    )
    module = BertForSequenceClassification(config).double()
    return HuggingFaceModel("tiny-bert", "classification", module, tokenizer)


@pytest.fixture
def pairs() -> TextData:
    """Seventeen labelled pairs of texts of different lengths."""
    rng = np.random.default_rng(1)

    def text() -> str:
        return " ".join(rng.choice(WORDS, size=rng.integers(1, 9)))

    rows = [(text(), text(), str(rng.integers(3))) for _ in range(17)]
    columns = dict(zip(("text_a", "text_b", "label"), zip(*rows, strict=True), strict=True))
    return TextData("pairs.tsv", "classification", columns)


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> HuggingFaceModel:
    """A model that the method of a test, its parameter `name`, is for."""
    if not get_method(request.getfixturevalue("name")).tasks:
        return request.getfixturevalue("bert")
    model = load_model("builtin:planted", device="cpu")
    model.module.double()
    return model


@pytest.fixture
def texts(request: pytest.FixtureRequest, subject: HuggingFaceModel) -> TextData:
    """Data for that model."""
    if subject.task == "classification":
        return request.getfixturevalue("pairs")
    return load_data("builtin:planted", limit=17)
