"""A fingerprint speaks of the weights in memory, whatever the cache remembers of their files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch

import headtool
from headtool.builtin.nli import model_folder
from headtool.models import fingerprints
from headtool.models.base import ModelAdapter
from headtool.models.fingerprints import cache_folder, weights_sha256


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_folder(), tmp_path / "model"))


def _load(folder: Path, **options: str) -> ModelAdapter:
    return headtool.load_model(str(folder), device="cpu", **options)


def _entries() -> list[Path]:
    return sorted(cache_folder().iterdir())


def test_files_that_did_not_change_are_not_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _load(folder)
    assert first.fingerprint == weights_sha256(first.module)
    assert [entry.read_text() for entry in _entries()] == [first.fingerprint]
    second = _load(folder)
    monkeypatch.setattr(fingerprints, "weights", None)  # what reads them all
    assert second.fingerprint == first.fingerprint


def test_precisions_have_entries_of_their_own(folder: Path) -> None:
    whole, half = _load(folder), _load(folder, dtype="bfloat16")
    assert whole.fingerprint != half.fingerprint
    assert len(_entries()) == 2
    assert _load(folder, dtype="bfloat16").fingerprint == half.fingerprint


def test_a_changed_file_is_read(folder: Path) -> None:
    before = _load(folder).fingerprint
    file = folder / "model.safetensors"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    content = bytearray(file.read_bytes())
    content[-3] ^= 64
    file.write_bytes(content)
    os.utime(file, ns=times)  # as if nothing had happened
    changed = _load(folder)
    assert changed.fingerprint == weights_sha256(changed.module) != before


def test_weights_changed_in_memory_are_read(folder: Path) -> None:
    before = _load(folder).fingerprint
    trained = _load(folder)
    with torch.no_grad():
        for weight in trained.module.parameters():
            weight.data += 0.01 * torch.randn_like(weight)
    assert trained.fingerprint == weights_sha256(trained.module) != before


@pytest.mark.parametrize("content", ["", "00", "x" * 64])
def test_damaged_entries_are_not_believed(folder: Path, content: str) -> None:
    wanted = _load(folder).fingerprint
    (entry,) = _entries()
    entry.write_text(content)
    assert _load(folder).fingerprint == wanted
    assert entry.read_text() == wanted


def test_no_cache_is_no_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the way")
    model = _load(folder)
    assert model.fingerprint == weights_sha256(model.module)


def test_the_cache_does_not_grow_without_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "_FORGOTTEN_AFTER", 2)
    for dtype in ("float32", "bfloat16", "float16"):
        assert len(_load(folder, dtype=dtype).fingerprint) == 64
    assert len(_entries()) == 1
