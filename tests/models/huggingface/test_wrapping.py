"""Models in memory: the same as loaded ones, and left as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch
import transformers as tf
from torch import nn

import headtool
from headtool.builtin.nli import model_folder
from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError

from ...support.families import BART, BERT, GPT2, LLAMA

T5: dict[str, Any] = {
    "vocab_size": 60,
    "d_model": 24,
    "d_kv": 6,
    "num_layers": 2,
    "num_heads": 4,
    "d_ff": 20,
    "decoder_start_token_id": 0,
}


def classifier() -> tuple[Any, Any]:
    folder = model_folder()
    model = tf.AutoModelForSequenceClassification.from_pretrained(folder)
    return model, tf.AutoTokenizer.from_pretrained(folder)


def rows(count: int = 6, *, each: bool = False, extra: int = 0) -> list[dict[str, Any]]:
    """Token numbers of texts of several lengths, with a label or a list of them."""
    drawn = torch.Generator().manual_seed(1)
    ids = [torch.randint(5, 50, (3 + i % 4,), generator=drawn).tolist() for i in range(count)]
    return [
        {"input_ids": x, "labels": x + [3] * extra if each else i % 2} for i, x in enumerate(ids)
    ]


def losses(model: Any, data: Any) -> list[float]:
    examples = model.encode(headtool.load_data(data))
    return [round(float(x), 5) for x in evaluate(model, examples, []).whole["loss"]]


def test_it_is_the_model_that_a_folder_holds() -> None:
    loaded = headtool.load_model("builtin:nli", device="cpu")
    wrapped = headtool.wrap(*classifier())
    assert wrapped.fingerprint == loaded.fingerprint
    assert wrapped.spec == f"memory:BertForSequenceClassification@{loaded.fingerprint[:8]}"
    assert (wrapped.sites, wrapped.labels) == (loaded.sites, loaded.labels)
    data = headtool.load_data("builtin:nli/matched", limit=8)
    ours, theirs = (
        headtool.score(model, data, methods=["gradient", "confidence"]).frame
        for model in (wrapped, loaded)
    )
    pd.testing.assert_frame_equal(ours, theirs)


def test_the_users_model_stays_as_it_was() -> None:
    model, tokenizer = classifier()
    model.train()
    model.bert.embeddings.requires_grad_(False)
    seen: list[str] = []
    model.classifier.register_forward_hook(lambda *_: seen.append("ran"))
    loss = model(input_ids=torch.tensor([[5, 6]]), labels=torch.tensor([1])).loss
    loss.backward()
    gradients = {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
    trained = {name: p.requires_grad for name, p in model.named_parameters()}
    config, hooks = model.config.to_dict(), dict(model.classifier._forward_hooks)
    with torch.no_grad():
        wrapped = headtool.wrap(model, tokenizer)
        found = headtool.compare(
            wrapped, "builtin:nli/matched", methods=["gradient"], limit=16, draws=2, resamples=50
        )
    assert len(found.curves)
    assert all(part.training for part in model.modules())
    assert {name: p.requires_grad for name, p in model.named_parameters()} == trained
    assert model.config.to_dict() == config
    assert dict(model.classifier._forward_hooks) == hooks
    assert not model.bert.encoder.layer[0].attention.output.dense._forward_pre_hooks
    for name, weight in model.named_parameters():
        kept = gradients[name]
        assert (weight.grad is None) if kept is None else torch.equal(weight.grad, kept)
    own = dict(wrapped.module.named_parameters())
    assert all(own[n].data_ptr() == p.data_ptr() for n, p in model.named_parameters())


def test_a_model_that_was_trained_further_is_wrapped_again() -> None:
    model, tokenizer = classifier()
    wrapped = headtool.wrap(model, tokenizer)
    before = wrapped.fingerprint
    with torch.no_grad():
        model.classifier.bias += 1
    with pytest.raises(HeadtoolError, match="have changed since it was wrapped; wrap it again"):
        headtool.score(wrapped, "builtin:nli/matched", limit=4)
    assert headtool.wrap(model, tokenizer).fingerprint != before
    with torch.no_grad():
        model.classifier.bias -= 1  # back, as far as floats allow
        model.classifier.bias.copy_(classifier()[0].classifier.bias)
    assert wrapped.fingerprint == before


MODELS: dict[str, tuple[Callable[[], nn.Module], bool, int]] = {
    "bert": (lambda: tf.BertForSequenceClassification(tf.BertConfig(**BERT)), False, 0),
    "masked": (lambda: tf.BertForMaskedLM(tf.BertConfig(**BERT)), True, 0),
    "gpt2": (lambda: tf.GPT2LMHeadModel(tf.GPT2Config(**GPT2)), True, 0),
    "llama": (lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**LLAMA)), True, 0),
    "bart": (lambda: tf.BartForConditionalGeneration(tf.BartConfig(**BART)), True, 2),
    "t5": (lambda: tf.T5ForConditionalGeneration(tf.T5Config(**T5)), True, 2),
}


@pytest.mark.parametrize("name", MODELS)
def test_without_a_tokenizer_the_loss_is_the_models_own(name: str) -> None:
    torch.manual_seed(0)
    build, each, extra = MODELS[name]
    model: Any = build().train()
    wrapped = headtool.wrap(model)
    data = rows(each=each, extra=extra)
    own = []
    for row in data:
        ids, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])
        with torch.no_grad():
            loss = model.eval()(input_ids=ids, labels=labels).loss
        scored = len(row["labels"]) - (wrapped.task == "causal-lm") if each else 1
        own.append(round(float(loss) * scored, 5))
    assert losses(wrapped, data) == pytest.approx(own, abs=1e-3)


def test_token_classifiers_take_a_label_for_each_token() -> None:
    torch.manual_seed(0)
    model: Any = tf.BertForTokenClassification(tf.BertConfig(**BERT)).eval()
    data = [{**row, "labels": [i % 3 for i in row["input_ids"]]} for row in rows(each=True)]
    data[0]["labels"][0] = -100
    wrapped = headtool.wrap(model)
    assert wrapped.task == "token-classification"
    own = []
    for row in data:
        ids, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])
        with torch.no_grad():
            own.append(float(model(input_ids=ids, labels=labels).loss) * int((labels >= 0).sum()))
    assert losses(wrapped, data) == pytest.approx(own, abs=1e-3)


def test_lower_precision_in_training_is_left_out() -> None:
    model: Any = MODELS["gpt2"][0]()
    expected = losses(headtool.wrap(model), rows(each=True))

    def lower(*_: Any, **__: Any) -> Any:
        raise AssertionError("accelerate's forward was called")

    # As accelerate leaves a model that was trained with autocast.
    model._original_forward, model.forward = model.forward, lower
    assert losses(headtool.wrap(model), rows(each=True)) == expected
    assert model.forward is lower


def test_its_weights_go_to_workers() -> None:
    pytest.importorskip("ray")
    from headtool.workers.packing import pack_model, unpack_model

    wrapped = headtool.wrap(*classifier())
    assert wrapped.source is None  # so that a worker gets the weights, not a SPEC
    there = unpack_model(pack_model(wrapped), torch.device("cpu"))
    assert there.fingerprint == wrapped.fingerprint
    data = "builtin:nli/matched"
    one, other = (headtool.score(model, data, limit=4).frame["score"] for model in (wrapped, there))
    assert one.tolist() == other.tolist()


def test_padding_is_left_out_and_long_texts_are_cut() -> None:
    wrapped = headtool.wrap(tf.GPT2LMHeadModel(tf.GPT2Config(**GPT2)))
    plain = rows(each=True)
    padded = [
        {
            "input_ids": [0] * 2 + row["input_ids"] + [0] * 3,
            "attention_mask": [0] * 2 + [1] * len(row["input_ids"]) + [0] * 3,
            "labels": [-100] * 2 + row["labels"] + [-100] * 3,
        }
        for row in plain
    ]
    assert losses(wrapped, padded) == losses(wrapped, plain)
    assert losses(wrapped, [{"input_ids": row["input_ids"]} for row in plain]) == losses(
        wrapped, plain
    )
    long = wrapped.encode(headtool.load_data([{"input_ids": [5] * 30}, {"input_ids": [6] * 20}]))
    assert (long.truncated, long.lengths.tolist()) == (1, [20, 20])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([{"text": "a", "label": 1}], "is text, and memory:.* was wrapped without a tokenizer"),
        ([{"input_ids": [5, 6]}], "has no labels, and .* classification model"),
        ([{"input_ids": [5, 6], "labels": [5, 6]}], "has lists, and .* one label for each row"),
        ([{"input_ids": [5, 6], "labels": 7}], "the labels of .* are not the model's"),
        ([{"input_ids": [5, 99], "labels": 1}], "gives the token number 99"),
        (
            [{"input_ids": [5], "attention_mask": [0], "labels": 1}],
            "example 1: attention_mask is 0",
        ),
        (
            [{"input_ids": [5], "attention_mask": [1, 1], "labels": 1}],
            "1 numbers in input_ids and 2",
        ),
    ],
)
def test_data_that_does_not_fit(data: Any, says: str) -> None:
    wrapped = headtool.wrap(tf.BertForSequenceClassification(tf.BertConfig(**BERT)))
    with pytest.raises(HeadtoolError, match=says):
        headtool.score(wrapped, data)


def test_what_takes_a_tokenizer_says_so() -> None:
    wrapped = headtool.wrap(tf.BartForConditionalGeneration(tf.BartConfig(**BART)))
    with pytest.raises(HeadtoolError, match="without a tokenizer, which it takes to decode"):
        headtool.score(wrapped, rows(each=True), methods=["ablation"], metric="bleu")
    with pytest.raises(HeadtoolError, match="which it takes to say what its tokens are"):
        headtool.roles(wrapped, rows(each=True))


def test_pruning_writes_a_folder_that_loads(tmp_path: Any) -> None:
    wrapped = headtool.wrap(*classifier())
    data = [
        {"text_a": "Rosa coughed.", "text_b": "Rosa did not cough.", "label": "contradiction"},
        {"text_a": "Rosa coughed.", "text_b": "Rosa coughed.", "label": "entailment"},
    ]
    scoring = headtool.score(wrapped, data)
    pruned = headtool.prune(
        wrapped, scores=scoring, remove="25%", data=pd.DataFrame(data), out=tmp_path / "small"
    )
    assert headtool.load_model(str(tmp_path / "small")).fingerprint == pruned.model.fingerprint
    assert pruned.model.sites.n_heads == 24


class Own(nn.Module):
    """A model of nobody's library."""


class Parallel(nn.Module):
    """What holds a model, as data parallelism does."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


class Adapted(Own):
    """What adapters are merged into, as packages of these have it."""

    def merge_and_unload(self) -> nn.Module:
        return self


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (Own, "the Own in memory is no model of transformers"),
        (Adapted, "has adapters; give wrap model.merge_and_unload"),
        (lambda: Parallel(MODELS["gpt2"][0]()), "holds another model; give wrap model.module"),
        (lambda: tf.BertModel(tf.BertConfig(**BERT)), "the BertModel in memory is a BertModel"),
        (
            lambda: tf.BertForSequenceClassification(
                tf.BertConfig(**BERT, problem_type="multi_label_classification")
            ),
            "is a multi-label classifier",
        ),
    ],
)
def test_what_cannot_be_wrapped(build: Callable[[], nn.Module], says: str) -> None:
    with pytest.raises(HeadtoolError, match=says):
        headtool.wrap(build())


def test_a_model_that_discovery_cannot_prove_is_refused() -> None:
    class Peeking(tf.BertForSequenceClassification):
        def forward(self, *args: Any, **options: Any) -> Any:
            found = super().forward(*args, output_attentions=True, **options)
            found.logits = found.logits + found.attentions[0].sum()
            return found

    config = tf.BertConfig(**BERT, attn_implementation="eager")
    with pytest.raises(HeadtoolError, match=r"Peeking|attention"):
        headtool.wrap(Peeking(config))


def test_a_model_that_is_not_wrapped_is_told_how() -> None:
    with pytest.raises(HeadtoolError, match=r"a GPT2LMHeadModel is no model .*headtool\.wrap"):
        headtool.score(MODELS["gpt2"][0](), rows(each=True))  # type: ignore[arg-type]
    raw: Any = tf.BertForSequenceClassification(tf.BertConfig(**BERT))
    data = rows(each=False)
    uses: tuple[Callable[[], Any], ...] = (
        lambda: headtool.score(raw),
        lambda: headtool.compare(headtool.wrap(raw), data, replicates=[raw]),
        lambda: headtool.correlate(raw, [data, data]),
        lambda: headtool.list_heads(raw),
        lambda: headtool.load_model(raw),
        lambda: headtool.ModelSource(raw),
        lambda: headtool.prune(raw, mask=headtool.HeadMask.without(headtool.wrap(raw).sites, [])),
    )
    for use in uses:
        with pytest.raises(HeadtoolError, match=r"^a Bert\w+ is no model .*headtool\.wrap\(.*\)$"):
            use()
    courses: tuple[Any, ...] = ([raw], [("early", raw)], raw)
    for checkpoints in courses:
        with pytest.raises(HeadtoolError, match=r"must be a folder, or pairs .*headtool\.Callback"):
            headtool.dynamics(checkpoints, data)
    with pytest.raises(HeadtoolError, match=r"was a model in memory; give headtool.wrap"):
        headtool.load_model("memory:BertForSequenceClassification@0123abcd")


def test_a_bare_module_is_told_to_be_wrapped():
    model = headtool.load_model("builtin:nli", device="cpu")
    examples = model.encode(headtool.load_data("builtin:nli/matched", limit=2))
    for call in (
        lambda: headtool.evaluate(model.module, examples, []),
        lambda: headtool.differentiate(model.module, examples),
        lambda: headtool.observe(model.module, examples, []),
        lambda: headtool.get_method("gradient")().score(model.module, examples),
    ):
        with pytest.raises(HeadtoolError, match=r"no model of headtool; give .* headtool\.wrap"):
            call()
