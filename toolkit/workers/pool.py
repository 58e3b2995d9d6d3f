"""`Workers`: who runs units of work on other processes, or other machines."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headtool.engine.units import Executor, Unit, UnitResult, in_turn
from headtool.errors import HeadtoolError
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.fingerprints import WeightsState, weights_sha256, weights_state
from headtool.workers.cluster import check_ray, check_room, connected

if TYPE_CHECKING:
    from headtool.workers.schedule import Pool
    from headtool.workers.worker import Copy, Task

__all__ = ["Workers", "WorkersLike", "open_workers"]

_LOG = logging.getLogger("headtool")

# Settings that change numbers, or where libraries look for models; workers get them.
_VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_CBWR"),
    *("CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "PYTHONHASHSEED"),
    *("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "TOKENIZERS_PARALLELISM"),
)


def crowded(workers: int, threads: int) -> dict[str, str]:
    """Warn if this machine has fewer cores than threads; settings that make the best of it.

    Threads that wait for each other spin by default, which keeps those they wait for from running.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if workers == 1 or cores is None or workers * threads <= cores:
        return {}
    _LOG.warning(
        "%d workers of %d threads each share %d cores and slow each other down; set the "
        "environment variable OMP_NUM_THREADS=%d, or take fewer workers",
        *(workers, threads, cores, max(1, cores // workers)),
    )
    return {"OMP_WAIT_POLICY": "PASSIVE"}


class Workers:
    """Workers on this machine or a Ray cluster, each with a copy of the model.

    It runs units of work wherever a function takes `execute` or `workers`. What is computed is the
    same to the bit with any number of workers, and without them, as long as all of them compute
    with processors (or GPUs) of the same type.

    Ray and the workers are started when the first units come, and ended by `close`, or by the end
    of a ``with`` block.

    Parameters
    ----------
    count
        How many workers.
    ray
        Address of a running Ray cluster, or ``auto`` for the one that this machine belongs to.
        None: the workers run on this machine.
    gpus_per_worker
        GPUs of each worker; a share, such as 0.5, lets workers use one together. None: one where
        the model is on a GPU, else none.
    ship_weights
        Send each model's weights to the workers. Else they load it from its SPEC, which has to name
        the same weights wherever a worker runs.

    Raises
    ------
    HeadtoolError
        If Ray is not installed, or a number makes no sense.

    Examples
    --------
    >>> import headtool
    >>> with headtool.Workers(4) as workers:  # doctest: +SKIP
    ...     headtool.ablate("builtin:nli", workers=workers)
    ...     headtool.score("builtin:nli", workers=workers)
    """

    def __init__(
        self,
        count: int,
        *,
        ray: str | None = None,
        gpus_per_worker: float | None = None,
        ship_weights: bool = False,
    ) -> None:
        if count < 1:
            raise HeadtoolError(f"`workers` must be at least 1, got {count}")
        if gpus_per_worker is not None and not gpus_per_worker >= 0:
            raise HeadtoolError(f"`gpus_per_worker` must be at least 0, got {gpus_per_worker:g}")
        check_ray()
        self.count, self.ray = count, ray
        self.gpus_per_worker, self.ship_weights = gpus_per_worker, ship_weights
        self._stack = contextlib.ExitStack()
        self._pool: Pool | None = None
        self._models = _Known[ModelAdapter]()
        self._examples = _Known[Examples]()
        self._keys = itertools.count()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> int:
        """Workers that have started and are not lost."""
        return 0 if self._pool is None else self._pool.alive

    def status(self) -> str:
        """Say how many workers are there."""
        if self._pool is None or not self.alive:
            return "workers are starting"
        return f"{self.alive} of {self.count} workers"

    def close(self) -> None:
        """End the workers, and Ray if it was started for them; units start them again."""
        self._pool = None
        self._models.clear()
        self._examples.clear()
        self._stack.close()

    def __call__(
        self, units: Sequence[Unit], work: Callable[[Unit], UnitResult]
    ) -> Iterator[tuple[Unit, UnitResult]]:
        """Run units and yield each with its result as it is finished; see `Executor`.

        Parameters
        ----------
        units
            The units.
        work
            Runs one of them.

        Raises
        ------
        HeadtoolError
            If a unit fails on two workers, or a worker cannot have the model.
        """
        from headtool.workers.packing import pack_work

        parcel = pack_work(work)
        sources = [model.source for model in parcel.models]
        placed = any(source is not None and source.device_map for source in sources)
        pool = self._started(parcel.device, placed=placed)
        yield from pool.run(self._task(parcel), units)

    def _started(self, device: str, *, placed: bool) -> Pool:
        """The pool, whose workers are started for models on a kind of device, or on several."""
        if self._pool is not None:
            return self._pool
        import torch

        gpus = self.gpus_per_worker
        if gpus is None:
            gpus = 1.0 if device == "cuda" else 0.0
        if gpus > 1 and not placed:
            raise HeadtoolError(
                f"`gpus_per_worker` {gpus:g} is for models that several GPUs hold together; add "
                "`device_map=auto`, or use 1"
            )
        self._stack.enter_context(connected(self.ray, self.count))
        try:
            check_room(self.count, gpus)
        except HeadtoolError:
            self._stack.close()
            raise
        from headtool.workers.actor import starter
        from headtool.workers.schedule import Pool
        from headtool.workers.worker import Settings, about

        kind = "cuda" if gpus else "cpu" if device == "cuda" else device
        settings = Settings(os.getcwd(), torch.get_num_threads(), kind)
        variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        variables.setdefault("OMP_NUM_THREADS", str(settings.threads))
        if self.ray is None and kind == "cpu":
            variables |= crowded(self.count, settings.threads)
        start = starter(settings, gpus=gpus, variables=variables)
        self._pool = Pool(self.count, start, about(device))
        self._stack.callback(self._pool.close)
        return self._pool

    def _task(self, parcel: Any) -> Task:
        """Put what a parcel names where workers find it."""
        import ray

        from headtool.workers.worker import Task

        models = tuple(self._copy(model) for model in parcel.models)
        examples = []
        for item in parcel.examples:
            found = self._examples.get(item)
            if found is None:
                found = self._examples.put(item, (next(self._keys), ray.put(item)))
            examples.append(found)
        return Task(
            ray.put(parcel.content),
            models,
            tuple(examples),
            parcel.device,
            frozenset(copy.key for _, copy in self._models.values()),
            frozenset(key for key, _ in self._examples.values()),
        )

    def _copy(self, model: ModelAdapter) -> Copy:
        """Describe a model for workers, and ship its weights where they cannot load it."""
        import ray

        from headtool.workers.packing import pack_model
        from headtool.workers.worker import Copy

        spread = model.source is not None and model.source.device_map is not None
        # What accelerate moves between devices is never trained, and always another tensor.
        state = model.loaded if spread else weights_state(model.module)
        named = model.module.named_parameters()
        trainable = frozenset(name for name, weight in named if weight.requires_grad)
        known: tuple[WeightsState, Copy] | None = self._models.get(model)
        if known is not None and known[0] == state:
            return dataclasses.replace(known[1], trainable=trainable)
        as_loaded = model.source is not None and model.loaded == state
        # A method that trains changes weights in place; they may be the old ones by now.
        sha256 = model.fingerprint if as_loaded else weights_sha256(model.module)
        if known is not None and known[1].sha256 == sha256:
            copy = known[1]
        elif as_loaded and not self.ship_weights:
            copy = Copy(next(self._keys), model.spec, sha256, model.source, None, trainable)
        elif spread:
            raise HeadtoolError(
                "`ship_weights` sends models that are on one device; leave it or `device_map` out"
            )
        else:
            parts = ray.put(pack_model(model))
            copy = Copy(next(self._keys), model.spec, sha256, None, parts, trainable)
        self._models.put(model, (state, copy))
        return dataclasses.replace(copy, trainable=trainable)


_T = TypeVar("_T")


class _Known(Generic[_T]):
    """Values by object, not by its content, for as long as the object is there."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[weakref.ref[_T], Any]] = {}

    def get(self, item: _T) -> Any:
        """The object's value, or None."""
        held = self._held.get(id(item))
        return None if held is None else held[1]

    def put(self, item: _T, value: Any) -> Any:
        """Give an object a value."""
        key = id(item)
        self._held[key] = weakref.ref(item, lambda _: self._held.pop(key, None)), value
        return value

    def values(self) -> list[Any]:
        """The values of all objects that are there."""
        return [value for _, value in self._held.values()]

    def clear(self) -> None:
        """Forget all."""
        self._held.clear()


WorkersLike = int | Executor | None
"""How many workers run the units of work on this machine, or who runs them; None: this process."""


@contextlib.contextmanager
def open_workers(workers: WorkersLike) -> Iterator[Executor]:
    """Return who runs the units; workers that are started here end with the block.

    Parameters
    ----------
    workers
        How many, or who.
    """
    if workers is None:
        yield in_turn
    elif isinstance(workers, int):
        with Workers(workers) as started:
            yield started
    else:
        yield workers
