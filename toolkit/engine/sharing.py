"""Passes over a data set that serve several at once: each is made once for all who read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headtool.engine.differentiation import Gradients, Layers, differentiate
from headtool.engine.observation import Statistic, observe
from headtool.engine.units import Executor, in_turn
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import Progress, silent

__all__ = ["ATTENTION", "GRADIENTS", "Derivatives", "Reading", "pass_of", "read_together"]

ATTENTION, GRADIENTS = "attention", "gradients"
"""The two passes: forwards, as `observe` makes it, and backwards, as `differentiate` does."""


@dataclass
class Derivatives:
    """Reads what `differentiate` finds at the whole model.

    Attributes
    ----------
    layers
        Linear layers whose outputs are looked at, too.
    gradients
        The result, once the pass is made; it may hold layers that others asked for.
    """

    layers: Layers = field(default_factory=dict)
    gradients: Gradients = field(init=False, repr=False, compare=False)


Reading = Statistic | Derivatives
"""What is read off a pass: a statistic of attention and heads' outputs, or derivatives."""


def pass_of(reading: Reading) -> str:
    """Return which pass something is read off, `ATTENTION` or `GRADIENTS`.

    Parameters
    ----------
    reading
        What is to be read.
    """
    return GRADIENTS if isinstance(reading, Derivatives) else ATTENTION


def read_together(
    model: ModelAdapter,
    examples: Examples,
    readings: Sequence[Reading],
    *,
    execute: Executor = in_turn,
    progress: Progress = silent,
) -> list[Reading]:
    """Make the passes that readings need, each once.

    The numbers are those of passes of their own, to the bit.

    Parameters
    ----------
    model, examples
        The model and its data set.
    readings
        What is to be read.
    execute
        Who runs the units, a batch each.
    progress
        Reports progress.

    Returns
    -------
    list
        The same, with their results; of equal statistics, the first stands for all.
    """
    statistics: list[Statistic] = []
    for reading in readings:
        if not isinstance(reading, Derivatives) and reading not in statistics:
            statistics.append(reading)
    derivatives = [reading for reading in readings if isinstance(reading, Derivatives)]
    if statistics:
        observe(model, examples, statistics, execute=execute, progress=progress)
    if derivatives:
        layers = {name: heads for one in derivatives for name, heads in one.layers.items()}
        found = differentiate(model, examples, layers=layers, execute=execute, progress=progress)
        for one in derivatives:
            one.gradients = found
    return [
        one if isinstance(one, Derivatives) else statistics[statistics.index(one)]
        for one in readings
    ]
