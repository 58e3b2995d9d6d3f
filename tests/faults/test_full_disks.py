"""A disk that is full after some bytes: one line, nothing half written, and room for the rest."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .commands import ROUNDS, Bench, some, tree
from .warm_process import Ended

pytestmark = pytest.mark.slow

PAGE = 4096
SIZES = min(ROUNDS, 20)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={PAGE}", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this user may not mount a small disk ({error})")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def resize(disk: Path, size: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def used(disk: Path) -> int:
    found = os.statvfs(disk)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def check(
    bench: Bench, name: str, place: Path, before: dict[str, bytes | None], full: Ended
) -> None:
    """A command that found the disk full says so, and leaves only what it can continue."""
    assert full.code == 2, full.err
    (line,) = full.err.splitlines()[-1:]
    assert line.startswith("error: cannot write "), full.err
    assert "Traceback" not in full.err
    assert not bench.is_whole(name, place)
    left = tree(place)
    new = {entry for entry in left if entry not in before}
    assert all(entry.split("/")[0] == "run.unfinished" for entry in new), new
    assert not any(entry.endswith(".tmp") for entry in new), new
    assert {entry: left[entry] for entry in before} == before


@pytest.mark.parametrize("name", some("compare", "prune", "dynamics", "report", "shapley"))
def test_files_may_not_grow(bench: Bench, tmp_path: Path, name: str) -> None:
    largest = max(len(content or b"") for content in tree(bench.whole(name)[0]).values())
    for size in [int(largest ** ((n + 1) / (SIZES + 1))) for n in range(SIZES)]:
        place = bench.begin(name, tmp_path / str(size))
        before = tree(place)
        full = bench.warm.run(bench.arguments(name), place, largest_file=size)
        check(bench, name, place, before, full)
        bench.finish(name, place)
    print(f"{name}: {SIZES} limits of a file's size")


@pytest.mark.parametrize("name", some("prune", "compare", "dynamics", "report", "shapley"))
def test_a_disk_of_some_pages(bench: Bench, disk: Path, name: str) -> None:
    resize(disk, 2**30)
    found = tree(bench.whole(name)[0]).items() - tree(bench.begin(name, disk / "start")).items()
    total = sum(len(content) // PAGE + 1 for _, content in found if content is not None)
    sizes = range(1, total, -(-(total - 1) // SIZES))
    for pages in sizes:
        place = bench.begin(name, disk / str(pages))
        before = tree(place)
        resize(disk, used(disk) + pages * PAGE)
        full = bench.warm.run(bench.arguments(name), place)
        check(bench, name, place, before, full)
        resize(disk, 2**30)
        bench.finish(name, place)
        shutil.rmtree(place)
    print(f"{name}: {len(sizes)} sizes of a disk")
