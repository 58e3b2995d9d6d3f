"""Prompts with several answers against a literal scorer that works as lm-evaluation-harness."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from headtool import ablate
from headtool.data import TextData
from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.heads.masks import DealtMask
from headtool.metrics import get_metric
from headtool.models.answers import spread
from headtool.models.huggingface.model import HuggingFaceModel

from ..support.language_model import WORDS, language_model


def words(rng: np.random.Generator, low: int, high: int) -> str:
    return " ".join(rng.choice(WORDS, size=int(rng.integers(low, high + 1))))


def choices(count: int = 12, *, longest: int = 3) -> TextData:
    """Two to four choices each; of some examples all are one token, of others they differ."""
    rng = np.random.default_rng(9)
    lists = [
        [words(rng, 1, longest if row % 2 else 1) for _ in range(2 + row % 3)]
        for row in range(count)
    ]
    return TextData(
        "choices.jsonl",
        "choice",
        {
            "prompt": tuple(words(rng, 1, 8) + " " * (row % 3 == 0) for row in range(count)),
            "choices": tuple(map(json.dumps, lists)),
            "label": tuple(str(rng.integers(len(texts))) for texts in lists),
        },
    )


def log_probability(model: HuggingFaceModel, prompt: str, answer: str) -> float:
    """Sum over an answer's tokens; what is too long is cut on the left, its last token not read."""
    context = model.tokenizer(prompt)["input_ids"]
    answered = model.tokenizer(answer, add_special_tokens=False)["input_ids"]
    read = [*context, *answered][-(model.max_length + 1) :][:-1]
    with torch.no_grad():
        logits = model.module(input_ids=torch.tensor([read])).logits[0]
    predictions = logits[-len(answered) :].log_softmax(dim=-1)
    return sum(float(row[token]) for row, token in zip(predictions, answered, strict=True))


@pytest.mark.parametrize("longest", [1, 3])
def test_choices_are_scored_as_by_the_harness(longest: int) -> None:
    """Prompts of up to 8 words do not fit into 7 tokens, so some are cut on the left."""
    model = language_model(longest=7)
    data = choices(longest=longest)
    examples = model.encode(data, batch_tokens=50)
    found = evaluate(model, examples, []).whole
    right = {"acc": [], "acc_norm": [], "acc_bytes": []}
    for row, prompt in enumerate(data.columns["prompt"]):
        texts = json.loads(data.columns["choices"][row])
        gold = int(data.columns["label"][row])
        sums = np.array([log_probability(model, prompt, text) for text in texts])
        assert found["loss"][row] == pytest.approx(-sums[gold], abs=1e-9)
        assert found["tokens"][row] == len(texts[gold].split())
        assert found["bytes"][row] == len(f" {texts[gold]}")
        right["acc"].append(np.argmax(sums) == gold)
        right["acc_norm"].append(np.argmax(sums / [len(text) for text in texts]) == gold)
        size = [len(text.encode()) for text in texts]
        right["acc_bytes"].append(np.argmax(sums / size) == gold)
    for name, values in right.items():
        np.testing.assert_array_equal(found[name], values)
        assert get_metric(name, task="causal-lm").compute(found) == pytest.approx(np.mean(values))
    assert (len(spread(examples)) > len(examples)) == (longest > 1)
    assert examples.truncated > 0
    assert not all(right["acc"])


def test_lengths_in_characters_and_in_bytes_can_decide_differently() -> None:
    from headtool.models.answers import gathered

    row = {"kind": "choice", "gold": 0, "sizes": [[2, 6], [3, 3]], "rivals": [5, 6]}
    examples = language_model().encode(choices(1)).take(np.array([0]))
    examples = type(examples)(examples.data, (row,), examples.lengths, 50)
    losses = {"loss": 6.0, "rival0_loss": 6.0, "rival1_loss": 7.0}
    columns = {name: np.array([[value]]) for name, value in losses.items()}
    found = gathered(examples, columns)
    assert [found[name][0, 0] for name in ("acc", "acc_norm", "acc_bytes")] == [1, 0, 1]
    tie = gathered(examples, columns | {"rival1_loss": np.array([[6.0]])})
    assert tie["acc"][0, 0] == 1  # the first of equal ones


def prompts(*, long: bool) -> TextData:
    count, rng = 8, np.random.default_rng(3)
    answers = [words(rng, 1, 3 if long else 1) for _ in range(2 * count)]
    columns = {
        "prompt": tuple(words(rng, 2, 7) for _ in range(count)),
        "answer": tuple(answers[:count]),
        "wrong": tuple(answers[count:]),
    }
    return TextData("prompts.tsv", "prompt", columns)


@pytest.mark.parametrize("long", [False, True])
def test_the_logit_difference_of_masked_models(long: bool) -> None:
    model, data = language_model(), prompts(long=long)
    examples = model.encode(data, batch_tokens=60)
    heads = model.sites.heads
    mask = HeadMask.without(model.sites, heads[:3])
    outcomes = evaluate(model, examples, [mask, HeadMask.full(model.sites)])
    metric = get_metric("logit-difference", task="causal-lm")
    whole = [
        log_probability(model, prompt, answer) - log_probability(model, prompt, wrong)
        for prompt, answer, wrong in zip(*data.columns.values(), strict=True)
    ]
    np.testing.assert_allclose(metric.per_example(outcomes.whole)[:, 0], whole, atol=1e-9)
    handle = model.handles[0]
    width = 3 * handle.site.head_dim

    def close(_module, args):
        changed = args[0].clone()
        changed[..., :width] = 0
        return (changed,)

    hook = handle.module.register_forward_pre_hook(close)
    masked = [
        log_probability(model, prompt, answer) - log_probability(model, prompt, wrong)
        for prompt, answer, wrong in zip(*data.columns.values(), strict=True)
    ]
    hook.remove()
    np.testing.assert_allclose(metric.per_example(outcomes.row(0))[:, 0], masked, atol=1e-9)
    assert metric.compute(outcomes.row(0)) != pytest.approx(
        metric.compute(outcomes.whole), abs=0.01
    )
    np.testing.assert_array_equal(outcomes.masked["wrong_loss"][1], outcomes.whole["wrong_loss"])


def test_for_one_token_it_is_the_difference_of_logits() -> None:
    model = language_model()
    data = TextData("p", "prompt", {"prompt": ("w1 w2",), "answer": ("w3",), "wrong": ("w4",)})
    ids = torch.tensor([model.tokenizer("w1 w2")["input_ids"]])
    logits = model.module(input_ids=ids).logits[0, -1].detach()
    expected = float(logits[model.tokenizer.vocab["w3"]] - logits[model.tokenizer.vocab["w4"]])
    assert ablate(model, data, metric="logit-difference").whole["logit-difference"] == (
        pytest.approx(expected, abs=1e-9)
    )


def test_answers_do_not_depend_on_batches() -> None:
    model, data = language_model(), prompts(long=True)
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads]
    one, many = (
        evaluate(model, model.encode(data, batch_tokens=size), masks) for size in (12, 4096)
    )
    for name in ("loss", "wrong_loss", "tokens", "correct", "bytes"):
        np.testing.assert_allclose(one.masked[name], many.masked[name], atol=1e-9)


@pytest.mark.parametrize("batch_tokens", [50, 4096])
def test_all_answers_of_an_example_meet_the_mask_that_it_is_dealt(batch_tokens: int) -> None:
    model = language_model()
    examples = model.encode(choices(), batch_tokens=batch_tokens)
    assert spread(examples).owners is not None
    drawn = np.random.default_rng(4).random((len(examples), model.sites.n_heads)) > 0.5
    dealt = evaluate(model, examples, [DealtMask(model.sites, drawn)]).masked
    for number, row in enumerate(drawn):
        alone = examples.take(np.array([number]))
        one = evaluate(model, alone, [HeadMask(model.sites, row)]).masked
        for name, values in one.items():
            assert dealt[name][0, number] == pytest.approx(values[0, 0], abs=1e-9), name


def test_bytes_of_running_text() -> None:
    """Each byte counts once, except for the first token where no special one goes before it."""
    text = " ".join(WORDS[row % 20] for row in range(600)) + " é"
    data = TextData("long.txt", "text", {"text": (text,)})
    examples = language_model(start=True).encode(data)
    assert sum(row["bytes"] for row in examples.rows) == len(text.encode())
    without = language_model(start=False).encode(data)
    first = [row["input_ids"][0] for row in without.rows]
    words_first = [without.rows[i]["input_ids"] for i in range(len(first))]
    spaces = len(words_first) - 1  # belong to the token behind them
    left_out = sum(len(f"w{ids[0] - 4}") for ids in words_first) + spaces
    assert sum(row["bytes"] for row in without.rows) == len(text.encode()) - left_out


def test_metrics_without_their_columns_are_refused() -> None:
    model = language_model()
    data = TextData("plain.tsv", "prompt", {"prompt": ("w1",), "answer": ("w2",)})
    with pytest.raises(HeadtoolError, match="logit-difference is computed from a column 'wrong'"):
        ablate(model, data, metric="logit-difference")
    with pytest.raises(HeadtoolError, match=r"acc_norm is computed from a column 'choices'.*plain"):
        ablate(model, data, metric="acc_norm")


def test_an_answer_without_tokens_is_refused_with_its_row() -> None:
    columns = {"prompt": ("w1", "w2"), "answer": ("w3", " ")}
    data = TextData("plain.tsv", "prompt", columns)
    with pytest.raises(HeadtoolError, match=r"plain\.tsv, example 2: the answer ' ' has no tokens"):
        language_model().encode(data)


def test_a_classifier_takes_no_prompts() -> None:
    from headtool import load_model

    data = TextData("plain.tsv", "prompt", {"prompt": ("w1",), "answer": ("w2",)})
    with pytest.raises(
        HeadtoolError, match=r"plain\.tsv holds data of the kind prompt, but builtin:nli is a"
    ):
        load_model("builtin:nli").encode(data)
