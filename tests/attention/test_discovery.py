"""Discovery finds what is there, in whatever shape, and refuses what it cannot gate exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from headtool.attention.discovery import discover, is_linear
from headtool.attention.gating import Gating, intercept
from headtool.attention.probing import Probe, as_attention
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Sites

from ..support.families import BERT, FAMILIES, LLAMA, SOURCE, VOCAB, llama, probe


class Attention(nn.Module):
    """Plain multi-head attention, written out; subclasses spoil one thing each."""

    def __init__(self, heads: int = 4, kv: int = 4, width: int = 6) -> None:
        super().__init__()
        self.heads, self.kv, self.width = heads, kv, width
        self.query = nn.Linear(20, heads * width)
        self.key = nn.Linear(20, kv * width)
        self.value = nn.Linear(20, kv * width)
        self.out = nn.Linear(heads * width, 20)

    def split(self, projected: Tensor) -> Tensor:
        """[B, T, heads * width] as [B, heads, T, width], repeated if several heads share."""
        per_head = projected.unflatten(-1, (-1, self.width)).transpose(1, 2)
        return per_head.repeat_interleave(self.heads // per_head.shape[1], dim=1)

    def probabilities(self, x: Tensor) -> Tensor:
        scores = self.split(self.query(x)) @ self.split(self.key(x)).transpose(-2, -1)
        return self.softmax(scores)

    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)

    def merge(self, contexts: Tensor) -> Tensor:
        return contexts.transpose(1, 2).flatten(2)

    def project(self, merged: Tensor) -> Tensor:
        return self.out(merged)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.merge(self.probabilities(x) @ self.split(self.value(x))))


class Model(nn.Module):
    """Embeds ids, attends with residual connections, and predicts a token each."""

    def __init__(self, *attentions: nn.Module) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 20)
        self.layers = nn.ModuleList(attentions)
        self.head = nn.Linear(20, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return build().eval()


def ids_probe(model: nn.Module) -> Probe:
    ids = torch.tensor([[5, 6, 7, 8, 9], [15, 14, 13, 12, 11]])
    return Probe(lambda: model(ids), batch=2, source=SOURCE)


def sites(model: nn.Module) -> list[AttentionSite]:
    return [handle.site for handle in discover(model, ids_probe(model))]


def refusal(model: nn.Module, wanted: Probe | None = None) -> str:
    with pytest.raises(HeadtoolError) as caught:
        discover(model, wanted or ids_probe(model))
    message = str(caught.value)
    assert "\n" not in message
    return message


# -- what is found ------------------------------------------------------------------------------


def test_a_plain_model() -> None:
    model = seeded(lambda: Model(Attention(), Attention(heads=3, kv=1, width=8)))
    assert sites(model) == [
        AttentionSite("enc-self", 0, 4, 4, 6, "layers.0.out"),
        AttentionSite("enc-self", 1, 3, 1, 8, "layers.1.out"),
    ]


class TimeFirst(Attention):
    def merge(self, contexts: Tensor) -> Tensor:
        return contexts.permute(2, 0, 1, 3).flatten(2)

    def project(self, merged: Tensor) -> Tensor:
        return self.out(merged).transpose(0, 1)


class Flat(Attention):
    def forward(self, x: Tensor) -> Tensor:
        self.batch = len(x)
        return super().forward(x)

    def merge(self, contexts: Tensor) -> Tensor:
        return super().merge(contexts).flatten(0, 1)

    def project(self, merged: Tensor) -> Tensor:
        return self.out(merged).unflatten(0, (self.batch, -1))


class FlatProbabilities(Attention):
    """Softmax over [B * H, T, S], as older models do."""

    def softmax(self, scores: Tensor) -> Tensor:
        return scores.flatten(0, 1).softmax(dim=-1).view(scores.shape)


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        (Attention, "batch-first"),
        (TimeFirst, "time-first"),
        (Flat, "flat"),
        (FlatProbabilities, "batch-first"),
    ],
)
def test_layouts_of_the_projections_input(kind: type[Attention], layout: str) -> None:
    model = seeded(lambda: Model(kind()))
    (handle,) = discover(model, ids_probe(model))
    assert handle.layout == layout
    ids = torch.tensor([[5, 6, 7, 8], [15, 14, 13, 12], [21, 22, 23, 24]])
    gates = torch.tensor([[1.0, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 0.5]])
    with torch.no_grad():
        with intercept([handle], Gating({handle.site: gates}), batch=3):
            gated = model(ids)
        weight = model.get_parameter("layers.0.out.weight")
        saved = weight.clone()
        for row, gate in enumerate(gates):
            weight.copy_(saved * gate.repeat_interleave(6))
            torch.testing.assert_close(gated[row : row + 1], model(ids[row : row + 1]))


class Causal(Attention):
    def softmax(self, scores: Tensor) -> Tensor:
        ahead = torch.ones_like(scores, dtype=torch.bool).triu(diagonal=1)
        return scores.masked_fill(ahead, -torch.inf).softmax(dim=-1)


def test_attention_that_sees_nothing_ahead_is_a_decoders() -> None:
    assert [site.kind for site in sites(seeded(lambda: Model(Causal())))] == ["dec-self"]
    decoder = seeded(lambda: tf.BertLMHeadModel(tf.BertConfig(**BERT, is_decoder=True)))
    assert {h.site.kind for h in discover(decoder, probe(decoder))} == {"dec-self"}


def test_a_decoder_built_from_an_encoder() -> None:
    """Two BERTs: their layers have the same names but for the prefix."""

    def build() -> nn.Module:
        source = tf.BertModel(tf.BertConfig(**BERT))
        target = tf.BertLMHeadModel(
            tf.BertConfig(**BERT, is_decoder=True, add_cross_attention=True)
        )
        return tf.EncoderDecoderModel(encoder=source, decoder=target)

    model = seeded(build)
    assert [str(handle.site) for handle in discover(model, probe(model))] == [
        "enc-self.0",
        "enc-self.1",
        "dec-self.0",
        "dec-self.1",
        "cross.0",
        "cross.1",
    ]


def test_layers_keep_their_numbers_below_a_prefix_with_a_number() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([FAMILIES["LFM2"].model()])
            self.config = self.parts[0].config
            self.main_input_name = "input_ids"

        def forward(self, **inputs: Tensor) -> object:
            return self.parts[0](**inputs)

    model = Wrapped().eval()
    handles = discover(model, probe(model))
    assert [handle.site.layer for handle in handles] == [1, 3]
    assert handles[0].site.projection.startswith("parts.0.model.layers.1.")


def test_shared_layers_are_a_site_each_call() -> None:
    layer = Attention()
    model = seeded(lambda: Model(layer, Attention(), layer))
    handles = discover(model, ids_probe(model))
    assert [handle.site.layer for handle in handles] == [0, 1, 2]
    assert [(handle.call, handle.calls) for handle in handles] == [(0, 2), (0, 1), (1, 2)]
    assert handles[0].module is handles[2].module


def test_routers_and_predictions_are_no_attention() -> None:
    class Routed(Model):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids).softmax(dim=-1) * 2

    assert len(sites(seeded(lambda: Routed(Attention())))) == 1


@settings(max_examples=15)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5))
def test_key_value_heads_are_measured(kv: int, group: int, width: int) -> None:
    model = seeded(lambda: Model(Attention(kv * group, kv, width)))
    assert sites(model)[0] == AttentionSite("enc-self", 0, kv * group, kv, width, "layers.0.out")


@pytest.mark.parametrize("kv", [2, 4])
def test_heads_without_values_are_counted_as_others(kv: int) -> None:
    model = seeded(lambda: Model(Attention(4, kv)))
    with torch.no_grad():
        for name in ("weight", "bias"):
            model.get_parameter(f"layers.0.value.{name}")[6:18] = 0
    assert sites(model)[0].n_kv_heads == kv


@pytest.mark.parametrize("name", ["Llama", "BERT"])
def test_any_tokens_will_do(name: str) -> None:
    """Even the same one throughout, and one whose embedding was never trained."""
    model = FAMILIES[name].model()
    wanted = discover(model, probe(model))
    with torch.no_grad():
        model.get_input_embeddings().weight[7] = 0
    ids = torch.full((2, SOURCE), 7)
    assert discover(model, Probe(lambda: model(ids), batch=2, source=SOURCE)) == wanted


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["Llama", "Qwen3-Next", "BERT"])
def test_half_precision(name: str, dtype: torch.dtype) -> None:
    model = FAMILIES[name].model()
    wanted = [handle.site for handle in discover(model, probe(model))]
    model.to(dtype)
    assert [handle.site for handle in discover(model, probe(model))] == wanted


def test_sites_come_in_canonical_order_after_few_passes() -> None:
    model = FAMILIES["T5"].model()
    watched, runs = probe(model), 0

    def run() -> object:
        nonlocal runs
        runs += 1
        return watched.run()

    found = [handle.site for handle in discover(model, replace(watched, run=run))]
    assert found == list(Sites(tuple(reversed(found))))
    assert runs == 2 + 1 + 4 + 2  # to find them, to verify (2 log2(4)), for key/value heads


def test_as_attention() -> None:
    wanted = Probe(lambda: None, batch=2, source=5, target=3)
    for shape in [(2, 4, 5, 5), (2, 4, 3, 3), (2, 4, 3, 5), (2, 1, 5, 5)]:
        assert as_attention(torch.zeros(shape), wanted) is not None
    flat = torch.arange(2 * 4 * 3 * 5.0).view(8, 3, 5)
    per_head = as_attention(flat, wanted)
    assert per_head is not None
    assert torch.equal(per_head, flat.view(2, 4, 3, 5))
    for shape in [(3, 4, 5, 5), (2, 4, 5, 6), (7, 5, 5), (5, 5), (2, 4, 1, 5, 5)]:
        assert as_attention(torch.zeros(shape), wanted) is None


def test_is_linear() -> None:
    assert is_linear(nn.Linear(2, 3))
    assert is_linear(tf.pytorch_utils.Conv1D(2, 3))
    assert not is_linear(nn.Conv1d(2, 3, 1))
    assert not is_linear(nn.LayerNorm(2))


# -- what is refused ----------------------------------------------------------------------------


class Interleaved(Attention):
    def merge(self, contexts: Tensor) -> Tensor:
        return contexts.permute(0, 2, 3, 1).flatten(2)


class Normed(Attention):
    def merge(self, contexts: Tensor) -> Tensor:
        return nn.functional.layer_norm(super().merge(contexts), (24,))


class TalkingHeads(Attention):
    def softmax(self, scores: Tensor) -> Tensor:
        mix = torch.eye(4) + 0.1
        return torch.einsum("bhts,hg->bgts", super().softmax(scores), mix)


class HeadsFirst(Attention):
    """Softmax over [H * B, T, S]: heads and examples are the other way round."""

    def softmax(self, scores: Tensor) -> Tensor:
        flat = scores.transpose(0, 1).flatten(0, 1).softmax(dim=-1)
        return flat.unflatten(0, (4, -1)).transpose(0, 1)


class OverQueries(Attention):
    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-2)


class Unprojected(Attention):
    """Its heads go straight into the residual stream."""

    def project(self, merged: Tensor) -> Tensor:
        return merged[..., :20]


class Adapter(nn.Module):
    """A low-rank adapter around a projection, as unmerged LoRA weights are."""

    def __init__(self, base: nn.Linear, *, first: bool, cast: bool) -> None:
        super().__init__()
        self.base, self.first, self.cast = base, first, cast
        self.down = nn.Linear(base.in_features, 2, bias=False)
        self.up = nn.Linear(2, base.out_features, bias=False)
        nn.init.normal_(self.up.weight, std=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        seen = x.double().float() if self.cast else x
        if self.first:
            return self.up(self.down(seen)) + self.base(x)
        return self.base(x) + self.up(self.down(seen))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("cast", [False, True])
def test_two_layers_that_read_the_same_heads_are_refused(first: bool, cast: bool) -> None:
    attention = Attention()
    attention.out = Adapter(attention.out, first=first, cast=cast)  # type: ignore[assignment]
    model = seeded(lambda: Model(attention))
    assert "merge it into the weights first" in refusal(model)


class ProjectsTwice(Attention):
    """Uses its projection for something else than heads as well."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.out(nn.functional.pad(x, (0, 4)))


class ProjectsBefore(Attention):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(nn.functional.pad(x, (0, 4))) + super().forward(x)


class Strange(Attention):
    """Attends to a key that no token has, as attention sinks do."""

    def softmax(self, scores: Tensor) -> Tensor:
        return nn.functional.pad(scores, (0, 1)).softmax(dim=-1)[..., :-1]


@pytest.mark.parametrize(
    ("attention", "reason"),
    [
        (Interleaved, "the input of layers.0.out is not the heads' outputs side by side"),
        (Normed, "the input of layers.0.out is not the heads' outputs side by side"),
        (TalkingHeads, "the input of layers.0.out is not the heads' outputs side by side"),
        (HeadsFirst, "the input of layers.0.out is not the heads' outputs side by side"),
        (OverQueries, "layers.0 does not normalise its attention over keys"),
        (ProjectsTwice, "layers.0.out is also used for something else"),
        (ProjectsBefore, "layers.0.out is also used for something else"),
        (Strange, "layers.0 computes attention of the unusual shape (2, 4, 5, 6)"),
    ],
)
def test_attention_that_cannot_be_gated_is_refused(attention: type[Attention], reason: str) -> None:
    # Before and after a layer that is as it should be.
    for model in (Model(attention(), Attention()), Model(Attention(), attention())):
        message = refusal(model.eval())
        assert message.startswith("this model's heads cannot be reached one by one: ")
        assert reason in message.replace("layers.1", "layers.0")


def test_heads_that_nothing_projects_are_refused() -> None:
    for model in (Model(Unprojected(), Attention()), Model(Attention(), Unprojected())):
        refusal(model.eval())
    model.head = nn.Identity()
    assert "no linear layer projects the attention of layers.1" in refusal(model.eval())


class Pooled(Model):
    """The heads of the first layer reach the prediction by another way, too."""

    def forward(self, ids: Tensor) -> Tensor:
        layer = self.layers[0]
        assert isinstance(layer, Attention)
        x = self.embed(ids)
        contexts = layer.merge(layer.probabilities(x) @ layer.split(layer.value(x)))
        return self.head(x + layer.out(contexts)) + 1e-4 * contexts.mean()


def test_heads_that_reach_the_prediction_by_another_way_are_refused() -> None:
    assert "by another way than layers.0.out" in refusal(Pooled(Attention()).eval())


def test_weights_that_are_not_numbers_are_named_as_such() -> None:
    model = Model(Attention())
    with torch.no_grad():
        model.get_parameter("layers.0.query.weight").fill_(torch.nan)
    assert "attention of layers.0 is not finite" in refusal(model.eval())


def test_torchs_own_multi_head_attention_is_refused() -> None:
    class Fused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(20, 4, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.attention(x, x, x)[0]
            return result

    for model in (Model(Fused()), Model(nn.TransformerEncoderLayer(20, 4, 20, batch_first=True))):
        assert "torch.nn.MultiheadAttention" in refusal(model.eval())


def xlnet() -> nn.Module:
    return tf.XLNetForSequenceClassification(
        tf.XLNetConfig(vocab_size=VOCAB, d_model=24, n_layer=2, n_head=4, d_inner=20)
    )


def longformer() -> nn.Module:
    return tf.LongformerForSequenceClassification(tf.LongformerConfig(**BERT, attention_window=4))


def big_bird() -> nn.Module:
    sizes = {**BERT, "max_position_embeddings": 2000}
    return tf.BigBirdForSequenceClassification(tf.BigBirdConfig(**sizes, sep_token_id=2))


def bitnet() -> nn.Module:
    return tf.BitNetForCausalLM(tf.BitNetConfig(**{**LLAMA, "hidden_size": 24}))


def diffllama() -> nn.Module:
    return tf.DiffLlamaForCausalLM(tf.DiffLlamaConfig(**LLAMA))


def fnet() -> nn.Module:
    sizes = {k: v for k, v in BERT.items() if "attention" not in k}
    return tf.FNetForSequenceClassification(tf.FNetConfig(**sizes))


def long_t5() -> nn.Module:
    return tf.LongT5ForConditionalGeneration(
        tf.LongT5Config(
            vocab_size=VOCAB,
            d_model=20,
            d_kv=6,
            num_layers=2,
            num_heads=4,
            d_ff=20,
            local_radius=4,
            decoder_start_token_id=0,
        )
    )


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (xlnet, "both read them"),
        (longformer, "unusual shape"),
        (big_bird, "replaces its own layers"),
        (bitnet, "o_proj is not the heads' outputs side by side"),
        (diffllama, "no linear layer projects"),
        (fnet, "shows no softmax attention"),
        (long_t5, "unusual shape"),
    ],
)
def test_families_that_cannot_be_supported_say_so(
    build: Callable[[], nn.Module], reason: str
) -> None:
    model = seeded(build)
    assert reason in refusal(model, probe(model))
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_flash_or_flex_kernel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that torch functions do not show; here one that adds nothing but hides softmax."""

    def hidden(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any
    ) -> tuple[Tensor, None]:
        scores = (query @ key.repeat_interleave(2, 1).transpose(-2, -1)).exp()
        weights = scores / scores.sum(dim=-1, keepdim=True)
        return (weights @ value.repeat_interleave(2, 1)).transpose(1, 2), None

    functions = tf.modeling_utils.ALL_ATTENTION_FUNCTIONS
    model = seeded(llama)
    monkeypatch.setitem(functions._global_mapping, "sdpa", hidden)
    assert "load it with attn_implementation sdpa or eager" in refusal(model, probe(model))
