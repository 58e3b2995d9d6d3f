"""How workers are asked for, and what is said without Ray."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import pytest

from headtool.engine.units import in_turn
from headtool.errors import HeadtoolError
from headtool.workers.pool import Workers, crowded, open_workers


def test_numbers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(HeadtoolError, match="`workers` must be at least 1, got 0"):
        Workers(0)
    with pytest.raises(HeadtoolError, match="`gpus_per_worker` must be at least 0, got -1"):
        Workers(1, gpus_per_worker=-1)


def test_who_runs_the_units() -> None:
    with open_workers(None) as execute:
        assert execute is in_turn
    with open_workers(in_turn) as execute:
        assert execute is in_turn
    with open_workers(2) as execute:
        assert isinstance(execute, Workers)
        assert (execute.count, execute.alive, execute.status()) == (2, 0, "workers are starting")


def test_without_ray_a_line_names_the_extra(headtool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ray" else found(name)
    )
    done = headtool("score", "--method", "random", "--workers", "2")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: --workers needs Ray; install it: pip install 'headtool[ray]'\n"


@pytest.mark.parametrize(
    "option", [["--ray", "auto"], ["--gpus-per-worker", "2"], ["--ship-weights"]]
)
def test_other_options_are_for_workers(headtool: Any, option: list[str]) -> None:
    done = headtool("ablate", *option)
    assert done.code == 2
    assert done.err == (
        "error: --ray, --gpus-per-worker and --ship-weights are for --workers; give how many\n"
    )


@pytest.mark.slow
def test_ray_is_imported_only_when_it_is_asked_for() -> None:
    code = (
        "import sys, headtool\n"
        "headtool.Workers(2)\n"
        "headtool.ablate('builtin:nli', limit=2, heads=['enc-self.0.1'])\n"
        "print('ray' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_crowded_warns(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert crowded(2, 2) == crowded(1, 8) == {}
    assert not caplog.records
    assert crowded(2, 4) == {"OMP_WAIT_POLICY": "PASSIVE"}
    assert "2 workers of 4 threads each share 4 cores" in caplog.text
    assert "OMP_NUM_THREADS=2" in caplog.text
