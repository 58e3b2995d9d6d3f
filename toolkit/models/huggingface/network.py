"""Models of transformers as networks: tokenising, batches, and the loss of each task."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.discovery import Probe, discover
from headtool.attention.weights import home
from headtool.data import TextData, match_labels, regression_targets
from headtool.errors import HeadtoolError
from headtool.heads import Kind
from headtool.metrics.tagging import mark_entities
from headtool.models.answers import spread
from headtool.models.base import ModelAdapter
from headtool.models.batching import padded
from headtool.models.blocks import BLOCK_TOKENS, mask_block
from headtool.models.entities import entity_counts, read_tags
from headtool.models.examples import (
    Batch,
    Examples,
    Forward,
    Queries,
    Row,
    Task,
    class_columns,
    rival_columns,
    token_columns,
)
from headtool.models.huggingface.checking import check_ids
from headtool.models.huggingface.prompts import encode_prompts
from headtool.models.huggingface.questions import encode_questions
from headtool.models.huggingface.sizes import byte_counter
from headtool.models.huggingface.special import plain_ids, special_ids
from headtool.models.huggingface.tagging import encode_tags
from headtool.models.huggingface.tokenised import encode_tokens
from headtool.models.linear_head import TokenScorer
from headtool.models.questions import span_forward

__all__ = ["HuggingFaceNetwork"]

_ABSURD_LENGTH = 1_000_000  # tokenizers without a limit report 1e30


class HuggingFaceNetwork(ModelAdapter):
    """A transformers model with its tokenizer.

    Parameters
    ----------
    spec, task
        See `ModelAdapter`.
    module
        The model; it is put into evaluation mode.
    tokenizer
        Its tokenizer; None: it takes only data that is tokenised already.
    """

    library = "transformers"

    def __init__(self, spec: str, task: Task, module: nn.Module, tokenizer: Any) -> None:
        module.eval()
        self.config = cast(Any, module).config
        self.tokenizer = tokenizer
        known = special_ids(self.config, tokenizer)
        self.pad_id, self.eos_id = known.pad, known.eos
        if task == "classification" and self.config.pad_token_id is None:
            # A causal classifier reads its last token that is not padding, and needs to know it.
            self.config.pad_token_id = self.pad_id
        labels = [str(self.config.id2label[i]) for i in range(self.config.num_labels)]
        self.special_ids = torch.tensor(known.every, dtype=torch.long)
        self.prefix, self.suffix = self._affixes()
        # BART with BERT's tokenizer, for example, takes none.
        self.has_token_types = "token_type_ids" in inspect.signature(module.forward).parameters
        handles = discover(module, self.probe(module))
        named = task in ("classification", "token-classification")
        super().__init__(spec, task, module, handles, labels if named else ())
        marked = task == "token-classification" and mark_entities(labels)
        self.tags = read_tags(labels) if marked else None
        self.scorer = TokenScorer(module)

    # -- tokenising -------------------------------------------------------------------------

    def _affixes(self) -> tuple[list[int], list[int]]:
        """Special tokens that the tokenizer puts before and after one text."""
        if self.tokenizer is None:
            return [], []
        plain = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        whole = self.tokenizer("a")["input_ids"]
        for start in range(len(whole) - len(plain) + 1):
            if whole[start : start + len(plain)] == plain:
                return whole[:start], whole[start + len(plain) :]
        return [], []

    @property
    def max_length(self) -> int:
        """Most tokens that the model takes."""
        own = getattr(self.tokenizer, "model_max_length", _ABSURD_LENGTH)
        limits = [_ABSURD_LENGTH, int(min(own, _ABSURD_LENGTH))]
        positions = getattr(self.config, "max_position_embeddings", None)
        if positions:
            offset = 0
            for name, part in self.module.named_modules():
                if name.endswith("position_embeddings") and isinstance(part, nn.Embedding):
                    # RoBERTa counts positions from the padding index on.
                    offset = 0 if part.padding_idx is None else part.padding_idx + 1
            limits.append(int(positions) - offset)
        limit = min(limits)
        return 1024 if limit == _ABSURD_LENGTH else limit

    def encode(self, data: TextData, *, batch_tokens: int = 4096, seed: int = 0) -> Examples:
        """Tokenise a data set for the model's task; see `ModelAdapter.encode`."""
        wanted = _KINDS.get(self.task, ("classification",))
        if data.kind not in (*wanted, "ids"):
            formats = " or ".join(dict.fromkeys(_FORMATS[kind] for kind in wanted))
            raise HeadtoolError(
                f"{data.spec} holds data of the kind {data.kind}, but {self.spec} "
                f"is a {self.task} model "
                f"and needs {formats}"
            )
        if data.kind == "ids":
            return encode_tokens(self, data, batch_tokens=batch_tokens)
        if self.tokenizer is None:
            raise HeadtoolError(
                f"{data.spec} is text, and {self.spec} was wrapped without a tokenizer; give wrap "
                "the tokenizer, or data with the columns input_ids and labels"
            )
        if data.kind == "text":
            return self._encode_blocks(data, batch_tokens, seed)
        if data.kind in ("prompt", "choice"):
            examples = encode_prompts(self, data, batch_tokens=batch_tokens)
            each = spread(examples).rows
            check_ids(self.spec, self.module, (row["input_ids"] for row in each))
            written = (row.get("rivals", row["labels"]) for row in each)
            check_ids(self.spec, self.module, written, written=True)
            return examples
        if data.kind == "tokens":
            examples = encode_tags(self, data, self.label2id(), batch_tokens=batch_tokens)
            check_ids(self.spec, self.module, (row["input_ids"] for row in examples.rows))
            return examples
        if data.kind == "questions":
            examples = encode_questions(self, data, batch_tokens=batch_tokens)
            each = spread(examples).rows
            check_ids(self.spec, self.module, (row["input_ids"] for row in each))
            return examples
        rows, truncated = (
            self._encode_pairs(data) if data.kind == "translation" else self._encode_labelled(data)
        )
        check_ids(self.spec, self.module, (row["input_ids"] for row in rows))
        if data.kind == "translation":
            check_ids(self.spec, self.module, (row["labels"] for row in rows), written=True)
        lengths = [max(len(row["input_ids"]), len(row.get("labels", ()))) for row in rows]
        return Examples(data, tuple(rows), np.asarray(lengths), batch_tokens, truncated)

    def _tokens(self, *texts: Sequence[str], **options: Any) -> tuple[list[dict[str, Any]], int]:
        """Tokenise texts (or pairs), cutting them to the model's length; count those cut."""
        limit = self.max_length
        encoded = self.tokenizer(*map(list, texts), truncation=True, max_length=limit, **options)
        whole = self.tokenizer(*map(list, texts), return_attention_mask=False, **options)
        rows = [
            {key: value[i] for key, value in encoded.items() if key != "attention_mask"}
            for i in range(len(encoded["input_ids"]))
        ]
        return rows, sum(len(ids) > limit for ids in whole["input_ids"])

    def _encode_labelled(self, data: TextData) -> tuple[list[Row], int]:
        texts = [data.columns[name] for name in ("text_a", "text_b") if name in data.columns]
        targets = self._targets(data)
        rows, truncated = self._tokens(*texts)
        names = ("corrupted", "corrupted_b")
        return [
            {**row, "target": target}
            for row, target in zip(self._paired(data, names, rows), targets, strict=True)
        ], truncated

    def _targets(self, data: TextData) -> list[float | int]:
        """What the labels of the data are for the model: numbers of classes, or numbers."""
        raw = data.columns["label"]
        targets: list[float | int]
        if self.task == "regression":
            targets = regression_targets(raw, spec=data.spec, rows=data.rows).tolist()
        else:
            targets = match_labels(raw, self.label2id(), spec=data.spec).tolist()
        return targets

    def _paired(self, data: TextData, names: Sequence[str], rows: Sequence[Row]) -> Sequence[Row]:
        """Add the corrupted texts to the rows, where the data has any."""
        texts = [data.columns[name] for name in names if name in data.columns]
        if not texts:
            return rows
        others, _ = self._tokens(*texts)
        return [{**row, "corrupted": other} for row, other in zip(rows, others, strict=True)]

    def label2id(self) -> dict[str, int]:
        """Class numbers by name."""
        return {str(self.config.id2label[i]): i for i in range(self.config.num_labels)}

    def _encode_pairs(self, data: TextData) -> tuple[list[Row], int]:
        if data.pretokenized:
            raise HeadtoolError(
                f"{data.spec} is in fairseq's binary format, which only a fairseq model reads; "
                f"give {self.spec} the two text files (SRC,REF)"
            )
        rows, truncated = self._tokens(data.columns["source"])
        paired = self._paired(data, ("corrupted",), rows)
        limit = self.max_length
        targets = self.tokenizer(text_target=list(data.columns["target"]))["input_ids"]
        truncated += sum(len(ids) > limit for ids in targets)
        return [
            {**row, "labels": labels[:limit]} for row, labels in zip(paired, targets, strict=True)
        ], truncated

    def _encode_blocks(self, data: TextData, batch_tokens: int, seed: int) -> Examples:
        """Cut running text into blocks of tokens, each with the tokenizer's own special tokens."""
        room = min(BLOCK_TOKENS, self.max_length) - len(self.prefix) - len(self.suffix)
        rows: list[dict[str, Any]] = []
        for text in data.columns["text"]:
            ids = self.plain_tokens(text)
            size = byte_counter(self.tokenizer, text, ids) if self.task == "causal-lm" else None
            for start in range(0, len(ids), room):
                block = ids[start : start + room]
                if len(block) > 1:
                    rows.append(self._block(block, seed, len(rows)))
                    if size is not None:  # without a token before it, the first is not predicted
                        end = start + len(block)
                        rows[-1]["bytes"] = size(start if self.prefix else start + 1, end)
        check_ids(self.spec, self.module, (row["input_ids"] for row in rows))
        lengths = np.asarray([len(row["input_ids"]) for row in rows], dtype=np.int64)
        return Examples(data, tuple(rows), lengths, batch_tokens)

    def plain_tokens(self, text: str) -> list[int]:
        """Tokenise a text without special tokens."""
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _block(self, block: list[int], seed: int, index: int) -> dict[str, Any]:
        if self.task == "causal-lm":
            return {"input_ids": [*self.prefix, *block, *self.suffix]}
        if self.tokenizer.mask_token_id is None:
            raise HeadtoolError(f"the tokenizer of {self.spec} has no mask token")
        masked, labels = mask_block(block, self.tokenizer.mask_token_id, seed=seed, index=index)
        before, after = [-100] * len(self.prefix), [-100] * len(self.suffix)
        return {
            "input_ids": [*self.prefix, *masked, *self.suffix],
            "labels": [*before, *labels, *after],
        }

    # -- batches ----------------------------------------------------------------------------

    def collate(self, examples: Examples, index: NDArray[np.int64]) -> Batch:
        """Pad on the right; see `ModelAdapter.collate`."""
        rows = [examples.rows[i] for i in index.tolist()]
        ids = padded([row["input_ids"] for row in rows], self.pad_id)
        real = padded([[1] * len(row["input_ids"]) for row in rows], 0)
        inputs = {"input_ids": ids, "attention_mask": real}
        if "token_type_ids" in rows[0] and self.has_token_types:
            inputs["token_type_ids"] = padded([row["token_type_ids"] for row in rows], 0)
        if self.task in ("classification", "regression"):
            targets = torch.tensor([row["target"] for row in rows])
        elif self.task == "causal-lm":  # the token that follows each
            whole = [row["input_ids"] for row in rows]
            follow = [
                row.get("labels", [*ids[1:], -100]) for row, ids in zip(rows, whole, strict=True)
            ]
            targets = padded(follow, -100)
        else:
            targets = padded([row["labels"] for row in rows], -100)
        queries = self._queries(ids, real.bool())
        by_kind: dict[Kind, Queries] = dict.fromkeys(("enc-self", "dec-self", "cross"), queries)
        if self.task == "seq2seq":
            decoder = self._decoder_inputs(targets)
            inputs["decoder_input_ids"] = decoder
            by_kind["dec-self"] = by_kind["cross"] = self._queries(decoder, targets != -100)
        return Batch(
            index,
            {name: tensor.to(self.device) for name, tensor in inputs.items()},
            targets.to(self.device),
            by_kind,
            *self._answers(rows),
            tuple(row["prompt"] for row in rows if "prompt" in row),
        )

    def _answers(self, rows: Sequence[Row]) -> tuple[dict[str, Tensor], Tensor | None]:
        """Facts and rivals of a batch."""
        facts, rivals = {}, None
        if self.task == "causal-lm" and all("bytes" in row for row in rows):
            sizes = [row["bytes"] for row in rows]
            facts["bytes"] = torch.tensor(sizes, device=self.device, dtype=torch.float64)
        if self.task == "question-answering":
            for name in ("first", "last", "none"):
                facts[name] = torch.tensor([row[name] for row in rows], device=self.device)
        if any("rivals" in row for row in rows):
            rivals = padded([row.get("rivals", [-1]) for row in rows], -1).to(self.device)
        return facts, rivals

    def _decoder_inputs(self, labels: Tensor) -> Tensor:
        """Shift the target right, as the model itself does when it is given labels."""
        shift = getattr(self.module, "prepare_decoder_input_ids_from_labels", None)
        if shift is not None:
            return cast(Tensor, shift(labels=labels.to(self.device)))
        start = torch.full_like(labels[:, :1], self.config.decoder_start_token_id)
        return torch.cat(
            [start, labels[:, :-1].masked_fill(labels[:, :-1] == -100, self.pad_id)], 1
        )

    def _queries(self, ids: Tensor, real: Tensor) -> Queries:
        special = torch.isin(ids.cpu(), self.special_ids)
        eos = ids.cpu() == self.eos_id
        return Queries(*(part.to(self.device) for part in (real, eos, special)))

    # -- running ----------------------------------------------------------------------------

    def forward(self, batch: Batch, *, label_smoothing: float = 0.0) -> Forward:
        """Run the model; see `ModelAdapter.forward`."""
        output = self._run(batch)
        if self.task == "question-answering":
            starts, ends = output.start_logits, output.end_logits
            return span_forward(starts, ends, batch, label_smoothing=label_smoothing)
        logits = output.logits
        if self.task in ("classification", "regression"):
            regression = self.task == "regression"
            losses, columns = class_columns(
                logits, batch.targets, regression=regression, label_smoothing=label_smoothing
            )
            return Forward(losses, columns, None if regression else logits)
        scored = batch.targets != -100
        losses, columns = token_columns(
            logits, batch.targets, scored, label_smoothing=label_smoothing
        )
        if self.tags is not None:
            columns |= entity_counts(logits.argmax(dim=-1), batch.targets, scored, self.tags)
        columns |= batch.facts
        if batch.rivals is not None:
            columns |= rival_columns(logits, scored, batch.rivals)
        return Forward(losses, columns, logits, scored)

    def outcome(self, batch: Batch) -> Forward:
        """Compute the logits of scored tokens alone; see `ModelAdapter.outcome`."""
        if self.task not in ("causal-lm", "seq2seq", "masked-lm") or batch.rivals is not None:
            return self.forward(batch)
        scored = batch.targets != -100
        losses, columns = self.scorer(lambda: self._run(batch).logits, batch.targets, scored)
        return Forward(losses, {**columns, **batch.facts}, None, scored)

    def next_tokens(self, batch: Batch) -> Tensor:
        """Take the highest logit at each position; see `ModelAdapter.next_tokens`."""
        if self.task != "causal-lm":
            return super().next_tokens(batch)
        return cast(Tensor, self._run(batch).logits.argmax(dim=-1))

    def _run(self, batch: Batch) -> Any:
        cache = {"use_cache": False} if self.task in ("causal-lm", "seq2seq") else {}
        return self.module(**batch.inputs, **cache, return_dict=True)

    # -- discovery --------------------------------------------------------------------------

    def probe(
        self, module: nn.Module, *, batch: int = 2, source: int = 5, target: int = 3
    ) -> Probe:
        """Rows of ordinary tokens, the last the end of the sequence where there is one."""
        if self.tokenizer is None:
            plain = plain_ids(self.config, self.special_ids.tolist())
        else:
            plain = self.tokenizer("a b c d e", add_special_tokens=False)["input_ids"]
        plain = plain or [self.pad_id]
        ids = [plain[i % len(plain)] for i in range(source)]
        if self.eos_id >= 0:
            ids[-1] = self.eos_id
        both = [ids, ids[::-1][1:] + ids[-1:]]
        device = home(module)
        rows = torch.tensor([both[i % 2] for i in range(batch)], device=device)
        arguments: dict[str, Any] = {"input_ids": rows, "attention_mask": torch.ones_like(rows)}
        if not self.config.is_encoder_decoder:
            return Probe(lambda: module(**arguments), batch=batch, source=source)
        columns = torch.arange(target, device=device) % source
        arguments["decoder_input_ids"] = rows[:, columns]
        return Probe(lambda: module(**arguments), batch=batch, source=source, target=target)


_KINDS: dict[Task, tuple[str, ...]] = {
    "seq2seq": ("translation",),
    "causal-lm": ("text", "prompt", "choice"),
    "masked-lm": ("text",),
    "token-classification": ("tokens",),
    "question-answering": ("questions",),
}
_PROMPTS = "a table with prompt and answer, or prompt, choices and label"
_FORMATS = {
    "classification": "a .tsv, .csv, .jsonl or .parquet file with text and label",
    "translation": "two line-aligned files (SRC,REF)",
    "text": "a .txt file",
    "prompt": _PROMPTS,
    "choice": _PROMPTS,
    "tokens": "a .conll file, or a table with lists of tokens and tags",
    "questions": "a .json file of SQuAD, or a table with question, context and answers",
}
