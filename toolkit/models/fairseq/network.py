"""fairseq translation models as networks: numbering symbols, batches, the teacher-forced loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.discovery import Probe, discover
from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.heads import Kind
from headtool.models.base import ModelAdapter
from headtool.models.batching import padded
from headtool.models.examples import Batch, Examples, Forward, Queries, token_columns
from headtool.models.fairseq.segmentation import Segmentation
from headtool.models.linear_head import TokenScorer

__all__ = [
    "FairseqNetwork",
    "bypass_fused_attention",
    "check_known",
    "number_symbols",
    "ordinary",
]

_MOST_UNKNOWN = 0.5


class FairseqNetwork(ModelAdapter):
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
        module.eval()
        bypass_fused_attention(module)
        self.source_dictionary, self.target_dictionary = dictionaries
        self.languages = languages
        self.bpe = bpe
        super().__init__(spec, "seq2seq", module, discover(module, self.probe(module)))
        self.scorer = TokenScorer(module)

    @property
    def dictionaries(self) -> tuple[Any, Any]:
        """The dictionaries of source and target."""
        return self.source_dictionary, self.target_dictionary

    @property
    def max_length(self) -> int:
        """Most symbols of a side, the smaller of the two limits."""
        return int(min(cast(Any, self.module).max_positions()))

    # -- numbering --------------------------------------------------------------------------

    def encode(self, data: TextData, *, batch_tokens: int = 4096, seed: int = 0) -> Examples:
        """Number the symbols of both sides, each ended by end-of-sentence; see `ModelAdapter`."""
        if data.kind != "translation":
            raise HeadtoolError(
                f"{data.spec} holds data of the kind {data.kind}, but {self.spec} "
                f"is a {self.task} model "
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
        sides_numbered = zip(numbered, self.dictionaries, strict=True)
        check_known(self.spec, data, self.bpe, list(sides_numbered))
        limits = cast(Any, self.module).max_positions()
        truncated = sum(
            any(len(ids) > limit for ids, limit in zip(pair, limits, strict=True))
            for pair in zip(*numbered, strict=True)
        )
        sources, targets = (
            [ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]] for ids in side]
            for side, limit in zip(numbered, limits, strict=True)
        )
        rows: list[dict[str, Any]] = [
            {"source": source, "target": target}
            for source, target in zip(sources, targets, strict=True)
        ]
        for row, text in zip(rows, data.columns.get("corrupted", [None] * len(rows)), strict=True):
            if text is not None:
                ids = self._number(text, self.source_dictionary, data.pretokenized)
                cut = ids if len(ids) <= limits[0] else [*ids[: limits[0] - 1], ids[-1]]
                row["corrupted"] = {"source": cut}
        lengths = [max(len(row["source"]), len(row["target"])) for row in rows]
        return Examples(data, tuple(rows), np.asarray(lengths), batch_tokens, truncated)

    def _number(self, text: str, dictionary: Any, segmented: bool) -> list[int]:
        symbols = number_symbols(text, dictionary, self.bpe, segmented=segmented)
        return [*symbols, dictionary.eos()]

    # -- batches ----------------------------------------------------------------------------

    def collate(self, examples: Examples, index: NDArray[np.int64]) -> Batch:
        """Pad on the right; see `ModelAdapter.collate`."""
        rows = [examples.rows[i] for i in index.tolist()]
        source = padded([row["source"] for row in rows], self.source_dictionary.pad())
        target = padded([row["target"] for row in rows], self.target_dictionary.pad())
        # The decoder starts from end-of-sentence, and reads all of the target but its last symbol.
        start = self.target_dictionary.eos()
        previous = padded(
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
        return Forward(losses, columns, logits, scored)

    def outcome(self, batch: Batch) -> Forward:
        """Compute the logits of target symbols alone; see `ModelAdapter.outcome`."""
        scored = batch.targets != self.target_dictionary.pad()
        losses, columns = self.scorer(
            lambda: self.module(**batch.inputs, return_all_hiddens=False)[0], batch.targets, scored
        )
        return Forward(losses, columns, None, scored)

    # -- discovery --------------------------------------------------------------------------

    def probe(
        self, module: nn.Module, *, batch: int = 2, source: int = 5, target: int = 3
    ) -> Probe:
        """Rows of ordinary symbols, between the end-of-sentence symbols that belong there."""
        device = next(module.parameters()).device
        end = self.source_dictionary.eos()
        start = self.target_dictionary.eos()
        skips = [row % 2 for row in range(batch)]
        rows = [[*ordinary(self.source_dictionary, source - 1, skip), end] for skip in skips]
        previous = [[start, *ordinary(self.target_dictionary, target - 1, skip)] for skip in skips]
        arguments = (
            torch.tensor(rows, device=device),
            torch.full((batch,), source, device=device),
            torch.tensor(previous, device=device),
        )
        return Probe(lambda: module(*arguments), batch=batch, source=source, target=target)

    def source_tokens(self, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Make up rows of ordinary source symbols, each ended as a sentence is.

        Parameters
        ----------
        batch
            Rows, B.
        length
            Symbols of each row, T.

        Returns
        -------
        tokens, lengths
            Shapes [B, T] and [B].
        """
        end = self.source_dictionary.eos()
        rows = [
            [*ordinary(self.source_dictionary, length - 1, row % 2), end] for row in range(batch)
        ]
        return torch.tensor(rows), torch.full((batch,), length)


def bypass_fused_attention(module: nn.Module) -> None:
    """Put attention onto the code path that calls its output projection as a module.

    Parameters
    ----------
    module
        The model, which is changed.
    """
    from fairseq.modules import MultiheadAttention

    for part in module.modules():
        if isinstance(part, MultiheadAttention):
            part.skip_embed_dim_check = True


def number_symbols(text: str, dictionary: Any, bpe: Segmentation, *, segmented: bool) -> list[int]:
    """Number the symbols of a text, without any around it.

    Parameters
    ----------
    text
        The text.
    dictionary
        fairseq's dictionary.
    bpe
        How raw text is cut into symbols.
    segmented
        Whether it is cut already.
    """
    symbols = text.split(" ") if segmented else bpe.encode(text.strip()).split()
    return [int(dictionary.index(symbol)) for symbol in symbols if symbol]


def check_known(
    spec: str,
    data: TextData,
    bpe: Segmentation,
    numbered: Sequence[tuple[Sequence[Sequence[int]], Any]],
) -> None:
    """Refuse data of which the model does not know most symbols.

    Parameters
    ----------
    spec
        What to call the model in messages.
    data
        The data set.
    bpe
        How it was cut into symbols.
    numbered
        Numbers of all texts, and the dictionary that they are of; the end of a sentence is no
        symbol.

    Raises
    ------
    HeadtoolError
        If more than half of the symbols are unknown.
    """
    total = missing = 0
    for texts, dictionary in numbered:
        for ids in map(list, texts):
            total += len(ids) - ids.count(dictionary.eos())
            missing += ids.count(dictionary.unk())
    if missing <= _MOST_UNKNOWN * total:
        return
    share = f"{missing / total:.0%} of the symbols of {data.spec} are unknown to {spec}"
    if data.pretokenized:
        raise HeadtoolError(f"{share}; use data that was binarised with its dictionaries")
    raise HeadtoolError(
        f"{share} with `bpe={bpe.name}`; name the segmentation that it was trained with, "
        "such as `bpe=sentencepiece:FILE`"
    )


def ordinary(dictionary: Any, count: int, skip: int) -> list[int]:
    """Return ids of symbols that are not special, different ones where there are.

    Parameters
    ----------
    dictionary
        fairseq's dictionary.
    count
        How many.
    skip
        How many to leave out at the beginning.
    """
    first, size = dictionary.nspecial, len(dictionary) - dictionary.nspecial
    return [first + (skip + i) % size for i in range(count)] if size else [dictionary.unk()] * count
