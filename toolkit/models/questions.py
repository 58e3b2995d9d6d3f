"""Questions that a model answers with a span of a text, which it may read in several windows.

The row of an example is the first window that holds its answer: methods that take gradients see
that one. As `windows` it has all of them, which `headtool.models.answers.spread` puts in its place
where outcomes are computed, and `gathered_windows` makes outcomes of examples from theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.metrics.questions import answer_scores
from headtool.models.examples import Batch, Examples, Forward, Row, token_columns

__all__ = ["gathered_windows", "span_forward"]

_LONGEST = 30
"""Most tokens of an answer, as in the evaluation of BERT."""

_Columns = Mapping[str, NDArray[np.float64]]


def span_forward(
    starts: Tensor, ends: Tensor, batch: Batch, *, label_smoothing: float = 0.0
) -> Forward:
    """Say what logits of first and last tokens mean for each window.

    The loss is the sum of two cross-entropies, over the positions that are not padding. A window
    that does not hold the answer wants its first token.

    Parameters
    ----------
    starts, ends
        Logits, [B, T] each.
    batch
        The batch; its `facts` say where the text lies: ``first``, ``last`` and ``none``, the
        position that stands for no answer.
    label_smoothing
        As for `headtool.models.base.ModelAdapter.forward`.
    """
    real = batch.queries["enc-self"].real
    logits = torch.stack([starts, ends], dim=1)
    logits = logits.masked_fill(~real[:, None], torch.finfo(logits.dtype).min)
    scored = torch.ones_like(batch.targets, dtype=torch.bool)
    spans = _best_spans(logits.detach(), batch.facts)
    losses, columns = token_columns(logits, batch.targets, scored, label_smoothing=label_smoothing)
    return Forward(losses, columns | spans, logits, scored)


def _best_spans(logits: Tensor, facts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Find the span of the text with the highest sum of logits, of at most 30 tokens."""
    places = torch.arange(logits.shape[-1], device=logits.device)
    first, last = facts["first"][:, None], facts["last"][:, None]
    inside = (places >= first) & (places <= last)
    starts, ends = (
        part.double().masked_fill(~inside, -torch.inf) for part in (logits[:, 0], logits[:, 1])
    )
    score = torch.full_like(starts[:, 0], -torch.inf)
    start, end = facts["first"].clone(), facts["first"].clone()
    for further in range(min(_LONGEST, logits.shape[-1])):
        sums = starts[:, : starts.shape[1] - further] + ends[:, further:]
        best, place = sums.max(dim=1)
        better = best > score
        score = torch.where(better, best, score)
        start = torch.where(better, place, start)
        end = torch.where(better, place + further, end)
    none = facts["none"][:, None, None].expand(-1, 2, 1)
    no_answer = logits.double().gather(2, none)[:, :, 0].sum(dim=1)
    return {"span_start": start, "span_end": end, "span_score": score, "none_score": no_answer}


def gathered_windows(examples: Examples, columns: _Columns) -> dict[str, NDArray[np.float64]]:
    """Turn columns of windows into columns of questions.

    Losses and what belongs to them are summed over the windows. The answer is the span with the
    highest score in any of them; where the data has questions without answers, it is none if that
    scores higher in every window. Each is compared with the references: ``answer_em``,
    ``answer_f1``.

    Parameters
    ----------
    examples
        The questions, N of them.
    columns
        Columns of their windows by name, each [.., windows].
    """
    spans = {name: columns[name] for name in ("span_start", "span_end", "span_score", "none_score")}
    summed = [name for name in columns if name not in spans]
    leading = next(iter(columns.values())).shape[:-1]
    names = (*summed, "answer_em", "answer_f1")
    found = {name: np.empty((*leading, len(examples))) for name in names}
    start = 0
    for number, row in enumerate(examples.rows):
        part = slice(start, start + len(row["windows"]))
        start = part.stop
        for name in summed:
            found[name][..., number] = columns[name][..., part].sum(axis=-1)
        here = {
            name: values[..., part].reshape(-1, len(row["windows"]))
            for name, values in spans.items()
        }
        scores = _scores(row, examples.data.columns, number, here)
        for name, values in zip(("answer_em", "answer_f1"), scores.T, strict=True):
            found[name][..., number] = values.reshape(leading)
    return found


def _scores(
    row: Row, data: Mapping[str, tuple[str, ...]], number: int, spans: _Columns
) -> NDArray[np.float64]:
    """Exact match and F1 of one question, [models, 2]."""
    references = [text for text, _ in json.loads(data["answers"][number])]
    context = data["context"][number]
    best = spans["span_score"].argmax(axis=1)
    silent = "answerable" in data
    none = silent & (spans["none_score"].min(axis=1) > spans["span_score"].max(axis=1))
    known: dict[Any, tuple[float, float]] = {}
    scores = np.empty((len(best), 2))
    for model, window in enumerate(best.tolist()):
        span = (
            window,
            int(spans["span_start"][model, window]),
            int(spans["span_end"][model, window]),
        )
        key = None if none[model] else span
        if key not in known:
            known[key] = answer_scores("" if key is None else _text(row, context, span), references)
        scores[model] = known[key]
    return scores


def _text(row: Row, context: str, span: tuple[int, int, int]) -> str:
    window, start, end = span
    offsets = row["windows"][window]["offsets"]
    return context[offsets[start][0] : offsets[end][1]]
