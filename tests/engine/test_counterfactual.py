"""Heads that put out what they put out on a corrupted text, against loops of plain hooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import BartConfig, BartForConditionalGeneration

from headtool import load_data, load_model
from headtool.data import TextData
from headtool.engine.decoding import translate
from headtool.engine.evaluation import evaluate
from headtool.engine.replacement import Counterfactual, Mean
from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.huggingface.model import HuggingFaceModel

from ..methods.conftest import bert, pairs, tokenizer  # noqa: F401 - fixtures
from ..support.language_model import WORDS, language_model, words_tokenizer


def projections(model: ModelAdapter) -> list[tuple[Any, nn.Module]]:
    return [(handle.site, handle.module) for handle in model.handles]


@contextmanager
def hooked(module: nn.Module, hook: Any) -> Iterator[None]:
    handle = module.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def inputs_of(model: ModelAdapter, examples: Examples, row: int) -> dict[Any, Tensor]:
    """What each output projection gets for one example alone."""
    found: dict[Any, Tensor] = {}
    batch = model.collate(examples, np.array([row]))
    for site, module in projections(model):

        def keep(_: nn.Module, args: tuple[Tensor, ...], site: Any = site) -> None:
            found[site] = args[0].detach().clone()

        with hooked(module, keep), torch.no_grad():
            model.forward(batch)
    return found


def patched_loss(model: ModelAdapter, examples: Examples, row: int, heads: Sequence[Head]) -> float:
    """Loss of one example with the columns of some heads taken from the corrupted text."""
    instead = inputs_of(model, examples.corrupted, row)
    batch = model.collate(examples, np.array([row]))
    hooks = []
    for site, module in projections(model):
        columns = [
            head.index * site.head_dim + i
            for head in heads
            if (head.kind, head.layer) == (site.kind, site.layer)
            for i in range(site.head_dim)
        ]

        def patch(
            _: nn.Module, args: tuple[Tensor, ...], site: Any = site, columns: Any = columns
        ) -> tuple[Tensor, ...]:
            changed = args[0].clone()
            changed[..., columns] = instead[site][..., columns]
            return (changed, *args[1:])

        hooks.append(module.register_forward_pre_hook(patch))
    with torch.no_grad():
        loss = model.forward(batch).losses.item()
    for hook in hooks:
        hook.remove()
    return loss


def check(
    model: ModelAdapter, data: TextData, *, batch_tokens: int = 60, rounding: float = 1e-9
) -> None:
    examples = model.encode(data, batch_tokens=batch_tokens)
    heads = model.sites.heads
    sets = [*((head,) for head in heads[::3]), heads[1::2], heads, ()]
    masks = [HeadMask.without(model.sites, chosen) for chosen in sets]
    for chained in (False, True):
        outcomes = evaluate(model, examples, masks, replacement=Counterfactual(), chained=chained)
        for row in range(len(examples)):
            for mask, chosen in enumerate(sets):
                expected = patched_loss(model, examples, row, chosen)
                assert outcomes.masked["loss"][mask, row] == pytest.approx(expected, abs=rounding)
    moved = np.abs(outcomes.masked["loss"] - outcomes.whole["loss"]).max(axis=1)
    # The first layer of a decoder that reads the source elsewhere has not seen it yet.
    blind = {("dec-self", 0)} if model.task == "seq2seq" else set()
    blinded = [all((head.kind, head.layer) in blind for head in chosen) for chosen in sets]
    np.testing.assert_array_equal(moved < 1e-4, blinded)
    np.testing.assert_array_equal(outcomes.masked["loss"][-1], outcomes.whole["loss"])


def shuffled(text: str, rng: np.random.Generator) -> str:
    return " ".join(rng.choice(WORDS, size=len(text.split())))


def test_a_classifier_of_pairs(bert: HuggingFaceModel, pairs: TextData) -> None:  # noqa: F811
    rng, data = np.random.default_rng(4), pairs.head(7)
    columns = {
        **data.columns,
        "corrupted": tuple(shuffled(text, rng) for text in data.columns["text_a"]),
        "corrupted_b": tuple(shuffled(text, rng) for text in data.columns["text_b"]),
    }
    check(bert, TextData("pairs", "classification", columns))


def prompts(count: int = 6) -> TextData:
    """Prompts of 2 to 7 words, answers of 1 or 3."""
    rng = np.random.default_rng(2)
    texts = [" ".join(rng.choice(WORDS, size=2 + row)) for row in range(count)]
    answers = [" ".join(rng.choice(WORDS, size=1 + 2 * (row % 2))) for row in range(count)]
    columns = {
        "prompt": tuple(texts),
        "corrupted": tuple(shuffled(text, rng) for text in texts),
        "answer": tuple(answers),
    }
    return TextData("prompts", "prompt", columns)


def test_a_language_model() -> None:
    check(language_model(), prompts())


def test_an_encoder_decoder_model() -> None:
    torch.manual_seed(1)
    config = BartConfig(
        vocab_size=24,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=20,
        decoder_ffn_dim=20,
        max_position_embeddings=32,
        init_std=0.5,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=3,
        forced_eos_token_id=None,
    )
    module = BartForConditionalGeneration(config).double()
    model = HuggingFaceModel("words-bart", "seq2seq", module, words_tokenizer())
    known = prompts().columns
    columns = {
        "source": known["prompt"], "corrupted": known["corrupted"], "target": known["answer"]
    }  # fmt: skip
    check(model, TextData("translations", "translation", columns))


def test_a_fairseq_model() -> None:
    pytest.importorskip("fairseq")
    model = load_model("builtin:mt", device="cpu")
    model = model.with_module(model.module.double())
    data = load_data("builtin:mt/test", limit=40)
    lengths = model.encode(data)
    same = [
        (a, b)
        for a in range(40)
        for b in range(40)
        if a != b and len(lengths.rows[a]["source"]) == len(lengths.rows[b]["source"])
    ][:5]
    chosen = data.take([a for a, _ in same])
    others = tuple(data.columns["source"][b] for _, b in same)
    columns = {**chosen.columns, "corrupted": others}
    check(model, replace(chosen, columns=columns, rows=None), rounding=1e-6)  # softmax in float32


def test_lengths_that_differ_are_refused_with_the_row() -> None:
    model, data = language_model(), prompts()
    longer = list(data.columns["corrupted"])
    longer[3] += " w1"
    bad = TextData("bad.tsv", "prompt", {**data.columns, "corrupted": tuple(longer)})
    mask = [HeadMask.without(model.sites, model.sites.heads[:1])]
    message = r"bad.tsv, example 4: the text has 8 tokens and the corrupted one 9; .* equally long"
    with pytest.raises(HeadtoolError, match=message):
        evaluate(model, model.encode(bad), mask, replacement=Counterfactual())
    with pytest.raises(HeadtoolError, match=r"bad\.tsv, example 4: "):  # its place in the file
        evaluate(model, model.encode(bad.take([3, 0])), mask, replacement=Counterfactual())
    evaluate(model, model.encode(bad), mask, replacement=Mean())  # which needs no pairs


def test_parts_that_divide_elsewhere_are_refused(bert: HuggingFaceModel) -> None:  # noqa: F811
    columns = {
        "text_a": ("w1 w2",), "text_b": ("w3 w4",), "label": ("0",),
        "corrupted": ("w1",), "corrupted_b": ("w2 w3 w4",),
    }  # fmt: skip
    examples = bert.encode(TextData("pairs.tsv", "classification", columns))
    mask = [HeadMask.without(bert.sites, bert.sites.heads[:1])]
    with pytest.raises(HeadtoolError, match=r"pairs.tsv, example 1: .* divides at other tokens"):
        evaluate(bert, examples, mask, replacement=Counterfactual())


def test_data_without_corrupted_texts_are_refused() -> None:
    model = load_model("builtin:nli", device="cpu")
    examples = model.encode(load_data("builtin:nli/matched", limit=4))
    mask = [HeadMask.without(model.sites, model.sites.heads[:1])]
    with pytest.raises(HeadtoolError, match="nli/matched has no column 'corrupted'"):
        evaluate(model, examples, mask, replacement=Counterfactual())


def test_generated_text_has_no_positions_to_align() -> None:
    pytest.importorskip("fairseq")
    model = load_model("builtin:mt", device="cpu")
    examples = model.encode(load_data("builtin:mt/test", limit=2))
    with pytest.raises(HeadtoolError, match="'counterfactual' is aligned by position"):
        translate(model, examples, [], replacement=Counterfactual())
