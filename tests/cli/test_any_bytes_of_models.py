"""Models whose files are nearly right: each is loaded and run, or refused in one line."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import headtool
from headtool.errors import HeadtoolError

from ..support.any_bytes import mutated, mutated_json

DRAWN = int(os.environ.get("HEADTOOL_FUZZ", "0"))
DRAWING = settings(
    max_examples=DRAWN or 8,
    derandomize=not DRAWN,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")


def run(place: Path, model: str, file: str, content: bytes, model_folder: Path) -> None:
    """Load a model with another file and use it; it may be refused, in one line."""
    folder = place / "model"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model_folder, folder)
    (folder / file).write_bytes(content)
    complaint = ""
    try:
        if model == "bart":
            pair = f"{place}/a.txt,{place}/a.txt"
            headtool.ablate(str(folder), pair, metric="bleu", heads=["cross.0.1"])
        else:
            headtool.score(str(folder), f"{place}/a.tsv", methods=["confidence"])
    except HeadtoolError as error:
        complaint = str(error)
    assert "\n" not in complaint
    assert len(complaint) < 1000


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "a.tsv").write_text("text\tlabel\na good film\t1\nbad plot\t0\n")
    (tmp_path / "a.txt").write_text("good film\nbad plot\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "file"),
    [
        *(("bert", file) for file in FILES if file != "generation_config.json"),
        ("bart", FILES[0]),
        ("bart", FILES[1]),
    ],
)
def test_any_file_of_a_model(
    model: str, file: str, place: Path, request: pytest.FixtureRequest
) -> None:
    source: Path = request.getfixturevalue(model)
    valid: Any = json.loads((source / file).read_text())

    @DRAWING
    @given(mutated_json(valid))
    def check(content: bytes) -> None:
        run(place, model, file, content, source)

    check()


@pytest.mark.slow
def test_any_weights(place: Path, bert: Path) -> None:
    valid = (bert / "model.safetensors").read_bytes()[:3000]
    rest = (bert / "model.safetensors").read_bytes()[3000:]

    @DRAWING
    @given(mutated(valid))
    def check(content: bytes) -> None:
        run(place, "bert", "model.safetensors", content + rest, bert)

    check()
