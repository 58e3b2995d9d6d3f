"""GGUF files load as the model that they hold, and are refused in one line where they do not."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import gguf
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import headtool
from headtool import HeadMask, HeadtoolError
from headtool.models.huggingface.gguf import check_gguf

from ...support.any_bytes import mutated
from ...support.gguf_model import HEADS, LAYERS, save_gguf


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    save_gguf(path, quantised=True)
    return path


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("the heather there then he theme\n" * 20)
    return path


def test_weights_are_those_of_the_file(file: Path) -> None:
    model = headtool.load_model(str(file))
    assert model.task == "causal-lm"
    assert [(site.n_heads, site.n_kv_heads) for site in model.sites] == [(HEADS, 2)] * LAYERS
    down = next(t for t in gguf.GGUFReader(file).tensors if t.name == "blk.1.ffn_down.weight")
    wanted = torch.from_numpy(gguf.dequantize(down.data, down.tensor_type))
    found = model.module.get_parameter("model.layers.1.mlp.down_proj.weight")
    assert found.dtype == torch.float32
    assert torch.equal(found, wanted)


def test_a_tokenizer_beside_the_file_is_not_its_own(file: Path, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(file.read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "he"}))
    model = headtool.load_model(str(tmp_path / "m.gguf"))
    assert model.tokenizer.eos_token == "<|end|>"


def test_commands_read_the_file(file: Path, text: Path) -> None:
    scoring = headtool.score(
        str(file), str(text), methods=["magnitude", "gradient"], limit=2, batch_tokens=128
    )
    assert scoring.frame["score"].notna().all()
    assert len(scoring.frame) == 2 * HEADS * LAYERS


def test_a_pruned_one_is_an_ordinary_folder(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "smaller"
    model = headtool.load_model(str(file))
    mask = HeadMask.without(model.sites, model.sites.heads[:2])
    headtool.prune(model, mask=mask, out=out)
    assert sorted(path.suffix for path in out.glob("*.safetensors")) == [".safetensors"]
    config = json.loads((out / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["architectures"] == ["LlamaForCausalLM"]
    again = headtool.load_model(str(out))
    assert again.sites.n_heads == HEADS * LAYERS - 2
    baked = tmp_path / "baked"
    headtool.prune(model, mask=mask, out=baked, bake=True)
    whole = transformers.AutoModelForCausalLM.from_pretrained(baked)
    ids = torch.tensor([[104, 101, 120]])
    with torch.no_grad():
        torch.testing.assert_close(whole(ids).logits, again.module(ids).logits)


def _changed(file: Path, to: Path, old: bytes, new: bytes) -> str:
    content = file.read_bytes()
    assert old in content
    to.write_bytes(content.replace(old, new, 1))
    return str(to)


def test_bad_files_take_one_line(file: Path, tmp_path: Path) -> None:
    content = file.read_bytes()
    bad = tmp_path / "bad.gguf"
    for cut in (0, 3, 23, 24, 100, 2000, len(content) // 2, len(content) - 40):
        bad.write_bytes(content[:cut])
        with pytest.raises(HeadtoolError, match=r"(damaged or cut short|is no GGUF file)") as error:
            headtool.load_model(str(bad))
        assert "\n" not in str(error.value)
    layers = b"llama.block_count\x04\x00\x00\x00"
    for old, new, words in (
        (b"GGUF", b"GGML", "does not begin with GGUF"),
        (b"GGUF\x03", b"GGUF\x09", "of version 9"),
        (b"llama", b"lluma", "lluma"),
        (b"general.architecture", b"general.architecturx", "does not name its architecture"),
        (layers + struct.pack("<I", LAYERS), layers + b"\xff\xff\xff\x7f", "num_hidden_layers"),
    ):
        with pytest.raises(HeadtoolError, match=words):
            headtool.load_model(_changed(file, bad, old, new))
    with pytest.raises(HeadtoolError, match="no such GGUF file"):
        headtool.load_model(str(tmp_path / "none.gguf"))


def test_parts_and_foreign_models_are_named(tmp_path: Path) -> None:
    for add, words in (
        (lambda w: w.add_uint16("split.count", 3), "one of the 3 parts"),
        (lambda w: None, "holds no language model"),
    ):
        path = tmp_path / "part.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        add(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with pytest.raises(HeadtoolError, match=words):
            headtool.load_model(str(path))


@settings(max_examples=60)
@given(data=st.data())
def test_no_bytes_break_the_reader(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, file: Path
) -> None:
    content = data.draw(mutated(file.read_bytes()[:9000]))
    path = tmp_path_factory.mktemp("any") / "any.gguf"
    path.write_bytes(content)
    complaint = ""
    try:
        check_gguf(path, spec="any.gguf")
    except HeadtoolError as error:
        complaint = str(error)
    assert len(complaint.splitlines()) <= 1
