"""Integrated gradients: completeness, literal loops and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headtool.data import TextData
from headtool.engine.evaluation import evaluate
from headtool.engine.replacement import Counterfactual
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.methods.integrated import Integrated
from headtool.methods.paths import midpoints
from headtool.models.huggingface.model import HuggingFaceModel

from .conftest import WORDS
from .test_attribution import with_corrupted


def losses(bert: HuggingFaceModel, examples, closed) -> np.ndarray:
    mask = HeadMask.without(bert.sites, closed)
    return evaluate(bert, examples, [mask]).masked["loss"][0]


def test_gates_add_up_to_what_all_heads_change(bert: HuggingFaceModel, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    expected = losses(bert, examples, bert.sites.heads) - losses(bert, examples, [])
    for count in (1, 17):  # of one example, and on average
        method = Integrated(ig_steps=64, sign="signed")
        found = method.score(bert, examples.head(count)).frame["score"].sum()
        assert found == pytest.approx(expected[:count].mean(), abs=1e-3)
    assert abs(expected[0]) > 0.05


@pytest.mark.parametrize("path", ["gates", "inputs"])
def test_from_a_corrupted_text(path: str, bert: HuggingFaceModel, pairs: TextData) -> None:
    """Gates add up to what all heads change; inputs equal a loop over embeddings by hand."""
    data = with_corrupted(pairs.head(4))
    examples = bert.encode(data)
    heads = HeadMask.without(bert.sites, bert.sites.heads)
    method = Integrated(path=path, baseline="counterfactual", ig_steps=64, sign="signed")
    found = method.score(bert, examples).frame["score"]
    if path == "gates":
        outcomes = evaluate(bert, examples, [heads], replacement=Counterfactual())
        change = (outcomes.masked["loss"][0] - outcomes.whole["loss"]).mean()
        assert found.sum() == pytest.approx(change, abs=1e-3)
        assert abs(change) > 0.01
        return
    expected = np.zeros(8)
    words = bert.module.bert.embeddings.word_embeddings
    for i in range(4):
        clean, other = (
            bert.collate(each, np.array([i])) for each in (examples, examples.corrupted)
        )
        last, first = (words(batch.inputs["input_ids"]).detach() for batch in (clean, other))
        total, ends = 0, {}
        for share in (1.0, 0.0, *midpoints(64)):
            kept: list[torch.Tensor] = []
            hooks = [
                layer.attention.output.dense.register_forward_pre_hook(
                    lambda _, args, kept=kept: kept.append(args[0])
                )
                for layer in bert.module.bert.encoder.layer
            ]
            given = {key: value for key, value in clean.inputs.items() if key != "input_ids"}
            mixed = first + share * (last - first)
            logits = bert.module(inputs_embeds=mixed.requires_grad_(), **given).logits
            loss = torch.nn.functional.cross_entropy(logits, clean.targets)
            if share in (0.0, 1.0):
                ends[share] = torch.stack(kept).detach()
            else:
                total = total + torch.stack(torch.autograd.grad(loss, kept)) / 64
            for hook in hooks:
                hook.remove()
        product = ((ends[1.0] - ends[0.0]) * total)[:, 0].sum(dim=1)
        expected -= product.reshape(8, 4).sum(dim=1).numpy() / 4
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_gates_equal_differences_on_the_way(bert: HuggingFaceModel, pairs: TextData) -> None:
    examples, step = bert.encode(pairs.head(5)), 1e-5
    batch = bert.collate(examples, np.arange(5))
    slopes = np.zeros((5, 8))
    for gate in midpoints(3):
        for column, head in enumerate(bert.sites.heads):
            both = []
            for moved in (gate + step, gate - step):

                def scale(site, contexts, gate=gate, head=head, moved=moved):
                    gates = torch.full((4,), gate, dtype=torch.float64)
                    if site.layer == head.layer:
                        gates[head.index] = moved
                    return contexts * gates[:, None]

                with torch.no_grad(), bert.intercept(scale, batch):
                    both.append(bert.forward(batch).losses.numpy())
            slopes[:, column] += (both[0] - both[1]) / (2 * step) / 3
    found = Integrated(ig_steps=3).score(bert, examples).frame
    np.testing.assert_allclose(found["score"], np.abs(slopes).mean(axis=0), rtol=1e-5, atol=1e-9)
    spread = np.abs(slopes).std(axis=0, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose(found["stderr"], spread, rtol=1e-5, atol=1e-9)


def embedded(bert: HuggingFaceModel, row, share: float) -> torch.Tensor:
    """Loss of one example from its word and type embeddings times `share`, built by hand."""
    tables = bert.module.bert.embeddings
    ids, types = torch.tensor([row["input_ids"]]), torch.tensor([row["token_type_ids"]])
    words = (
        tables.word_embeddings.weight[ids] + tables.token_type_embeddings.weight[types]
    ) * share
    places = tables.position_embeddings.weight[None, : ids.shape[1]]
    hidden = torch.nn.functional.layer_norm(
        words + places, (16,), tables.LayerNorm.weight, tables.LayerNorm.bias, eps=1e-12
    )
    encoded = bert.module.bert.encoder(hidden).last_hidden_state
    logits = bert.module.classifier(bert.module.bert.pooler(encoded))
    return torch.nn.functional.cross_entropy(logits, torch.tensor([row["target"]]))


def test_inputs_equal_a_literal_loop(bert: HuggingFaceModel, pairs: TextData) -> None:
    examples = bert.encode(pairs.head(4))
    expected = np.zeros((4, 8))
    for i, row in enumerate(examples.rows):
        kept: list[torch.Tensor] = []
        hooks = [
            layer.attention.output.dense.register_forward_pre_hook(
                lambda _, args, kept=kept: kept.append(args[0])
            )
            for layer in bert.module.bert.encoder.layer
        ]
        embedded(bert, row, 1.0)
        clean, kept[:] = [part.detach() for part in kept], []
        embedded(bert, row, 0.0)
        corrupted, kept[:] = [part.detach() for part in kept], []
        for share in midpoints(3):
            loss = embedded(bert, row, share)
            slopes, kept[:] = torch.autograd.grad(loss, kept), []
            for layer, slope in enumerate(slopes):
                product = ((clean[layer] - corrupted[layer]) * slope / 3)[0].sum(dim=0)
                expected[i, 4 * layer : 4 * layer + 4] += product.reshape(4, 4).sum(dim=1).numpy()
        for hook in hooks:
            hook.remove()
    signed = Integrated(path="inputs", ig_steps=3, sign="signed").score(bert, examples).frame
    np.testing.assert_allclose(signed["score"], -expected.mean(axis=0), rtol=1e-8)
    sizes = Integrated(path="inputs", ig_steps=3).score(bert, examples).frame
    np.testing.assert_allclose(sizes["score"], np.abs(expected).mean(axis=0), rtol=1e-8)


def test_inputs_need_tokens(toy, toy_data: TextData) -> None:
    model = toy((1.0, 1.0))
    with pytest.raises(HeadtoolError, match="needs token embeddings, and toy has none"):
        Integrated(path="inputs").score(model, model.encode(toy_data))


def test_attention_adds_up_to_what_its_site_changes(
    bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs)
    whole = losses(bert, examples, []).mean()
    frame = Integrated(path="attention", ig_steps=64).score(bert, examples).frame
    for layer in range(2):
        closed = [head for head in bert.sites.heads if head.layer == layer]
        expected = losses(bert, examples, closed).mean() - whole
        found = frame.loc[frame["layer"] == layer, "total"].sum()
        assert found == pytest.approx(expected, abs=1e-3)
    assert abs(expected) > 0.01


def test_attention_equals_differences_entry_by_entry(bert: HuggingFaceModel) -> None:
    data = TextData(
        "t",
        "classification",
        {"text_a": (WORDS[3], f"{WORDS[1]} {WORDS[2]}"), "label": ("1", "2")},
    )
    examples, step, head = bert.encode(data), 1e-5, 2
    bert.module.set_attn_implementation("eager")
    softmax, expected = torch.nn.functional.softmax, []
    for i in range(2):
        batch = bert.collate(examples, np.array([i]))
        width = batch.targets.new_tensor(len(examples.rows[i]["input_ids"])).item()
        attributed = np.zeros((width, width))
        for share in midpoints(2):
            for t in range(width):
                for s in range(width):
                    both = []
                    for moved in (step, -step):
                        calls = []

                        def change(
                            *args, share=share, t=t, s=s, moved=moved, calls=calls, **kwargs
                        ):
                            found = softmax(*args, **kwargs)
                            calls.append(found)
                            if len(calls) != 2:  # the second layer's
                                return found
                            found = found * share
                            found[0, head, t, s] += moved
                            return found

                        with pytest.MonkeyPatch.context() as patch, torch.no_grad():
                            patch.setattr(torch.nn.functional, "softmax", change)
                            both.append(-bert.forward(batch).losses.item())
                        weight = calls[1][0, head, t, s].item()
                    attributed[t, s] += weight * (both[0] - both[1]) / (2 * step) / 2
        expected.append((attributed.max(), attributed.sum()))
    frame = Integrated(path="attention", ig_steps=2).score(bert, examples).frame
    found = frame.iloc[4 + head][["score", "total"]].astype(float)
    np.testing.assert_allclose(found, np.mean(expected, axis=0), rtol=1e-5)


def test_a_path_has_steps() -> None:
    with pytest.raises(HeadtoolError, match=r"integrated\.ig_steps must be at least 1, got 0"):
        Integrated(ig_steps=0)
    with pytest.raises(HeadtoolError, match="baseline has no effect on path attention"):
        Integrated(path="attention", baseline="counterfactual")
    with pytest.raises(HeadtoolError, match="sign has no effect on path attention"):
        Integrated(path="attention", sign="signed")
