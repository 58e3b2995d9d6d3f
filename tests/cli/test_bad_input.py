"""Bad input: one line that names the value and the remedy, exit code 2, and nothing written."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from ..support.damage import complaint as complained

HEADER = b"text\tlabel\n"
GOOD = HEADER + b"a good film\t1\nbad plot\t0\n"

# What is wrong, the command line, and what the message must contain. {bert}, {llama} and {bart} are
# models, {reviews} and {book} data sets that fit them; the other files are those of FILES.
COMMANDS = [
    # -- the command line itself
    ("unknown command", "scoer", ["'scoer'", "did you mean 'score'"]),
    ("unknown option", "score --fromat json", ["'--fromat'", "did you mean '--format'"]),
    ("unknown option of all", "--verison", ["'--verison'", "did you mean '--version'"]),
    ("option without value", "heads --model", ["'--model' requires an argument", "--help"]),
    ("flag with a value", "score --quiet=1", ["'--quiet' does not take a value", "--help"]),
    ("extra argument", "score gradient", ["gradient", "headtool score --help"]),
    ("format", "score --format jsn", ["'jsn'", "did you mean 'json'", "csv, json, table"]),
    ("format of heads", "heads --format xml", ["unknown format 'xml'", "csv, json, table"]),
    ("seed no number", "score --seed first", ["--seed", "whole number", "'first'"]),
    ("seed negative", "score --seed -1", ["--seed must be at least 0", "-1"]),
    ("seed too large", f"score --seed {2**63}", ["--seed must be at most", str(2**63)]),
    ("limit zero", "score --limit 0", ["--limit must be at least 1", "0"]),
    ("limit negative", "score --limit -3", ["--limit must be at least 1", "-3"]),
    ("limit order", "score --limit 3 --limit-order last", ["'last'", "first, seeded"]),
    ("limit order alone", "score --limit-order first", ["--limit-order first", "leave"]),
    ("limit no number", "score --limit 1.5", ["--limit must be a whole number", "'1.5'"]),
    ("batch tokens zero", "score --batch-tokens 0", ["--batch-tokens must be at least 1", "0"]),
    ("batch tokens text", "score --batch-tokens 4k", ["--batch-tokens", "whole number", "'4k'"]),
    ("device", "score --model {bert} --data {reviews} --device gpu", ["'gpu'", "cpu", "cuda"]),
    ("device number", "heads --model {bert} --device auto:3", ["'auto:3'", "cpu"]),
    ("device absent", "heads --model {bert} --device mps", ["no mps device", "--device cpu"]),
    ("dtype", "score --model {bert} --data {reviews} --dtype float8", ["'float8'", "bfloat16"]),
    ("empty kind", "heads --model {bert} --kind ''", ["no attention kind in ''", "enc-self"]),
    ("empty columns", "score --data good.tsv --columns ''", ["--columns", "role=column"]),
    # -- methods and their options
    ("method", "score --method gradeint", ["'gradeint'", "did you mean 'gradient'", "gates"]),
    ("no method", "score --method ,", ["no method in ','"]),
    ("method twice", "score --method gates,gates", ["'gates' is given twice"]),
    ("setting without dot", "score --set x=1", ["METHOD.OPTION=VALUE", "'x=1'"]),
    ("setting without value", "score --set gradient.x", ["METHOD.OPTION=VALUE", "'gradient.x'"]),
    ("setting of nothing", "score --set gradient.=1", ["METHOD.OPTION=VALUE", "'gradient.=1'"]),
    (
        "setting of another method",
        "score --method gradient --set gates.steps=5",
        ["gates.steps=5", "'gates' is not among those run (gradient)"],
    ),
    (
        "setting twice",
        "score --set gradient.batch_size=5 --set gradient.batch_size=6",
        ["gradient.batch_size twice"],
    ),
    (
        "unknown setting",
        "score --set gradient.granulraity=token",
        ["'granulraity'", "did you mean 'granularity'", "normalize"],
    ),
    ("choice", "score --set gradient.granularity=word", ["'word'", "token, example, batch"]),
    ("whole number", "score --set gradient.batch_size=x", ["gradient.batch_size", "'x'", "whole"]),
    ("number", "score --method gates --set gates.gate_lr=fast", ["gates.gate_lr", "'fast'"]),
    ("below one", "score --set gradient.batch_size=0", ["gradient.batch_size", "at least 1", "0"]),
    ("below zero", "score --method gates --set gates.lambda=-1", ["gates.lambda", "-1.0"]),
    ("no number at all", "score --method gates --set gates.lambda=nan", ["gates.lambda", "nan"]),
    ("infinite", "score --method gates --set gates.lambda=inf", ["gates.lambda", "inf"]),
    ("share", "score --method gates --set gates.holdout=1.5", ["gates.holdout", "[0, 1)", "1.5"]),
    (
        "more heads than there are",
        "score --model {bert} --data {reviews} --method gates --set gates.heads=9",
        ["gates.heads must be between 1 and 8", "9"],
    ),
    (
        "no heads",
        "score --model {bert} --data {reviews} --method gates --set gates.heads=0",
        ["gates.heads must be between 1 and 8", "0"],
    ),
    (
        "no such parameter",
        "score --model {bert} --data {reviews} --method gates --set gates.train=encoder.*",
        ["gates.train", "'encoder.*'", "bert.embeddings"],
    ),
    # -- kinds and metrics
    ("kind", "score --kind enc", ["'enc'", "did you mean 'enc-self'", "dec-self"]),
    ("no kind", "heads --model {bert} --kind ,", ["no attention kind in ','", "enc-self"]),
    (
        "kind that the model lacks",
        "score --model {bert} --data {reviews} --kind cross",
        ["no cross attention", "it has enc-self"],
    ),
    ("kind that the model lacks", "heads --model {llama} --kind enc-self", ["it has dec-self"]),
    (
        "metric",
        "score --model {bert} --data {reviews} --metric acuracy --method ablation",
        ["'acuracy'", "did you mean 'accuracy'", "f1-macro"],
    ),
    (
        "metric of another task",
        "score --model {bert} --data {reviews} --metric perplexity --method ablation",
        ["'perplexity' is not defined for classification", "accuracy"],
    ),
    (
        "metric that changes nothing",
        "score --metric f1-macro --method gradient,confidence",
        ["--metric f1-macro", "gradient,confidence", "leave it out, or add ablation to --method"],
    ),
    (
        "metric that changes nothing and has other labels",
        "score --metric f1",
        ["no effect on gradient with these options; leave it out (metric", "two classes", "has 3"],
    ),
    (
        "metric that changes nothing of another task",
        "score --metric bleu",
        [
            "no effect on gradient with these options; leave it out (metric",
            "not defined for classif",
        ],
    ),
    (
        "metric beside the loss",
        "score --metric f1 --method ablation --set ablation.signal=loss",
        ["--metric f1", "ablation", "leave it out"],
    ),
    # -- data sets
    ("no data", "score --model {bert}", ["--data is missing", "bert"]),
    ("no model and no data", "score --model nosuch/model", ["unknown model 'nosuch/model'"]),
    ("no model in a folder, no data", "score --model folder", ["folder", "no config.json"]),
    ("no checkpoint and no data", "score --model fairseq:no.pt", ["'no.pt' is no file"]),
    ("no built-in model", "score --model builtin:nil", ["'builtin:nil'", "'builtin:nli'"]),
    ("no such file", "score --data nowhere.tsv", ["'nowhere.tsv'", "check the path"]),
    ("no such data set", "score --data nowhere", ["'nowhere'", ".tsv", "hub:NAME"]),
    ("no such built-in", "score --data builtin:nli/match", ["'nli/match'", "nli/matched"]),
    ("empty", "score --data empty.tsv", ["'empty.tsv' is empty"]),
    ("no rows", "score --data header.tsv", ["'header.tsv' has no rows"]),
    ("binary", "score --data binary.tsv", ["'binary.tsv', line 3", "NUL byte", "UTF-8"]),
    ("not UTF-8", "score --data latin.tsv", ["'latin.tsv', line 2", "0xe9", "iconv"]),
    ("ragged", "score --data ragged.tsv", ["'ragged.tsv', line 4", "found 1", "tabs"]),
    ("open quote", "score --data quote.csv", ["'quote.csv', line 2", "not valid CSV"]),
    ("broken JSON", "score --data broken.jsonl", ["'broken.jsonl', line 2", "not valid JSON"]),
    ("no Parquet", "score --data fake.parquet", ["'fake.parquet'", "not a readable Parquet"]),
    ("suffix", "score --data table.xlsx", ["'.xlsx'", ".csv"]),
    ("folder", "score --data folder", ["'folder' is a folder", "name a .tsv"]),
    ("no label", "score --data gap.tsv", ["'gap.tsv', line 3", "label", "remove the row"]),
    (
        "no text column",
        "score --data names.tsv",
        ["'names.tsv'", "'a', 'b'", "--columns, like text_a="],
    ),
    (
        "wrong labels",
        "score --model {bert} --data labels.tsv",
        ["'labels.tsv'", "'great', 'poor'", "'negative' (0), 'positive' (1)", "--columns label="],
    ),
    ("column", "score --data good.tsv --columns text=review", ["'review'", "'text', 'label'"]),
    ("columns", "score --data good.tsv --columns text", ["'text' is not role=column"]),
    ("column role", "score --data good.tsv --columns txt=a", ["'txt'", "did you mean 'text'"]),
    ("columns of a text", "score --data {book} --columns text=a", ["--columns", "leave it out"]),
    ("white space", "score --model {llama} --data blank.txt", ["'blank.txt'", "white space"]),
    ("one word", "score --model {llama} --data word.txt", ["word.txt", "no example"]),
    ("three files", "score --data a.de,b.en,c.fr", ["names 3 files", "test.de,test.en"]),
    ("unaligned", "score --data three.de,two.en", ["'three.de' has 3", "'two.en' has 2"]),
    (
        "hub without network",
        "score --data hub:glue/sst2:validation",
        ["'hub:glue/sst2:validation'", "network"],
    ),
    ("hub without split", "score --data hub:glue", ["'hub:glue'", "split"]),
    (
        "text for a classifier",
        "score --model {bert} --data {book}",
        ["book.txt", "classification", "label"],
    ),
    ("labels for a language model", "score --model {llama} --data good.tsv", ["good.tsv", ".txt"]),
    ("text for translation", "score --model {bart} --data {book}", ["book.txt", "SRC,REF"]),
    ("pair for a classifier", "score --model {bert} --data two.en,two.en", ["two.en", ".tsv"]),
    # -- models
    ("no such folder", "heads --model ./nowhere", ["'./nowhere'", "check the spelling"]),
    (
        "hub model without network",
        "score --model nobody/nothing@main --data good.tsv",
        ["'nobody/nothing@main'", "network"],
    ),
    ("no such built-in", "heads --model builtin:nil", ["'builtin:nil'", "'builtin:nli'"]),
    ("empty folder", "heads --model folder", ["folder", "no config.json"]),
    ("a file", "heads --model good.tsv", ["good.tsv", "folder"]),
    ("fairseq unnamed", "heads --model model.pt", ["model.pt", "write fairseq:model.pt"]),
    ("fairseq option", "heads --model {bert} --bpe none", ["--bpe", "bert", "fairseq:"]),
    # -- where to write
    (
        "taken",
        "score --model {bert} --data good.tsv --out folder",
        ["folder exists already", "--force"],
    ),
    (
        "no run",
        "score --model {bert} --data good.tsv --out photos --force",
        ["photos is no headtool run", "--force does not replace it"],
    ),
    (
        "manifest of another program",
        "score --model {bert} --data good.tsv --out extension --force",
        ["extension is no headtool run"],
    ),
    (
        "a file",
        "score --model {bert} --data good.tsv --out good.tsv --force",
        ["good.tsv is no headtool run"],
    ),
    (
        "below a file",
        "score --model {bert} --data good.tsv --out good.tsv/run",
        ["cannot write good.tsv/run", "Not a directory", "another --out"],
    ),
    (
        "no permission",
        "score --model {bert} --data good.tsv --out /proc/headtool/run",
        ["cannot write /proc/headtool/run", "another --out"],
    ),
    (
        "name too long",
        f"score --model {{bert}} --data good.tsv --out {'x' * 300}",
        ["cannot write", "too long", "another --out"],
    ),
    # -- names that a terminal must not take for instructions
    ("markup", "score --method [bold]x[/bold]", ["'[bold]x[/bold]'"]),
    ("broken markup", "score --data [/x].tsv", ["'[/x].tsv'"]),
    ("emoji code", "score --method :smile:", ["':smile:'"]),
    ("escape code", "score --method \x1b[31mred", [r"'\x1b[31mred'"]),
]

FILES = {
    "good.tsv": GOOD,
    "empty.tsv": b"",
    "header.tsv": HEADER,
    "binary.tsv": GOOD.replace(b"bad", b"b\0d"),
    "latin.tsv": GOOD.replace(b"film", b"caf\xe9"),
    "ragged.tsv": GOOD + b"one column\n",
    "gap.tsv": HEADER + b"fine\t1\ndull\t\n",
    "names.tsv": b"a\tb\nfine\t1\n",
    "labels.tsv": HEADER + b"fine\tgreat\ndull\tpoor\n",
    "quote.csv": b'text,label\n"open,1\n',
    "broken.jsonl": b'{"text": "a", "label": 1}\n{"text":\n',
    "fake.parquet": b"PAR1 and nothing",
    "table.xlsx": b"PK",
    "blank.txt": b" \n\t\n",
    "word.txt": b"good\n",
    "three.de": b"a\nb\nc\n",
    "two.en": b"a\nb\n",
    "model.pt": b"",
    "photos/cat.jpg": b"a cat",
    "extension/manifest.json": b'{"manifest_version": 3, "name": "a browser extension"}',
    "folder/note": b"not a model, not a run",
}


@pytest.fixture
def files(workplace: Path) -> Path:
    for name, content in FILES.items():
        (workplace / name).parent.mkdir(exist_ok=True)
        (workplace / name).write_bytes(content)
    return workplace


def complaint(headtool, place: Path, words: list[str]) -> str:
    """As of every command; a command that scores is to write a run."""
    if words[0] == "score" and "--out" not in words:
        words = [*words, "--out", "results/new"]
    return complained(headtool, place, words)


def test_only_near_names_are_suggested(headtool) -> None:
    done = headtool("speed", "--limit", "30")
    assert done.err == "error: unknown option '--limit'; see headtool speed --help\n"


def test_force_without_a_place(headtool) -> None:
    done = headtool("score", "--force")
    assert done.code == 2
    assert done.err == "error: --force replaces a run at --out, which is missing; give --out\n"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "command", "parts"), COMMANDS, ids=lambda value: str(value)[:30])
def test_bad_command(
    headtool, files, request: pytest.FixtureRequest, name: str, command: str, parts: list[str]
) -> None:
    words = shlex.split(command)
    for fixture in ("bert", "llama", "bart", "reviews", "book"):
        if f"{{{fixture}}}" in words:
            value = str(request.getfixturevalue(fixture))
            words = [value if word == f"{{{fixture}}}" else word for word in words]
    message = complaint(headtool, files, words)
    for part in parts:
        assert part in message


# -- models that are damaged or of the wrong make -----------------------------------------------


def edit_config(**changes: object) -> Callable[[Path], None]:
    def edit(model: Path) -> None:
        path = model / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


def edit_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def edit(model: Path) -> None:
        path = model / "model.safetensors"
        weights = load_file(path)
        change(weights)
        save_file(weights, path, metadata={"format": "pt"})

    return edit


def write(name: str, content: bytes) -> Callable[[Path], None]:
    def edit(model: Path) -> None:
        (model / name).write_bytes(content)

    return edit


def remove(*names: str) -> Callable[[Path], None]:
    def edit(model: Path) -> None:
        for name in names:
            (model / name).unlink()

    return edit


def cut_short(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def headless(model: Path) -> None:
    transformers.BertModel.from_pretrained(model).save_pretrained(model)


DAMAGE = [
    ("weights cut short", cut_short, ["damaged or cut short"]),
    ("weights of noise", write("model.safetensors", b"\xff" * 400), ["damaged or cut short"]),
    ("weights empty", write("model.safetensors", b""), ["damaged or cut short"]),
    ("no weights", remove("model.safetensors"), ["cannot load the weights", "model.safetensors"]),
    ("config no JSON", write("config.json", b'{"model_type": "bert",'), ["config.json"]),
    ("config not text", write("config.json", b"\xff\xfe\x00"), ["config.json"]),
    ("config a list", write("config.json", b"[1, 2]"), ["config.json"]),
    ("config of nothing", write("config.json", b"{}"), ["model_type"]),
    ("config of another time", edit_config(model_type="brt"), ["brt"]),
    ("config with words", edit_config(num_hidden_layers="two"), ["num_hidden_layers"]),
    ("config that does not add up", edit_config(num_attention_heads=5), ["16", "5"]),
    ("no tokenizer", remove("tokenizer.json", "tokenizer_config.json"), ["has no tokenizer"]),
    ("tokenizer no JSON", write("tokenizer.json", b"{"), ["cannot load the tokenizer"]),
    (
        "a weight missing",
        edit_weights(lambda weights: weights.pop("bert.encoder.layer.1.output.dense.weight")),
        ["bert.encoder.layer.1.output.dense.weight", "use a checkpoint"],
    ),
    (
        "weights of another size",
        edit_config(intermediate_size=24),
        ["bert.encoder.layer.0.intermediate.dense.bias", "(20,)", "(24,)", "config.json"],
    ),
    ("no head", headless, ["BertModel", "sequence-, token-, image- or audio-classification"]),
    (
        "class unnamed",
        edit_config(architectures=None),
        ["unnamed class", "sequence-, token-, image- or audio-classification"],
    ),
    ("multi-label", edit_config(problem_type="multi_label_classification"), ["multi-label"]),
]


@pytest.mark.parametrize(("name", "damage", "parts"), DAMAGE, ids=[name for name, _, _ in DAMAGE])
def test_bad_model(headtool, files, bert, name: str, damage, parts: list[str]) -> None:
    shutil.copytree(bert, files / "model")
    damage(files / "model")
    message = complaint(headtool, files, shlex.split("score --model model --data good.tsv"))
    assert "model" in message
    for part in parts:
        assert part in message


def test_labels_of_a_regression_model(headtool, files, bert) -> None:
    shutil.copytree(bert, files / "model")
    change = edit_weights(lambda weights: weights.update(one_output(weights)))
    change(files / "model")
    edit_config(id2label={0: "LABEL_0"}, label2id={"LABEL_0": 0})(files / "model")
    message = complaint(headtool, files, shlex.split("score --model model --data labels.tsv"))
    assert "'labels.tsv', example 1" in message
    assert "'great'" in message


def one_output(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: weights[name][:1] for name in ("classifier.weight", "classifier.bias")}


@pytest.mark.parametrize("method", ["gradient", "ablation", "gates"])
def test_loss_that_is_no_number(headtool, files, bert, method: str) -> None:
    shutil.copytree(bert, files / "model")
    # The word "bad" occurs in the second example only.
    row = transformers.AutoTokenizer.from_pretrained(bert).convert_tokens_to_ids("bad")
    table = "bert.embeddings.word_embeddings.weight"
    edit_weights(lambda weights: weights[table][row].fill_(float("nan")))(files / "model")
    command = f"score --model model --data good.tsv --method {method}"
    if method == "gates":  # or the example might be held out of training
        command += " --set gates.holdout=0"
    message = complaint(headtool, files, command.split())
    assert "not finite on good.tsv" in message
    assert "examples 2 (" in message


def test_no_space_left(headtool, files, bert, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    command = f"score --model {bert} --data good.tsv --out deep/below/run --quiet"
    message = complaint(headtool, files, command.split())
    assert "cannot write deep/below/run: No space left on device" in message


# -- fairseq ------------------------------------------------------------------------------------


class _Evil:
    """Writes a file when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return (exec, ("open('owned', 'w').close()",))


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (None, ["checkpoint.pt", "check the path"]),
        (b"", ["checkpoint.pt"]),
        (b"PK\x03\x04 and nothing more", ["checkpoint.pt"]),
        ({"model": {}}, ["checkpoint.pt", "fairseq-train"]),
        ({"args": _Evil()}, ["checkpoint.pt", "exec", "--trust-checkpoint"]),
    ],
    ids=["missing", "empty", "cut short", "no model", "evil"],
)
def test_bad_fairseq_checkpoint(headtool, files, content, parts: list[str]) -> None:
    pytest.importorskip("fairseq")
    if isinstance(content, bytes):
        (files / "checkpoint.pt").write_bytes(content)
    elif content is not None:
        torch.save(content, files / "checkpoint.pt")
    command = "score --model fairseq:checkpoint.pt --data two.en,two.en"
    message = complaint(headtool, files, command.split())
    for part in parts:
        assert part in message
