"""Summaries by encoder-decoder models, from a table of documents to ROUGE under masks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import headtool
from headtool.data import load_data

from ...support.tasks import NAMES, STEMS, save, summarizer


def documents(path: Path, names: tuple[str, str] = ("document", "summary"), count: int = 6) -> str:
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(count):
        words = [str(word) for word in rng.choice([*NAMES, *STEMS], size=8)]
        rows.append(dict(zip(names, (" ".join(words), " ".join(words[:3])), strict=True)))
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


@pytest.mark.parametrize(
    "names",
    [
        ("document", "summary"),
        ("article", "highlights"),
        ("dialogue", "summary"),
        ("text", "summary"),
    ],
)
def test_tables_of_summaries_are_recognised(names: tuple[str, str], tmp_path: Path) -> None:
    data = load_data(documents(tmp_path / "dev.jsonl", names))
    assert (data.kind, set(data.columns)) == ("translation", {"source", "target"})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["BART", "T5"])
def test_rouge_under_masks(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("rouge_score")
    folder = str(save(summarizer(kind), tmp_path / "model"))
    data = documents(tmp_path / "dev.jsonl")
    search = headtool.Search(beam=1, max_length=5)
    found = headtool.ablate(folder, data, metric="rougeL", search=search, heads=["cross.0.0"])
    assert found.frame["metric"].unique().tolist() == ["rougeL"]
    assert 0 <= found.whole["rougeL"] <= 1
    assert set(found.measured.hypotheses.to_frame()["example"]) == set(range(6))
