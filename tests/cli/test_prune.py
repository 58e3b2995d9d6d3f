"""``headtool prune`` on small models, and what it says to bad input."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

import headtool as toolkit
from headtool.models import load_model
from headtool.results.runs import read_run


@pytest.fixture
def scored(headtool, workplace: Path, bert: Path, reviews: Path) -> Path:
    """A run with scores of the classifier."""
    done = headtool("score", "--model", bert, "--data", reviews, "--out", "scores", "--quiet")
    assert done.code == 0, done.err
    return workplace / "scores"


@pytest.fixture
def grouped(headtool, workplace: Path, llama: Path, book: Path) -> Path:
    """A run with scores of the language model, whose heads share keys and values in pairs."""
    done = headtool("score", "--model", llama, "--data", book, "--out", "lm", "--quiet")
    assert done.code == 0, done.err
    return workplace / "lm"


def document(done) -> dict:
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_removes_the_lowest_scores(headtool, scored: Path, bert: Path) -> None:
    found = document(
        headtool(
            *shlex.split(f"prune --model {bert} --scores {scored} --remove 40%"),
            *shlex.split("--out smaller --format json"),
        )
    )
    assert found["schema"] == "headtool/prune/1"
    scores = read_run(scored).table("scores")
    lowest = scores.nsmallest(3, "score")
    names = sorted(f"{r.kind}.{r.layer}.{r['head']}" for _, r in lowest.iterrows())
    assert sorted(found["removed"]) == names
    (savings,) = found["savings"]
    assert savings["attention_flops_after"] * 8 == savings["attention_flops"] * 5
    smaller = load_model("smaller")
    assert smaller.sites.n_heads == 5
    assert sum(w.numel() for w in smaller.module.parameters()) == savings["parameters_after"]


def test_others_may_read_the_weights_as_the_umask_says(headtool, scored: Path, bert: Path) -> None:
    before = os.umask(0o022)
    try:
        command = f"prune --model {bert} --scores {scored} --keep-heads 6 --out smaller"
        assert headtool(*shlex.split(command)).code == 0
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in Path("smaller").iterdir()}
    assert "model.safetensors" in modes
    assert set(modes.values()) == {0o644}


def test_every_command_takes_a_pruned_model(headtool, scored, bert, reviews) -> None:
    headtool(*shlex.split(f"prune --model {bert} --scores {scored} --keep-heads 6 --out smaller"))
    rows = document(headtool(*shlex.split("heads --model smaller --format json")))["heads"]
    assert sum(row["heads"] for row in rows) == 6
    done = headtool(*shlex.split(f"ablate --model smaller --data {reviews} --format json -q"))
    assert len({(r["layer"], r["head"]) for r in document(done)["ablation"]}) == 6


def test_quality_is_that_of_the_masked_model(headtool, scored, bert, reviews, workplace) -> None:
    (workplace / "mask.txt").write_text("E:1:1 E:2:3")
    command = f"prune --model {bert} --mask mask.txt --data {reviews} --metric mcc --format json"
    quality = document(headtool(*shlex.split(command)))["quality"]
    assert set(quality) == {"mcc", "loss"}
    model = load_model(str(bert), device="cpu")
    examples = model.encode(toolkit.load_data(str(reviews)))
    heads = [toolkit.Head.parse("E:1:1"), toolkit.Head.parse("E:2:3")]
    outcomes = toolkit.evaluate(model, examples, [toolkit.HeadMask.without(model.sites, heads)])
    assert quality["loss"]["pruned"] == pytest.approx(outcomes.masked["loss"].mean(), rel=1e-5)
    assert quality["loss"]["whole"] == pytest.approx(outcomes.whole["loss"].mean(), rel=1e-5)


def test_groups_go_as_a_whole(headtool, grouped: Path, llama: Path) -> None:
    """Of 8 heads in 4 groups, 3 are to go: one group, or three heads."""
    command = f"prune --model {llama} --scores {grouped} --keep-heads 5 --format json --unit"
    by_group = document(headtool(*shlex.split(f"{command} group")))
    assert len(by_group["removed"]) == 2
    first, second = (name.rpartition(".") for name in by_group["removed"])
    assert first[0] == second[0]
    assert int(first[2]) % 2 == 0
    assert int(second[2]) == int(first[2]) + 1
    assert [row["unit"] for row in by_group["savings"]] == ["group", "head"]
    by_head = document(headtool(*shlex.split(f"{command} head")))
    assert len(by_head["removed"]) == 3
    # A group: W_Q, W_O of two heads and W_K, W_V of their own, each 4 x 16.
    saved = by_group["savings"][0]
    assert saved["parameters"] - saved["parameters_after"] == 2 * 2 * 4 * 16 + 2 * 4 * 16


def test_last_heads_of_layers_stay_where_asked(headtool, scored: Path, bert: Path) -> None:
    command = f"prune --model {bert} --scores {scored} --keep-heads 2 --format json"
    found = document(headtool(*shlex.split(command), "--keep-one-per-layer"))
    layers = [name.split(".")[1] for name in found["removed"]]
    assert sorted(layers) == ["0"] * 3 + ["1"] * 3


def test_verdicts(headtool, workplace: Path, bert: Path, reviews: Path) -> None:
    """Heads of which eight sentences do not show that they may go are kept, and the user told."""
    headtool(*shlex.split(f"ablate --model {bert} --data {reviews} --out outcomes -q"))
    done = headtool(*shlex.split(f"prune --model {bert} --scores outcomes --verdict removable"))
    assert done.code == 2
    assert "no head is removable" in done.err
    assert "--remove" in done.err


@pytest.mark.parametrize("how", ["--all-but-one", "--sequential"])
def test_runs_without_scores_of_heads(headtool, workplace, bert, reviews, how: str) -> None:
    made = headtool(*shlex.split(f"ablate --model {bert} --data {reviews} {how} --out run -q"))
    assert made.code == 0, made.err
    done = headtool(*shlex.split(f"prune --model {bert} --scores run --remove 40%"))
    assert done.code == 2
    assert "run has no scores of single heads; make some with headtool score --out" in done.err


def test_scores_of_an_ablation(headtool, workplace: Path, bert: Path, reviews: Path) -> None:
    """A run of ablate ranks the heads as the method of that name does."""
    common = f"--model {bert} --data {reviews} -q"
    for metric in ("accuracy", "loss"):
        headtool(*shlex.split(f"ablate {common} --metric {metric} --out by-ablate --force"))
        headtool(
            *shlex.split(f"score --method ablation {common} --metric {metric}"),
            *shlex.split("--out by-score --force"),
        )
        command = f"prune --model {bert} --remove 40% --format json --scores"
        found = [
            document(headtool(*shlex.split(f"{command} {run}"), *more))["removed"]
            for run, more in (("by-ablate", ()), ("by-ablate", ("--method", "ablation")))
        ]
        wanted = document(headtool(*shlex.split(f"{command} by-score")))["removed"]
        assert found == [wanted, wanted]


def test_bake_and_table(headtool, workplace: Path, bert: Path) -> None:
    (workplace / "mask.json").write_text('{"0": [1, 2], "1": [3]}')
    done = headtool(*shlex.split(f"prune --model {bert} --mask mask.json --bake --out baked"))
    assert done.code == 0
    assert "3 of 8 heads silenced, at full size" in done.out
    assert load_model("baked").sites.n_heads == 8
    done = headtool(*shlex.split(f"prune --model {bert} --mask mask.json"))
    assert "3 of 8 heads removed, leaving enc-self 2 layers, 5 heads" in done.out
    assert "nothing is written" in done.err


def test_rescaling_lowers_the_distance(headtool, scored, bert, reviews) -> None:
    command = f"prune --model {bert} --scores {scored} --remove 40% --data {reviews} --format json"
    plain = document(headtool(*shlex.split(command)))
    fitted = document(headtool(*shlex.split(f"{command} --rescale least-squares")))
    assert plain["removed"] == fitted["removed"]
    assert plain["quality"]["loss"]["pruned"] != fitted["quality"]["loss"]["pruned"]
    assert plain["quality"]["loss"]["whole"] == fitted["quality"]["loss"]["whole"]


BAD = [
    ("nothing said", "--model {bert}", ["--remove, --keep-heads, --verdict and --mask", "none"]),
    ("said twice", "--model {bert} --scores scores --remove 40% --keep-heads 2", ["are given"]),
    ("no scores", "--model {bert} --remove 40%", ["--remove needs --scores", "headtool score"]),
    ("no such run", "--model {bert} --scores nowhere --remove 40%", ["nowhere", "no headtool run"]),
    ("no share", "--model {bert} --scores scores --remove 4", ["--remove", "'4'", "40%"]),
    ("everything", "--model {bert} --scores scores --remove 100%", ["--remove", "'100%'"]),
    ("too little", "--model {bert} --scores scores --remove 1%", ["--remove 1% of 8 heads is 0"]),
    ("too many", "--model {bert} --scores scores --keep-heads 8", ["--keep-heads", "7", "8"]),
    (
        "too many with one a layer",
        "--model {bert} --scores scores --keep-heads 1 --keep-one-per-layer",
        ["7 heads are to go, but only 6 of 8 can"],
    ),
    ("method", "--model {bert} --scores scores --method gates --remove 40%", ["'gates'", "grad"]),
    ("verdict", "--model {bert} --scores scores --verdict needed", ["'needed'", "removable"]),
    ("verdict of scores", "--model {bert} --scores scores --verdict removable", ["no outcomes"]),
    ("unit", "--model {bert} --scores scores --remove 40% --unit layer", ["'layer'", "group"]),
    ("rescaling", "--model {bert} --scores scores --remove 40% --rescale l2", ["least-squares"]),
    ("other model", "--model {gpt2} --scores scores --remove 40%", ["other weights", "--mask"]),
    ("no mask", "--model {bert} --mask missing.json", ["missing.json", "no such file"]),
    ("mask of another model", "--model {bert} --mask other.json", ["no head enc-self.7.1"]),
    ("mask of nothing", "--model {bert} --mask open.json", ["open.json closes no head"]),
    ("mask of everything", "--model {bert} --mask all.json", ["all 8 heads of the model"]),
    ("mask no mask", "--model {bert} --mask list.json", ["head mask"]),
    ("mask no JSON", "--model {bert} --mask broken.json", ["mask broken.json", "JSON"]),
    ("mask and scores", "--model {bert} --mask open.json --scores scores", ["leave --scores out"]),
    ("bake nowhere", "--model {bert} --mask other.json --bake", ["--bake", "--out DIR"]),
    ("bake and onnx", "--mask open.json --bake --onnx --out x", ["--onnx", "leave --bake out"]),
    ("metric of nothing", "--mask open.json --metric mcc", ["--metric mcc", "--data"]),
    ("folder exists", "--model {bert} --mask other.json --out scores", ["exists already"]),
    ("folder of others", "--mask other.json --out mine --force", ["mine", "--force"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arguments", "parts"), BAD, ids=[name for name, _, _ in BAD])
def test_bad_input(headtool, scored, bert, gpt2, name: str, arguments: str, parts) -> None:
    place = scored.parent
    (place / "other.json").write_text('{"0": [1], "7": [1]}')
    (place / "open.json").write_text('{"schema": "headtool/mask/1", "closed": []}')
    (place / "all.json").write_text('{"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}')
    (place / "list.json").write_text("[1, 2]")
    (place / "broken.json").write_text('{"0": [1')
    (place / "mine").mkdir()
    (place / "mine" / "thesis.txt").write_text("important")
    before = sorted(path for path in place.rglob("*"))
    done = headtool("prune", *shlex.split(arguments.format(bert=bert, gpt2=gpt2)), "-q")
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1
    for part in parts:
        assert part in done.err
    assert sorted(path for path in place.rglob("*")) == before


def test_unsupported_family_offers_to_bake(headtool, workplace: Path, folder: Path) -> None:
    import transformers

    from .conftest import SIZES, save

    config = transformers.FSMTConfig(
        langs=["de", "en"],
        src_vocab_size=SIZES["vocab_size"],
        tgt_vocab_size=SIZES["vocab_size"],
        d_model=16,
        encoder_layers=1,
        encoder_attention_heads=2,
        encoder_ffn_dim=20,
        decoder_layers=1,
        decoder_attention_heads=2,
        decoder_ffn_dim=20,
        max_position_embeddings=20,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=3,
    )
    save(transformers.FSMTForConditionalGeneration(config), workplace / "fsmt")
    (workplace / "mask.txt").write_text("A:1:2")
    done = headtool(*shlex.split("prune --model fsmt --mask mask.txt --out smaller"))
    assert done.code == 2
    assert "FSMTForConditionalGeneration cannot be removed" in done.err
    assert "--bake" in done.err
    assert not (workplace / "smaller").exists()
    done = headtool(*shlex.split("prune --model fsmt --mask mask.txt --bake --out baked"))
    assert done.code == 0, done.err
    assert load_model("baked").sites.summary == load_model("fsmt").sites.summary


@pytest.mark.parametrize("family", ["bert", "llama", "gpt2", "bart"])
def test_recovery_of_every_task(
    headtool, request, workplace: Path, reviews: Path, book: Path, family: str
) -> None:
    """Classifiers, language models and translation models: constants, training, and a report."""
    model = request.getfixturevalue(family)
    data = {"bert": reviews, "bart": "pairs.de,pairs.en"}.get(family, book)
    for name in ("pairs.de", "pairs.en"):
        (workplace / name).write_text("a good film .\nbad plot\ngood\ndull film\na b c\nfine\n")
    head = "A:1:2" if family == "bart" else "1:2"
    (workplace / "mask.txt").write_text(head if family == "bart" else '{"0": [1], "1": [0, 1]}')
    command = f"prune --model {model} --mask mask.txt --data {data} --finetune {data} --metric loss"
    more = "--replace mean --steps 3 --batch-size 2 --lr 1e-3 --out tuned --format json -q"
    found = document(headtool(*shlex.split(f"{command} {more}")))
    stages = [row["stage"] for row in found["recovery"]]
    assert stages == ["whole", "zero", "mean", "finetuned"]
    values = {row["stage"]: row["value"] for row in found["recovery"]}
    assert found["quality"]["loss"] == {"whole": values["whole"], "pruned": values["finetuned"]}
    again = load_model("tuned")
    assert again.sites.n_heads < load_model(str(model)).sites.n_heads
    assert "fine-tuned" in Path("tuned/report.html").read_text()
    shown = headtool(*shlex.split(f"{command} --replace mean --steps 1 --batch-size 2"))
    assert "heads put out their means" in shown.out
    assert "the other half" in shown.err


@pytest.mark.parametrize("how", [[], ["--replace", "mean", "--no-curve"]], ids=["plain", "means"])
def test_divergence_of_the_smaller_model_from_the_whole_one(
    headtool, workplace: Path, llama: Path, book: Path, how: list[str]
) -> None:
    """The smaller model is compared with the whole one as the masked one is."""
    (workplace / "mask.json").write_text('{"0": [1]}')
    asked = ("--model", llama, "--data", book, "--metric", "kl", "--format", "json", "--seed", 0)
    done = headtool("prune", *asked, "--mask", "mask.json", "--out", "smaller", *how)
    assert done.code == 0, done.err
    found = [row for row in json.loads(done.out)["recovery"] if row["metric"] == "kl"]
    assert found[0]["value"] == 0
    assert found[-1]["value"] > 0
    if not how:  # no examples are kept for fitting
        masked = headtool("ablate", *asked, "--heads", "dec-self.0.1")
        alone = next(row for row in json.loads(masked.out)["ablation"] if row["metric"] == "kl")
        assert found[-1]["value"] == pytest.approx(alone["delta"], rel=1e-3)
    assert "| kl | whole model | 0 |" in Path("smaller/README.md").read_text("utf-8")
