"""A worker as Ray starts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ray

from headtool.workers.worker import About, Settings, Worker

__all__ = ["starter"]


class _Actor(Worker):
    """A worker that fetches from Ray's object store, and knows its node."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, ray.get)

    def place(self) -> tuple[str, About]:
        """Ray's name of the node, and what the process runs on."""
        return ray.get_runtime_context().get_node_id(), self.about()


def starter(settings: Settings, *, gpus: float, variables: Mapping[str, str]) -> Callable[[], Any]:
    """Return what starts a worker and returns Ray's handle of it.

    Parameters
    ----------
    settings
        How workers compute.
    gpus
        GPUs of each.
    variables
        Environment variables that workers get.
    """
    actor = ray.remote(_Actor).options(
        num_cpus=1,
        num_gpus=gpus,
        max_restarts=0,
        max_task_retries=0,
        scheduling_strategy="SPREAD",
        runtime_env={"env_vars": dict(variables)},
    )
    return lambda: actor.remote(settings)
