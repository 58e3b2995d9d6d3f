"""A fairseq model behind the adapter protocol, against fairseq itself and literal references."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headtool.attention.gating import Gating
from headtool.data import TextData, load_data
from headtool.engine.differentiation import differentiate
from headtool.engine.evaluation import evaluate
from headtool.engine.observation import observe
from headtool.engine.passes import mask_gates
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask
from headtool.models.examples import Batch
from headtool.models.fairseq.model import FairseqModel
from headtool.quiet import silence

SOURCES = ("a b c d e f", "b", "", "l k j i h g f e d c b a", "c c", "g h a")
TARGETS = ("l k j", "", "d e f g", "c d", "e e e e e e e e", "f")
PAIRS = TextData("pairs", "translation", {"source": SOURCES, "target": TARGETS})


def load(path: Path, **options: Any) -> FairseqModel:
    return FairseqModel.load(str(path), device=torch.device("cpu"), dtype=torch.float32, **options)


@pytest.fixture
def model(save_fairseq: Callable[..., Path]) -> FairseqModel:
    return load(save_fairseq())


@pytest.fixture
def batch(model: FairseqModel) -> Batch:
    examples = model.encode(PAIRS)
    return model.collate(examples, np.arange(len(examples)))


class DoubleSoftmax(TorchFunctionMode):
    """Computes softmax in float64: fairseq does it in float32 whatever the model's type."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.nn.functional.softmax:
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


@pytest.fixture
def double(model: FairseqModel) -> Iterator[FairseqModel]:
    model.module.double()
    with DoubleSoftmax():
        yield model


def hooks(model: FairseqModel) -> int:
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.module.modules())


def every_gate(model: FairseqModel, value: Tensor) -> Gating:
    return Gating({handle.site: value for handle in model.handles})


# -- parity -------------------------------------------------------------------------------------


def test_sites_are_found_by_kind_and_layer(model: FairseqModel) -> None:
    assert model.sites.summary == "enc-self 2 x 4, dec-self 2 x 4, cross 2 x 4"
    assert {site.head_dim for site in model.sites} == {4}
    assert [site.projection for site in model.sites] == [
        *(f"encoder.layers.{layer}.self_attn.out_proj" for layer in (0, 1)),
        *(f"decoder.layers.{layer}.self_attn.out_proj" for layer in (0, 1)),
        *(f"decoder.layers.{layer}.encoder_attn.out_proj" for layer in (0, 1)),
    ]
    assert (model.library, model.task, model.languages) == ("fairseq", "seq2seq", ("xx", "yy"))
    assert not model.module.training


@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask:UserWarning")
def test_the_code_path_taken_agrees_with_the_fused_one(model: FairseqModel, batch: Batch) -> None:
    from fairseq.modules import MultiheadAttention

    explicit, _ = model.module(**batch.inputs)
    attentions = [m for m in model.module.modules() if isinstance(m, MultiheadAttention)]
    assert len(attentions) == 6
    for attention in attentions:
        assert attention.skip_embed_dim_check
        attention.skip_embed_dim_check = False
    fused, _ = model.module(**batch.inputs)
    assert not torch.equal(explicit, fused)
    torch.testing.assert_close(explicit, fused, rtol=1e-5, atol=1e-5)


def test_gates_of_one_change_no_bit(model: FairseqModel, batch: Batch) -> None:
    plain, _ = model.module(**batch.inputs)
    for gates in (torch.ones(4), torch.ones(len(batch), 4)):
        with model.intercept(every_gate(model, gates), batch):
            gated, _ = model.module(**batch.inputs)
        assert torch.equal(gated, plain)


def test_closing_a_head_is_zeroing_its_columns(double: FairseqModel, batch: Batch) -> None:
    plain = double.forward(batch).losses
    for head in double.sites.heads:
        handle = next(h for h in double.handles if (h.site.kind, h.site.layer) == head_site(head))
        gates = torch.ones(4)
        gates[head.index] = 0
        with double.intercept(Gating({handle.site: gates}), batch):
            masked = double.forward(batch).losses
        weight: Tensor = handle.module.weight
        kept = weight.detach().clone()
        columns = slice(head.index * 4, head.index * 4 + 4)
        with torch.no_grad():
            weight[:, columns] = 0
            zeroed = double.forward(batch).losses
            weight.copy_(kept)
        torch.testing.assert_close(masked, zeroed, rtol=1e-12, atol=1e-12)
        assert (masked - plain).abs().max() > 1e-4


def head_site(head: Any) -> tuple[str, int]:
    return head.kind, head.layer


def test_per_example_gates_equal_one_run_each(double: FairseqModel, batch: Batch) -> None:
    gates = torch.rand(len(batch), 4, generator=torch.Generator().manual_seed(0))
    with double.intercept(every_gate(double, gates), batch):
        together = double.forward(batch).losses
    examples = double.encode(PAIRS)
    for row in range(len(batch)):
        alone = double.collate(examples, np.array([row]))
        with double.intercept(every_gate(double, gates[row]), alone):
            loss = double.forward(alone).losses[0]
        torch.testing.assert_close(loss, together[row], rtol=1e-10, atol=1e-10)


def test_gradients_of_gates_equal_finite_differences(double: FairseqModel) -> None:
    examples = double.encode(PAIRS, batch_tokens=40)
    assert len(examples.batches()) > 1
    gradients = differentiate(double, examples)
    whole = double.collate(examples, np.arange(len(examples)))
    step = 1e-5
    for handle in double.handles:
        for head in range(4):
            losses = []
            for sign in (1, -1):
                gates = torch.ones(4, dtype=torch.float64)
                gates[head] += sign * step
                with torch.no_grad(), double.intercept(Gating({handle.site: gates}), whole):
                    losses.append(double.forward(whole).losses.numpy())
            slope = (losses[0] - losses[1]) / (2 * step)
            column = double.sites.columns(handle.site).start + head
            np.testing.assert_allclose(
                gradients.per_example[:, column], slope, rtol=1e-6, atol=1e-8
            )


def test_nothing_stays_attached(model: FairseqModel, batch: Batch) -> None:
    before = {name: weight.clone() for name, weight in model.module.state_dict().items()}
    examples = model.encode(PAIRS)
    evaluate(model, examples, [HeadMask.without(model.sites, model.sites.heads[:1])])
    # Buffers that the first pass made without gradients must not break a later one with them.
    differentiate(model, examples)

    def fail(site: AttentionSite, contexts: Tensor) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), model.intercept(fail, batch):
        model.forward(batch)
    assert hooks(model) == 0
    after = model.module.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert all(weight.requires_grad for weight in model.module.parameters())


def test_results_do_not_depend_on_batches_order_or_padding(double: FairseqModel) -> None:
    masks = [HeadMask.without(double.sites, [head]) for head in double.sites.heads[::5]]

    def results(data: TextData, batch_tokens: int) -> list[np.ndarray[Any, Any]]:
        examples = double.encode(data, batch_tokens=batch_tokens)
        outcomes, gradients = evaluate(double, examples, masks), differentiate(double, examples)
        return [
            *outcomes.whole.values(),
            *(column.T for column in outcomes.masked.values()),
            gradients.per_example,
            gradients.token_magnitude,
            gradients.tokens,
        ]

    reference = results(PAIRS, 1_000)
    backwards = np.arange(len(PAIRS))[::-1]
    for data, order in ((PAIRS, slice(None)), (PAIRS.take(backwards.tolist()), backwards)):
        for budget in (13, 40):
            for found, wanted in zip(results(data, budget), reference, strict=True):
                np.testing.assert_allclose(found[order], wanted, rtol=1e-10, atol=1e-10)


def test_single_precision_depends_on_batches_only_by_rounding(model: FairseqModel) -> None:
    losses = [
        evaluate(model, model.encode(PAIRS, batch_tokens=budget), []).whole["loss"]
        for budget in (13, 1_000)
    ]
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_observed_attention_is_a_distribution_over_real_keys(model: FairseqModel) -> None:
    seen: set[AttentionSite] = set()
    examples = model.encode(PAIRS)

    class Check:
        def summarise(
            self, site: AttentionSite, attention: Tensor, contexts: Tensor, batch: Batch
        ) -> dict[str, np.ndarray]:
            real = batch.queries[site.kind].real
            keys = batch.queries["enc-self" if site.kind == "cross" else site.kind].real
            assert attention.shape == (len(batch), 4, real.shape[1], keys.shape[1])
            assert contexts.shape == (len(batch), real.shape[1], 4, 4)
            assert not keys.all()
            rows = attention.transpose(1, 2)[real]
            torch.testing.assert_close(rows.sum(dim=-1), torch.ones(rows.shape[:-1]))
            assert (attention.masked_select(~keys[:, None, None, :]) == 0).all()
            if site.kind == "dec-self":
                assert (attention.triu(1) == 0).all()
            return {"rows": batch.index}

        def add(
            self, site: AttentionSite, examples: np.ndarray, summary: dict[str, np.ndarray]
        ) -> None:
            np.testing.assert_array_equal(summary["rows"], examples)
            seen.add(site)

    observe(model, examples, [Check()])
    assert seen == set(model.sites)
    assert hooks(model) == 0


def test_the_loss_is_that_of_fairseq_s_own_criterion(model: FairseqModel) -> None:
    """fairseq's collater pads sources on the left, ours on the right."""
    from fairseq.criterions.cross_entropy import CrossEntropyCriterion
    from fairseq.data import LanguagePairDataset

    sides = (model.source_dictionary, SOURCES), (model.target_dictionary, TARGETS)
    ids = [
        [words.encode_line(line, add_if_not_exist=False).long() for line in lines]
        for words, lines in sides
    ]
    sizes = [np.array([len(row) for row in rows]) for rows in ids]
    dataset = LanguagePairDataset(
        ids[0], sizes[0], model.source_dictionary, ids[1], sizes[1], model.target_dictionary
    )
    task = type("Task", (), {"target_dictionary": model.target_dictionary})()
    criterion = CrossEntropyCriterion(task, sentence_avg=False)
    losses = evaluate(model, model.encode(PAIRS), []).whole
    for row in range(len(PAIRS)):
        loss, tokens, _ = criterion(model.module, dataset.collater([dataset[row]]))
        np.testing.assert_allclose(losses["loss"][row], loss.item(), rtol=1e-5)
        assert losses["tokens"][row] == tokens
    loss, tokens, _ = criterion(model.module, dataset.collater([dataset[i] for i in range(6)]))
    np.testing.assert_allclose(losses["loss"].sum(), loss.item(), rtol=1e-5)
    assert losses["tokens"].sum() == tokens


# -- examples and batches -----------------------------------------------------------------------


def test_a_batch_is_padded_on_the_right_and_shifted(model: FairseqModel, batch: Batch) -> None:
    pad, eos = model.source_dictionary.pad(), model.source_dictionary.eos()
    a, b = (model.source_dictionary.index(letter) for letter in "ab")
    sources = batch.inputs["src_tokens"]
    assert sources[1].tolist() == [b, eos, *[pad] * 11]
    assert sources[2].tolist() == [eos, *[pad] * 12]  # an empty line
    assert sources[3].tolist()[-2:] == [a, eos]
    assert batch.inputs["src_lengths"].tolist() == [7, 2, 1, 13, 3, 4]
    symbols = [*(model.target_dictionary.index(letter) for letter in "lkj"), eos]
    assert batch.targets[0].tolist() == [*symbols, *[pad] * 5]
    assert batch.inputs["prev_output_tokens"][0].tolist() == [eos, *symbols[:3], *[pad] * 5]
    encoder, decoder = batch.queries["enc-self"], batch.queries["cross"]
    assert encoder.real.sum(dim=1).tolist() == [7, 2, 1, 13, 3, 4]
    assert encoder.eos.nonzero()[:, 1].tolist() == [6, 1, 0, 12, 2, 3]
    assert decoder.real.sum(dim=1).tolist() == [4, 1, 5, 3, 9, 2]
    assert decoder.eos.nonzero()[:, 1].tolist() == [0] * 6
    assert torch.equal(decoder.special, decoder.eos | ~decoder.real)


def test_long_lines_are_cut_and_counted(save_fairseq: Callable[..., Path]) -> None:
    model = load(save_fairseq(max_source_positions=6, max_target_positions=4))
    examples = model.encode(PAIRS)
    assert examples.truncated == 4
    eos = model.source_dictionary.eos()
    assert [len(row["source"]) for row in examples.rows] == [6, 2, 1, 6, 3, 4]
    assert [len(row["target"]) for row in examples.rows] == [4, 1, 4, 3, 4, 2]
    assert all(row[side][-1] == eos for row in examples.rows for side in ("source", "target"))
    assert examples.lengths.tolist() == [6, 2, 4, 6, 4, 4]
    assert np.isfinite(evaluate(model, examples, []).whole["loss"]).all()


def test_segmented_symbols_are_taken_as_they_are(save_fairseq: Callable[..., Path]) -> None:
    model = load(save_fairseq(), bpe="characters")
    raw = model.encode(TextData("t", "translation", {"source": ("abz",), "target": ("lk",)}))
    cut = TextData("t", "translation", {"source": ("a b z",), "target": ("l k",)}, True)
    assert raw.rows == model.encode(cut).rows
    assert model.bpe.decode(model.bpe.encode("ab l")) == "ab l"
    assert model.source_dictionary.unk() in raw.rows[0]["source"]


def test_label_smoothing_changes_the_loss_but_not_the_columns(
    model: FairseqModel, batch: Batch
) -> None:
    plain, smooth = model.forward(batch), model.forward(batch, label_smoothing=0.1)
    assert torch.equal(plain.columns["loss"], smooth.columns["loss"])
    assert (plain.losses - smooth.losses).abs().min() > 1e-3


def test_half_precision(save_fairseq: Callable[..., Path]) -> None:
    path = save_fairseq()
    half = FairseqModel.load(str(path), device=torch.device("cpu"), dtype=torch.bfloat16)
    assert {weight.dtype for weight in half.module.parameters()} == {torch.bfloat16}
    assert half.sites == load(path).sites
    losses = [evaluate(m, m.encode(PAIRS), []).whole["loss"] for m in (half, load(path))]
    np.testing.assert_allclose(*losses, rtol=0.1)


MISFITS = {
    "two line-aligned files": TextData(
        "x.tsv", "classification", {"text_a": ("a",), "label": ("1",)}
    ),
    "yy-xx, but": TextData(
        "x", "translation", {"source": ("a",), "target": ("l",)}, True, ("yy", "xx")
    ),
    "67% of the symbols": TextData("x", "translation", {"source": ("a q",), "target": ("q",)}),
    "with `bpe=none`": TextData("x", "translation", {"source": ("Hello there",), "target": ("l",)}),
    "with its dictionaries": TextData(
        "x", "translation", {"source": ("q",), "target": ("q",)}, True
    ),
}


@pytest.mark.parametrize("text", MISFITS)
def test_data_that_do_not_fit_are_one_line(model: FairseqModel, text: str) -> None:
    with pytest.raises(HeadtoolError) as error:
        model.encode(MISFITS[text])
    assert text in str(error.value)
    assert "\n" not in str(error.value)


# -- a real model -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_trained_model_scores_as_in_fairseq(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Binary data, raw text through sentencepiece, and fairseq's own loader and criterion agree."""
    with silence():
        pytest.importorskip("fairseq")
    folder, texts = shared / "models" / "fairseq-multi30k-de-en", shared / "data" / "multi30k"
    model = load(folder / "checkpoint24.pt")
    assert model.sites.summary == "enc-self 4 x 8, dec-self 4 x 8, cross 4 x 8"
    assert model.sites.n_heads == 96
    binary = evaluate(model, model.encode(load_data(f"fairseq-bin:{folder}/data-bin/test")), [])
    raw = load_data(f"{texts}/test_2016_flickr.de,{texts}/test_2016_flickr.en").head(200)
    text = evaluate(model, model.encode(raw), [])
    np.testing.assert_array_equal(text.whole["tokens"], binary.whole["tokens"][:200])
    np.testing.assert_allclose(text.whole["loss"], binary.whole["loss"][:200], rtol=1e-5)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # fairseq's loader needs it
    loss, tokens = fairseq_loss(folder)
    assert binary.whole["tokens"].sum() == tokens
    assert binary.whole["loss"].sum() / tokens == pytest.approx(loss / tokens, rel=1e-6)
    assert loss / tokens == pytest.approx(1.73268, abs=1e-4)


def fairseq_loss(folder: Path) -> tuple[float, int]:
    """Loss in nats and tokens of the test set, by fairseq's own task, loader and batches."""
    with silence():
        from fairseq import checkpoint_utils
        from fairseq.criterions.cross_entropy import CrossEntropyCriterion
        from fairseq.tasks.translation import TranslationConfig, TranslationTask

        config = TranslationConfig(
            data=str(folder / "data-bin"), source_lang="de", target_lang="en", left_pad_source=True
        )
        config.dataset_impl = None
        config.required_seq_len_multiple = 1
        config.train_subset = "train"
        task = TranslationTask.setup_task(config)
        (module,), _ = checkpoint_utils.load_model_ensemble(
            [str(folder / "checkpoint24.pt")], task=task
        )
        task.load_dataset("test")
        criterion = CrossEntropyCriterion(task, sentence_avg=False)
        batches = task.get_batch_iterator(task.dataset("test"), max_tokens=4_000)
        total, tokens = 0.0, 0
        module.eval()
        with torch.no_grad():
            for sample in batches.next_epoch_itr(shuffle=False):
                loss, count, _ = criterion(module, sample)
                total, tokens = total + loss.item(), tokens + count
    return total, tokens


@pytest.mark.parametrize("budget", [12, 60, 400])
def test_masked_runs_equal_a_plain_loop(double: FairseqModel, budget: int) -> None:
    examples = double.encode(PAIRS, batch_tokens=budget)
    heads = double.sites.heads
    sets = [*((head,) for head in heads), heads, heads[::3], (heads[0], heads[-1])]
    masks = [HeadMask.without(double.sites, closed) for closed in sets]
    outcomes = evaluate(double, examples, masks)
    for index in examples.batches():
        batch = double.collate(examples, index)
        for row, mask in enumerate(masks):
            with torch.no_grad(), double.intercept(Gating(mask_gates(mask, double)), batch):
                expected = double.forward(batch).losses.numpy()
            np.testing.assert_allclose(
                outcomes.masked["loss"][row, index], expected, rtol=0, atol=1e-10
            )
