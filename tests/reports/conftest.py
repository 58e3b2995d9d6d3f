"""Synthetic runs, small and large, that the report tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headtool.reports.contents import Contents, read_contents

from .synthetic import write_comparison


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of four methods on two data sets; nobody writes there."""
    folder = tmp_path_factory.mktemp("runs") / "compared"
    write_comparison(folder, failures=[("score", "lrp", "unknown layer; leave lrp out")])
    return folder


@pytest.fixture(scope="session")
def contents(compared: Path) -> Contents:
    return read_contents(compared)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Contents]:
    """Write a synthetic comparison with some options, and open it."""

    def written(**options: Any) -> Contents:
        write_comparison(tmp_path / "made", force=True, **options)
        return read_contents(tmp_path / "made")

    return written
