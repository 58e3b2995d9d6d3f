"""The planted model: what its heads do is what is said of them, shown on every set of heads."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2LMHeadModel

import headtool
from headtool.builtin.planted import (
    ANSWERS,
    HEADS,
    KINDS,
    LAYERS,
    QUESTIONS,
    SYLLABLES,
    TOLERANCE,
    examples,
    planted_seed,
    truth,
)
from headtool.builtin.planted_files import model_folder
from headtool.builtin.planting import vocabulary, weights
from headtool.engine.replacement import replacement
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.metrics import get_metric

LOSS = get_metric("loss", task="causal-lm")


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "closed"), [(0, "zero"), (1, "mean")])
def test_every_set_of_heads_suffices_as_the_truth_says(seed: int, closed: str) -> None:
    known = truth(seed)
    model = headtool.load_model(f"builtin:planted?seed={seed}", device="cpu")
    data = model.encode(headtool.load_data("builtin:planted", limit=6, seed=seed))
    heads = model.sites.heads
    sets = [
        frozenset(itertools.compress(heads, chosen))
        for chosen in itertools.product([False, True], repeat=len(heads))
    ]
    masks = [HeadMask.without(model.sites, set(heads) - kept) for kept in sets]
    outcomes = headtool.evaluate(
        model, data, masks, replacement=replacement(closed, seed=seed), chained=True
    )
    whole = LOSS.compute(outcomes.whole)
    lost = {kept: LOSS.compute(outcomes.row(i)) - whole for i, kept in enumerate(sets)}
    assert len(lost) == 2 ** (LAYERS * HEADS)
    sufficient = {kept for kept, loss in lost.items() if loss <= TOLERANCE}
    assert sufficient == {kept for kept in sets if known.suffices(kept)}
    # Nothing is near the line.
    assert max(lost[kept] for kept in sufficient) < TOLERANCE
    assert min(loss for kept, loss in lost.items() if kept not in sufficient) > 2 * TOLERANCE
    smallest = min(map(len, sufficient))
    assert {kept for kept in sufficient if len(kept) == smallest} == set(known.smallest_sufficient)
    everything = frozenset(heads)
    alone = {head: lost[everything - {head}] for head in heads}
    assert {head for head, loss in alone.items() if loss > TOLERANCE} == known.necessary
    assert {head for head, loss in alone.items() if loss < -TOLERANCE} == known.of_kind("harmful")
    for head in known.of_kind("constant"):
        assert abs(alone[head]) < 1e-5


def test_a_seed_places_twelve_heads_of_five_kinds() -> None:
    for seed in range(20):
        known = truth(seed)
        assert len(set(known.heads.values())) == LAYERS * HEADS
        counts = [len(known.of_kind(kind)) for kind in KINDS]
        assert counts == [2, 2, 1, 1, 6]
        assert known.heads["previous-token"].layer < known.heads["induction"].layer
        assert [len(heads) for heads in known.smallest_sufficient] == [3, 3]
        assert known.members == known.necessary | known.of_kind("interchangeable")
    assert len({tuple(truth(seed).heads.values()) for seed in range(20)}) == 20


def test_it_is_an_ordinary_model_that_holds_its_truth() -> None:
    folder = model_folder(3)
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert isinstance(model, GPT2LMHeadModel)
    known = truth(3)
    assert model.config.planted == {
        "seed": 3,
        "heads": {work: str(head) for work, head in known.heads.items()},
        "smallest_sufficient": [sorted(map(str, kept)) for kept in known.smallest_sufficient],
    }
    text = examples(n=1)["text"][0]
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids[0])[0] == "<s>"
    assert tokenizer.unk_token_id not in ids
    said = tokenizer.convert_ids_to_tokens(model(ids).logits[0].argmax(-1).tolist())
    words = text.split()
    right = [said[place] == word for place, word in enumerate(words)]  # predicted one before
    answers = [place for place, word in enumerate(words) if word in ANSWERS.values()]
    assert len(answers) == len(QUESTIONS)
    assert all(right[place] for place in answers)
    assert all(right[-7:])


def test_seeds_draw_other_weights_and_the_same_ones_again() -> None:
    first, again, other = (weights(truth(seed)) for seed in (0, 0, 1))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    for name in ("transformer.wte.weight", "transformer.h.0.attn.c_attn.weight", "lm_head.weight"):
        assert not np.allclose(first[name], other[name])
    before = json.loads((model_folder(0) / "config.json").read_text())["planted"]["heads"]
    assert before == {work: str(head) for work, head in truth(0).heads.items()}


def test_codes_of_words_are_mutually_unbiased() -> None:
    state = weights(truth(0))
    codes = state["lm_head.weight"][3:]
    assert len(codes) == len(SYLLABLES) + 2 * len(ANSWERS) + len(QUESTIONS) == len(vocabulary()) - 3
    products = np.abs(codes @ codes.T)
    np.testing.assert_allclose(np.diag(products), 1.0)
    others = products[~np.eye(len(codes), dtype=bool)]
    np.testing.assert_allclose(np.minimum(others, np.abs(others - 0.25)), 0.0, atol=1e-9)


def test_texts_can_be_drawn_again_and_are_what_they_should_be() -> None:
    texts = examples(n=50)["text"]
    assert texts == examples(n=60)["text"][:50]
    assert texts != examples(n=50, seed=1)["text"]
    for text in texts:
        words = text.split()
        things, said, asked = words[:3], words[3:11], words[11:17]
        assert words[17:] == said
        assert len(set(said)) == 8
        assert set(said) <= set(SYLLABLES)
        assert {ANSWERS[thing] for thing in things} == set(asked[1::2])
        assert set(asked[::2]) == set(QUESTIONS)


def test_specs() -> None:
    assert planted_seed("builtin:planted") == 0
    assert planted_seed("builtin:planted?seed=12") == 12
    assert planted_seed("builtin:nli") is None
    for wrong in ("builtin:planted?seed=x", "builtin:planted?", "builtin:planted?sed=1"):
        with pytest.raises(HeadtoolError, match=r"write builtin:planted or builtin:planted\?seed"):
            headtool.load_model(wrong)
    with pytest.raises(HeadtoolError, match="builtin:planted"):
        headtool.load_model("builtin:plantd")
    with pytest.raises(HeadtoolError, match="no split"):
        examples("test")


def test_its_data_is_the_default(tmp_path: object) -> None:
    scores = headtool.score("builtin:planted?seed=4", methods=["magnitude"], limit=8)
    assert len(scores.frame) == LAYERS * HEADS


def test_roles_name_the_heads_that_have_them() -> None:
    known = truth(5)
    found = headtool.roles(
        "builtin:planted?seed=5", limit=16, roles=["previous-token", "induction"]
    ).frame
    for role, work in (("previous-token", "previous-token"), ("induction", "induction")):
        rows = found[(found["role"] == role) & (found["label"] == "yes")]
        places = [(row.kind, row.layer, row.head) for row in rows.itertuples()]
        head = known.heads[work]
        assert places == [(head.kind, head.layer, head.index)]
