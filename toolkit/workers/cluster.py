"""Ray, started or joined: nothing of it is imported before it is asked for."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

from headtool.errors import HeadtoolError

__all__ = ["check_ray", "check_room", "connected", "node_name"]

_SECONDS = 10  # for a first answer of a cluster

# Read by Ray when it is imported or started: no chatter, no reports to its makers, and workers that
# do not stand back behind all other processes of the machine.
_SETTINGS = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
}


def check_ray() -> None:
    """Raise `HeadtoolError` unless Ray is installed."""
    if importlib.util.find_spec("ray") is None:
        raise HeadtoolError("`workers` needs Ray; install it: pip install 'headtool[ray]'")


@contextlib.contextmanager
def connected(address: str | None, workers: int) -> Iterator[None]:
    """Join a cluster, or start one on this machine for as long as the block runs.

    A process that is connected already stays so, and connected.

    Parameters
    ----------
    address
        Of the cluster; ``auto`` for the one that this machine belongs to; None for a new one.
    workers
        How many workers a new one has room for.

    Raises
    ------
    HeadtoolError
        If there is no cluster at the address, or it is of another version.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        yield
        return
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    local = {} if address else {"num_cpus": workers, "include_dashboard": False}
    try:
        if address:
            _knock(address)
        ray.init(
            address or "local",
            configure_logging=False,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            **local,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise HeadtoolError(
            f"no Ray cluster can be joined at `ray={address}`: {said}; start one with ray start "
            "--head, or leave `ray` out"
            if address
            else f"Ray cannot be started on this machine: {said}"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise `ConnectionError` at once where nobody listens; Ray itself tries for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
        except OSError as error:
            raise ConnectionError(error.strerror or str(error)) from error


def check_room(workers: int, gpus: float) -> None:
    """Raise `HeadtoolError` where the cluster can never hold so many workers.

    Parameters
    ----------
    workers
        How many, with a CPU each.
    gpus
        GPUs of each.
    """
    import ray

    there: dict[str, Any] = ray.cluster_resources()
    if gpus * workers > there.get("GPU", 0):
        raise HeadtoolError(
            f"{workers} workers with {gpus:g} GPUs each need {gpus * workers:g} GPUs, and there "
            f"are {there.get('GPU', 0):g}; use fewer `workers`, or a smaller `gpus_per_worker`"
        )
    if workers > there.get("CPU", 0):
        raise HeadtoolError(
            f"{workers} workers need a CPU each, and the cluster has {there.get('CPU', 0):g}; use "
            "fewer `workers`"
        )


def node_name(node_id: str) -> str:
    """Name a node as its users know it: as it was started, or by its host.

    Parameters
    ----------
    node_id
        Ray's own name.
    """
    import ray

    for node in ray.nodes():
        if node["NodeID"] == node_id:
            given, address = node.get("NodeName"), node.get("NodeManagerAddress")
            return str(given if given and given != address else node["NodeManagerHostname"])
    return node_id[:8]
