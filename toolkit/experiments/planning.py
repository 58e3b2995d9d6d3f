"""What a command will cost, before it begins: what ``--dry-run`` and `headtool.plan` say."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headtool.engine.counting import phase_of, size_of
from headtool.engine.measurement import Measures
from headtool.engine.metering import Meter
from headtool.engine.rounding import rounding_work
from headtool.engine.stepping import batches_of
from headtool.experiments.model_cost import ModelCost, model_cost
from headtool.heads import Sites
from headtool.methods.base import Method
from headtool.metrics.base import Metric
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import ProgressLike
from headtool.results.progress_bar import shown
from headtool.results.scores import json_rows
from headtool.schema import TABLES
from headtool.work import Passes, Phase

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Plan", "Planned", "Sketch", "begin"]

_QUICK = 0.5  # seconds; where one example takes longer than this, no whole batch is timed


@dataclass(frozen=True, eq=False)
class Plan:
    """What a command will cost.

    Attributes
    ----------
    command
        Its name.
    model
        What a forward pass takes.
    phases
        Its parts in their order. A phase may end early; then it has a least and a most.
    batch_tokens
        Tokens in a batch.
    unknown
        What nobody declared the cost of, such as methods of other packages.
    speed
        Token-passes a second as timed on one batch here; NaN if nothing was timed.
    workers
        Over how many workers the units are spread.
    """

    command: str
    model: ModelCost
    phases: tuple[Phase, ...]
    batch_tokens: int
    unknown: tuple[str, ...] = ()
    speed: float = math.nan
    workers: int = 1

    @property
    def frame(self) -> pd.DataFrame:
        """A row per phase: the table ``plan`` of `headtool.schema`."""
        return TABLES["plan"].frame(self._row(phase) for phase in self.phases)

    @property
    def total(self) -> dict[str, float]:
        """Sums over the phases: passes, token-passes, operations, memory and time."""
        rows = [self._row(phase) for phase in self.phases]
        names = (
            *("forward", "backward", "decoded", "steps", "units"),
            *("forward_flops", "backward_flops", "token_passes_least", "token_passes_most"),
            *("seconds_least", "seconds_most"),
        )
        found: dict[str, float] = {name: sum(row[name] for row in rows) for name in names}
        if not rows:
            found |= {"seconds_least": 0.0, "seconds_most": 0.0}
        return {**found, "memory": self.memory, "parameters": self.model.parameters}

    @property
    def memory(self) -> float:
        """Peak memory in bytes, estimated: of one worker, and of the phase that takes most."""
        found = [float(self.model.bytes)]
        for phase in self.phases:
            backward = phase.passes.backward > 0
            batch = max(self.batch_tokens, phase.length)
            found.append(self.model.memory(int(batch), phase.length, backward=backward))
        return max(found)

    def document(self) -> dict[str, Any]:
        """Return the plan as JSON can hold it, in the format ``headtool/plan/1``."""
        return {
            "schema": "headtool/plan/1",
            "command": self.command,
            "model": {"spec": self.model.spec, "device": self.model.device},
            "workers": self.workers,
            "total": {
                name: None if math.isnan(value) else value for name, value in self.total.items()
            },
            "unknown": list(self.unknown),
            "plan": json_rows(self.frame),
        }

    def _row(self, phase: Phase) -> dict[str, Any]:
        passes, flops = phase.passes, self.model.flops(phase.length)
        decoded = passes.decoded * (1 + passes.beam)
        backward = passes.backward * (2 if passes.weights else 1)
        units = max(1, phase.units)
        # Whoever has one unit more than others is waited for.
        uneven = math.ceil(units / self.workers) / units if phase.units else 1.0
        return {
            "phase": phase.name,
            "what": passes.what,
            "examples": phase.examples,
            "tokens": phase.tokens,
            "forward": passes.forward,
            "backward": passes.backward,
            "decoded": passes.decoded,
            "steps": passes.steps,
            "units": phase.units,
            "token_passes_least": phase.least,
            "token_passes_most": phase.most,
            "forward_flops": flops * phase.tokens * (passes.forward * passes.share + decoded),
            "backward_flops": flops * phase.tokens * backward,
            "seconds_least": phase.least / self.speed * uneven,
            "seconds_most": phase.most / self.speed * uneven,
        }

    def timed(self, model: ModelAdapter, examples: Examples) -> Plan:
        """Time the model on one batch; the same plan with the speed.

        Parameters
        ----------
        model, examples
            The model and some of its data.
        """
        return replace(self, speed=_speed(model, examples))


class Sketch:
    """Puts a plan together, part by part in their order.

    Parameters
    ----------
    command
        Name of the command.
    model
        The model that it runs.
    """

    def __init__(self, command: str, model: ModelAdapter) -> None:
        self.command, self.model = command, model
        self._phases: list[Phase] = []
        self._unknown: list[str] = []
        self._batch_tokens = 1

    def add(self, name: str, passes: Passes, examples: Examples, *, masks: int = 0) -> None:
        """Add passes.

        Parameters
        ----------
        name
            Name of the phase.
        passes, examples, masks
            As for `headtool.engine.counting.phase_of`.
        """
        self._batch_tokens = max(self._batch_tokens, examples.batch_tokens)
        self._phases.append(phase_of(name, passes, self.model, examples, masks=masks))

    def masks(
        self,
        name: str,
        masks: float,
        examples: Examples,
        measures: Measures,
        *,
        share: float = 1.0,
        least: float = 1.0,
        what: str = "",
    ) -> None:
        """Add runs of the whole model and of masks, decoded where the metric needs that.

        Parameters
        ----------
        name, examples
            As for `add`.
        masks
            How many masks.
        measures
            What they are measured by.
        share, least, what
            As in `headtool.work.Passes`; the share is that of a masked pass.
        """
        number = math.ceil(masks)
        if measures.search is not None:
            beam = measures.search.beam or 1
            passes = Passes(decoded=1 + masks, beam=beam, least=least, what=what)
        else:
            passes = Passes(
                forward=1 + masks,
                share=(1 + masks * share) / (1 + masks),
                least=least,
                what=what,
            )
        self.add(name, passes, examples, masks=number)

    def rounding(self, examples: Examples, metrics: Sequence[Metric]) -> None:
        """Add what rounding does to effects, where that is measured.

        Parameters
        ----------
        examples, metrics
            As for `headtool.engine.rounding.measure_rounding`.
        """
        work = rounding_work(self.model, examples, metrics)
        if work is not None:
            some, passes = work
            self.add("rounding", passes, some, masks=1)

    def method(
        self,
        name: str,
        method: Method,
        examples: Examples,
        sites: Sites,
        measures: Measures,
        *,
        times: float = 1.0,
    ) -> None:
        """Add what a method declares; see `headtool.methods.base.Method.cost`.

        Parameters
        ----------
        name, examples
            As for `add`.
        method
            The method.
        sites, measures
            Whose heads are scored, and what the model is measured by.
        times
            How often.
        """
        self.methods([(name, method)], examples, sites, measures, times=times)

    def methods(
        self,
        methods: Sequence[tuple[str, Method]],
        examples: Examples,
        sites: Sites,
        measures: Measures,
        *,
        times: float = 1.0,
    ) -> None:
        """Add what methods declare that share passes: such a pass counts for the first of them.

        Parameters
        ----------
        methods
            The methods, each after the name of its phase.
        examples, sites, measures, times
            As for `method`.
        """
        size = size_of(self.model, examples, sites, measures.metric, measures.search)
        declared = [method.cost(size) for _, method in methods]
        planned: set[Passes] = set()
        for (name, _), own in zip(methods, declared, strict=True):
            if own is None:
                self._unknown.append(name)
            for passes in own or ():
                if passes in planned:
                    continue
                masks = round(max(passes.forward, passes.decoded)) if not passes.backward else 0
                made = passes.times(times)
                if passes.shared:
                    planned.add(passes)
                    readers = [
                        method.name
                        for (_, method), theirs in zip(methods, declared, strict=True)
                        if passes in (theirs or ())
                    ]
                    what = f"for {', '.join(readers)}" if len(readers) > 1 else passes.what
                    made = replace(made, what=what)
                self.add(name, made, examples, masks=masks)

    def plan(self) -> Plan:
        """Return the plan."""
        return Plan(
            self.command,
            model_cost(self.model),
            tuple(self._phases),
            self._batch_tokens,
            tuple(self._unknown),
        )


class Planned(Exception):  # noqa: N818 - no error
    """Carries a plan out of a command that was only to make one; see `headtool.plan`."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.command)
        self.plan = plan


def begin(
    progress: ProgressLike, plan: Plan, model: ModelAdapter, data: Examples | None = None
) -> Meter:
    """Tell the plan to whoever shows progress, and count the work against it from here on.

    Parameters
    ----------
    progress
        What was given to the command. If it has a method `planned`, it gets the plan, and may end
        the command there by raising `Planned`.
    plan
        The plan.
    model, data
        What the speed is timed on, if that is asked for; without data it is not.

    Returns
    -------
    Meter
        Progress for everything that the command does.
    """
    progress = shown(progress)
    told: Callable[..., None] | None = getattr(progress, "planned", None)
    if told is not None:
        told(plan, lambda: plan if data is None else plan.timed(model, data))
    return Meter(plan.phases, progress)


def _speed(model: ModelAdapter, examples: Examples) -> float:
    """Token-passes a second: on the shortest example, and on a middle batch where that is quick."""
    import torch

    order = np.argsort(examples.lengths, kind="stable")
    batches = batches_of(model, examples)
    with torch.inference_mode():
        speed = _once(model, examples, order[:1])
        middle = batches[len(batches) // 2]
        if float(examples.lengths[middle].sum()) / speed < 60 * _QUICK:
            _once(model, examples, middle[:1])
            speed = max(_once(model, examples, middle) for _ in range(2))
    return speed


def _once(model: ModelAdapter, examples: Examples, index: Any) -> float:
    started = time.perf_counter()
    float(model.forward(model.collate(examples, index)).losses.sum())  # waits for a GPU, too
    return float(examples.lengths[index].sum()) / (time.perf_counter() - started)
