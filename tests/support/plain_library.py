"""A third model library, all in one file: plain torch classifiers of words."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.discovery import discover
from headtool.attention.probing import Probe
from headtool.data import TextData
from headtool.models.base import ModelAdapter
from headtool.models.batching import padded
from headtool.models.examples import Batch, Examples, Forward, Queries
from headtool.surgery.history import History, record_history
from headtool.surgery.plan import carry_out
from headtool.surgery.record import read_plans

HEADS, WIDTH = 4, 4
WORDS = ("<pad>", "<end>", *(f"w{i}" for i in range(12)))
LABELS = ("no", "yes")


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        size = HEADS * WIDTH
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
        self.out = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        def heads(projection: nn.Module) -> Tensor:
            return projection(hidden).unflatten(-1, (-1, WIDTH)).transpose(1, 2)

        scores = heads(self.query) @ heads(self.key).transpose(-1, -2) / WIDTH**0.5
        attention = scores.masked_fill(~real[:, None, None, :], -torch.inf).softmax(dim=-1)
        mixed = (attention @ heads(self.value)).transpose(1, 2).flatten(2)
        return self.norm(hidden + self.out(mixed))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS), HEADS * WIDTH)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.classes = nn.Linear(HEADS * WIDTH, len(LABELS))

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        hidden = self.words(ids)
        for layer in self.layers:
            hidden = layer(hidden, real)
        return self.classes(hidden[:, 0])


class PlainModel(ModelAdapter):
    """A folder with weights."""

    library = "plain"

    def __init__(self, spec: str, module: nn.Module) -> None:
        handles = discover(module.eval(), self.probe(module))
        super().__init__(spec, "classification", module, handles, LABELS)

    @classmethod
    def load(cls, source: str, *, spec: str, device: torch.device, dtype: torch.dtype) -> Self:
        network = Network()
        network.load_state_dict(torch.load(Path(source) / "weights.pt", weights_only=True))
        return cls(spec, network.to(device, dtype))

    @classmethod
    def load_pruned(
        cls, folder: Path, record: Mapping[str, Any], *, device: torch.device, dtype: torch.dtype
    ) -> Self:
        network = Network()
        for plan in read_plans(record["history"], str(folder)):
            carry_out(plan, network)
        network.load_state_dict(torch.load(folder / "weights.pt", weights_only=True))
        record_history(network, History(**record["history"]))
        return cls(str(folder), network.to(device, dtype))

    def with_module(self, module: nn.Module) -> Self:
        return type(self)(self.spec, module)

    def save(self, folder: Path) -> Mapping[str, Any]:
        torch.save(self.module.state_dict(), folder / "weights.pt")
        return {"words": json.dumps(WORDS)}

    def fresh(self, seed: int) -> Self:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            module = copy.deepcopy(self.module)
            for part in module.modules():
                if isinstance(part, nn.Linear | nn.Embedding | nn.LayerNorm):
                    part.reset_parameters()
        return self.with_module(module)

    def encode(self, data: TextData, *, batch_tokens: int = 4096, seed: int = 0) -> Examples:
        texts, labels = data.columns["text_a"], data.columns["label"]
        rows = tuple(
            {"ids": [*map(WORDS.index, text.split()), 1], "label": LABELS.index(label)}
            for text, label in zip(texts, labels, strict=True)
        )
        return Examples(data, rows, np.array([len(row["ids"]) for row in rows]), batch_tokens)

    def collate(self, examples: Examples, index: NDArray[np.int64]) -> Batch:
        rows = [examples.rows[i] for i in index.tolist()]
        ids = padded([row["ids"] for row in rows], 0).to(self.device)
        real, end = ids != 0, ids == 1
        gold = torch.tensor([row["label"] for row in rows], device=self.device)
        queries = {"enc-self": Queries(real, end, end)}
        return Batch(index, {"ids": ids, "real": real}, gold, queries)

    def forward(self, batch: Batch, *, label_smoothing: float = 0.0) -> Forward:
        logits = self.module(**batch.inputs)

        def losses(smoothing: float) -> Tensor:
            return nn.functional.cross_entropy(
                logits, batch.targets, reduction="none", label_smoothing=smoothing
            )

        columns = {
            "loss": losses(0.0).detach(),
            "tokens": torch.ones(len(batch)),
            "prediction": logits.argmax(dim=-1),
            "gold": batch.targets,
        }
        return Forward(losses(label_smoothing), columns)

    def probe(
        self, module: nn.Module, *, batch: int = 2, source: int = 5, target: int = 3
    ) -> Probe:
        ids = 2 + torch.arange(batch * source).reshape(batch, source) % (len(WORDS) - 2)
        ids = ids.to(next(module.parameters()).device)
        return Probe(lambda: module(ids, ids != 0), batch=batch, source=source)
