"""Every family of models as an adapter, with a loss that needs no labels."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headtool.attention.discovery import discover
from headtool.attention.probing import Probe
from headtool.data import TextData
from headtool.heads import Head, HeadMask
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples, Forward, Queries

from .families import FAMILIES, TrueFloat64, inputs, probe

ROWS = 8


class FamilyModel(ModelAdapter):
    """A model of any family; each example's loss is some function of its outputs."""

    library = "test"

    def __init__(self, name: str, *, dtype: torch.dtype = torch.float32) -> None:
        module = FAMILIES[name].model().to(dtype)
        first = getattr(module.config, "architectures", None)
        task = "classification" if "Classification" in type(module).__name__ else "causal-lm"
        super().__init__(name, task, module, discover(module, probe(module)))
        assert first is None or isinstance(first, list)
        pair = inputs(module)
        self.all_inputs = {
            key: torch.cat([value.roll(shift, dims=-1) for shift in range(ROWS // 2)])
            for key, value in pair.items()
        }

    def encode(self, data: TextData, *, batch_tokens: int = 4096, seed: int = 0) -> Examples:
        rows = tuple({"row": i} for i in range(ROWS))
        return Examples(data, rows, np.full(ROWS, 5), batch_tokens)

    def collate(self, examples: Examples, index: NDArray[np.int64]) -> Batch:
        rows = torch.tensor([examples.rows[i]["row"] for i in index])
        chosen = {key: value[rows] for key, value in self.all_inputs.items()}
        kinds = {}
        for kind in self.sites.kinds:
            target = chosen.get("decoder_input_ids") if kind != "enc-self" else None
            real = torch.ones(len(rows), 5 if target is None else target.shape[1], dtype=torch.bool)
            kinds[kind] = Queries(real, ~real, ~real)
        return Batch(index, chosen, torch.zeros(len(rows)), kinds)

    def forward(self, batch: Batch, *, label_smoothing: float = 0.0) -> Forward:
        with TrueFloat64():
            logits = self.module(**batch.inputs).logits
        weights = torch.randn(logits.shape[1:], generator=torch.Generator().manual_seed(3))
        losses = (logits * weights.to(logits)).flatten(1).mean(dim=1)
        return Forward(losses, {"loss": losses.detach(), "tokens": torch.ones(len(losses))})

    def probe(self, module: nn.Module, **sizes: int) -> Probe:
        return probe(module)


DATA = TextData("none", "text", {"text": ("",)})


def some_masks(model: ModelAdapter) -> list[HeadMask]:
    """Every single head, nothing, everything, and sets that span layers and kinds."""
    heads = model.sites.heads
    sets: list[tuple[Head, ...]] = [*((head,) for head in heads), (), heads]
    sets += [heads[::3], heads[1::4], heads[-2:], (heads[0], heads[-1])]
    return [HeadMask.without(model.sites, chosen) for chosen in sets]
