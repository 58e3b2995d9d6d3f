"""Pruned models that make up for their heads: with constants in biases, and by training."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headtool
from headtool import HeadtoolError, TextData
from headtool.engine.constants import Constants, constants_of
from headtool.engine.evaluation import evaluate
from headtool.experiments.finetuning import recover
from headtool.experiments.fitting import parts_of
from headtool.experiments.recovery import Recovery
from headtool.experiments.splitting import split_data
from headtool.heads import HeadMask
from headtool.models.base import ModelAdapter
from headtool.pruning.smaller import prune as prune_model
from headtool.schema import TABLES


@pytest.fixture(scope="module")
def nli() -> ModelAdapter:
    return headtool.load_model("builtin:nli", device="cpu")


@pytest.fixture(scope="module")
def data() -> TextData:
    return headtool.load_data("builtin:nli/matched", limit=120)


def half(model: ModelAdapter) -> HeadMask:
    return HeadMask.without(model.sites, model.sites.heads[::2])


def loss(model: ModelAdapter, examples: Any, mask: HeadMask | None = None, **how: Any) -> float:
    outcomes = evaluate(model, examples, [] if mask is None else [mask], **how)
    losses = outcomes.whole["loss"] if mask is None else outcomes.masked["loss"][0]
    return float(losses.sum() / outcomes.whole["tokens"].sum())


def test_means_are_means_over_real_tokens(nli: ModelAdapter, data: TextData) -> None:
    examples = nli.encode(data.head(20), batch_tokens=64)
    found = constants_of("mean", nli, examples, half(nli))
    seen: dict[Any, list[torch.Tensor]] = {}
    for number in range(20):
        batch = nli.collate(examples, np.array([number]))  # alone, without padding

        def keep(site: Any, contexts: torch.Tensor) -> None:
            seen.setdefault(site, []).append(contexts[0])

        with torch.inference_mode(), nli.intercept(keep, batch):
            nli.forward(batch)
    for site, rows in seen.items():
        torch.testing.assert_close(found[site], torch.cat(rows).mean(dim=0), rtol=1e-4, atol=1e-5)


def test_optimal_constants_are_better_together(nli: ModelAdapter, data: TextData) -> None:
    examples, mask = nli.encode(data), half(nli)
    before = {name: weight.clone() for name, weight in nli.module.state_dict().items()}
    losses = {}
    for name in ("mean", "optimal"):
        constants = constants_of(name, nli, examples, mask, steps=30)
        losses[name] = loss(nli, examples, mask, replacement=Constants(constants))
    assert losses["optimal"] < 0.8 * losses["mean"]
    assert all(torch.equal(before[name], now) for name, now in nli.module.state_dict().items())
    assert all(weight.grad is None for weight in nli.module.parameters())


def test_one_data_set_is_halved_as_compare_halves_it(nli: ModelAdapter, data: TextData) -> None:
    split = split_data(nli, [data], None, batch_tokens=4096, seed=5)
    for first, second in ((data, None), (None, data), (data, data)):
        parts = parts_of(nli, first, second, batch_tokens=4096, seed=5)
        assert parts.fit.data.columns == split.selection.data.columns
        assert parts.test.data.columns == split.first.data.columns
        assert parts.note == (
            "fitted on one half of builtin:nli/matched, 60 examples; measured on the other half, "
            "60 examples"
        )


def test_what_measures_never_fits(nli: ModelAdapter, data: TextData) -> None:
    """Also if the other data set labels it differently."""
    columns = data.head(50).columns
    label = tuple(reversed(columns["label"]))
    train = TextData("train", "classification", {**columns, "label": label})
    test = TextData("test", "classification", data.take(range(30, 60)).columns)
    parts = parts_of(nli, test, train, batch_tokens=4096, seed=0)
    assert len(parts.test) == 30
    held = set(zip(test.columns["text_a"], test.columns["text_b"], strict=True))
    rows = parts.fit.data.columns
    assert len(parts.fit) == sum(
        pair not in held for pair in zip(columns["text_a"], columns["text_b"], strict=True)
    )
    assert not held & set(zip(rows["text_a"], rows["text_b"], strict=True))
    assert "that it shares with the other set are left out" in parts.note
    same = TextData("same", "classification", {**test.columns, "label": label[:30]})
    with pytest.raises(HeadtoolError, match=r"all of same is in test, which measures"):
        parts_of(nli, test, same, batch_tokens=4096, seed=0)


def test_the_written_model_is_the_measured_one(tmp_path: Path, nli: ModelAdapter) -> None:
    """Heads at their means in the whole model, folded into biases, and loaded again."""
    scoring = headtool.score(nli, limit=60)
    how: dict[str, Any] = {"scores": scoring, "remove": "50%", "limit": 80}
    pruning = headtool.prune(
        nli, replace="mean", metric="loss", out=tmp_path / "m", command="headtool prune", **how
    )
    frame = pruning.recovery
    assert tuple(frame.columns) == TABLES["recovery"].names
    assert frame["stage"].tolist() == ["whole", "zero", "mean"]
    text = headtool.load_data("builtin:nli/matched", limit=80)
    parts = parts_of(nli, text, None, batch_tokens=4096, seed=0)
    again = headtool.load_model(str(tmp_path / "m"), device="cpu")
    constants = constants_of("mean", nli, parts.fit, pruning.mask)
    wanted = loss(nli, parts.test, pruning.mask, replacement=Constants(constants))
    assert loss(again, parts.test) == pytest.approx(wanted, rel=1e-4)
    assert frame["value"].iloc[2] == pytest.approx(wanted, rel=1e-4)
    assert frame["value"].iloc[1] == pytest.approx(loss(nli, parts.test, pruning.mask), rel=1e-4)
    record = json.loads((tmp_path / "m" / "headtool-pruned.json").read_text())
    assert record["source"]["replace"] == "mean"
    assert [row["stage"] for row in record["source"]["recovery"]] == ["whole", "zero", "mean"]
    page = (tmp_path / "m" / "report.html").read_text()
    assert "heads put out their means" in page
    assert "measured on the other half" in page
    curve = pruning.curve
    assert curve["budget"].tolist() == [0, 6, 13, 16, 19, 26] * 2
    chosen = curve[(curve["replacement"] == "mean") & (curve["budget"] == 16)]
    assert chosen["value"].item() == pytest.approx(wanted, rel=1e-4)


def test_training_recovers_and_touches_nothing_else(nli: ModelAdapter, data: TextData) -> None:
    before = {name: weight.clone() for name, weight in nli.module.state_dict().items()}
    parts = parts_of(nli, data, None, batch_tokens=4096, seed=0)
    seen: set[int] = set()
    losses, trained = [], []
    for _ in range(2):
        smaller = prune_model(nli, half(nli)).model
        losses.append(loss(smaller, parts.test))
        collate = smaller.collate

        def watched(examples: Any, index: Any, collate: Any = collate) -> Any:
            assert examples is parts.fit
            seen.update(index.tolist())
            return collate(examples, index)

        smaller.collate = watched  # type: ignore[method-assign]
        done = recover(smaller, parts.fit, Recovery(steps=12, lr=5e-4, batch_size=16))
        trained.append(loss(done, parts.test))
    assert seen == set(range(60))
    assert trained[0] == trained[1]  # of one seed
    assert trained[0] < losses[0] - 0.3 * (losses[0] - loss(nli, parts.test))
    assert all(torch.equal(before[name], now) for name, now in nli.module.state_dict().items())


def test_low_rank_updates_end_in_the_weights(nli: ModelAdapter, data: TextData) -> None:
    pytest.importorskip("peft")
    examples = nli.encode(data)
    smaller = prune_model(nli, half(nli)).model
    names = set(smaller.module.state_dict())
    before = {name: weight.clone() for name, weight in smaller.module.state_dict().items()}
    worse = loss(smaller, examples)
    done = recover(smaller, examples, Recovery(steps=10, lora=True, batch_size=16, lr=5e-3))
    assert set(done.module.state_dict()) == names
    assert loss(done, examples) < worse
    changed = {n for n, now in done.module.state_dict().items() if not torch.equal(before[n], now)}
    assert changed
    assert all(name.endswith(".weight") and before[name].ndim == 2 for name in changed)
    for name in changed:
        assert torch.linalg.matrix_rank(done.module.state_dict()[name] - before[name]) <= 8


def test_translation_models_of_fairseq_are_trained_too(tmp_path: Path) -> None:
    model = headtool.load_model("builtin:mt", device="cpu")
    pruning = headtool.prune(
        model,
        mask=HeadMask.without(model.sites, model.sites.heads[::3]),
        finetune="builtin:mt/test",
        replace="mean",
        metric="loss",
        limit=24,
        steps=4,
        batch_size=8,
        lr=1e-3,
        out=tmp_path / "tuned",
    )
    assert pruning.recovery["stage"].tolist() == ["whole", "zero", "mean", "finetuned"]
    values = pruning.recovery["value"].tolist()
    assert values[3] < values[2]
    again = headtool.load_model(str(tmp_path / "tuned"), device="cpu")
    text = headtool.load_data("builtin:mt/test", limit=24)
    parts = parts_of(model, text, None, batch_tokens=4096, seed=0)
    assert loss(again, parts.test) == pytest.approx(values[3], rel=1e-4)
    with pytest.raises(HeadtoolError, match=r"`lora` is not for fairseq models"):
        recover(pruning.model, parts.fit, Recovery(steps=1, lora=True))


def test_without_peft_one_line_names_the_extra(
    nli: ModelAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(HeadtoolError, match=r"pip install headtool\[lora\]"):
        headtool.prune(
            nli,
            mask=half(nli),
            finetune="builtin:nli/matched",
            limit=20,
            steps=1,
            lora=True,
            out=tmp_path / "half-written",
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replace": "median"}, r"unknown replacement 'median'.*mean, optimal"),
        ({"replace": "mean", "rescale": "least-squares"}, r"`rescale` makes up for heads"),
        ({"finetune": "x", "bake": True}, r"`finetune` would train the silenced heads"),
        ({"steps": 5}, r"`steps` is for `finetune`; add it"),
        ({"lora": True}, r"`lora` is for `finetune`; add it"),
        ({"finetune": "x", "steps": 0}, r"`steps` must be at least 1, got 0"),
        ({"finetune": "x", "lr": 2.0}, r"`lr` must be between 0 and 1, got 2"),
    ],
)
def test_options_that_do_not_go_together(nli: ModelAdapter, options: Any, message: str) -> None:
    with pytest.raises(HeadtoolError, match=message):
        headtool.prune(nli, mask=half(nli), **options)


def test_recovery_shows_its_default_rate() -> None:
    assert Recovery().described()["lr"] == 5e-5
    assert Recovery(lora=True).described()["lr"] == 1e-3
