"""A cluster of two nodes, which Ray's own utility simulates on this machine."""

from __future__ import annotations

import subprocess
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import headtool as door
from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.workers.pool import Workers

pytestmark = pytest.mark.slow

T = TypeVar("T")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one CPU, called left and right."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("RAY_worker_niceness", "0")
        made = Cluster()
        made.add_node(num_cpus=1, node_name="left", include_dashboard=False)
        made.right = made.add_node(num_cpus=1, node_name="right")
        yield made
        made.shutdown()


def test_too_many_workers_are_refused(
    cluster: Any, model: ModelAdapter, examples: Examples
) -> None:
    for more, said in (
        ({"count": 3}, "3 workers need a CPU each, and the cluster has 2; use fewer `workers`"),
        ({"count": 2, "gpus_per_worker": 1}, "2 workers with 1 GPUs each need 2 GPUs, and there"),
        ({"count": 1, "gpus_per_worker": 2}, "`gpus_per_worker` 2 is for models that several"),
    ):
        with Workers(ray=cluster.address, **more) as workers:  # type: ignore[arg-type]
            with pytest.raises(HeadtoolError) as caught:
                evaluate(model, examples, [], execute=workers)
            assert str(caught.value).startswith(said)


def test_a_lost_node_changes_no_bit(
    cluster: Any,
    model: ModelAdapter,
    examples: Examples,
    bert: Path,
    reviews: Path,
    tmp_path: Path,
    notes: pytest.LogCaptureFixture,
) -> None:
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads]
    removed = []
    with Workers(2, ray=cluster.address) as workers:

        def remove(items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
            for item in items:
                yield item
                assert workers._pool is not None
                there = {member.node for member in workers._pool.members if member.units}
                if "right" in there and not removed:
                    removed.append("right")
                    cluster.remove_node(cluster.right, allow_graceful=False)

        for _ in range(50):  # until the worker on the right has had its share
            found = evaluate(model, examples, masks, execute=workers, progress=remove)
            if removed and "was lost" in notes.text:
                break
            if removed:
                time.sleep(0.5)  # the worker outlives its node a little
        expected = evaluate(model, examples, masks)
        assert removed
        for name, values in expected.masked.items():
            np.testing.assert_array_equal(found.masked[name], values)
        assert "a worker on node right was lost" in notes.text
    # What the remaining node cannot load is refused in its name.
    place = tmp_path / "model"
    subprocess.run(["cp", "-r", bert, place], check=True)
    gone = door.load_model(str(place), device="cpu")
    place.rename(tmp_path / "elsewhere")
    encoded = gone.encode(door.load_data(str(reviews)))
    with (
        Workers(1, ray=cluster.address) as workers,
        pytest.raises(HeadtoolError, match=r"^node left: .*put the model there"),
    ):
        evaluate(gone, encoded, [], execute=workers)


def test_no_cluster_at_an_address(model: ModelAdapter, examples: Examples) -> None:
    with (
        Workers(1, ray="127.0.0.1:1") as workers,
        pytest.raises(HeadtoolError, match=r"^no Ray cluster can be joined at `ray=127.0.0.1:1`"),
    ):
        evaluate(model, examples, [], execute=workers)
