"""Files of unfinished runs that are damaged: refused by name, whatever is wrong with them."""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headtool.engine.store import UnitStore
from headtool.engine.units import Unit
from headtool.errors import HeadtoolError

KEY = {"model": "x"}
UNIT = Unit(7, np.arange(2), range(1))
RESULT = {"loss": np.array([[1.0, 2.0], [3.0, 4.0]]), "gold": np.array([[0, 1], [1, 0]])}


def archive(**arrays: object) -> bytes:
    held = io.BytesIO()
    np.savez(held, allow_pickle=True, **arrays)  # type: ignore[arg-type]
    return held.getvalue()


def one_array() -> bytes:
    held = io.BytesIO()
    np.save(held, RESULT["loss"])
    return held.getvalue()


def member(content: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr("loss.npy", content)
    return held.getvalue()


def put(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None  # type: ignore[func-returns-value]


def edit(change: Callable[[dict[str, np.ndarray]], object]) -> Callable[[Path], None]:
    def edited(path: Path) -> None:
        with np.load(path) as arrays:
            held = {name: arrays[name] for name in arrays.files}
        change(held)
        np.savez(path, **held)  # type: ignore[arg-type]

    return edited


def swapped(path: Path) -> None:
    shutil.copy(path.with_name("unit-000008.npz"), path)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(3.0).tobytes())] ^= 1
    path.write_bytes(bytes(content))


DAMAGE = {
    "empty": put(b""),
    "noise": put(b"\xff" * 400),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "a bit flipped": flipped,
    "one array": put(one_array()),
    "pickled": put(archive(loss=np.array([{}], dtype=object))),
    "no arrays": put(archive()),
    "a member of noise": put(member(b"\x93NUMPY\x01\x00\xff\xff")),
    "a header that is no literal": put(member(b"\x93NUMPY\x01\x00\x0a\x00((((((((((")),
    "a header of petabytes": put(
        member(
            b"\x93NUMPY\x01\x00\x50\x00"
            + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,)}".ljust(80)
        )
    ),
    "an array missing": edit(lambda arrays: arrays.pop("gold")),
    "an array more": edit(lambda arrays: arrays.update(more=np.zeros(1))),
    "another shape": edit(lambda arrays: arrays.update(loss=arrays["loss"].reshape(4))),
    "another type": edit(lambda arrays: arrays.update(gold=arrays["gold"].astype(np.int8))),
    "another value": edit(lambda arrays: arrays["loss"].fill(0.5)),
    "another unit": swapped,
    "a folder": as_folder,
    "a pipe": as_pipe,
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    place = tmp_path / "run.unfinished"
    with UnitStore(place, KEY) as made:
        made.save(UNIT, RESULT)
        made.save(Unit(8, np.arange(2), range(1)), RESULT)
    return place


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_unit_is_refused(store: Path, name: str) -> None:
    with UnitStore(store, KEY) as opened:
        result = opened.load(UNIT)
        assert result is not None
        assert list(result) == list(RESULT)
        DAMAGE[name](store / "unit-000007.npz")
        with pytest.raises(HeadtoolError, match=r"unit-000007\.npz"):
            opened.load(UNIT)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("missing", Path.unlink),
        ("empty", put(b"")),
        ("not text", put(b"\xff\xfe")),
        ("a folder", as_folder),
        ("a pipe", as_pipe),
        ("a dangling link", lambda path: (path.unlink(), path.symlink_to("nowhere"))),
    ],
)
def test_a_damaged_description_is_refused(
    store: Path, name: str, damage: Callable[[Path], object]
) -> None:
    damage(store / "description.json")
    with pytest.raises(HeadtoolError, match=r"delete|is no regular file"), UnitStore(store, KEY):
        pass
