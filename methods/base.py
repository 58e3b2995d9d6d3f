"""The base of every scoring method: a frozen set of options and one computation."""

from __future__ import annotations

import dataclasses
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.engine.measurement import Measure, measure
from headtool.engine.provenance import provenance
from headtool.engine.sharing import Reading, read_together
from headtool.engine.units import Executor, Keep, in_turn, unkept
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask, Kind, Sites
from headtool.methods.checking import checked_scores
from headtool.methods.options import Description, Option, option
from headtool.metrics import metric_of_model
from headtool.metrics.prediction import Metric
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples, Task
from headtool.models.source import check_wrapped
from headtool.progress import Progress, ProgressLike, silent
from headtool.reports.results import HeadScores
from headtool.results.outcomes import Outcomes
from headtool.results.progress_bar import shown
from headtool.results.scores import score_frame
from headtool.work import Passes, Size

__all__ = [
    "Job",
    "Method",
    "Option",
    "Reader",
    "Scored",
    "option",
]

_R = TypeVar("_R")


@dataclass(frozen=True)
class Job:
    """One task for a method: what to score, and how.

    Attributes
    ----------
    model, examples
        The model and its tokenised data set.
    sites
        The sites whose heads are to be scored.
    metric
        What "better" means where a method measures the model's quality.
    seed
        Seed of everything random.
    progress
        Reports progress; True shows a bar.
    measure
        Runs masks and measures them, as `headtool.engine.measurement.measure` does. A comparison
        hands its own in, which keeps what is finished and runs no mask twice.
    keep
        Computes a part of the work by name, or returns what was kept of an interrupted run.
    execute
        Runs units of work; methods pass it on to the primitives, and to `measure`.
    readings
        What the method's `reads` asked for, with the results; see `read`.
    """

    model: ModelAdapter
    examples: Examples
    sites: Sites
    metric: Metric
    seed: int = 0
    progress: Progress = silent
    measure: Measure = measure
    keep: Keep = unkept
    execute: Executor = in_turn
    readings: Sequence[Reading] = ()

    def read(self, kind: type[_R]) -> _R:
        """Return what the method's `reads` asked for, with its results.

        Parameters
        ----------
        kind
            Its class.
        """
        return next(reading for reading in self.readings if isinstance(reading, kind))

    def columns(self, per_head: NDArray[np.float64]) -> NDArray[np.float64]:
        """Select the job's heads on the last axis of an array, which has all of the model's."""
        wanted = [self.model.sites.position(head) for head in self.sites.heads]
        return per_head[..., wanted]

    def check_heads(self, name: str, heads: int) -> None:
        """Raise `HeadtoolError` unless the job has that many heads to keep.

        Parameters
        ----------
        name
            The option that gave the number, such as ``gates.heads``, for the message.
        heads
            Number of heads to keep, from 1 to the number of heads that are scored.
        """
        if not 1 <= heads <= self.sites.n_heads:
            raise HeadtoolError(f"{name} must be between 1 and {self.sites.n_heads}, got {heads}")

    def mask(self, kept: NDArray[np.bool_]) -> HeadMask:
        """Mask the whole model, closing the job's heads that are not kept (`kept`: [heads])."""
        heads = zip(self.sites.heads, kept, strict=True)
        return HeadMask.without(self.model.sites, [head for head, keep in heads if not keep])


@dataclass(frozen=True)
class Scored:
    """Result of a method's computation, per head of ``job.sites`` in canonical order.

    Attributes
    ----------
    score
        Shape [heads]; higher is more important.
    stderr
        Standard error over examples, shape [heads]; NaN where the method has none.
    columns
        Further columns of the result frame, each [heads].
    tables
        Further tables by name.
    weights
        Weights that the method trained, by parameter name.
    outcomes
        Per-example outcomes of the masks that it ran.
    texts
        Tables of the translations behind the outcomes; runs keep them, terminals do not show them.
    provenance
        What else is needed to reproduce it, beyond what every method records.
    tie_break
        Ranks heads with equal scores, higher is more important, shape [heads]; None leaves that to
        the seed.
    """

    score: NDArray[np.float64]
    stderr: NDArray[np.float64]
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    outcomes: Outcomes | None = None
    texts: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    tie_break: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Method(ABC):
    """Base class of the scoring methods.

    A method is a frozen dataclass whose fields, declared with `option`, are its options. It
    implements `compute`; users call `score`. One that is not for every model names the `tasks` that
    it is for. One with an option for what closed heads put out names it in `replaced_by`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    tasks: ClassVar[tuple[Task, ...]] = ()
    replaced_by: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for declared in self.options():
            declared.check(getattr(self, _field_name(type(self), declared.name)), self.name)
        self.check()
        idle, settings = self.idle(), self.settings()
        for declared in self.options():
            if declared.name in idle and settings[declared.name] != declared.default:
                raise HeadtoolError(
                    f"{self.name}.{declared.name} has no effect {idle[declared.name]}; leave it out"
                )

    def check(self) -> None:  # noqa: B027 - most methods have nothing to add
        """Validate the options beyond their choices; raise `HeadtoolError` for a bad one."""

    def idle(self, metric: Metric | None = None) -> Mapping[str, str]:
        """Name the options that have no effect, given the others or the metric, and say why.

        Setting one is an error, and results do not show it. The reason completes the sentence
        "... has no effect".
        """
        return {}

    @property
    def uses_metric(self) -> bool:
        """Whether the result depends on ``job.metric``."""
        return False

    def scores_only(self) -> typing.Self:
        """The method without options that add tables and leave the scores as they are."""
        return self

    def cost(self, size: Size) -> tuple[Passes, ...] | None:
        """Declare how many passes over the examples scoring takes; None: nobody knows.

        Plans and the time left are computed from it. A method that runs no model declares none.

        Parameters
        ----------
        size
            Examples, heads and sites, and how the metric decodes.
        """
        return None

    def reads(self, job: Job) -> Sequence[Reading]:
        """Ask for what is to be read off whole passes over the examples, before `compute`.

        Such passes are shared with other methods: one forwards for every
        `headtool.engine.observation.Statistic`, one backwards for every
        `headtool.engine.sharing.Derivatives`. `compute` finds the results by `Job.read`. A method
        that asks for nothing runs its own passes; so it can do with any that are not of the whole
        model or not over all of the examples.

        Parameters
        ----------
        job
            The task; only its model, examples, sites and seed may matter.
        """
        return ()

    @abstractmethod
    def compute(self, job: Job) -> Scored:
        """Compute the scores; leave model and examples as they were."""

    def score(
        self,
        model: ModelAdapter,
        examples: Examples,
        *,
        kinds: Iterable[Kind] | None = None,
        metric: str | None = None,
        seed: int = 0,
        progress: ProgressLike = silent,
        measure: Measure = measure,
        keep: Keep = unkept,
        execute: Executor = in_turn,
        reader: Reader | None = None,
    ) -> HeadScores:
        """Score the heads of a model on a data set.

        Parameters
        ----------
        model
            The model; it is left as it was.
        examples
            The data set, as ``model.encode`` returned it.
        kinds
            Attention kinds to score; None for all.
        metric
            Name of the metric; None for the task's own.
        seed
            Seed of everything random.
        progress
            Reports progress; True shows a bar.
        measure
            Runs masks, for methods that do; see `Job`.
        keep
            Keeps finished parts of the work, for methods that have any; see `Job`.
        execute
            Runs units of work, a batch each; see `headtool.engine.units.Executor`.
        reader
            Reads what the method asks for, such as a `headtool.methods.sharing.SharedPasses`; None
            reads it for this method alone.

        Returns
        -------
        HeadScores
            A row per head, with the provenance that reproduces it.

        Raises
        ------
        HeadtoolError
            If the method fails, or returns anything but a score for every head.
        """
        check_wrapped(model)
        if self.tasks and model.task not in self.tasks:
            raise HeadtoolError(
                f"{self.name} is for {' and '.join(self.tasks)} models, and {model.spec} is a "
                f"{model.task} model; leave it out"
            )
        measured_by = metric_of_model(model, metric)
        sites = model.sites.restrict(kinds)
        told = shown(progress)
        job = Job(model, examples, sites, measured_by, seed, told, measure, keep, execute)

        def computed() -> Scored:
            readings = (reader or _alone)(self, job)
            return self.compute(dataclasses.replace(job, readings=readings))

        with torch.inference_mode(False), torch.enable_grad():  # whatever holds around the call
            scored = checked_scores(
                computed,
                Scored,
                sites.n_heads,
                name=self.name,
                module=type(self).__module__,
            )
        frame = score_frame(
            self.name,
            job.sites,
            scored.score,
            scored.stderr,
            tie_break=scored.tie_break,
            seed=seed,
            **scored.columns,
        )
        source = provenance(model, examples, self.name, self.settings(), measured_by.name, seed)
        # So that a report can explain and cite the method where it is not installed.
        cited = {"summary": self.summary, "reference": self.reference}
        idle = {"idle_options": sorted(self.idle(measured_by))}
        return HeadScores(
            self.name,
            frame,
            source | cited | idle | dict(scored.provenance),
            scored.tables,
            scored.weights,
            scored.outcomes,
            scored.texts,
        )

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """The options with their defaults, as a user sees them."""
        hints = typing.get_type_hints(cls)
        return tuple(
            Option(
                f.name.rstrip("_"),
                f.default,
                f.metadata["help"],
                f.metadata["choices"],
                _type_name(hints[f.name]),
            )
            for f in _fields(cls)
        )

    def settings(self) -> dict[str, Any]:
        """The options in force by name."""
        return {f.name.rstrip("_"): getattr(self, f.name) for f in _fields(type(self))}

    @classmethod
    def configured(cls, texts: Mapping[str, str]) -> typing.Self:
        """Build the method from option values as text, as ``--set`` gives them."""
        values = cls.described().read(texts)
        return cls(**{_field_name(cls, name): value for name, value in values.items()})

    @classmethod
    def described(cls) -> Description:
        """The method as a user sees it."""
        return Description(cls.name, cls.summary, cls.reference, cls.options())


Reader = Callable[[Method, Job], Sequence[Reading]]
"""Takes a method and its job; returns what its `reads` asks for, with the results."""


def _alone(method: Method, job: Job) -> Sequence[Reading]:
    """Read what one method asks for."""
    return read_together(
        *(job.model, job.examples, method.reads(job)), execute=job.execute, progress=job.progress
    )


def _fields(cls: type[Method]) -> list[dataclasses.Field[Any]]:
    """The fields of a method, its own before those of its bases."""
    inherited = {name for base in cls.__mro__[1:] for name in getattr(base, "__annotations__", ())}
    return sorted(dataclasses.fields(cls), key=lambda f: f.name in inherited)


def _field_name(cls: type[Method], name: str) -> str:
    """A field whose name is a Python keyword carries an underscore that users never see."""
    return next(f.name for f in dataclasses.fields(cls) if f.name.rstrip("_") == name)


def _type_name(hint: Any) -> str:
    """An annotation as `Option.type` has it."""
    if isinstance(hint, type):
        return hint.__name__
    parts = [part for part in typing.get_args(hint) if isinstance(part, type)]
    none = " | None" if type(None) in parts else ""
    return next((part.__name__ for part in parts if part is not type(None)), "str") + none
