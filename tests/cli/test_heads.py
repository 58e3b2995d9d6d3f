"""``headtool heads``: sites, and parameters of a head checked against closed forms."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
import transformers
from safetensors.torch import load_file

FIELDS = {
    "kind",
    "layer",
    "heads",
    "kv_groups",
    "head_dim",
    "parameters_per_head",
    "parameters_per_group",
    "calls_sharing_weights",
    "projection",
}

# Width 16. A head of width 4 owns 4 rows of 16 in each of W_Q, W_K and W_V, with 4 biases each
# where there are biases, and 4 columns of 16 in W_O.
WITH_BIAS = 3 * (4 * 16 + 4) + 4 * 16
EXPECTED = {
    "bert": {"enc-self": (2, 4, 4, 4, WITH_BIAS, 0)},
    # Queries and W_O go with a head; the keys and values of a group only with both of its heads.
    "llama": {"dec-self": (2, 4, 2, 4, 4 * 16 + 4 * 16, 2 * 4 * 16)},
    "gpt2": {"dec-self": (2, 4, 4, 4, WITH_BIAS, 0)},
    "bart": {
        "enc-self": (1, 2, 2, 8, 3 * (8 * 16 + 8) + 8 * 16, 0),
        "dec-self": (2, 4, 4, 4, WITH_BIAS, 0),
        "cross": (2, 4, 4, 4, WITH_BIAS, 0),
    },
}


def rows(headtool, *arguments: object) -> list[dict[str, object]]:
    done = headtool("heads", *arguments, "--format", "json")
    assert done.code == 0
    assert done.err == ""
    document = json.loads(done.out)
    assert document["schema"] == "headtool/heads/1"
    return document["heads"]


@pytest.mark.parametrize("family", EXPECTED)
def test_sites_and_parameters(headtool, request: pytest.FixtureRequest, family: str) -> None:
    found = rows(headtool, "--model", request.getfixturevalue(family))
    expected = [
        (kind, layer, *numbers)
        for kind, (layers, *numbers) in EXPECTED[family].items()
        for layer in range(layers)
    ]
    fields = ("kind", "layer", "heads", "kv_groups", "head_dim")
    fields += ("parameters_per_head", "parameters_per_group")
    assert [tuple(row[field] for field in fields) for row in found] == expected
    assert all(set(row) == FIELDS for row in found)
    assert all(row["calls_sharing_weights"] == 1 for row in found)


@pytest.mark.parametrize(("family", "attention"), [("bert", ".attention."), ("llama", "self_attn")])
def test_heads_and_groups_add_up_to_the_attention(
    headtool, request: pytest.FixtureRequest, family: str, attention: str
) -> None:
    model = request.getfixturevalue(family)
    owned = sum(
        row["heads"] * row["parameters_per_head"] + row["kv_groups"] * row["parameters_per_group"]
        for row in rows(headtool, "--model", model)
    )
    weights = load_file(model / "model.safetensors")
    # The bias of W_O and the norm after it belong to no head.
    assert owned == sum(
        weight.numel()
        for name, weight in weights.items()
        if attention in name and "output.dense.bias" not in name and "LayerNorm" not in name
    )


def test_shared_layers_have_a_site_per_call(headtool, bert, folder) -> None:
    config = transformers.AlbertConfig(
        vocab_size=40,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=20,
        pad_token_id=0,
    )
    place = folder / "albert"
    transformers.AlbertForSequenceClassification(config).save_pretrained(place)
    for path in bert.glob("*token*"):
        shutil.copy(path, place)
    found = rows(headtool, "--model", place)
    assert [row["layer"] for row in found] == [0, 1, 2]
    assert {row["calls_sharing_weights"] for row in found} == {3}
    assert {row["parameters_per_head"] for row in found} == {WITH_BIAS}
    assert "calls sharing weights" in headtool("heads", "--model", place).out


def test_nothing_is_cut_at_80_columns(headtool, bert, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, as far as rich can tell
    assert "\N{HORIZONTAL ELLIPSIS}" not in headtool("heads", "--model", bert).out


def test_kinds(headtool, bart) -> None:
    found = rows(headtool, "--model", bart, "--kind", "cross, enc-self")
    assert [row["kind"] for row in found] == ["enc-self", "cross", "cross"]


def test_provenance_names_the_model(headtool, bert) -> None:
    def provenance(*arguments: object) -> dict[str, object]:
        done = headtool("heads", "--model", bert, "--format", "json", *arguments)
        return json.loads(done.out)["provenance"]

    whole, half = provenance("--device", "cpu"), provenance("--dtype", "bfloat16")
    assert whole["model"] == str(bert)
    assert whole["class"] == "BertForSequenceClassification"
    assert whole["task"] == "classification"
    assert (whole["dtype"], half["dtype"]) == ("float32", "bfloat16")
    assert whole["device"] == "cpu"
    assert len(whole["sha256"]) == 64
    assert whole["sha256"] != half["sha256"]
    assert whole["versions"]["transformers"] == transformers.__version__


def test_csv_says_the_same(headtool, bart) -> None:
    done = headtool("heads", "--model", bart, "--format", "csv")
    expected = [
        {name: str(value) for name, value in row.items()} for row in rows(headtool, "--model", bart)
    ]
    assert list(csv.DictReader(io.StringIO(done.out))) == expected
    assert done.err == ""


def test_table(headtool, llama) -> None:
    done = headtool("heads", "--model", llama)
    title, header, *lines = done.out.splitlines()
    assert title.startswith(f"{llama}: LlamaForCausalLM, causal-lm, dec-self 2 x 4, ")
    assert " ".join(header.split()) == (
        "kind layer heads kv groups head dim parameters per head parameters per group projection"
    )
    assert [line.split() for line in lines] == [
        f"dec-self {layer} 4 2 4 128 128 model.layers.{layer}.self_attn.o_proj".split()
        for layer in (0, 1)
    ]


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/x]", ":smile:", "a\x1b[31mb", "ü\u202e"])
def test_names_are_shown_as_they_are(headtool, bert, workplace: Path, name: str) -> None:
    shutil.copytree(bert, workplace / name)
    done = headtool("heads", "--model", name)
    assert done.code == 0
    shown = name.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")
    assert done.out.startswith(f"{shown}: BertForSequenceClassification")
    document = json.loads(headtool("heads", "--model", name, "--format", "json").out)
    assert document["provenance"]["model"] == name
