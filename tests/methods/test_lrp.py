"""Relevance of heads against closed forms; the rules themselves are tested with the toolkit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headtool.data import TextData
from headtool.methods.lrp import Lrp
from headtool.methods.relevance import propagate
from headtool.methods.relevance_rules import RULES


def test_closed_form_on_two_heads(toy, toy_data: TextData) -> None:
    weights = np.array([1.5, -0.5])
    model = toy(tuple(weights))
    examples = model.encode(toy_data)
    parts = np.array([np.mean(row["features"], axis=0) * weights for row in examples.rows])
    parts[parts.sum(axis=1) < 0] = 0  # the other class is predicted, whose logit is a constant
    total = np.abs(parts).sum(axis=1, keepdims=True)
    shares = parts / np.where(total > 0, total, 1)
    assert 2 < (total == 0).sum() < 10
    signed = Lrp(sign="signed").score(model, examples).frame
    np.testing.assert_allclose(signed["score"], shares.mean(axis=0))
    np.testing.assert_allclose(signed["relevance"], parts.mean(axis=0))
    np.testing.assert_allclose(signed["stderr"], shares.std(axis=0, ddof=1) / np.sqrt(12))
    absolute = Lrp().score(model, examples).frame
    np.testing.assert_allclose(absolute["score"], np.abs(shares).mean(axis=0))
    assert signed["score"].iloc[1] < 0 < signed["score"].iloc[0]


def test_shares_of_a_site_add_up_to_one(bert, pairs: TextData) -> None:
    for rule in RULES:
        frame = Lrp(rule=rule).score(bert, bert.encode(pairs)).frame
        np.testing.assert_allclose(frame.groupby("layer")["score"].sum(), 1)
        assert (frame["score"] >= 0).all()


def test_alpha_beta_gives_every_head_the_sign_of_the_prediction(bert, pairs: TextData) -> None:
    found = propagate(bert, bert.encode(pairs), rule="alpha-beta")
    sign = np.sign(found.explained)[:, None]
    assert (found.per_example * sign > 0).all()
    assert (found.per_example * sign < (found.explained * sign[:, 0])[:, None]).all()
    mixed = propagate(bert, bert.encode(pairs)).per_example * sign
    assert (mixed < 0).any(), "otherwise this shows nothing of the rule"


def test_a_head_without_output_weights_has_no_relevance(bert, pairs: TextData) -> None:
    with torch.no_grad():
        bert.module.bert.encoder.layer[0].attention.output.dense.weight[:, 8:12] = 0
    frame = Lrp().score(bert, bert.encode(pairs)).frame
    assert frame["score"].iloc[2] == 0
    assert (frame["score"].drop(2) > 0).all()


def test_labels_play_no_role(bert, pairs: TextData) -> None:
    other = TextData(pairs.spec, pairs.kind, {**pairs.columns, "label": ("0",) * len(pairs)})
    first, second = (Lrp().score(bert, bert.encode(data)).frame for data in (pairs, other))
    np.testing.assert_array_equal(first["score"], second["score"])


@pytest.mark.parametrize("rule", RULES)
def test_translations_are_explained_token_by_token(rule: str, save_fairseq) -> None:
    from headtool.models import load_model

    model = load_model(f"fairseq:{save_fairseq()}")
    data = TextData(
        "t", "translation", {"source": ("a b c", "b a", "c"), "target": ("c d", "a b d c", "b")}
    )
    together = propagate(model, model.encode(data), rule=rule)
    alone = propagate(model, model.encode(data, batch_tokens=1), rule=rule)
    np.testing.assert_allclose(together.per_example, alone.per_example, rtol=2e-3, atol=1e-5)
    examples = model.encode(data)
    for i in range(3):
        batch = model.collate(examples, np.array([i]))
        with torch.no_grad():
            logits, _ = model.module(**batch.inputs)
        assert together.explained[i] == pytest.approx(float(logits.amax(-1).mean()), rel=1e-4)
    assert set(Lrp().score(model, examples).frame["kind"]) == {"enc-self", "dec-self", "cross"}
    assert (np.abs(together.per_example).sum(axis=0) > 0).all()
