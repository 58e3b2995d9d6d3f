"""Translations of transformers models under masks, against their own ``generate``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from headtool.data import TextData
from headtool.engine.decoding import Search, translate
from headtool.engine.replacement import Mean
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.models.huggingface import source_searches
from headtool.models.huggingface.drafts import Drafts
from headtool.models.huggingface.model import HuggingFaceModel
from headtool.models.huggingface.source_searches import SourceSearches
from headtool.models.huggingface.translation import Translation

WORDS = 60
START, PAD, END, UNKNOWN = range(4)
LONGEST = 24

BART: dict[str, Any] = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 40,
    "bos_token_id": START,
    "pad_token_id": PAD,
    "eos_token_id": END,
    "decoder_start_token_id": END,
    "forced_eos_token_id": None,
}


def t5() -> Any:
    config = tf.T5Config(
        vocab_size=WORDS,
        d_model=20,
        d_kv=6,
        num_layers=2,
        num_heads=4,
        d_ff=28,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
    )
    return tf.T5ForConditionalGeneration(config)


def marian() -> Any:
    return tf.MarianMTModel(tf.MarianConfig(vocab_size=WORDS, decoder_vocab_size=WORDS, **BART))


def bart() -> Any:
    return tf.BartForConditionalGeneration(tf.BartConfig(vocab_size=WORDS, **BART))


MODELS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "Marian": (
        marian,
        {
            "num_beams": 4,
            "max_length": 12,
            "bad_words_ids": [[PAD], [10, 11]],
            "forced_eos_token_id": END,
        },
    ),
    "BART": (
        bart,
        {
            "num_beams": 3,
            "early_stopping": True,
            "no_repeat_ngram_size": 3,
            "forced_bos_token_id": START,
            "forced_eos_token_id": END,
            "min_length": 4,
            "max_length": 14,
            "length_penalty": 2.0,
        },
    ),
    "T5": (t5, {"max_new_tokens": 9, "repetition_penalty": 1.3}),
}


def tokenizer() -> Any:
    words = {f"w{i}": i for i in range(4, WORDS)}
    vocabulary = {"<s>": START, "<pad>": PAD, "</s>": END, "<unk>": UNKNOWN, **words}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    inner.post_processor = TemplateProcessing(  # type: ignore[assignment]
        single="$A </s>", special_tokens=[("</s>", END)]
    )
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=LONGEST,
    )


def adapter(name: str, **settings: Any) -> HuggingFaceModel:
    build, own = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module = build()
        for weight in module.parameters():
            torch.nn.init.normal_(weight, mean=float(weight.mean() > 0.5), std=0.3)
    for option, value in {**own, **settings}.items():
        setattr(module.generation_config, option, value)
    return HuggingFaceModel(name, "seq2seq", module, tokenizer())


def lines(count: int) -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    return tuple(
        " ".join(f"w{i}" for i in rng.integers(4, WORDS, size=rng.integers(1, 9)))
        for _ in range(count)
    )


# Beside ordinary lines: an empty one, one of unknown words, and one that is cut.
SOURCES = (*lines(7), "", "of unknown words", " ".join(lines(100))[:1500])
PAIRS = TextData("pairs", "translation", {"source": SOURCES, "target": SOURCES})


def by_generate(model: HuggingFaceModel, **options: Any) -> tuple[str, ...]:
    """The tokenizer, ``generate`` and the tokenizer, as everyone calls them."""
    inputs = model.tokenizer(list(SOURCES), padding=True, truncation=True, return_tensors="pt")
    inputs.pop("token_type_ids", None)
    generated = model.module.generate(**inputs, **options)  # type: ignore[operator]
    return tuple(model.tokenizer.batch_decode(generated, skip_special_tokens=True))


def some_masks(model: HuggingFaceModel) -> list[HeadMask]:
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads[::2]]
    random = np.random.default_rng(1).random(model.sites.n_heads) < 0.5
    return [HeadMask.full(model.sites), *masks, HeadMask(model.sites, random)]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam", [None, 1, 3])
def test_masks_decode_as_from_scratch(name: str, beam: int | None) -> None:
    model = adapter(name)
    examples = model.encode(PAIRS, batch_tokens=60)
    masks = some_masks(model)
    search = Search(beam=beam)
    fast = translate(model, examples, masks, search=search)
    assert fast == translate(model, examples, masks, search=search, fast=False)
    options = {} if beam is None else {"num_beams": beam}
    if beam == 1:
        options |= {"early_stopping": False, "length_penalty": 1.0}
    assert fast.whole == by_generate(model, **options)
    assert fast.masked[0] == fast.whole
    assert 0 < fast.unchanged[1:].max() < 1


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam", [1, 3])
def test_a_mask_is_the_head_s_zeroed_columns(name: str, beam: int) -> None:
    model = adapter(name, early_stopping=False, length_penalty=1.0)
    examples = model.encode(PAIRS)
    sites = [next(site for site in model.sites if site.kind == kind) for kind in model.sites.kinds]
    masks = [HeadMask.without(model.sites, [site.heads[1]]) for site in sites]
    found = translate(model, examples, masks, search=Search(beam=beam))
    for site, texts in zip(sites, found.masked, strict=True):
        weight = next(h.module.weight for h in model.handles if h.site == site)
        kept = weight.detach().clone()
        columns = slice(site.head_dim, 2 * site.head_dim)
        with torch.no_grad():
            weight[:, columns] = 0
            zeroed = by_generate(model, num_beams=beam)
            weight.copy_(kept)
        assert texts == zeroed
    assert found.unchanged.max() < 1


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sentences ``generate`` searches in each of its calls from now on."""
    searched: list[int] = []
    generate = Translation._generate

    def noted(self: Any, inputs: Any, states: Any, **how: Any) -> Any:
        if not how:
            searched.append(len(inputs["input_ids"]))
        return generate(self, inputs, states, **how)

    monkeypatch.setattr(Translation, "_generate", noted)
    return searched


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam", [1, 5])
def test_generate_searches_only_some_sentences_and_ties(
    name: str, beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = adapter(name)
    examples = model.encode(PAIRS)
    masks = some_masks(model)[:4]
    plain = translate(model, examples, masks, search=Search(beam=beam), fast=False)
    searched = counted(monkeypatch)
    found = translate(model, examples, masks, search=Search(beam=beam))
    assert found == plain
    assert 4 in searched  # those that tell whether the searches are generate's
    assert sum(searched) <= 4 + 0.2 * len(masks) * len(examples)


def noted(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """How many drafts are read from now on, and how many searches go on from one."""
    read: list[int] = []
    begun: list[int] = []
    accepted, written_on = Drafts.accepted, SourceSearches._written_on

    def reading(self: Any, masks: Any, owners: Any, places: Any) -> Any:
        read.append(len(owners))
        return accepted(self, masks, owners, places)

    def writing(self: Any, masks: Any, waiting: Any, **how: Any) -> Any:
        begun.append(sum(len(one.owners) for one in waiting))
        return written_on(self, masks, waiting, **how)

    monkeypatch.setattr(Drafts, "accepted", reading)
    monkeypatch.setattr(SourceSearches, "_written_on", writing)
    return read, begun


@pytest.mark.parametrize("name", MODELS)
def test_greedy_searches_go_on_from_drafts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = adapter(name)
    examples = model.encode(PAIRS)
    masks = some_masks(model)
    plain = translate(model, examples, masks, search=Search(beam=1), fast=False)
    monkeypatch.setattr(source_searches, "_ACCEPTED", 0.0)
    monkeypatch.setattr(source_searches, "_PREFIXES", 20)  # several times
    read, begun = noted(monkeypatch)
    assert translate(model, examples, masks, search=Search(beam=1)) == plain
    pairs = len(masks[1:]) * len(examples)
    assert 0.8 * pairs <= sum(read) - 4 <= pairs
    assert 0 < sum(begun) - 4 < sum(read)
    assert len(begun) > 2


def test_drafts_are_left_where_masks_do_not_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model = adapter("Marian")
    examples = model.encode(PAIRS)
    closed = [
        HeadMask.without(model.sites, [h for h in model.sites.heads if h != head])
        for head in model.sites.heads
    ]
    plain = translate(model, examples, closed, search=Search(beam=1), fast=False)
    read, _ = noted(monkeypatch)
    assert translate(model, examples, closed, search=Search(beam=1)) == plain
    assert sum(read) < 0.5 * len(closed) * len(examples)


def test_drafts_are_not_used_where_they_do_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    model = adapter("BART")
    examples = model.encode(PAIRS)
    masks = some_masks(model)[:4]
    plain = translate(model, examples, masks, search=Search(beam=1), fast=False)
    ranked = Drafts._ranked

    def one_late(self: Any, texts: Any, logits: Any) -> Any:
        values, tokens = ranked(self, texts, logits)
        return values, tokens.roll(1, dims=1)

    monkeypatch.setattr(Drafts, "_ranked", one_late)
    read, _ = noted(monkeypatch)
    assert translate(model, examples, masks, search=Search(beam=1)) == plain
    assert sum(read) == 4


@pytest.mark.parametrize("beam", [1, 5])
def test_where_ties_abound_generate_searches_every_mask(
    beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = adapter("Marian")
    with torch.no_grad():
        model.module.get_output_embeddings().weight.zero_()  # type: ignore[operator]
        model.module.final_logits_bias.zero_()  # type: ignore[operator, union-attr]
    examples = model.encode(PAIRS)
    masks = some_masks(model)[:4]
    searched = counted(monkeypatch)
    found = translate(model, examples, masks, search=Search(beam=beam))
    assert searched == [len(examples)] * len(masks)  # one leaves all heads open
    assert found == translate(model, examples, masks, search=Search(beam=beam), fast=False)


SETTINGS: dict[str, dict[str, Any]] = {
    "stops at once": {"early_stopping": True, "length_penalty": 0.3},
    "never stops early": {"early_stopping": "never", "length_penalty": 1.5},
    "short ones": {"early_stopping": False, "length_penalty": -1.0, "min_length": 0},
    "no penalty": {"early_stopping": "never", "length_penalty": 0.0},
    "two ends": {"eos_token_id": [END, 20, 21], "num_beams": 2},
    "wide": {"num_beams": 7, "forced_bos_token_id": None},
    "biased": {"sequence_bias": [[[11], 4.0]], "exponential_decay_length_penalty": (3, 1.5)},
    "by the source": {"encoder_no_repeat_ngram_size": 1},  # left to generate
    "by the clock": {"max_time": 1e6},  # left to generate
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_all_settings_of_a_search_are_followed(settings: dict[str, Any]) -> None:
    model = adapter("BART", **settings)
    examples = model.encode(PAIRS)
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads[::7]]
    mean = Mean()
    found = translate(model, examples, masks, replacement=mean)
    assert found == translate(model, examples, masks, replacement=mean, fast=False)
    assert found.whole == by_generate(model)


def test_other_attention_than_sdpa_searches_alike() -> None:
    model = adapter("Marian")
    examples = model.encode(PAIRS)
    masks = some_masks(model)[:4]
    found = translate(model, examples, masks)
    model.module.set_attn_implementation("eager")  # type: ignore[operator]
    assert translate(model, examples, masks) == found


def test_length_and_penalty_can_be_chosen() -> None:
    model = adapter("BART")
    examples = model.encode(PAIRS)
    found = translate(model, examples, [], search=Search(length_penalty=0.5, max_length=6))
    assert found.search == Search(beam=3, length_penalty=0.5, max_length=6)
    assert found.whole == by_generate(model, length_penalty=0.5, max_length=7)
    t5_model = adapter("T5")
    shorter = translate(t5_model, t5_model.encode(PAIRS), [], search=Search(max_length=4))
    assert shorter.whole == by_generate(t5_model, max_new_tokens=4)


def test_settings_that_are_not_followed_are_refused() -> None:
    for settings, message in (
        ({"do_sample": True}, "do_sample"),
        ({"penalty_alpha": 0.6, "top_k": 4}, "contrastive search"),
        ({"num_beam_groups": 3, "num_beams": 3, "diversity_penalty": 0.5}, "group beam search"),
    ):
        model = adapter("T5", **settings)
        with pytest.raises(HeadtoolError, match=message):
            translate(model, model.encode(PAIRS), [])
