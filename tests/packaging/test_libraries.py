"""Model libraries: only toolkit/models/ knows them, and a new one is a class and a line."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import headtool
from headtool import models
from headtool.cli.main import app
from headtool.errors import HeadtoolError
from headtool.searching import Search

from ..cli.conftest import settings_of_the_process
from ..support import plain_library
from ..support.modules import MODULES, REPOSITORY

LIBRARIES = ("transformers", "fairseq", "huggingface_hub")
FOLDERS = ("headtool.models.fairseq", "headtool.models.huggingface")
ADAPTERS = ("FairseqModel", "FairseqNetwork", "HuggingFaceModel", "HuggingFaceNetwork")

# These make the built-in models with the libraries themselves, before there is any model to load,
# and nothing imports them: `python -m headtool.builtin.train_nli` and `train_mt`.
SCRIPTS = ("headtool.builtin.train_nli", "headtool.builtin.train_mt")

# What is of one library by its nature: it is called by transformers' Trainer, uploads to the hub of
# Hugging Face, hides transformers' bars, or hands out `headtool.wrap`.
OWN = ("headtool.experiments.callback", "headtool.pruning.pushing", "headtool.quiet", "headtool")


def mentions(code: str) -> Iterator[tuple[str, int]]:
    """Libraries that code imports and adapters that it names, with the line."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Name):
            names = [node.id] if node.id in ADAPTERS else []
        elif isinstance(node, ast.Attribute):
            names = [node.attr] if node.attr in ADAPTERS else []
        else:
            continue
        for name in names:
            library = name.partition(".")[0] in LIBRARIES or name.startswith(FOLDERS)
            if library or name in ADAPTERS:
                yield name, node.lineno


def test_only_models_know_their_libraries() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{line} names {name}"
        for module, path in MODULES.items()
        if not module.startswith("headtool.models") and module not in (*SCRIPTS, *OWN)
        for name, line in mentions(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_nothing_imports_the_scripts() -> None:
    for module, path in MODULES.items():
        code = path.read_text(encoding="utf-8")
        assert module in SCRIPTS or not any(script in code for script in SCRIPTS), module


def test_what_names_a_library_is_found() -> None:
    """Without this, a mistake in the search would let everything pass."""
    code = (
        "def f(model):\n"
        "    from transformers import BertModel\n"
        "    import fairseq.models\n"
        "    from headtool.models.huggingface.loading import load_parts\n"
        "    return isinstance(model, FairseqModel) or models.HuggingFaceModel\n"
    )
    assert {line for _, line in mentions(code)} == {2, 3, 4, 5}
    known = {module for module in MODULES if module.startswith("headtool.models")}
    assert any(list(mentions(MODULES[module].read_text(encoding="utf-8"))) for module in known)


# -- a third library -------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of a library of its own, and data; the library is one line of the table."""
    monkeypatch.setitem(models.LIBRARIES, "plain", f"{plain_library.__name__}:PlainModel")
    torch.manual_seed(3)
    (tmp_path / "model").mkdir()
    torch.save(plain_library.Network().state_dict(), tmp_path / "model" / "weights.pt")
    rng = np.random.default_rng(4)
    lines = ["text\tlabel"]
    for _ in range(30):
        words = rng.choice(plain_library.WORDS[2:], size=rng.integers(2, 7))
        lines.append(f"{' '.join(words)}\t{rng.choice(plain_library.LABELS)}")
    (tmp_path / "data.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def run(place: Path, *arguments: str) -> dict[str, object]:
    """Run a command on the model and the data; what it prints as JSON."""
    command, *rest = arguments
    given = [command, "--model", f"plain:{place / 'model'}", "--data", str(place / "data.tsv")]
    with settings_of_the_process():
        done = CliRunner().invoke(app, [*given, *rest, "--quiet", "--format", "json"])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    document: dict[str, object] = json.loads(done.stdout)
    return document


def test_a_third_library_is_scored_and_tested(place: Path) -> None:
    methods = "gradient,ablation,confidence,magnitude,lrp,shapley,fisher"
    scored = run(place, "score", "--method", methods, "--set", "shapley.permutations=2")
    assert len(scored["scores"]) == 7 * 8  # type: ignore[arg-type]
    ablated = run(place, "ablate")
    assert len(ablated["ablation"]) == 2 * 8  # type: ignore[arg-type]
    curve = run(place, "curve", "--method", "gradient", "--draws", "2")
    assert {row["method"] for row in curve["curves"]} > {"gradient"}  # type: ignore[attr-defined]


def test_a_third_library_is_pruned_and_loaded(place: Path) -> None:
    whole = headtool.load_model(f"plain:{place / 'model'}", device="cpu")
    gone = [headtool.Head("enc-self", 0, 1), headtool.Head("enc-self", 1, 3)]
    mask = headtool.HeadMask.without(whole.sites, gone)
    (place / "mask.json").write_text(mask.to_json(), encoding="utf-8")
    for form in ([], ["--bake"]):
        out = place / "-".join(["out", *form])
        arguments = ["prune", "--model", f"plain:{place / 'model'}", "--mask"]
        chosen = [str(place / "mask.json"), "--out", str(out), "--quiet"]
        with settings_of_the_process():
            done = CliRunner().invoke(app, [*arguments, *chosen, *form])
        assert done.exit_code == 0, done.output
        smaller = headtool.load_model(str(out), device="cpu")
        examples = whole.encode(headtool.load_data(str(place / "data.tsv")))
        masked = headtool.evaluate(whole, examples, [mask])
        own = headtool.evaluate(smaller, examples, [])
        np.testing.assert_allclose(own.whole["loss"], masked.row(0)["loss"], rtol=1e-5)
        assert smaller.sites.n_heads == (8 if form else 6)
    module = headtool.load_pruned(place / "out")
    assert type(module) is plain_library.Network
    with pytest.raises(HeadtoolError, match="holds no pruned model"):
        headtool.load_pruned(place / "out---bake")


def test_what_a_library_cannot_do_is_one_line(place: Path) -> None:
    model = headtool.load_model(f"plain:{place / 'model'}", device="cpu")
    for refused in (
        lambda: model.decoding(batch=1, length=2, beam=1),
        lambda: model.export(batch=1, length=2),
        lambda: model.generator(Search()),
        lambda: model.pieces(),
    ):
        with pytest.raises(HeadtoolError, match=r"plain") as error:
            refused()
        assert "\n" not in str(error.value)
    with pytest.raises(HeadtoolError, match="`bpe` is for fairseq models"):
        headtool.load_model(f"plain:{place / 'model'}", bpe="none")
