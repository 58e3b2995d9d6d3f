"""What all tests share: no network, and the optional folder of real data and models."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from .support.fairseq_models import save_fairseq
from .support.fairseq_texts import save_fairseq_text

__all__ = ["save_fairseq", "save_fairseq_text", "shared"]

settings.register_profile("headtool", deadline=None)  # the machine may be busy
settings.load_profile("headtool")

# Read when the libraries are imported, which some tests do at collection.
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_collection_finish() -> None:
    """Look for garbage less often, and not among what lives to the end: a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep processes that a test starts off the network as well."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and models, holding ``data/`` and ``models/``."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("HEADTOOL_SHARED", beside))
    if not (folder / "data").is_dir() or not (folder / "models").is_dir():
        pytest.skip(f"no real data at {folder}; set HEADTOOL_SHARED to a folder that has it")
    return folder
