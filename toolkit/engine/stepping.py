"""Smaller batches where the memory is not enough for a unit: the unit stays what it is.

A unit whose examples do not fit together is run in parts, whose results are joined to its own. So
units, what is kept of them and their order do not depend on the memory of whoever runs them.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from headtool.engine.units import Unit, UnitResult
from headtool.errors import HeadtoolError
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.memory import is_out_of_memory

__all__ = ["Join", "Stepping", "added", "batches_of", "joined", "room", "with_fewer"]

_LOG = logging.getLogger("headtool")
_Result = TypeVar("_Result")

Join = Callable[[Sequence[UnitResult]], UnitResult]
"""Makes a unit's result of those of its parts, which hold its examples one after the other."""


def joined(axis: int) -> Join:
    """Join arrays along the axis of their examples.

    Parameters
    ----------
    axis
        The axis.
    """
    return _Along(axis)


def added(results: Sequence[UnitResult]) -> UnitResult:
    """Join sums over examples.

    Parameters
    ----------
    results
        Of the parts.
    """
    return {name: np.sum([part[name] for part in results], axis=0) for name in results[0]}


def batches_of(model: ModelAdapter, examples: Examples) -> list[NDArray[np.int64]]:
    """Cut a data set into batches, as is quickest where the model is.

    On a CPU many small batches with little padding cost least. A GPU is kept busy by large ones.

    Parameters
    ----------
    model, examples
        What is run.

    Returns
    -------
    list of numpy.ndarray
        As of `Examples.batches`.
    """
    return examples.batches(tight=model.device.type == "cpu")


def room(model: ModelAdapter, examples: Examples, label: str) -> int:
    """Return how many tokens a pass may have: the size of batches, or less if that did not fit.

    Parameters
    ----------
    model, examples
        What is run.
    label
        What is being done; each sort of work has its own limit.
    """
    return min(examples.batch_tokens, model.most_tokens.get(label, examples.batch_tokens))


def with_fewer(index: NDArray[np.int64], run: Callable[[NDArray[np.int64]], _Result]) -> _Result:
    """Run something on a few examples that any number will do for, or on fewer if they do not fit.

    Parameters
    ----------
    index
        The examples.
    run
        Runs some of them.
    """
    while True:
        try:
            return run(index)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or len(index) == 1:
                raise
        index = index[: len(index) // 2]


@dataclass(frozen=True)
class _Along:
    axis: int

    def __call__(self, results: Sequence[UnitResult]) -> UnitResult:
        names = results[0]
        return {n: np.concatenate([part[n] for part in results], axis=self.axis) for n in names}


@dataclass(frozen=True)
class Stepping:
    """Runs units, in parts where the memory is not enough; what it learns, the model keeps.

    Attributes
    ----------
    work
        Runs a unit.
    join
        Joins the results of its parts.
    model, examples
        What is run.
    label
        What is being done.
    repeats
        Whether the work repeats examples up to `room` in a pass, as masks do that share one.
    """

    work: Callable[[Unit], UnitResult]
    join: Join
    model: ModelAdapter
    examples: Examples
    label: str
    repeats: bool = False

    def __call__(self, unit: Unit) -> UnitResult:
        """Run a unit.

        Raises
        ------
        HeadtoolError
            If not even one example fits.
        """
        tokens = self._tokens(unit)
        while len(unit.examples) == 1 or tokens <= self._limit(tokens):
            result = self._tried(unit)
            if result is not None:
                return result
            self._step_down(tokens, alone=len(unit.examples) == 1)
        half = len(unit.examples) // 2
        parts = unit.examples[:half], unit.examples[half:]
        return self.join([self(Unit(unit.number, part, unit.masks)) for part in parts])

    def _tokens(self, unit: Unit) -> int:
        return len(unit.examples) * int(self.examples.lengths[unit.examples].max())

    def _limit(self, tokens: int) -> int:
        """Most tokens of a pass; an example longer than a batch is tried all the same."""
        return max(self.model.most_tokens.get(self.label, tokens), 1)

    def _tried(self, unit: Unit) -> UnitResult | None:
        """The result; None where the memory is not enough."""
        try:
            return self.work(unit)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        # Only here is nothing left of what the pass had computed.
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None

    def _step_down(self, tokens: int, *, alone: bool) -> None:
        """Allow half the tokens; say so the first time."""
        known = self.model.most_tokens
        widest = room(self.model, self.examples, self.label) if self.repeats else 0
        tried = max(tokens, widest)
        if alone and tried <= tokens:
            raise HeadtoolError(
                f"not even one example of {tokens} tokens of {self.examples.data.spec} fits into "
                f"the memory beside {self.model.spec}; use shorter examples, `dtype=bfloat16`, or "
                "a machine with more memory"
            )
        if not known:
            _LOG.warning(
                "batches of %s tokens do not fit into the memory; smaller ones are used",
                f"{tried:,}",
            )
        known[self.label] = max(1, tried // 2)
