"""Models whose weights are not all on one device compute what the whole model does."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import headtool
from headtool import HeadMask, HeadtoolError, ModelSource
from headtool.models.base import ModelAdapter
from headtool.models.huggingface import placing

from ...support.gguf_model import save_gguf


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model as transformers saves it, in float32."""
    path = tmp_path_factory.mktemp("model")
    save_gguf(path / "tiny.gguf")
    headtool.load_model(str(path / "tiny.gguf")).save(path / "folder")
    return path / "folder"


SPLIT = {
    "model.embed_tokens": "cpu",
    "model.layers.0": "disk",
    "model.layers.1": "cpu",
    "model.norm": "disk",
    "model.rotary_emb": "cpu",
    "lm_head": "disk",
}


@pytest.fixture(scope="module", params=["disk", SPLIT], ids=["disk", "split"])
def offloaded(request: pytest.FixtureRequest, folder: Path) -> ModelAdapter:
    return headtool.load_model(str(folder), device_map=request.param)


@pytest.fixture(scope="module")
def whole(folder: Path) -> ModelAdapter:
    return headtool.load_model(str(folder), device="cpu")


def test_weights_wait_elsewhere(offloaded: ModelAdapter, whole: ModelAdapter) -> None:
    kinds = {weight.device.type for weight in offloaded.module.parameters()}
    assert "meta" in kinds
    assert offloaded.device.type == "cpu"
    assert offloaded.fingerprint == whole.fingerprint
    assert offloaded.sites == whole.sites
    assert "device_map" in offloaded.placement


def test_sources_load_the_same_elsewhere(folder: Path, whole: ModelAdapter) -> None:
    source = ModelSource(str(folder), device_map=SPLIT)
    assert isinstance(hash(source), int)
    assert json.loads(str(source.device_map)) == SPLIT
    model = headtool.models.load_source(source)
    assert model.source == source
    assert model.fingerprint == whole.fingerprint


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "auto"])
def test_precisions(folder: Path, dtype: str) -> None:
    whole = headtool.load_model(str(folder), device="cpu", dtype=dtype)
    wanted = "float32" if dtype == "auto" else dtype
    assert whole.placement["dtype"] == wanted
    offloaded = headtool.load_model(str(folder), device_map=SPLIT, dtype=dtype)
    assert offloaded.placement["dtype"] == wanted
    assert offloaded.fingerprint == whole.fingerprint
    probe = whole.probe(whole.module), offloaded.probe(offloaded.module)
    with torch.no_grad():
        assert torch.equal(probe[0].predict(), probe[1].predict())


def test_auto_is_what_the_weights_are(folder: Path, tmp_path: Path) -> None:
    headtool.load_model(str(folder), device="cpu", dtype="bfloat16").save(tmp_path / "half")
    assert (
        headtool.load_model(str(tmp_path / "half"), dtype="auto").placement["dtype"] == "bfloat16"
    )
    path = tmp_path / "half" / "config.json"
    config = json.loads(path.read_text())
    del config["dtype"]
    path.write_text(json.dumps(config))
    assert (
        headtool.load_model(str(tmp_path / "half"), dtype="auto").placement["dtype"] == "bfloat16"
    )


TEXT = "the heather there then he theme or other words that are written here\n" * 12


def _scores(model: ModelAdapter, data: Path, method: str, **options: Any) -> Any:
    scoring = headtool.score(
        model,
        str(data),
        methods=[headtool.get_method(method)(**options)],
        limit=4,
        batch_tokens=128,
    )
    return scoring.frame["score"].to_numpy()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT)
    return path


METHODS: dict[str, dict[str, Any]] = {
    name: {} for name in headtool.method_names() if name not in ("random", "dsp", "shapley")
}
METHODS["gates"] = {"steps": 2, "heads": 4}


@pytest.mark.parametrize("method", METHODS)
def test_methods_agree_with_the_whole_model(
    whole: ModelAdapter, offloaded: ModelAdapter, text: Path, method: str
) -> None:
    options = METHODS[method]
    expected = _scores(whole, text, method, **options)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(_scores(offloaded, text, method, **options), expected, rtol=1e-5)


def test_pruned_and_baked_ones_are_the_same(
    whole: ModelAdapter, offloaded: ModelAdapter, tmp_path: Path
) -> None:
    mask = HeadMask.without(whole.sites, whole.sites.heads[1:4])
    for bake in (False, True):
        for name, model in (("whole", whole), ("parts", offloaded)):
            headtool.prune(model, mask=mask, out=tmp_path / f"{name}{bake}", bake=bake)
        one, other = (
            headtool.load_model(str(tmp_path / f"{name}{bake}")) for name in ("whole", "parts")
        )
        assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize(
    ("method", "options"),
    [("taylor", {"granularity": "element"}), ("gates", {"train": "*.q_proj.weight", "heads": 4})],
)
def test_weights_that_wait_are_not_trained(
    offloaded: ModelAdapter, text: Path, method: str, options: dict[str, Any]
) -> None:
    with pytest.raises(HeadtoolError, match="load it without `device_map`"):
        _scores(offloaded, text, method, **options)


def test_pruned_models_can_be_placed(whole: ModelAdapter, tmp_path: Path) -> None:
    mask = HeadMask.without(whole.sites, whole.sites.heads[1:4])
    headtool.prune(whole, mask=mask, out=tmp_path / "smaller")
    here = headtool.load_model(str(tmp_path / "smaller"), device="cpu")
    parts = headtool.load_model(str(tmp_path / "smaller"), device_map="disk")
    assert parts.fingerprint == here.fingerprint
    assert parts.sites == here.sites


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device_map": "everywhere"}, "unknown device map 'everywhere'"),
        ({"device_map": "{"}, "`device_map` is no JSON"),
        ({"device_map": "{}"}, "an object with a device for each module"),
        ({"device_map": {"": 99}}, "on GPU 99"),
        ({"device_map": {"": "tape"}}, "on 'tape'"),
        ({"device_map": {"": "cpu", "model.layer": "cpu"}}, "did you mean 'model.layers'?"),
        ({"device_map": "auto", "device": "cpu"}, "leave one out"),
        ({"load_in": "3bit"}, "unknown load_in '3bit'"),
        ({"dtype": "float8"}, "unknown dtype 'float8'"),
    ],
)
def test_bad_places_take_one_line(folder: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(HeadtoolError) as error:
        headtool.load_model(str(folder), **options)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_other_libraries_have_no_map() -> None:
    with pytest.raises(HeadtoolError, match="`device_map` is for transformers models"):
        headtool.load_model("builtin:mt", device_map="auto")


def test_quantising_takes_a_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(HeadtoolError, match="needs a CUDA GPU"):
        headtool.load_model(str(folder), load_in="4bit")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes", None)
    with pytest.raises(HeadtoolError, match="pip install bitsandbytes"):
        placing.placing_of(None, "4bit", device=torch.device("cuda"), dtype=torch.bfloat16)


@pytest.mark.parametrize("bits", ["8bit", "4bit"])
def test_quantising_is_left_to_bitsandbytes(monkeypatch: pytest.MonkeyPatch, bits: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes", types.ModuleType("bitsandbytes"))
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        transformers, "BitsAndBytesConfig", lambda **options: asked.update(options) or "config"
    )
    found = placing.placing_of(None, bits, device=torch.device("cuda"), dtype=torch.bfloat16)
    assert found.options == {
        "device_map": {"": torch.device("cuda")},
        "quantization_config": "config",
    }
    assert asked[f"load_in_{bits}"] is True
    assert asked.get("bnb_4bit_compute_dtype", torch.bfloat16) == torch.bfloat16
