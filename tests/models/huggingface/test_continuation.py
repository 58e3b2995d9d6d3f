"""What causal models write after prompts under masks, against ``generate``, a prompt at a time."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf

import headtool
from headtool.data import TextData
from headtool.engine.decoding import translate
from headtool.engine.replacement import Mean
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.metrics import get_metric
from headtool.models.huggingface.continuation import Continuation
from headtool.models.huggingface.model import HuggingFaceModel
from headtool.searching import Search

from ...support.language_model import WORDS, language_model, words_tokenizer
from ...support.tasks import talker

SIZES: dict[str, Any] = {"vocab_size": 24, "bos_token_id": 2, "eos_token_id": 3}


def gpt2(**more: Any) -> Any:
    config = tf.GPT2Config(**SIZES, n_embd=16, n_layer=3, n_head=4, n_positions=40, **more)
    return tf.GPT2LMHeadModel(config)


def llama(**more: Any) -> Any:
    config = tf.LlamaConfig(
        **SIZES,
        hidden_size=16,
        intermediate_size=20,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=40,
        **more,
    )
    return tf.LlamaForCausalLM(config)


def neox() -> Any:
    config = tf.GPTNeoXConfig(
        **SIZES,
        hidden_size=16,
        intermediate_size=20,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=40,
    )
    return tf.GPTNeoXForCausalLM(config)


def bloom() -> Any:
    return tf.BloomForCausalLM(tf.BloomConfig(**SIZES, hidden_size=16, n_layer=2, n_head=4))


def mistral() -> Any:
    """A window that is shorter than a prompt."""
    config = tf.MistralConfig(
        **SIZES,
        hidden_size=16,
        intermediate_size=20,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=40,
        sliding_window=5,
    )
    return tf.MistralForCausalLM(config)


MODELS: dict[str, Callable[[], Any]] = {
    "GPT-2": gpt2,
    "Llama": llama,
    "GPT-NeoX": neox,
    "Bloom": bloom,
    "Mistral": mistral,
}


def adapter(name: str, **settings: Any) -> HuggingFaceModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        module = MODELS[name]().double()
        for weight in module.parameters():
            torch.nn.init.normal_(weight, mean=float(weight.mean() > 0.5), std=0.3)
    for option, value in settings.items():
        setattr(module.generation_config, option, value)
    return HuggingFaceModel(name, "causal-lm", module, words_tokenizer(longest=40))


def prompts(count: int = 6) -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    lengths = [1, 1, *rng.integers(2, 9, size=count - 2).tolist()]
    return tuple(" ".join(f"w{i}" for i in rng.integers(0, 20, size=n)) for n in lengths)


PROMPTS = prompts()
DATA = TextData("prompts", "prompt", {"prompt": PROMPTS, "answer": PROMPTS[::-1]})
LENGTH = 7


def alone(model: HuggingFaceModel, **options: Any) -> tuple[str, ...]:
    """``generate`` with one prompt at a time, as the tokenizer makes it."""
    texts = []
    settings = vars(model.module.generation_config) | options
    if settings["max_new_tokens"] is None and settings["max_length"] is None:
        options["max_new_tokens"] = 20  # what it does anyway, with a warning
    for prompt in PROMPTS:
        inputs = model.tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
        generated = model.module.generate(**inputs, pad_token_id=0, **options)  # type: ignore[operator]
        new = generated[0, inputs["input_ids"].shape[1] :]
        texts.append(model.tokenizer.decode(new, skip_special_tokens=True))
    return tuple(texts)


@contextlib.contextmanager
def zeroed(model: HuggingFaceModel, mask: HeadMask) -> Iterator[None]:
    """Set what the closed heads' columns of the output projections hold to zero."""
    with torch.no_grad(), contextlib.ExitStack() as stack:
        for handle in model.handles:
            weight: Any = handle.module.weight
            stack.callback(weight.copy_, weight.clone())
            by_column = weight.t() if type(handle.module).__name__ == "Conv1D" else weight
            width = handle.site.head_dim
            for head in handle.site.heads:
                if head in mask.closed:
                    by_column[:, head.index * width : (head.index + 1) * width] = 0
        yield


def some_masks(model: HuggingFaceModel) -> list[HeadMask]:
    singles = [HeadMask.without(model.sites, [head]) for head in model.sites.heads[1::6]]
    random = np.random.default_rng(1).random(model.sites.n_heads) < 0.5
    return [HeadMask.full(model.sites), *singles, HeadMask(model.sites, random)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam", [1, 3])
def test_masks_continue_as_the_masked_model_alone(name: str, beam: int) -> None:
    model = adapter(name)
    masks = some_masks(model)
    examples = model.encode(DATA, batch_tokens=60)
    search = Search(beam=beam, max_length=LENGTH)
    found = translate(model, examples, masks, search=search)
    options = {"num_beams": beam, "max_new_tokens": LENGTH}
    assert found.whole == alone(model, **options)
    for mask, texts in zip(masks[1:], found.masked[1:], strict=True):
        with zeroed(model, mask):
            assert texts == alone(model, **options)
    assert found.unchanged[0] == 1
    assert found.unchanged.min() < 1
    assert found == translate(model, examples, masks, search=search, fast=False)


@pytest.mark.parametrize("beam", [1, 3])
def test_generate_continues_only_some_prompts_and_ties(
    beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = adapter("Llama")
    continued: list[int] = []
    again = Continuation.again

    def noted(self: Any, masks: Any, owners: Any, prompts: Any, filling: Any) -> Any:
        continued.append(len(prompts))
        return again(self, masks, owners, prompts, filling)

    def plain(*args: Any) -> None:
        raise AssertionError("all masks are continued from scratch")

    monkeypatch.setattr(Continuation, "again", noted)
    monkeypatch.setattr(Continuation, "decode", plain)
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads]
    translate(model, model.encode(DATA), masks, search=Search(beam=beam, max_length=LENGTH))
    assert sum(continued) <= 4 + 0.2 * len(masks) * len(DATA)


def test_a_model_that_reads_padding_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    model = adapter("GPT-2")
    forward = model.module.forward

    def unmasked(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("attention_mask") is not None:
            kwargs["attention_mask"] = torch.ones_like(kwargs["attention_mask"])
        return forward(*args, **kwargs)

    unmasked.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(model.module, "forward", unmasked)
    search = Search(beam=1, max_length=LENGTH)
    found = translate(model, model.encode(DATA), some_masks(model)[-1:], search=search)
    assert found.whole == alone(model, max_new_tokens=LENGTH)
    with zeroed(model, found.masks[0]):
        assert found.masked[0] == alone(model, max_new_tokens=LENGTH)


SETTINGS: dict[str, dict[str, Any]] = {
    "no setting": {"max_length": None},
    "both together": {"max_length": 14},
    "new ones": {"max_new_tokens": 5},
    "repeats": {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2, "max_new_tokens": 8},
    "lengths": {"min_new_tokens": 3, "max_new_tokens": 8, "eos_token_id": [3, 7, 8, 9]},
    "of both": {"min_length": 8, "max_length": 16, "eos_token_id": [3, 7, 8, 9]},
    "words": {"bad_words_ids": [[5], [6, 7]], "forced_eos_token_id": 3, "max_new_tokens": 6},
    "no end": {"eos_token_id": None, "max_new_tokens": 6},
    "beams": {"num_beams": 3, "length_penalty": 0.0, "early_stopping": True, "max_length": 15},
    "patient": {"num_beams": 2, "early_stopping": "never", "length_penalty": 2.0},
    "short beams": {"num_beams": 3, "length_penalty": -1.0, "max_length": 16},
    "by the clock": {"max_time": 1e6, "max_new_tokens": 5},  # left to generate
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_settings_of_the_model_are_followed(settings: dict[str, Any]) -> None:
    model = adapter("Llama", **settings)
    masks = some_masks(model)[-1:]
    found = translate(model, model.encode(DATA), masks)
    assert found.whole == alone(model)
    for mask, texts in zip(masks, found.masked, strict=True):
        with zeroed(model, mask):
            assert texts == alone(model)


def test_closed_heads_may_put_out_their_mean() -> None:
    model = adapter("GPT-2")
    masks = some_masks(model)[::2]
    examples, search = model.encode(DATA), Search(beam=2, max_length=LENGTH)
    found = translate(model, examples, masks, search=search, replacement=Mean())
    plain = translate(model, examples, masks, search=search, replacement=Mean(), fast=False)
    assert found == plain
    assert found.masked != translate(model, examples, masks, search=search).masked


def test_the_loss_is_that_of_the_answer_alone() -> None:
    model = adapter("Llama")
    outcome = headtool.evaluate(model, model.encode(DATA), []).whole
    for number, (prompt, answer) in enumerate(zip(PROMPTS, DATA.columns["answer"], strict=True)):
        before = model.tokenizer(prompt, return_tensors="pt")["input_ids"]
        ids = model.tokenizer(f"{prompt} {answer}", return_tensors="pt")["input_ids"]
        labels = ids.clone()
        labels[:, : before.shape[1]] = -100
        loss = model.module(input_ids=ids, labels=labels).loss.item()
        assert outcome["tokens"][number] == ids.shape[1] - before.shape[1]
        assert outcome["loss"][number] / outcome["tokens"][number] == pytest.approx(loss)


def test_a_template_is_used_for_messages_alone() -> None:
    model = talker()
    said = "rain in paris"
    plain = TextData("p", "prompt", {"prompt": (said,), "answer": ("ada",)})
    message = json.dumps([{"role": "user", "content": said}])
    chat = TextData("m", "prompt", {"messages": (message,), "answer": ("ada",)})
    whole = model.tokenizer.apply_chat_template(json.loads(message), add_generation_prompt=True)
    assert list(model.encode(chat).rows[0]["prompt"]) == list(whole["input_ids"])
    ids = model.tokenizer(said)["input_ids"]
    assert ids[-1] == model.tokenizer.sep_token_id  # which ends a text
    assert list(model.encode(plain).rows[0]["prompt"]) == ids[:-1]


def test_white_space_stays_where_the_prompt_ends() -> None:
    model = headtool.load_model("builtin:planted", device="cpu")
    data = TextData("p", "prompt", {"prompt": ("a b\n",), "answer": ("c",)})
    assert list(model.encode(data).rows[0]["prompt"]) == model.tokenizer("a b\n")["input_ids"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "search", "words"),
    [
        ({"max_length": 6}, Search(), ("prompt and continuation together", "`max_length`")),
        ({}, Search(max_length=35), ("more than the 40", "smaller `max_length`")),
        ({"do_sample": True}, Search(), ("do_sample",)),
        ({"stop_strings": ["w1"]}, Search(), ("stop string", "generation settings")),
    ],
)
def test_what_cannot_be_continued_is_refused(
    settings: dict[str, Any], search: Search, words: tuple[str, ...]
) -> None:
    model = adapter("Llama", **settings)
    with pytest.raises(HeadtoolError) as caught:
        translate(model, model.encode(DATA), [], search=search)
    assert all(word in str(caught.value) for word in words)


def test_running_text_has_nothing_to_compare_with() -> None:
    model = language_model()
    text = TextData("t", "text", {"text": (" ".join(WORDS),)})
    with pytest.raises(HeadtoolError, match="t has none; give source and target"):
        headtool.ablate(model, text, metric="bleu")
    with pytest.raises(HeadtoolError, match="no prompts that words-llama could continue"):
        translate(model, model.encode(text), [])


def test_answers_are_compared_as_squad_does() -> None:
    exact = get_metric("em", task="causal-lm")
    share = get_metric("f1", task="causal-lm")
    written, right = (" The Seine.", "one river", "no"), ("seine", "a river", "yes")
    columns = {
        name: values
        for metric in (exact, share)
        for name, values in zip(metric.statistics, metric.compare(written, right).T, strict=True)  # type: ignore[attr-defined]
    }
    assert exact.compute(columns) == pytest.approx(1 / 3)
    assert share.compute(columns) == pytest.approx((1 + 2 / 3 + 0) / 3)


@pytest.mark.slow
def test_commands_take_written_text(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model = adapter("Llama")
    model.save(folder)
    rows = zip(PROMPTS, DATA.columns["answer"], strict=True)
    table = [{"prompt": prompt, "answer": answer} for prompt, answer in rows]
    data = tmp_path / "prompts.jsonl"
    data.write_text("\n".join(map(json.dumps, table)))
    search = Search(beam=1, max_length=LENGTH)
    run = tmp_path / "run"
    found = headtool.ablate(str(folder), str(data), metric="chrf", search=search, out=run)
    reopened = headtool.read_run(run)
    bleu = get_metric("bleu", task="causal-lm")
    again = headtool.ablate(str(folder), str(data), metric="bleu", search=search)
    assert bleu.compute(reopened.outcomes(bleu).whole) == again.whole["bleu"]
    assert found.measured.hypotheses is not None
    assert found.measured.hypotheses.whole == alone(model, max_new_tokens=LENGTH)
    headtool.compare(
        str(folder),
        str(data),
        methods=[headtool.get_method(name)() for name in ("gradient", "ablation")],
        metric="rougeL",
        search=search,
        draws=2,
        steps="50%",
        out=tmp_path / "compared",
    )
    source = headtool.read_run(tmp_path / "compared").source
    assert source["search"]["max_length"] == LENGTH


def test_pruned_models_write_as_far_as_asked() -> None:
    texts = [
        text.split() for text in headtool.load_data("builtin:planted", limit=12).columns["text"]
    ]
    rows = [{"prompt": " ".join(words[:-5]), "answer": " ".join(words[-5:])} for words in texts]
    model = headtool.load_model("builtin:planted", device="cpu")
    search = Search(max_length=5)
    for head, value in (("dec-self.0.0", 1.0), ("dec-self.0.3", 0.0)):  # idle, and one that copies
        mask = HeadMask.without(model.sites, [h for h in model.sites.heads if str(h) == head])
        pruned = headtool.prune(model, mask=mask, data=rows, metric="em", search=search)
        assert pruned.quality["em"] == {"whole": 1.0, "pruned": value}
