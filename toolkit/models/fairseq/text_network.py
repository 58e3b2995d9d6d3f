"""fairseq language models as networks: blocks of symbols, batches, and the loss of each task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.discovery import Probe, discover
from headtool.data import TextData, match_labels, regression_targets
from headtool.errors import HeadtoolError
from headtool.heads import Kind
from headtool.models.base import ModelAdapter
from headtool.models.batching import padded
from headtool.models.blocks import BLOCK_TOKENS, mask_block
from headtool.models.examples import (
    Batch,
    Examples,
    Forward,
    Queries,
    Row,
    class_columns,
    token_columns,
)
from headtool.models.fairseq.network import (
    bypass_fused_attention,
    check_known,
    number_symbols,
    ordinary,
)
from headtool.models.fairseq.segmentation import Segmentation
from headtool.models.fairseq.text_parts import Design
from headtool.models.linear_head import TokenScorer

__all__ = ["UNSCORED", "FairseqTextNetwork"]

UNSCORED = -100
"""Target at positions that are not predicted."""


class FairseqTextNetwork(ModelAdapter):
    """A language model of fairseq with its dictionary and segmentation.

    Parameters
    ----------
    spec
        See `ModelAdapter`.
    module
        The model; it is put into evaluation mode, and its attention onto the code path that calls
        the output projection as a module.
    design
        How it was built.
    dictionary
        fairseq's dictionary.
    bpe
        How raw text is cut into symbols.
    labels
        Names of the classes of a classifier.
    """

    library = "fairseq"

    def __init__(
        self,
        spec: str,
        module: nn.Module,
        design: Design,
        dictionary: Any,
        bpe: Segmentation,
        labels: Sequence[str] = (),
    ) -> None:
        module.eval()
        bypass_fused_attention(module)
        self.design = design
        self.dictionary = dictionary
        self.bpe = bpe
        handles = discover(module, self.probe(module))
        super().__init__(spec, design.task, module, handles, labels)
        self.scorer = TokenScorer(module)

    @property
    def max_length(self) -> int:
        """Most symbols that the model reads."""
        return int(cast(Any, self.module).max_positions())

    @property
    def start(self) -> int:
        """The symbol that comes before a text."""
        if self.design.family == "roberta" or self.design.architecture.get("add_bos_token"):
            return int(self.dictionary.bos())
        return int(self.dictionary.eos())

    # -- numbering --------------------------------------------------------------------------

    def encode(self, data: TextData, *, batch_tokens: int = 4096, seed: int = 0) -> Examples:
        """Number symbols for the model's task; see `ModelAdapter.encode`."""
        labelled = self.task in ("classification", "regression")
        if data.kind != ("classification" if labelled else "text"):
            wanted = (
                "a .tsv, .csv, .jsonl or .parquet file with text and label"
                if labelled
                else "a .txt file, or fairseq-bin:DIR/SPLIT"
            )
            raise HeadtoolError(
                f"{data.spec} holds data of the kind {data.kind}, but {self.spec} "
                f"is a {self.task} model "
                f"and needs {wanted}"
            )
        rows, truncated = self._labelled(data) if labelled else (self._blocks(data, seed), 0)
        lengths = np.asarray([len(row["tokens"]) for row in rows], dtype=np.int64)
        return Examples(data, tuple(rows), lengths, batch_tokens, truncated)

    def _numbers(self, data: TextData, column: str) -> list[list[int]]:
        """Symbols of every text, without any around it."""
        numbered = [
            number_symbols(text, self.dictionary, self.bpe, segmented=data.pretokenized)
            for text in data.columns[column]
        ]
        check_known(self.spec, data, self.bpe, [(numbered, self.dictionary)])
        return numbered

    def _blocks(self, data: TextData, seed: int) -> list[Row]:
        """Cut running text into blocks, each text ended by end-of-sentence.

        A causal model reads a block from the symbol before it on, which is the last of the block
        before, as ``fairseq-eval-lm`` reads long lines. A masked one has a block between the
        symbols that surround a sentence.
        """
        end = int(self.dictionary.eos())
        causal = self.task == "causal-lm"
        room = min(BLOCK_TOKENS, self.max_length) - (0 if causal else 2)
        rows: list[Row] = []
        for ids in self._numbers(data, "text"):
            whole = [*ids, end] if causal and ids else ids
            for first in range(0, len(whole), room):
                block = whole[first : first + room]
                if len(block) < 2:
                    continue
                if causal:
                    before = whole[first - 1] if first else self.start
                    rows.append({"tokens": [before, *block[:-1]], "targets": block})
                    continue
                tokens, targets = mask_block(
                    block, self.dictionary.index("<mask>"), seed=seed, index=len(rows)
                )
                unscored = [UNSCORED]
                rows.append(
                    {
                        "tokens": [self.start, *tokens, end],
                        "targets": [*unscored, *targets, *unscored],
                    }
                )
        return rows

    def _labelled(self, data: TextData) -> tuple[list[dict[str, Any]], int]:
        """Number texts as ``sentence_prediction`` does: ``<s> a </s>``, or ``... </s> b </s>``."""
        raw = data.columns["label"]
        targets: list[float | int]
        if self.task == "regression":
            targets = regression_targets(raw, spec=data.spec, rows=data.rows).tolist()
        else:
            known = {label: number for number, label in enumerate(self.labels)}
            targets = match_labels(raw, known, spec=data.spec).tolist()
        texts, truncated = self._framed(data, ("text_a", "text_b"))
        rows: list[dict[str, Any]] = [
            {"tokens": ids, "target": target} for ids, target in zip(texts, targets, strict=True)
        ]
        if "corrupted" in data.columns:
            for row, ids in zip(
                rows, self._framed(data, ("corrupted", "corrupted_b"))[0], strict=True
            ):
                row["corrupted"] = {"tokens": ids}
        return rows, truncated

    def _framed(self, data: TextData, columns: Sequence[str]) -> tuple[list[list[int]], int]:
        """Number texts or pairs, cut to the model's length; count those cut."""
        end, limit = int(self.dictionary.eos()), self.max_length
        framed: list[list[int]] = []
        truncated = 0
        parts = [self._numbers(data, name) for name in columns if name in data.columns]
        for first, *others in zip(*parts, strict=True):
            ids = [self.start, *first, end]
            for further in others:
                ids += [end, *further, end]
            truncated += len(ids) > limit
            framed.append(ids if len(ids) <= limit else [*ids[: limit - 1], end])
        return framed, truncated

    # -- batches ----------------------------------------------------------------------------

    def collate(self, examples: Examples, index: NDArray[np.int64]) -> Batch:
        """Pad on the right; see `ModelAdapter.collate`."""
        rows = [examples.rows[i] for i in index.tolist()]
        tokens = padded([row["tokens"] for row in rows], self.dictionary.pad())
        if self.task in ("classification", "regression"):
            targets = torch.tensor([row["target"] for row in rows])
        else:
            targets = padded([row["targets"] for row in rows], UNSCORED)
        special = self.special_ids()
        parts = (
            tokens != self.dictionary.pad(),
            tokens == self.dictionary.eos(),
            torch.isin(tokens, special),
        )
        queries = Queries(*(part.to(self.device) for part in parts))
        kinds: tuple[Kind, ...] = ("enc-self", "dec-self", "cross")
        return Batch(
            index,
            {"src_tokens": tokens.to(self.device)},
            targets.to(self.device),
            dict.fromkeys(kinds, queries),
        )

    def special_ids(self) -> Tensor:
        """The symbols that stand for no text; the unknown one stands for some."""
        dictionary = self.dictionary
        ids = {*range(dictionary.nspecial)} - {dictionary.unk()}
        if self.design.family == "roberta":
            ids.add(dictionary.index("<mask>"))
        return torch.tensor(sorted(ids))

    # -- running ----------------------------------------------------------------------------

    def forward(self, batch: Batch, *, label_smoothing: float = 0.0) -> Forward:
        """Run the model; see `ModelAdapter.forward`."""
        logits = self._run(self.module, batch.inputs["src_tokens"])
        if self.task in ("classification", "regression"):
            regression = self.task == "regression"
            losses, columns = class_columns(
                logits, batch.targets, regression=regression, label_smoothing=label_smoothing
            )
            return Forward(losses, columns, None if regression else logits)
        scored = batch.targets != UNSCORED
        losses, columns = token_columns(
            logits, batch.targets, scored, label_smoothing=label_smoothing
        )
        return Forward(losses, columns, logits, scored)

    def outcome(self, batch: Batch) -> Forward:
        """Compute the logits of scored symbols alone; see `ModelAdapter.outcome`."""
        if self.task in ("classification", "regression"):
            return self.forward(batch)
        scored, tokens = batch.targets != UNSCORED, batch.inputs["src_tokens"]
        losses, columns = self.scorer(lambda: self._run(self.module, tokens), batch.targets, scored)
        return Forward(losses, columns, None, scored)

    def next_tokens(self, batch: Batch) -> Tensor:
        """Take the highest score at each position; see `ModelAdapter.next_tokens`."""
        if self.task != "causal-lm":
            return super().next_tokens(batch)
        return self._run(self.module, batch.inputs["src_tokens"]).argmax(dim=-1)

    def _run(self, module: nn.Module, tokens: Tensor) -> Tensor:
        """Scores of symbols at every position, or of classes."""
        if self.design.head:
            logits, _ = module(
                tokens, features_only=True, classification_head_name=self.design.head
            )
        else:
            logits, _ = module(tokens)
        return cast(Tensor, logits)

    # -- discovery --------------------------------------------------------------------------

    def probe(
        self, module: nn.Module, *, batch: int = 2, source: int = 5, target: int = 3
    ) -> Probe:
        """Rows of ordinary symbols after the one that starts a text."""
        rows = [
            [self.start, *ordinary(self.dictionary, source - 1, row % 2)] for row in range(batch)
        ]
        tokens = torch.tensor(rows, device=next(module.parameters()).device)
        return Probe(lambda: self._run(module, tokens), batch=batch, source=source)
