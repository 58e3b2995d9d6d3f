"""What runs in a worker's process: it keeps a copy of each model, and runs units of work."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from headtool.engine.units import Unit, UnitResult
from headtool.errors import HeadtoolError
from headtool.models import load_source
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.source import ModelSource
from headtool.results.versions import versions
from headtool.workers.packing import Bytes, unpack_model, unpack_work

__all__ = ["About", "Copy", "Settings", "Task", "Worker", "about"]


@dataclass(frozen=True)
class Settings:
    """What makes a worker compute as the process that asked for it would.

    Attributes
    ----------
    folder
        Working directory, which relative paths of models start from.
    threads
        Threads of one operation on the CPU. Sums are cut by them, so last digits depend on it.
    device
        Kind of device that models go to.
    """

    folder: str
    threads: int
    device: str


@dataclass(frozen=True)
class About:
    """What a process runs on.

    Attributes
    ----------
    versions
        Of the packages that decide numbers.
    arithmetic
        What the processor, or the GPU, computes with; last digits depend on it.
    """

    versions: Mapping[str, str]
    arithmetic: str


def about(device: str) -> About:
    """Say what this process runs on.

    Parameters
    ----------
    device
        The kind of device that models are on.
    """
    found = {name: version for name, version in versions().items() if name != "headtool-commit"}
    if device == "cuda":
        return About(found, torch.cuda.get_device_name())
    return About(found, torch.backends.cpu.get_cpu_capability())


@dataclass(frozen=True)
class Copy:
    """A model that workers are to have.

    Attributes
    ----------
    key
        Which one; the same key is the same model with the same weights.
    spec
        How messages call it.
    sha256
        Fingerprint of its weights.
    source
        How to load it; None: the weights are shipped.
    parts
        Reference to the packed model, where it is shipped.
    trainable
        Names of the parameters that take gradients.
    """

    key: int
    spec: str
    sha256: str
    source: ModelSource | None
    parts: Any
    trainable: frozenset[str]


@dataclass(frozen=True)
class Task:
    """Units of one kind: what runs them, and what that needs.

    Attributes
    ----------
    content
        Reference to the packed work.
    models
        The models that it names.
    examples
        Key of and reference to the examples that it names.
    device
        The parcel's device.
    models_in_use, examples_in_use
        Keys of what will be needed again; a worker forgets all else.
    """

    content: Any
    models: tuple[Copy, ...]
    examples: tuple[tuple[int, Any], ...]
    device: str
    models_in_use: frozenset[int]
    examples_in_use: frozenset[int]


class Worker:
    """Runs units of one task after the other.

    Parameters
    ----------
    settings
        How to compute.
    fetch
        Gets what a list of references stands for.
    """

    def __init__(self, settings: Settings, fetch: Callable[[Sequence[Any]], list[Any]]) -> None:
        self.settings, self.fetch = settings, fetch
        self.models: dict[int, ModelAdapter] = {}
        self.examples: dict[int, Examples] = {}
        self.work: Callable[[Unit], UnitResult] | None = None
        torch.set_num_threads(settings.threads)
        with contextlib.suppress(OSError):  # another machine may not have it
            os.chdir(settings.folder)
        warnings.simplefilter("ignore")
        logging.getLogger("headtool").setLevel(logging.ERROR)

    def about(self) -> About:
        """Say what this process runs on."""
        return about(self.settings.device)

    def prepare(self, task: Task) -> None:
        """Get ready for the units of a task.

        Parameters
        ----------
        task
            The task.

        Raises
        ------
        HeadtoolError
            If a model cannot be loaded here, or has other weights.
        """
        self.work = None
        for kept, wanted in (
            (self.models, task.models_in_use),
            (self.examples, task.examples_in_use),
        ):
            for key in kept.keys() - wanted:
                del kept[key]
        for model in task.models:
            if model.key not in self.models:
                self.models[model.key] = self._copied(model)
            for name, weight in self.models[model.key].module.named_parameters():
                if weight.requires_grad != (name in model.trainable):
                    weight.requires_grad_(name in model.trainable)
        for key, reference in task.examples:
            if key not in self.examples:
                (self.examples[key],) = self.fetch([reference])
        (content,) = self.fetch([task.content])
        self.work = unpack_work(
            content,
            [self.models[model.key] for model in task.models],
            [self.examples[key] for key, _ in task.examples],
            device=task.device,
        )

    def run(self, unit: Unit) -> UnitResult:
        """Run a unit of the task.

        Parameters
        ----------
        unit
            The unit.
        """
        assert self.work is not None
        return self.work(unit)

    def _copied(self, model: Copy) -> ModelAdapter:
        """Load a model, or unpack it, and compare its weights."""
        if model.source is None:
            parts: list[Bytes]
            (parts,) = self.fetch([model.parts])
            return unpack_model(parts, torch.device(self.settings.device))
        placed = model.source.device_map is not None
        device = "auto" if placed else self.settings.device
        found = load_source(dataclasses.replace(model.source, device=device))
        if found.fingerprint != model.sha256:
            raise HeadtoolError(
                f"the weights of {model.spec} differ there from those of this machine "
                f"(SHA-256 {found.fingerprint[:12]}, not {model.sha256[:12]})"
            )
        return found
