"""Pruned models on disk: they load again, train, export, and say what is wrong with them."""

from __future__ import annotations

import json
import logging
import logging.handlers
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import headtool
from headtool.attention.discovery import discover
from headtool.engine.measurement import measure
from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask, Sites
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.pruning.rescaling import least_squares_scales
from headtool.pruning.saving import save_baked, save_pruned
from headtool.pruning.smaller import bake, prune
from headtool.surgery.history import History, record_history
from headtool.surgery.removal import remove_heads

from ..support.families import FAMILIES, inputs, probe

CLOSED = ("enc-self.0.1", "enc-self.0.2", "enc-self.3.0", "enc-self.2.7")


@pytest.fixture(scope="module")
def nli() -> ModelAdapter:
    return load_model("builtin:nli", device="cpu")


@pytest.fixture(scope="module")
def examples(nli: ModelAdapter) -> Examples:
    return nli.encode(headtool.load_data("builtin:nli/matched", limit=120))


def mask_of(model: ModelAdapter, *heads: str) -> HeadMask:
    return HeadMask.without(model.sites, map(Head.parse, heads or CLOSED))


def output(model: ModelAdapter) -> torch.Tensor:
    with torch.inference_mode():
        return model.probe(model.module).predict()


@pytest.fixture
def folder(nli: ModelAdapter, tmp_path: Path) -> Path:
    """A pruned model."""
    place = tmp_path / "pruned"
    save_pruned(prune(nli, mask_of(nli)), place, source={"mask": "by hand"}, force=False)
    return place


@pytest.mark.parametrize(
    "name", ["GPT-2", "Phi-3", "Qwen3", "T5", "ViT", "Falcon, grouped", "Bloom", "ModernBERT"]
)
def test_transformers_saves_what_load_pruned_reads(name: str, tmp_path: Path) -> None:
    """The configuration carries the record, so that a Trainer's checkpoints load as well."""
    module = FAMILIES[name].model()
    handles = discover(module, probe(module))
    sites = Sites(tuple(handle.site for handle in handles))
    closed = np.random.default_rng(2).random(sites.n_heads) < 0.4
    closed[sites.columns(sites[-1])] = len(sites) > 1  # a layer without attention
    mask = HeadMask(sites, ~closed)
    removed = remove_heads(module, handles, probe, mask)
    kept = {str(site): np.flatnonzero(mask.at(site)).tolist() for site in sites}
    heads = [(site.kind, site.layer, site.n_heads) for site in sites]
    record_history(removed.module, History(heads, kept, [removed.plan.to_json()]))
    removed.module.save_pretrained(tmp_path)
    again: Any = headtool.load_pruned(tmp_path)
    assert type(again) is type(module)
    arguments = inputs(module)
    with torch.inference_mode():
        assert torch.equal(again(**arguments).logits, removed.module(**arguments).logits)


def test_round_trip(nli: ModelAdapter, folder: Path) -> None:
    again = load_model(str(folder), device="cpu")
    assert torch.equal(output(again), output(prune(nli, mask_of(nli)).model))
    assert again.sites.n_heads == nli.sites.n_heads - len(CLOSED)
    record = json.loads((folder / "headtool-pruned.json").read_text())
    assert record["schema"] == "headtool/pruned/1"
    assert record["removed"] == sorted(CLOSED)
    assert record["costs"]["parameters"]["before"] == 333_699
    assert record["costs"]["parameters"]["after"] == sum(
        weight.numel() for weight in again.module.parameters()
    )


def test_attention_operations_fall_with_the_heads(nli: ModelAdapter) -> None:
    """Half of the heads, in whatever layers, are half of the attention's operations."""
    half = [str(head) for head in nli.sites.heads if (head.index + head.layer) % 2]
    pruned = prune(nli, mask_of(nli, *half))
    assert pruned.after.attention_flops * 2 == pruned.before.attention_flops
    # Per layer and token: W_Q, W_K, W_V and W_O of 96 x 96, scores and sums over 64 positions.
    per_token = 2 * (4 * 96 * 96 + 2 * 64 * 96)
    assert pruned.before.attention_flops == 4 * pruned.length * per_token


def test_pruned_models_can_be_pruned_further(folder: Path, tmp_path: Path) -> None:
    """The record names heads as the whole model numbers them: 0.1 and 0.2 went before."""
    first = load_model(str(folder), device="cpu")
    twice = prune(first, mask_of(first, "enc-self.0.1", "enc-self.0.5"))
    save_pruned(twice, tmp_path / "twice", source={}, force=False)
    again = load_model(str(tmp_path / "twice"), device="cpu")
    assert torch.equal(output(again), output(twice.model))
    assert History.of(again.module, again.sites).removed == sorted(
        {*CLOSED, "enc-self.0.3", "enc-self.0.7"}
    )


def test_baked_models_load_without_headtool(nli: ModelAdapter, tmp_path: Path) -> None:
    place = tmp_path / "baked"
    save_baked(bake(nli, mask_of(nli)), list(CLOSED), place, source={}, force=False)
    stock: Any = transformers.AutoModelForSequenceClassification.from_pretrained(place)
    with torch.inference_mode():
        actual = nli.probe(stock.eval()).predict()
    torch.testing.assert_close(actual, output(prune(nli, mask_of(nli)).model))
    with pytest.raises(HeadtoolError, match=r"no head is missing .* from_pretrained"):
        headtool.load_pruned(place)


def test_stock_loading_of_a_smaller_model_fails_loudly(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="mismatch"):
        transformers.AutoModelForSequenceClassification.from_pretrained(folder)


def test_fine_tuning_recovers_part_of_the_loss(
    nli: ModelAdapter, examples: Examples, tmp_path: Path
) -> None:
    """With the stock Trainer, whose checkpoint loads again."""
    pytest.importorskip("accelerate")
    important = mask_of(nli, "enc-self.1.7", "enc-self.1.5", "enc-self.0.2", "enc-self.2.2")
    save_pruned(prune(nli, important), tmp_path / "pruned", source={}, force=False)
    module: Any = headtool.load_pruned(tmp_path / "pruned")

    def loss(model: Any) -> float:
        batch = nli.collate(examples, np.arange(len(examples)))
        with torch.inference_mode():
            logits = model(**batch.inputs).logits
        return float(torch.nn.functional.cross_entropy(logits, batch.targets))

    def collate(indices: list[int]) -> dict[str, Any]:
        batch = nli.collate(examples, np.asarray(indices))
        return {**batch.inputs, "labels": batch.targets}

    before, whole = loss(module), loss(nli.module)
    arguments = transformers.TrainingArguments(
        str(tmp_path / "training"),
        max_steps=12,
        per_device_train_batch_size=32,
        learning_rate=5e-4,
        report_to=[],
        save_strategy="no",
        remove_unused_columns=False,
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        logging_strategy="no",
    )
    trainer = transformers.Trainer(
        module, arguments, data_collator=collate, train_dataset=list(range(len(examples)))
    )
    trainer.train()
    trainer.save_model(str(tmp_path / "tuned"))
    again: Any = headtool.load_pruned(tmp_path / "tuned")
    after = loss(again)
    assert whole < before
    assert after < before - 0.3 * (before - whole)


def test_least_squares_reproduces_a_scaled_model(nli: ModelAdapter, examples: Examples) -> None:
    """Heads whose outputs depend linearly on others can go: the fit finds the factors.

    Head 1 of a layer is made a copy of head 0. Without it, head 0 must count twice.
    """
    import copy

    twin = copy.deepcopy(nli.module)
    attention = twin.get_submodule("bert.encoder.layer.2.attention")
    with torch.no_grad():
        for part in ("query", "key", "value"):
            linear = attention.get_submodule(f"self.{part}")
            linear.weight[12:24] = linear.weight[:12]
            linear.bias[12:24] = linear.bias[:12]
        weight = attention.get_submodule("output.dense").weight
        weight[:, 12:24] = weight[:, :12]
    model = type(nli)(nli.spec, nli.task, twin, nli.tokenizer)  # type: ignore[attr-defined]
    mask = mask_of(model, "enc-self.2.1")
    scales = least_squares_scales(model, examples.head(40), mask)
    expected = [2.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    np.testing.assert_allclose(scales[model.sites[2]].numpy(), expected, atol=2e-3)
    pruned = prune(model, mask, scales)
    torch.testing.assert_close(output(pruned.model), output(model), rtol=0.01, atol=0.01)
    assert pruned.difference < 1e-5
    torch.testing.assert_close(output(bake(model, mask, scales)), output(pruned.model))


@pytest.mark.slow
def test_onnx_runs_elsewhere(
    nli: ModelAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    pruned = prune(nli, mask_of(nli, *(f"enc-self.1.{head}" for head in range(8))))
    said = logging.handlers.BufferingHandler(1000)
    monkeypatch.setattr(logging.getLogger("torch.onnx"), "handlers", [said])
    save_pruned(pruned, tmp_path / "pruned", source={}, force=False, onnx=True)
    assert [record.getMessage() for record in said.buffer] == []
    session = runtime.InferenceSession(
        tmp_path / "pruned" / "model.onnx", providers=["CPUExecutionProvider"]
    )
    ids = torch.randint(5, 40, (4, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[2, -3:] = 0
    actual = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0]
    with torch.inference_mode():
        expected = pruned.model.module(input_ids=ids, attention_mask=mask).logits
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-4, atol=1e-4)


# -- fairseq ----------------------------------------------------------------------------------


def test_fairseq_round_trip(save_fairseq: Callable[..., Path], tmp_path: Path) -> None:
    model = load_model(f"fairseq:{save_fairseq(share_all_embeddings=True)}", device="cpu")
    closed = ["enc-self.0.2", "dec-self.1.0", *(f"cross.1.{head}" for head in range(4))]
    pruned = prune(model, mask_of(model, *closed))
    save_pruned(pruned, tmp_path / "pruned", source={}, force=False)
    again = load_model(str(tmp_path / "pruned"), device="cpu")
    assert again.library == "fairseq"
    assert torch.equal(output(again), output(pruned.model))
    assert History.of(again.module, again.sites).removed == [
        "enc-self.0.2",
        "dec-self.1.0",
        *closed[2:],
    ]
    assert torch.equal(
        model.probe(headtool.load_pruned(tmp_path / "pruned")).predict(), output(pruned.model)
    )


def test_fairseq_loads_baked_checkpoints(
    save_fairseq: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headtool.quiet import silence

    model = load_model(f"fairseq:{save_fairseq()}", device="cpu")
    mask = mask_of(model, "enc-self.0.2", "cross.1.3")
    place = tmp_path / "baked"
    save_baked(bake(model, mask), ["enc-self.0.2", "cross.1.3"], place, source={}, force=False)
    expected = output(prune(model, mask).model)
    ours = load_model(f"fairseq:{place / 'checkpoint.pt'}", device="cpu")
    torch.testing.assert_close(output(ours), expected)
    # fairseq's own loading needs to be told that the pickle is trusted.
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with silence():
        from fairseq.checkpoint_utils import load_model_ensemble

        (stock,), _ = load_model_ensemble([str(place / "checkpoint.pt")])
        with torch.inference_mode():
            actual = model.probe(stock.eval()).predict()
    torch.testing.assert_close(actual, expected)


def test_translations_without_whole_layers_of_attention() -> None:
    """Searched under further masks, they are those of the whole model under all masks."""
    pytest.importorskip("fairseq")
    from headtool.metrics import get_metric

    model = load_model("builtin:mt", device="cpu")
    examples = model.encode(headtool.load_data("builtin:mt/test", limit=12))
    gone = [Head("dec-self", 1, h) for h in range(4)] + [Head("cross", 0, h) for h in range(4)]
    gone += [Head("enc-self", 0, h) for h in range(4)]
    further = Head("cross", 2, 1)
    pruned = prune(model, HeadMask.without(model.sites, gone)).model
    bleu = get_metric("bleu", task="seq2seq")
    masks = [HeadMask.without(model.sites, heads) for heads in (gone, [*gone, further])]
    expected = measure(model, examples, masks, bleu).outcomes
    actual = measure(pruned, examples, [HeadMask.without(pruned.sites, [further])], bleu).outcomes
    assert bleu.compute(actual.whole) == bleu.compute(expected.row(0))
    assert bleu.compute(actual.row(0)) == bleu.compute(expected.row(1))
    assert bleu.compute(actual.whole) != bleu.compute(expected.whole)


# -- what can be wrong ------------------------------------------------------------------------


def test_record_must_fit_the_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    state = load_file(weights)
    state["classifier.bias"] += 1
    save_file(state, weights, metadata={"format": "pt"})
    for load in (load_model, headtool.load_pruned):
        with pytest.raises(HeadtoolError, match=r"does not fit model\.safetensors"):
            load(str(folder))


def test_record_of_another_version(folder: Path) -> None:
    path = folder / "headtool-pruned.json"
    path.write_text(path.read_text().replace("headtool/pruned/1", "headtool/pruned/9"))
    with pytest.raises(HeadtoolError, match="schema 'headtool/pruned/9'"):
        load_model(str(folder))
    path.write_text("{")
    with pytest.raises(HeadtoolError, match="cannot be read"):
        load_model(str(folder))


def test_plan_of_another_model(folder: Path) -> None:
    """The configuration's record names layers that this model has not."""
    (folder / "headtool-pruned.json").unlink()
    config = folder / "config.json"
    config.write_text(config.read_text().replace("encoder.layer.3.", "encoder.layer.7."))
    with pytest.raises(HeadtoolError, match="does not fit"):
        headtool.load_pruned(folder)


def test_no_pruned_model(tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match="holds no pruned model"):
        headtool.load_pruned(tmp_path)


def test_nothing_is_half_written(
    nli: ModelAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    pruned = prune(nli, mask_of(nli))
    monkeypatch.setattr(pruned.model.tokenizer, "save_pretrained", fail)  # type: ignore[attr-defined]
    with pytest.raises(HeadtoolError, match="No space left on device"):
        save_pruned(pruned, tmp_path / "above" / "pruned", source={}, force=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("library", ["transformers", "fairseq"])
def test_a_full_disk_is_said_whichever_library_writes(
    nli: ModelAdapter, save_fairseq: Callable[..., Path], tmp_path: Path, library: str
) -> None:
    resource = pytest.importorskip("resource")
    model = nli if library == "transformers" else load_model(f"fairseq:{save_fairseq()}")
    mask = mask_of(model, "enc-self.0.2")
    pruned, baked = prune(model, mask), bake(model, mask)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for write in (
        lambda place: save_pruned(pruned, place, source={}, force=False),
        lambda place: save_baked(baked, ["enc-self.0.2"], place, source={}, force=False),
    ):
        place = tmp_path / "new" / "model"
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
        try:
            with pytest.raises(HeadtoolError, match=r"cannot write .*model: .*File too large"):
                write(place)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert not (tmp_path / "new").exists()


def test_a_tokenizer_that_finds_the_disk_full(
    nli: ModelAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its library raises a bare exception; anything else that it raises is a bug."""
    pruned, said = prune(nli, mask_of(nli, "enc-self.0.2")), "a bug"

    def full(*_: object, **__: object) -> None:
        raise Exception(said)

    monkeypatch.setattr(type(nli.tokenizer), "save_pretrained", full)
    with pytest.raises(Exception, match="a bug"):
        save_pruned(pruned, tmp_path / "model", source={}, force=False)
    said = "No space left on device (os error 28)"
    with pytest.raises(HeadtoolError, match=r"cannot write .*model: No space left on device;"):
        save_pruned(pruned, tmp_path / "model", source={}, force=False)
    assert list(tmp_path.iterdir()) == []
