"""Workers that are killed or fail: the same bytes, or one line that says what and where."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import headtool as door
from headtool.engine.evaluation import evaluate
from headtool.engine.units import Unit, UnitResult, cut, in_order
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.workers.pool import Workers

pytestmark = pytest.mark.slow

T = TypeVar("T")
UNITS = cut([np.array([2 * n, 2 * n + 1]) for n in range(12)])


@pytest.fixture(scope="module")
def two(local_ray: None) -> Iterator[Workers]:
    with Workers(2) as started:
        yield started


def numbers(workers: Workers, work: Callable[[Unit], UnitResult]) -> list[int]:
    return [int(result["n"]) for _, result in in_order(workers(UNITS, work))]


def failing(flag: Path, fail: Callable[[], Any]) -> Callable[[Unit], UnitResult]:
    """Work that fails at the fifth unit, the first time only."""

    def work(unit: Unit) -> UnitResult:
        if unit.number == 4 and not flag.exists():
            flag.touch()
            fail()
        return {"n": np.array(unit.number)}

    return work


def test_a_worker_that_dies_is_replaced(
    two: Workers, tmp_path: Path, notes: pytest.LogCaptureFixture
) -> None:
    flag = tmp_path / "died"
    assert numbers(two, failing(flag, lambda: os._exit(1))) == list(range(12))
    assert flag.exists()
    assert "a worker on node" in notes.text
    assert "was lost" in notes.text


def test_a_unit_that_fails_once_is_tried_on_another_worker(two: Workers, tmp_path: Path) -> None:
    flag = tmp_path / "failed"

    def fail() -> None:
        raise RuntimeError("CUDA out of memory")

    assert numbers(two, failing(flag, fail)) == list(range(12))
    assert flag.exists()


def test_a_unit_that_fails_twice_ends_the_run(two: Workers) -> None:
    def work(unit: Unit) -> UnitResult:
        if unit.number == 4:
            raise RuntimeError("no such kernel\nand more lines")
        return {"n": np.array(unit.number)}

    with pytest.raises(HeadtoolError) as caught:
        numbers(two, work)
    host = os.uname().nodename
    assert str(caught.value) == (
        "unit 5 of 12 (examples 9, 10) failed on 2 workers, the last one on node "
        f"{host}: RuntimeError: no such kernel"
    )
    # The workers are fit for more.
    assert numbers(two, lambda unit: {"n": np.array(unit.number)}) == list(range(12))


def test_what_the_user_can_put_right_is_said_as_without_workers(two: Workers) -> None:
    def work(unit: Unit) -> UnitResult:
        if unit.number == 4:
            raise HeadtoolError("the loss is not finite; check the weights")
        return {"n": np.array(unit.number)}

    with pytest.raises(HeadtoolError, match=r"^the loss is not finite; check the weights$"):
        numbers(two, work)


def test_a_run_that_is_left_half_way_is_forgotten(two: Workers) -> None:
    def work(unit: Unit) -> UnitResult:
        return {"n": np.array(unit.number)}

    left = two(UNITS, work)
    next(left)
    assert numbers(two, work) == list(range(12))
    with pytest.raises(RuntimeError, match="another one has begun"):
        list(left)
    assert numbers(two, work) == list(range(12))


def test_one_worker_alone_makes_room_for_another(local_ray: None) -> None:
    def work(unit: Unit) -> UnitResult:
        if unit.number == 4:
            raise RuntimeError("no such kernel")
        return {"n": np.array(unit.number)}

    with Workers(1) as one, pytest.raises(HeadtoolError, match=r"^unit 5 of 12 .* on 2 workers"):
        numbers(one, work)


def test_a_killed_worker_changes_no_bit(
    two: Workers, model: ModelAdapter, examples: Examples
) -> None:
    import ray

    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads]
    killed = []

    def kill_one(items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
        for item in items:
            yield item
            if not killed:
                assert two._pool is not None
                killed.append(two._pool.members[0].actor)
                ray.kill(killed[0])

    found = evaluate(model, examples, masks, execute=two, progress=kill_one)
    expected = evaluate(model, examples, masks)
    assert killed
    for name, values in expected.masked.items():
        np.testing.assert_array_equal(found.masked[name], values)


def test_a_model_that_is_gone_or_changed_is_refused(
    local_ray: None, bert: Path, reviews: Path, tmp_path: Path
) -> None:
    place = tmp_path / "model"
    subprocess.run(["cp", "-r", bert, place], check=True)
    model = door.load_model(str(place), device="cpu")
    examples = model.encode(door.load_data(str(reviews)))
    host = os.uname().nodename
    weights = place / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.unlink()  # it is mapped into the memory of the model here
    weights.write_bytes(bytes(content))
    with Workers(1) as one:
        with pytest.raises(HeadtoolError) as caught:
            door.differentiate(model, examples, execute=one)
        said = str(caught.value)
        assert said.startswith(
            f"node {host}: the weights of {place} differ there from those of this machine"
        )
        assert said.endswith("put the model there, or use `ship_weights`")
        place.rename(tmp_path / "elsewhere")
        with pytest.raises(HeadtoolError, match=f"^node {host}: .*model"):
            door.differentiate(model, examples, execute=one)
    with Workers(1, ship_weights=True) as one:
        found = door.differentiate(model, examples, execute=one)
    np.testing.assert_array_equal(found.losses, door.differentiate(model, examples).losses)


def test_a_killed_driver_continues(tmp_path: Path) -> None:
    """The same command again: what was finished is not done again, and the bytes are the same."""
    asked = {"limit": 100, "batch_tokens": 64, "heads": ["enc-self.0.1", "enc-self.2.3"]}
    door.ablate("builtin:nli", out=tmp_path / "alone", **asked)  # type: ignore[arg-type]
    command = [
        *(sys.executable, "-m", "headtool", "ablate", "--limit", "100", "--batch-tokens", "64"),
        *("--heads", "enc-self.0.1,enc-self.2.3", "--workers", "2", "--out", "run"),
    ]
    unfinished = tmp_path / "run.unfinished"
    driver = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    while len(list(unfinished.glob("unit-*.npz"))) < 3 and driver.poll() is None:
        time.sleep(0.005)
    driver.send_signal(signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL
    driver.communicate()
    kept = {path: path.stat().st_mtime_ns for path in unfinished.glob("unit-*.npz")}
    assert kept
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    *progress, last = again.stderr.splitlines()
    assert last == "written to run"
    assert {line.partition(":")[0] for line in progress} <= {"plan", "ablate"}  # nothing of Ray's
    for table in ("ablation", "outcomes", "sites"):
        name = f"{table}.parquet"
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
