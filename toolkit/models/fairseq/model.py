"""fairseq translation models, with all that headtool does with a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import nn

from headtool.data.textfile import user_path
from headtool.models.examples import Examples
from headtool.models.fairseq.checkpoint import check_file
from headtool.models.fairseq.fresh import fresh_fairseq
from headtool.models.fairseq.generation import FairseqGenerator, fixed_length
from headtool.models.fairseq.loading import Loaded, LoadedText, load_parts, load_pruned_parts
from headtool.models.fairseq.network import FairseqNetwork
from headtool.models.fairseq.pieces import FairseqPieces
from headtool.models.fairseq.references import references
from headtool.models.fairseq.saving import CHECKPOINT, save_fairseq, save_fairseq_checkpoint
from headtool.models.fairseq.text_model import FairseqTextModel
from headtool.searching import Search

__all__ = ["FairseqModel"]


class FairseqModel(FairseqNetwork):
    """A fairseq transformer; see `ModelAdapter` and `FairseqNetwork`."""

    load_options = ("fairseq_data", "bpe", "trust_checkpoint")

    @classmethod
    def check(cls, source: str, *, spec: str) -> None:
        """Refuse a checkpoint that does not exist; see `ModelAdapter.check`."""
        check_file(_checkpoint(source))

    @classmethod
    def load(
        cls,
        source: str,
        *,
        spec: str | None = None,
        device: torch.device,
        dtype: torch.dtype,
        fairseq_data: str | None = None,
        bpe: str | None = None,
        trust_checkpoint: bool = False,
    ) -> Self:
        """Load a model that ``fairseq-train`` wrote: a translation or language model, or RoBERTa.

        Parameters
        ----------
        source
            The checkpoint, or the folder that ``headtool prune --bake`` wrote.
        spec
            How the user named the model; by default ``fairseq:SOURCE``.
        device, dtype
            Where its weights go, and in which precision.
        fairseq_data
            Folder of the dictionaries ``dict.LANGUAGE.txt`` (``dict.txt`` of language models, and
            ``label/dict.txt`` of classifiers); by default the checkpoint's folder, then the data
            folders that it records.
        bpe
            ``NAME:FILE`` or ``NAME``, with fairseq's name of the segmentation; by default a
            sentencepiece model in the checkpoint's folder, else GPT-2's ``encoder.json`` and
            ``vocab.bpe`` there (``gpt2:DIR`` names another folder), else ``none``: text is
            segmented already.
        trust_checkpoint
            Unpickle any class that the checkpoint holds, which can run any code.

        Raises
        ------
        HeadtoolError
            If fairseq is not installed, or the checkpoint, its dictionaries or its segmentation are
            missing, damaged, not trusted or of another kind.
        """
        spec = spec or f"fairseq:{source}"
        loaded = load_parts(
            _checkpoint(source),
            spec=spec,
            data=fairseq_data,
            bpe=bpe,
            trust_checkpoint=trust_checkpoint,
        )
        return cls._of(loaded, spec=spec, device=device, dtype=dtype)

    @classmethod
    def load_pruned(
        cls, folder: Path, record: Mapping[str, Any], *, device: torch.device, dtype: torch.dtype
    ) -> Self:
        """Build the whole model and carry out the recorded plans; see `ModelAdapter`."""
        loaded = load_pruned_parts(folder, record)
        return cls._of(loaded, spec=str(folder), device=device, dtype=dtype)

    @classmethod
    def _of(
        cls, loaded: Loaded | LoadedText, *, spec: str, device: torch.device, dtype: torch.dtype
    ) -> Self:
        """Put a loaded model onto its device; a language model has a class of its own."""
        if isinstance(loaded, LoadedText):
            return cast("Self", FairseqTextModel.of(loaded, spec=spec, device=device, dtype=dtype))
        module = loaded.module.to(device=device, dtype=dtype)
        return cls(spec, module, loaded.dictionaries, loaded.languages, loaded.bpe)

    def with_module(self, module: nn.Module) -> Self:
        """Keep dictionaries, languages and segmentation; see `ModelAdapter.with_module`."""
        return type(self)(self.spec, module, self.dictionaries, self.languages, self.bpe)

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write weights, dictionaries and segmentation; see `ModelAdapter.save`."""
        return save_fairseq(self, folder)

    def save_baked(self, folder: Path, *, final: Path) -> None:
        """Write a checkpoint that fairseq loads; see `ModelAdapter.save_baked`."""
        save_fairseq_checkpoint(self, folder, final)

    def references(self, examples: Examples) -> tuple[str, ...]:
        """Reference translations, put together again where they are symbols."""
        return references(self, examples)

    def generator(self, search: Search) -> FairseqGenerator:
        """Decode as ``fairseq-generate`` does; see `ModelAdapter.generator`."""
        return FairseqGenerator(self, search)

    def pieces(self) -> FairseqPieces:
        """Know the symbols of the dictionaries; see `ModelAdapter.pieces`."""
        return FairseqPieces(self)

    def fresh(self, seed: int) -> Self:
        """Build a transformer from the same recorded options; see `ModelAdapter.fresh`."""
        return self.with_module(
            fresh_fairseq(self.module, self.dictionaries, self.sites, seed=seed, spec=self.spec)
        )

    def decoding(self, *, batch: int, length: int, beam: int) -> Callable[[], object]:
        """Let fairseq's own beam search run its full length; see `ModelAdapter.decoding`."""
        return fixed_length(self, batch=batch, length=length, beam=beam)


def _checkpoint(source: str) -> Path:
    """Find the checkpoint of a baked model in its folder."""
    path = user_path(source)
    baked = path / CHECKPOINT
    return baked if os.path.isfile(baked) else path
