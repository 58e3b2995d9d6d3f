"""Commands that are killed, starved and crowded, forked from one warm process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..cli.conftest import bert, folder, reviews
from .commands import Bench
from .warm_process import Warm

__all__ = ["bert", "folder", "reviews"]


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory, bert: Path, reviews: Path) -> Iterator[Bench]:
    if not hasattr(os, "fork") or not Path("/proc/self/task").is_dir():
        pytest.skip("commands are forked and killed as Linux does it")
    warm = Warm()
    yield Bench(warm, tmp_path_factory.mktemp("faults"), bert, reviews)
    warm.close()
