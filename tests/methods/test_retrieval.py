"""Retrieval heads: against a slow decoder with a cache, on the planted model, and on chance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headtool
from headtool.builtin.planted import truth
from headtool.errors import HeadtoolError
from headtool.methods import get_method
from headtool.methods.base import Job
from headtool.methods.needles import Needle, hide_needles, texts_of
from headtool.methods.retrieval import Retrieval, _written
from headtool.metrics import metric_of_model
from headtool.models.huggingface.model import HuggingFaceModel

from ..support.variants import build

TEXTS = [tuple(range(10 * i, 10 * i + 10)) for i in range(8)]


def planted(seed: int = 0, limit: int = 40) -> tuple[HuggingFaceModel, object]:
    model = headtool.load_model(f"builtin:planted?seed={seed}", device="cpu")
    return model, model.encode(headtool.load_data("builtin:planted", limit=limit))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("needle", ["text", "random"])
def test_the_copying_head_scores_one_and_others_hardly_anything(seed: int, needle: str) -> None:
    model, examples = planted(seed, limit=128)
    scores = Retrieval(needle=needle).score(model, examples, seed=seed)
    head = truth(seed).heads["induction"]
    place = model.sites.position(head)
    values = scores.frame["score"].to_numpy()
    assert values[place] == 1.0
    assert np.delete(values, place).max() < 0.1
    table = scores.tables["needles"]
    assert (table["copied"] == table["tokens"]).mean() > 0.9


@pytest.mark.parametrize("share", ["copied", "needle"])
def test_against_greedy_decoding_step_by_step(share: str) -> None:
    """A decoder with a cache, as the released code's, on a model that copies badly."""
    model, examples = planted()
    with torch.no_grad():  # so that guesses fail, in the middle as well
        noise = torch.Generator().manual_seed(1)
        for name, weight in model.module.named_parameters():
            if "attn" in name:
                weight += 0.02 * weight.abs().mean() * torch.randn(weight.shape, generator=noise)
        model.module.lm_head.weight += 0.25 * torch.randn(
            model.module.lm_head.weight.shape, generator=noise
        )
    method = Retrieval(needles=9, tokens=7, cue=2, lengths="40,60", share=share)
    job = Job(model, examples, model.sites, metric_of_model(model), seed=5)
    pieces = model.pieces()
    needles = hide_needles(
        texts_of(examples, pieces),
        prefix=pieces.prefix,
        number=9,
        size=7,
        cue=2,
        lengths=[40, 60],
        kind="text",
        seed=5,
    )
    slow = [slow_decoding(model, needle) for needle in needles]
    assert _written(job, needles) == [tokens for tokens, _, _ in slow]
    copied = np.array([count for _, count, _ in slow], dtype=float)
    hits = np.array([found for _, _, found in slow], dtype=float)
    assert 0 < copied.sum() < 45
    result = method.score(model, examples, seed=5)
    if share == "copied":
        expected = hits.sum(axis=0) / copied.sum()
    else:
        expected = (hits[copied > 2.5] / 5).mean(axis=0)
    np.testing.assert_allclose(result.frame["score"], expected, atol=1e-12)
    assert result.tables["needles"]["copied"].tolist() == copied.tolist()


def slow_decoding(
    model: HuggingFaceModel, needle: Needle
) -> tuple[list[int], int, list[list[bool]]]:
    """Decode token by token; count copied tokens, and by head those that it looks at."""
    module = model.module
    module.set_attn_implementation("eager")
    ids, cache = torch.tensor([needle.prompt]), None
    written, copied, hits = [], 0, np.zeros(model.sites.n_heads)
    for _ in needle.answer:
        with torch.no_grad():
            out = module(ids, past_key_values=cache, use_cache=True, output_attentions=True)
        cache = out.past_key_values
        token = int(out.logits[0, -1].argmax())
        written.append(token)
        copied += token in needle.prompt[needle.start : needle.end]
        looked = torch.cat([layer[0, :, -1].argmax(dim=-1) for layer in out.attentions]).tolist()
        for head, key in enumerate(looked):
            is_inside = needle.start <= key < needle.end
            hits[head] += is_inside and needle.prompt[key] == token
        ids = torch.tensor([[token]])
    module.set_attn_implementation("sdpa")
    return written, copied, hits.tolist()


def test_needles_lie_where_they_should() -> None:
    for kind in ("text", "random"):
        needles = hide_needles(
            TEXTS, prefix=[99], number=6, size=4, cue=1, lengths=[20, 40], kind=kind, seed=0
        )
        assert [len(n.prompt) + len(n.answer) for n in needles] == [20, 40] * 3
        assert [n.start for n in needles] == [1, 1, 1 + 6, 1 + 16, 1 + 11, 1 + 31]
        for needle in needles:
            hidden = needle.prompt[needle.start : needle.end]
            assert needle.prompt[0] == 99
            assert hidden == (needle.prompt[-1], *needle.answer)
            rest = set(needle.prompt[: needle.start]) | set(needle.prompt[needle.end : -1])
            assert not rest & needle.tokens
            is_text = any(hidden == text[i : i + 4] for text in TEXTS for i in range(7))
            assert is_text is (kind == "text")


def test_needles_are_drawn_by_seed() -> None:
    def made(seed: int) -> list[Needle]:
        return hide_needles(
            TEXTS, prefix=[], number=5, size=3, cue=1, lengths=[30], kind="text", seed=seed
        )

    assert made(0) == made(0) != made(1)


def test_standard_errors_are_over_needles() -> None:
    model, examples = planted()
    scores = Retrieval(needles=12, cue=1).score(model, examples)
    values = scores.frame.set_index(["layer", "head"])
    copying = truth(0).heads["induction"]
    assert values.loc[(copying.layer, copying.index), "stderr"] == 0.0
    some = values[(values["score"] > 0) & (values["score"] < 1)]
    assert (some["stderr"] > 0).all()


def test_what_cannot_be_is_one_line() -> None:
    model, examples = planted(limit=4)
    for options, message in (
        ({"needles": "0"}, r"retrieval\.needles must be at least 1"),
        ({"cue": "8"}, r"retrieval.cue must be below retrieval.tokens \(8\), got 8"),
        ({"lengths": "64,x"}, "retrieval.lengths must be numbers such as 128,256, got 'x'"),
    ):
        with pytest.raises(HeadtoolError, match=message):
            build("retrieval", options)
    with pytest.raises(HeadtoolError, match=r"must be from 18 .* to 128 .*, got 500"):
        Retrieval(lengths="500").score(model, examples)
    with pytest.raises(HeadtoolError, match="one of 60 tokens or more"):
        Retrieval(tokens=60).score(model, examples)
    with pytest.raises(HeadtoolError, match="too few for a random needle"):
        Retrieval(tokens=20, needle="random", lengths="128").score(model, examples)
    with torch.no_grad():
        model.module.lm_head.weight.zero_()  # now it always says the first token, <s>
    with pytest.raises(HeadtoolError, match="copied 0 of 120 tokens of 20 needles"):
        get_method("retrieval")().score(model, examples)
    bert = headtool.load_model("builtin:nli", device="cpu")
    with pytest.raises(HeadtoolError, match="retrieval is for causal-lm models"):
        Retrieval().score(bert, bert.encode(headtool.load_data("builtin:nli/matched", limit=4)))
    with pytest.raises(HeadtoolError, match="continues no text"):
        bert.next_tokens(None)  # type: ignore[arg-type]
