"""fairseq language models, with what headtool does with a model."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from headtool.models.fairseq.loading import LoadedText, load_pruned_parts
from headtool.models.fairseq.saving import WEIGHTS, save_bpe, write_checkpoint
from headtool.models.fairseq.text_network import FairseqTextNetwork
from headtool.models.fairseq.text_parts import build_text
from headtool.models.fairseq.text_pieces import FairseqTextPieces
from headtool.models.fresh import build_fresh
from headtool.quiet import silence
from headtool.surgery.history import History, record_history
from headtool.surgery.plan import Plan, carry_out

__all__ = ["FairseqTextModel"]

_TASKS = {
    "causal-lm": "language_modeling",
    "masked-lm": "masked_lm",
    "classification": "sentence_prediction",
    "regression": "sentence_prediction",
}


class FairseqTextModel(FairseqTextNetwork):
    """A language model or classifier of fairseq; see `ModelAdapter` and `FairseqTextNetwork`."""

    @classmethod
    def of(cls, loaded: LoadedText, *, spec: str, device: torch.device, dtype: torch.dtype) -> Self:
        """Put a loaded model onto its device.

        Parameters
        ----------
        loaded
            What it consists of.
        spec
            How the user named it.
        device, dtype
            Where its weights go, and in which precision.
        """
        module = loaded.module.to(device=device, dtype=dtype)
        return cls(spec, module, loaded.design, loaded.dictionary, loaded.bpe, loaded.labels)

    @classmethod
    def load_pruned(
        cls, folder: Path, record: Mapping[str, Any], *, device: torch.device, dtype: torch.dtype
    ) -> Self:
        """Build the whole model and carry out the recorded plans; see `ModelAdapter`."""
        loaded = load_pruned_parts(folder, record)
        assert isinstance(loaded, LoadedText)
        return cls.of(loaded, spec=str(folder), device=device, dtype=dtype)

    def with_module(self, module: nn.Module) -> Self:
        """Keep design, dictionary, segmentation and labels; see `ModelAdapter.with_module`."""
        return type(self)(self.spec, module, self.design, self.dictionary, self.bpe, self.labels)

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write weights, dictionaries and segmentation; see `ModelAdapter.save`."""
        from safetensors.torch import save_file

        # Weights that are shared must not share memory in the file.
        state = {key: value.clone() for key, value in self.module.state_dict().items()}
        save_file(state, folder / WEIGHTS)
        self._save_dictionaries(folder)
        return {"design": self.design.record(), "bpe": save_bpe(self.bpe, folder)}

    def save_baked(self, folder: Path, *, final: Path) -> None:
        """Write a checkpoint that fairseq loads; see `ModelAdapter.save_baked`."""
        options: dict[str, Any] = {"task": _TASKS[self.task], "data": str(final.resolve())}
        if self.design.head:
            options |= {
                "classification_head_name": self.design.head,
                "num_classes": self.design.classes,
                "regression_target": self.task == "regression",
            }
        arguments = Namespace(arch=self.design.family, **dict(self.design.architecture) | options)
        write_checkpoint(self.module, arguments, folder)
        self._save_dictionaries(folder)
        save_bpe(self.bpe, folder)

    def _save_dictionaries(self, folder: Path) -> None:
        self.dictionary.save(str(folder / "dict.txt"))
        if self.task == "classification":
            from fairseq.data import Dictionary

            (folder / "label").mkdir()
            classes = Dictionary()
            for label in self.labels:
                classes.add_symbol(label)
            classes.save(str(folder / "label" / "dict.txt"))

    def pieces(self) -> FairseqTextPieces:
        """Know the symbols of the dictionary; see `ModelAdapter.pieces`."""
        return FairseqTextPieces(self)

    def fresh(self, seed: int) -> Self:
        """Build a model of the same design; see `ModelAdapter.fresh`."""
        history = History.of(self.module, self.sites)

        def build() -> nn.Module:
            with silence():
                built = build_text(self.design, self.dictionary)
            for step in history.steps:
                carry_out(Plan.from_json(step), built)
            if history.steps:
                record_history(built, history)
            return built

        return self.with_module(build_fresh(self.module, build, seed=seed, spec=self.spec))
