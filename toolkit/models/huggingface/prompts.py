"""Prompts with answers or choices as rows for a causal language model.

An answer is scored as lm-evaluation-harness does it: white space at the end of the prompt belongs
to the answer, its tokens are what prompt and answer together have beyond the prompt's own, and what
is too long is cut on the left. Between prompt and answer there is a space unless one is written.

Conversations become prompts by the tokenizer's chat template, up to where the assistant speaks. The
template writes all special tokens, and nothing comes between it and the answer.

Where the model is to write the answer itself, it gets the prompt as it stands, behind the special
tokens that the tokenizer puts before a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from headtool.data import TextData
from headtool.data.messages import quoted
from headtool.data.prompts import as_choices, as_messages
from headtool.errors import HeadtoolError
from headtool.models.examples import Examples, Row

__all__ = ["encode_prompts"]


class _Model(Protocol):
    """What is asked of a model here."""

    @property
    def spec(self) -> str: ...

    @property
    def prefix(self) -> list[int]: ...

    @property
    def max_length(self) -> int: ...

    @property
    def tokenizer(self) -> Any: ...

    def plain_tokens(self, text: str) -> list[int]: ...


def encode_prompts(model: _Model, data: TextData, *, batch_tokens: int) -> Examples:
    """Tokenise prompts with answers or choices.

    The last token of an answer is predicted and not read, so an answer of one token is scored on
    the prompt alone.

    Parameters
    ----------
    model
        The model, a causal one.
    data
        Data of the kind ``prompt`` or ``choice``.
    batch_tokens
        Token budget of a batch.

    Raises
    ------
    HeadtoolError
        If a prompt or an answer has no tokens, or choices are no list.
    """
    rows: list[Row] = []
    truncated = 0
    chat = "messages" in data.columns
    for number, prompt in enumerate(data.columns["messages" if chat else "prompt"]):
        place = number if data.rows is None else data.rows[number]
        where = f"{data.spec}, example {place + 1}"
        answers, gold = _answers(data, number, where)
        prompts = [_templated(model, prompt, where) if chat else prompt]
        if "corrupted" in data.columns:
            prompts.append(data.columns["corrupted"][number])
        found = [_row(model, prompts, answer, where, chat=chat) for answer in answers]
        truncated += any(cut for _, cut in found)
        row = dict(found[gold][0])
        if data.kind == "prompt":
            row["prompt"] = [*([] if chat else model.prefix), *model.plain_tokens(prompts[0])]
        if len(answers) > 1:
            row |= {"kind": data.kind, "gold": gold}
            row["sizes"] = [[len(answer), len(answer.encode())] for answer in answers]
            tokens = [_scored(one) for one, _ in found]
            if all(len(ids) == 1 for ids in tokens):
                row["rivals"] = [ids[0] for ids in tokens]
            else:
                row["answers"] = [one for one, _ in found]
        rows.append(row)
    lengths = np.array([len(row["input_ids"]) for row in rows], dtype=np.int64)
    return Examples(data, tuple(rows), lengths, batch_tokens, truncated)


def _templated(model: _Model, cell: str, where: str) -> str:
    """Write a conversation as the model's chat template does."""
    import jinja2

    messages = as_messages(cell)
    if model.tokenizer.chat_template is None:
        raise HeadtoolError(
            f"{model.spec} has no chat template, which {where} needs for its messages; give a "
            "column 'prompt', or a model that was made for conversations"
        )
    try:
        return str(
            model.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
        )
    except (jinja2.TemplateError, TypeError, ValueError, LookupError) as error:
        reason = " ".join(str(error).split())[:200]
        raise HeadtoolError(
            f"{where}: the chat template of {model.spec} does not take these messages ({reason}); "
            "correct them"
        ) from error


def _answers(data: TextData, number: int, where: str) -> tuple[list[str], int]:
    """All answers of an example, and which of them is right."""
    if data.kind == "prompt":
        names = [name for name in ("answer", "wrong") if name in data.columns]
        return [data.columns[name][number] for name in names], 0
    written = data.columns["choices"][number]
    choices = as_choices(written)
    if choices is None:
        raise HeadtoolError(
            f"{where}: {quoted(written)} is no JSON list of two or more choices; correct it"
        )
    return choices, int(data.columns["label"][number])


def _row(
    model: _Model, prompts: Sequence[str], answer: str, where: str, *, chat: bool
) -> tuple[dict[str, Any], bool]:
    """Tokenise one answer behind a prompt, and behind the corrupted one; say if it was cut."""
    prompt, prefix = prompts[0].rstrip(), [] if chat else model.prefix
    space = prompts[0][len(prompt) :] or ("" if chat or answer[:1].isspace() else " ")
    contexts = [model.plain_tokens(text.rstrip()) for text in prompts]
    scored = model.plain_tokens(prompt + space + answer)[len(contexts[0]) :]
    for name, ids in (("prompt", [*prefix, *contexts[0]]), ("answer", scored)):
        if not ids:
            text = prompts[0] if name == "prompt" else answer
            raise HeadtoolError(
                f"{where}: the {name} {quoted(text)} has no tokens of its own for {model.spec}; "
                "write another one"
            )
    limit = model.max_length
    whole, *others = [[*prefix, *context, *scored] for context in contexts]
    ids = whole[-(limit + 1) : -1]
    labels = ([-100] * len(whole) + scored)[-len(ids) :]
    row = {"input_ids": ids, "labels": labels, "bytes": len((space + answer).encode())}
    for other in others:  # one of another length is kept as it is, to be refused where it is used
        same = len(other) == len(whole)
        row["corrupted"] = {"input_ids": other[-(limit + 1) : -1] if same else other[:-1]}
    return row, len(whole) > limit + 1


def _scored(row: Row) -> list[int]:
    """Tokens that are scored."""
    return [label for label in row["labels"] if label != -100]
