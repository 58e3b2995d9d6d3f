"""Score heads while a Trainer of transformers is at work: `headtool.Callback`."""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import TrainerCallback

from headtool.analysis.dynamics import prunability, rank_stability
from headtool.data.drawing import LimitOrder
from headtool.errors import HeadtoolError
from headtool.experiments.course import Course
from headtool.experiments.dynamics import Dynamics
from headtool.experiments.inputs import DataLike, ModelSource, read_data
from headtool.experiments.splitting import Split, split_data
from headtool.experiments.stages import Stages
from headtool.heads import Kind
from headtool.methods import get_method
from headtool.methods.base import Method
from headtool.models.base import ModelAdapter
from headtool.models.huggingface.wrapping import wrap
from headtool.progress import Progress, silent
from headtool.results.folders import check_output
from headtool.results.runs import write_run
from headtool.searching import Search

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Callback"]

_LOG = logging.getLogger("headtool")


class Callback(TrainerCallback):
    """Scores the heads of a model at each evaluation of a Trainer, and writes a run of dynamics.

    At each evaluation, heads are scored on one half of the data and removed in ascending order; the
    other half shows what is left. The run holds what `headtool.dynamics` finds of saved
    checkpoints, without any being saved: `headtool show` and `headtool report` read it. It is
    written anew at each evaluation. Training goes on as without it: weights, gradients, optimiser,
    random numbers, modes and hooks stay as they are.

    Parameters
    ----------
    data
        A data set in memory, or its SPEC, as for `headtool.dynamics`. With a limit, scoring takes
        less time.
    method
        The scoring method, or its name for its default options.
    out
        Run directory to write.
    select_data, kinds, metric, search, steps, keep_one_per_layer
        As for `headtool.dynamics`.
    limit, limit_order, batch_tokens, seed, force, progress
        The same.
    tokenizer
        The tokenizer; None for that of the Trainer (its ``processing_class``). Data with the
        columns ``input_ids`` and ``labels`` needs none; see `headtool.wrap`.

    Attributes
    ----------
    result
        What was found so far, as `headtool.dynamics` returns it; None before the first evaluation.

    Raises
    ------
    HeadtoolError
        When training begins, if something does not fit.

    Examples
    --------
    A Trainer takes it as one of its ``callbacks``::

        trainer = Trainer(..., callbacks=[headtool.Callback("dev.tsv", out="runs/heads")])
        trainer.train()
        headtool.write_report("runs/heads")
    """

    def __init__(
        self,
        data: DataLike,
        *,
        method: Method | str = "gradient",
        out: Path | str,
        select_data: DataLike | None = None,
        kinds: Iterable[Kind] | None = None,
        metric: str | None = None,
        search: Search | None = None,
        steps: str = "20%",
        keep_one_per_layer: bool = False,
        limit: int | None = None,
        limit_order: LimitOrder = "seeded",
        batch_tokens: int | None = 4096,
        seed: int = 0,
        force: bool = False,
        tokenizer: Any = None,
        progress: Progress = silent,
    ) -> None:
        self.result: Dynamics | None = None
        self._data, self._select_data = data, select_data
        self._method = get_method(method)() if isinstance(method, str) else method
        self._tokenizer, self._progress = tokenizer, progress
        self._folder, self._force = Path(out), force
        self._options: dict[str, Any] = {
            "kinds": None if kinds is None else tuple(kinds),
            "metric": metric,
            "search": search or Search(),
            "steps": steps,
            "keep_one_per_layer": keep_one_per_layer,
            "limit": limit,
            "limit_order": limit_order,
            "batch_tokens": batch_tokens,
            "seed": seed,
        }
        self._job: Course | None = None
        self._split: Split | None = None
        self._scores: dict[str, pd.DataFrame] = {}
        self._curves: dict[str, pd.DataFrame] = {}
        self._sources: dict[str, dict[str, Any]] = {}

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **known: Any
    ) -> None:
        """Refuse what does not fit before anything is trained; see `TrainerCallback`."""
        if not state.is_world_process_zero:
            return
        if getattr(args, "fsdp", None) or getattr(args, "deepspeed", None):
            raise HeadtoolError(
                "headtool.Callback takes a model that is whole on its device, not one that FSDP or "
                "DeepSpeed divides; save checkpoints, and give these to headtool.dynamics"
            )
        check_output(self._folder, force=self._force or self.result is not None)
        with _as_it_was():
            wrapped = self._wrapped(model, known)
            seed, limit = self._options["seed"], self._options["limit"]
            how = {"limit": limit, "limit_order": self._options["limit_order"], "seed": seed}
            chooser = self._select_data
            self._job = Course(
                method=self._method,
                data=read_data(self._data, wrapped, **how),
                select_data=None if chooser is None else read_data(chooser, wrapped, **how),
                loading=ModelSource(),
                **self._options,
            )
            self._split = split_data(
                wrapped,
                [self._job.data],
                self._job.select_data,
                batch_tokens=self._job.batch_tokens,
                seed=seed,
            )
        for note in self._split.notes:
            _LOG.warning("%s", note)

    def on_evaluate(
        self, args: Any, state: Any, control: Any, model: Any = None, **known: Any
    ) -> None:
        """Score the model as it is now, once a step; see `TrainerCallback`."""
        name = f"checkpoint-{state.global_step}"
        if not state.is_world_process_zero or self._job is None or name in self._scores:
            return
        assert self._split is not None
        with _as_it_was():
            kept = Stages(None, progress=self._progress)
            found = self._job.one(name, self._wrapped(model, known), self._split, kept)
        score, self._curves[name], self._sources[name] = found
        self._scores[name] = score.assign(checkpoint=name)
        self._write()

    def _wrapped(self, model: Any, known: Mapping[str, Any]) -> ModelAdapter:
        """The model with weights that it shares, and nothing else."""
        whole = getattr(model, "_orig_mod", model)  # what was compiled
        return wrap(whole, self._tokenizer or known.get("processing_class"))

    def _write(self) -> None:
        """Write the run as it is so far; the first time, nothing of others is replaced."""
        import pandas as pd

        assert self._job is not None
        curves = pd.concat(self._curves.values(), ignore_index=True)
        scores = pd.concat(self._scores.values(), ignore_index=True)
        source: dict[str, Any] = {
            "command": "dynamics",
            "checkpoints": [{"spec": name} for name in self._scores],
            "options": self._job.described(),
        }
        result = Dynamics(
            scores,
            curves,
            prunability(curves),
            rank_stability(scores),
            self._method.name,
            str(curves["metric"].iloc[0]),
            {**source, "by_checkpoint": dict(self._sources)},
            self._folder,
        )
        write_run(
            self._folder,
            command="",
            provenance={"dynamics": source, **self._sources},
            tables={name: table for name, table in result.tables.items() if len(table)},
            force=self._force or self.result is not None,
        )
        self.result = result


@contextlib.contextmanager
def _as_it_was() -> Iterator[None]:
    """Put the state of all random numbers back afterwards, which training draws from."""
    plain, numbers = random.getstate(), np.random.get_state()
    devices = range(torch.cuda.device_count())
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(numbers)
