"""A tiny model, and Ray: started once for all tests here, as that takes seconds."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator

import pytest

from headtool.data import load_data
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.workers.pool import Workers

from ..cli.conftest import _no_terminal, bart, bert, folder, headtool, reviews

__all__ = ["_no_terminal", "bart", "bert", "folder", "headtool", "reviews"]


@pytest.fixture(scope="module")
def model(bert: object) -> ModelAdapter:
    """A BERT classifier, loaded from its SPEC."""
    return load_model(str(bert), device="cpu")


@pytest.fixture(scope="module")
def examples(model: ModelAdapter, reviews: object) -> Examples:
    """Eight sentences in several batches."""
    return model.encode(load_data(str(reviews)), batch_tokens=24)


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """Ray on this machine with room for four workers; what joins it leaves it running."""
    from headtool.workers.cluster import connected

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with connected(None, 4):
            yield


@pytest.fixture(scope="module", params=[1, 2, 4])
def workers(request: pytest.FixtureRequest, local_ray: None) -> Iterator[Workers]:
    """One, two and four workers."""
    with Workers(request.param) as started:
        yield started


@pytest.fixture
def notes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    """What the library warns of, whatever a command in this process has set."""
    monkeypatch.setattr(logging.getLogger("headtool"), "propagate", True)
    caplog.set_level(logging.WARNING, logger="headtool")
    return caplog
