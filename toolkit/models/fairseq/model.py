"""fairseq translation models: loading, numbering symbols, and the teacher-forced loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.discovery import Probe, discover
from headtool.data import TextData
from headtool.data.textfile import quoted_path, user_path
from headtool.errors import HeadtoolError
from headtool.heads import Kind
from headtool.models.base import (
    Batch,
    Examples,
    Forward,
    ModelAdapter,
    Queries,
    Row,
    token_columns,
)
from headtool.models.fairseq.checkpoint import load_checkpoint
from headtool.models.fairseq.fresh import fresh_fairseq
from headtool.models.fairseq.parts import (
    Segmentation,
    architecture,
    build,
    load_dictionaries,
    load_segmentation,
    recorded_languages,
    recorded_options,
)
from headtool.quiet import silence

__all__ = ["FairseqModel", "load_fairseq", "require_fairseq"]

_MOST_UNKNOWN = 0.5


def load_fairseq(
    source: str,
    *,
    device: torch.device,
    dtype: torch.dtype,
    data: str | None = None,
    bpe: str | None = None,
    trust_checkpoint: bool = False,
    spec: str | None = None,
) -> FairseqModel:
    """Load a transformer translation model that ``fairseq-train`` wrote.

    Parameters
    ----------
    source
        ``fairseq:CHECKPOINT.pt``.
    device, dtype
        Where its weights go, and in which precision.
    data
        Folder of the dictionaries ``dict.LANGUAGE.txt``; by default the checkpoint's folder, then
        the data folders that it records.
    bpe
        ``NAME:FILE`` or ``NAME``, with fairseq's name of the segmentation; by default a
        sentencepiece model in the checkpoint's folder, else ``none``: text is segmented already.
    trust_checkpoint
        Unpickle any class that the checkpoint holds, which can run any code.
    spec
        How the user named the model, where that is not `source`.

    Raises
    ------
    HeadtoolError
        If fairseq is not installed, or the checkpoint, its dictionaries or its segmentation are
        missing, damaged, not trusted or of another kind.
    """
    spec = spec or source
    path = user_path(source.removeprefix("fairseq:"))
    require_fairseq(spec)
    checkpoint = load_checkpoint(path, trust=trust_checkpoint)
    options, weights = recorded_options(checkpoint), checkpoint.get("model")
    if not options or not isinstance(weights, dict):
        raise HeadtoolError(
            f"{quoted_path(path)} holds no fairseq model (weights under 'model', options under "
            "'args' or 'cfg'); name a checkpoint that fairseq-train wrote"
        )
    with silence():
        shape = architecture(options, path)
        languages = recorded_languages(options, path)
        dictionaries = load_dictionaries(languages, path, options, data)
        segmentation = load_segmentation(bpe, path.parent)
        module = build(shape, weights, dictionaries, path)
    module.to(device=device, dtype=dtype)
    return FairseqModel(spec, module, dictionaries, languages, segmentation)


def require_fairseq(spec: str) -> None:
    """Refuse, with the way to install it, where fairseq is missing."""
    try:
        with silence():
            import fairseq.models.transformer  # noqa: F401
    except ModuleNotFoundError as error:
        raise HeadtoolError(
            f"{spec} needs the package {str(error.name).partition('.')[0]}: "
            'install the extra with pip install "headtool[fairseq]"'
        ) from error


class FairseqModel(ModelAdapter):
    """A fairseq transformer with its dictionaries and segmentation.

    Parameters
    ----------
    spec
        See `ModelAdapter`.
    module
        The model; it is put into evaluation mode, and its attention onto the code path that calls
        the output projection as a module.
    dictionaries
        fairseq's source and target dictionary.
    languages
        Source and target language.
    bpe
        How raw text is cut into symbols.
    """

    library = "fairseq"

    def __init__(
        self,
        spec: str,
        module: nn.Module,
        dictionaries: tuple[Any, Any],
        languages: tuple[str, str],
        bpe: Segmentation,
    ) -> None:
        from fairseq.modules import MultiheadAttention

        module.eval()
        for part in module.modules():
            if isinstance(part, MultiheadAttention):
                part.skip_embed_dim_check = True
        self.source_dictionary, self.target_dictionary = dictionaries
        self.languages = languages
        self.bpe = bpe
        super().__init__(spec, "seq2seq", module, discover(module, self.probe(module)))

    def fresh(self, seed: int) -> FairseqModel:
        """Build a transformer from the same recorded options; see `ModelAdapter.fresh`."""
        dictionaries = self.source_dictionary, self.target_dictionary
        module = fresh_fairseq(self.module, dictionaries, self.sites, seed=seed, spec=self.spec)
        return FairseqModel(self.spec, module, dictionaries, self.languages, self.bpe)

    # -- numbering --------------------------------------------------------------------------

    def encode(self, data: TextData, *, batch_tokens: int = 4096, seed: int = 0) -> Examples:
        """Number the symbols of both sides, each ended by end-of-sentence; see `ModelAdapter`."""
        if data.kind != "translation":
            raise HeadtoolError(
                f"{data.spec} is a {data.kind} data set, but {self.spec} is a {self.task} model "
                "and needs two line-aligned files (SRC,REF) or fairseq-bin:DIR/SPLIT"
            )
        if data.languages is not None and data.languages != self.languages:
            raise HeadtoolError(
                f"{data.spec} is {'-'.join(data.languages)}, but {self.spec} translates "
                f"{'-'.join(self.languages)}; name data of this direction"
            )
        sides = ("source", self.source_dictionary), ("target", self.target_dictionary)
        numbered = [
            [self._number(text, dictionary, data.pretokenized) for text in data.columns[column]]
            for column, dictionary in sides
        ]
        self._check_known(data, numbered)
        limits = cast(Any, self.module).max_positions()
        truncated = sum(
            any(len(ids) > limit for ids, limit in zip(pair, limits, strict=True))
            for pair in zip(*numbered, strict=True)
        )
        sources, targets = (
            [ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]] for ids in side]
            for side, limit in zip(numbered, limits, strict=True)
        )
        rows: list[Row] = [
            {"source": source, "target": target}
            for source, target in zip(sources, targets, strict=True)
        ]
        lengths = [max(len(row["source"]), len(row["target"])) for row in rows]
        return Examples(data, tuple(rows), np.asarray(lengths), batch_tokens, truncated)

    def _number(self, text: str, dictionary: Any, segmented: bool) -> list[int]:
        symbols = text.split(" ") if segmented else self.bpe.encode(text.strip()).split()
        return [*(dictionary.index(symbol) for symbol in symbols if symbol), dictionary.eos()]

    def _check_known(self, data: TextData, numbered: Sequence[Sequence[Sequence[int]]]) -> None:
        dictionaries = self.source_dictionary, self.target_dictionary
        symbols = [ids[:-1] for side in numbered for ids in side]
        total = sum(map(len, symbols))
        missing = sum(
            ids.count(dictionary.unk())
            for side, dictionary in zip(numbered, dictionaries, strict=True)
            for ids in map(list, side)
        )
        if missing <= _MOST_UNKNOWN * total:
            return
        share = f"{missing / total:.0%} of the symbols of {data.spec} are unknown to {self.spec}"
        if data.pretokenized:
            raise HeadtoolError(f"{share}; use data that was binarised with its dictionaries")
        raise HeadtoolError(
            f"{share} with `bpe={self.bpe.name}`; name the segmentation that it was trained with, "
            "such as `bpe=sentencepiece:FILE`"
        )

    # -- batches ----------------------------------------------------------------------------

    def collate(self, examples: Examples, index: NDArray[np.int64]) -> Batch:
        """Pad on the right; see `ModelAdapter.collate`."""
        rows = [examples.rows[i] for i in index.tolist()]
        source = _pad([row["source"] for row in rows], self.source_dictionary.pad())
        target = _pad([row["target"] for row in rows], self.target_dictionary.pad())
        # The decoder starts from end-of-sentence, and reads all of the target but its last symbol.
        start = self.target_dictionary.eos()
        previous = _pad(
            [[start, *row["target"][:-1]] for row in rows], self.target_dictionary.pad()
        )
        lengths = torch.tensor([len(row["source"]) for row in rows])
        inputs = {"src_tokens": source, "src_lengths": lengths, "prev_output_tokens": previous}
        decoder = self._queries(previous, self.target_dictionary)
        queries: dict[Kind, Queries] = {
            "enc-self": self._queries(source, self.source_dictionary),
            "dec-self": decoder,
            "cross": decoder,
        }
        moved = {name: tensor.to(self.device) for name, tensor in inputs.items()}
        return Batch(index, moved, target.to(self.device), queries)

    def _queries(self, ids: Tensor, dictionary: Any) -> Queries:
        special = ids < dictionary.nspecial
        parts = ids != dictionary.pad(), ids == dictionary.eos(), special
        return Queries(*(part.to(self.device) for part in parts))

    # -- running ----------------------------------------------------------------------------

    def forward(self, batch: Batch, *, label_smoothing: float = 0.0) -> Forward:
        """Predict every target symbol, end-of-sentence included; see `ModelAdapter.forward`."""
        logits, _ = self.module(**batch.inputs, return_all_hiddens=False)
        scored = batch.targets != self.target_dictionary.pad()
        losses, columns = token_columns(
            logits, batch.targets, scored, label_smoothing=label_smoothing
        )
        return Forward(losses, columns)

    # -- discovery --------------------------------------------------------------------------

    def probe(
        self, module: nn.Module, *, batch: int = 2, source: int = 5, target: int = 3
    ) -> Probe:
        """Rows of ordinary symbols, between the end-of-sentence symbols that belong there."""
        device = next(module.parameters()).device
        end = self.source_dictionary.eos()
        start = self.target_dictionary.eos()
        skips = [row % 2 for row in range(batch)]
        rows = [[*_ordinary(self.source_dictionary, source - 1, skip), end] for skip in skips]
        previous = [[start, *_ordinary(self.target_dictionary, target - 1, skip)] for skip in skips]
        arguments = (
            torch.tensor(rows, device=device),
            torch.full((batch,), source, device=device),
            torch.tensor(previous, device=device),
        )
        return Probe(lambda: module(*arguments), batch=batch, source=source, target=target)

    def source_tokens(self, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Ordinary source symbols, each row ended as a sentence is [B, T], and the lengths [B]."""
        end = self.source_dictionary.eos()
        rows = [
            [*_ordinary(self.source_dictionary, length - 1, row % 2), end] for row in range(batch)
        ]
        return torch.tensor(rows), torch.full((batch,), length)


def _ordinary(dictionary: Any, count: int, skip: int) -> list[int]:
    """Return so many ids of symbols that are not special, different ones where there are."""
    first, size = dictionary.nspecial, len(dictionary) - dictionary.nspecial
    return [first + (skip + i) % size for i in range(count)] if size else [dictionary.unk()] * count


def _pad(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])
