"""A disk that is full after some bytes: one line, nothing half written, and room for the rest."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .commands import Bench, tree
from .warm_process import Ended

pytestmark = pytest.mark.slow

NAMES = ["compare", "prune", "dynamics", "report", "shapley"]
PAGE = 4096


@pytest.fixture
def names(rounds: int) -> list[str]:
    return NAMES if rounds > 1 else NAMES[:2]


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


def spread(total: int, count: int) -> list[int]:
    """Some numbers of bytes up to a total, close together where they are small."""
    return [int(total ** ((n + 1) / (count + 1))) for n in range(count)]


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


def test_files_may_not_grow(bench: Bench, tmp_path: Path, rounds: int, names: list[str]) -> None:
    for name in names:
        largest = max(len(content or b"") for content in tree(bench.whole(name)[0]).values())
        for size in spread(largest, min(rounds, 20)):
            place = bench.begin(name, tmp_path / f"{name} {size}")
            before = tree(place)
            full = bench.warm.run(bench.arguments(name), place, largest_file=size)
            check(bench, name, place, before, full)
            bench.finish(name, place)
        print(f"{name}: {min(rounds, 20)} limits of a file's size")


def test_a_disk_of_some_pages(bench: Bench, disk: Path, rounds: int, names: list[str]) -> None:
    for name in names:
        resize(disk, 2**30)
        found = tree(bench.whole(name)[0]).items() - tree(bench.begin(name, disk / name)).items()
        total = sum(len(content) // PAGE + 1 for _, content in found if content is not None)
        count = min(rounds, 20, total - 1)
        for pages in range(1, total, -(-(total - 1) // count)):
            place = bench.begin(name, disk / f"{name} {pages}")
            before = tree(place)
            resize(disk, used(disk) + pages * PAGE)
            full = bench.warm.run(bench.arguments(name), place)
            check(bench, name, place, before, full)
            resize(disk, 2**30)
            bench.finish(name, place)
            subprocess.run(["rm", "-r", str(place)], check=True)
        print(f"{name}: {count} sizes of a disk")
