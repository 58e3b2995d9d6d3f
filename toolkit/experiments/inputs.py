"""What experiments take: a model and data, or outcomes of masks, loaded or by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from headtool.builtin.planted import planted_seed
from headtool.data import TextData, load_data
from headtool.data.drawing import Drawn, LimitOrder, check_limit, drawn_rows
from headtool.data.memory import is_held
from headtool.errors import HeadtoolError
from headtool.experiments.classes import class_notes
from headtool.models.source import ModelSource, no_model
from headtool.results.runs import read_run

if TYPE_CHECKING:
    import pandas as pd

    from headtool.data.memory import HeldData
    from headtool.metrics.base import Metric
    from headtool.models.base import ModelAdapter
    from headtool.models.examples import Examples
    from headtool.results.outcomes import Outcomes

__all__ = [
    "DataLike",
    "DataSource",
    "HasOutcomes",
    "ModelSource",
    "encode",
    "fitted",
    "held",
    "held_list",
    "name_of",
    "open_model",
    "open_outcomes",
    "read_data",
    "tokenise",
]

_LOG = logging.getLogger("headtool")

_BATCH_TOKENS = 4096
_BUILTIN_DATA = {"builtin:nli": "builtin:nli/matched", "builtin:mt": "builtin:mt/test"}


@dataclass(frozen=True)
class DataSource:
    """A data set by its SPEC, and how to read it.

    Attributes
    ----------
    spec
        The SPEC, or a table in memory; None for the built-in set of a built-in model.
    columns
        Which column of the table is which, such as ``{"text": "sentence"}``.
    """

    spec: str | HeldData | None = None
    columns: Mapping[str, str] | None = None


DataLike: TypeAlias = "TextData | DataSource | HeldData | str"
"""A data set, or a SPEC or a table in memory with or without how to read it."""


def held(data: DataLike | None) -> TextData | DataSource | str | None:
    """Read a table in memory; what has a SPEC is left as it is.

    Parameters
    ----------
    data
        What a user gave; None where nothing was given.

    Raises
    ------
    HeadtoolError
        If it is no data set.
    """
    if isinstance(data, DataSource):
        spec, columns = data.spec, data.columns
        return data if isinstance(spec, str | None) else load_data(spec, columns=columns)
    return data if isinstance(data, TextData | str | None) else load_data(data)


def held_list(data: DataLike | Sequence[DataLike] | None) -> list[DataLike | None]:
    """Tell one data set from several: a list of dictionaries is one.

    Parameters
    ----------
    data
        What a user gave.
    """
    if data is None or isinstance(data, TextData | DataSource | str) or is_held(data):
        return [cast("DataLike | None", data)]
    return [*cast("Sequence[DataLike]", data)]


def open_model(model: ModelAdapter | ModelSource | str) -> ModelAdapter:
    """Load a model, unless it is loaded already.

    Raises
    ------
    HeadtoolError
        As `headtool.load_model` does, or if it is a model of another kind.
    """
    from headtool.models import load_source
    from headtool.models.base import ModelAdapter

    if isinstance(model, ModelAdapter):
        return model
    return load_source(model if isinstance(model, ModelSource) else ModelSource(model))


def read_data(
    data: DataLike | None,
    model: ModelAdapter | ModelSource | str,
    *,
    limit: int | None = None,
    limit_order: LimitOrder = "seeded",
    seed: int = 0,
) -> TextData:
    """Read a data set, or so many of its examples.

    Parameters
    ----------
    data
        The data set; None for the built-in one of a built-in model.
    model
        The model it is for, which need not be loaded.
    limit
        Most examples; None for all. A running text becomes examples only in `encode`.
    limit_order
        ``seeded`` draws the examples, ``first`` takes the first; see `TextData.draw`.
    seed
        Seed of the draw.

    Raises
    ------
    HeadtoolError
        If it cannot be read, or none is named and the model has no built-in one.
    """
    data = held(data)
    if isinstance(data, TextData):
        check_limit(limit, limit_order)
        return data if limit is None else data.draw(limit, order=limit_order, seed=seed)
    source = data if isinstance(data, DataSource) else DataSource(data)
    spec = source.spec
    assert isinstance(spec, str | None)  # no table is left
    if spec is None:
        name = model if isinstance(model, str) else getattr(model, "spec", None)
        if name is None:
            raise no_model(model)
        known = _builtin_data(name)
        if known is None:
            if not hasattr(model, "sites"):  # whether the model exists comes before its data
                from headtool.models import check_model

                check_model(name)
            raise HeadtoolError(
                f"`data` is missing: the built-in sets are for the built-in models, not for {name}"
            )
        spec = known
    return load_data(spec, columns=source.columns, limit=limit, limit_order=limit_order, seed=seed)


def _builtin_data(model: str) -> str | None:
    """Name the built-in set of a built-in model."""
    if planted_seed(model) is not None:
        return "builtin:planted"
    return _BUILTIN_DATA.get(model)


def encode(
    model: ModelAdapter,
    data: TextData,
    *,
    batch_tokens: int | None = 4096,
    seed: int = 0,
) -> Examples:
    """Tokenise a data set, and warn of what makes its results misleading.

    Parameters
    ----------
    model, data, batch_tokens, seed
        As for `tokenise`, which warns of examples that were cut; this also warns of one class
        alone, and of classes that a limit leaves out.
    """
    examples = tokenise(model, data, batch_tokens=batch_tokens, seed=seed)
    for note in class_notes([examples]):
        _LOG.warning("%s", note)
    return examples


def tokenise(
    model: ModelAdapter,
    data: TextData,
    *,
    batch_tokens: int | None = 4096,
    seed: int = 0,
) -> Examples:
    """Tokenise a data set, and warn of examples that were cut to the model's length.

    Blocks of a running text are drawn here, spread over it; see `TextData.draw`.

    Parameters
    ----------
    model
        The model.
    data
        The data set, as `read_data` returned it.
    batch_tokens
        Tokens in a batch, padding included; None: as many as fit into the memory.
    seed
        Seed of whatever encoding draws, such as the masked tokens of a masked language model.
    """
    examples = model.encode(data, batch_tokens=batch_tokens or _BATCH_TOKENS, seed=seed)
    if batch_tokens is None:
        examples = fitted(model, examples)
    if data.kind == "text" and data.drawn is not None:
        examples = _drawn_blocks(examples, data.drawn)
    if examples.truncated:
        _LOG.warning(
            "%s: %d of %d examples were cut to the model's length",
            data.spec,
            examples.truncated,
            len(examples),
        )
    return examples


def fitted(model: ModelAdapter, examples: Examples) -> Examples:
    """Let batches have as many tokens as fit into the memory.

    Parameters
    ----------
    model, examples
        What will be run.
    """
    from headtool.engine.fitting import fitting_tokens

    found = replace(examples, batch_tokens=fitting_tokens(model, examples))
    _LOG.info("batches of %d tokens fit into the memory", found.batch_tokens)
    return found


def _drawn_blocks(examples: Examples, drawn: Drawn) -> Examples:
    """As many blocks of a running text as a limit asks for."""
    count = len(examples)
    made: Drawn | None = replace(drawn, of=count)
    if drawn.limit < count:
        blocks = drawn_rows(count, drawn.limit, order=drawn.order, seed=drawn.seed)
        examples = examples.take(blocks)
    elif drawn.of <= drawn.limit:  # nor were documents left out
        made = None
    return replace(examples, data=replace(examples.data, drawn=made))


class HasOutcomes(Protocol):
    """What holds outcomes of every example: a saved run, or an `Ablation`."""

    @property
    def folder(self) -> Path | None:
        """The run directory, if there is one."""
        ...

    @property
    def source(self) -> dict[str, Any]:
        """Provenance of the outcomes."""
        ...

    @property
    def screening(self) -> pd.DataFrame | None:
        """Which heads were screened out; None if all were ablated."""
        ...

    def outcomes(self, metric: Metric | None = None, *, replacement: str | None = None) -> Outcomes:
        """Return the outcomes of every example.

        Parameters
        ----------
        metric
            What they must hold the statistics of.
        replacement
            What closed heads put out; None for the first replacement.
        """
        ...

    def signature(self, metric: Metric) -> str | None:
        """Return sacreBLEU's signature of them; None for metrics that have none."""
        ...


def open_outcomes(run: HasOutcomes | Path | str) -> HasOutcomes:
    """Open a run directory, unless it is open already.

    Raises
    ------
    HeadtoolError
        If it is damaged, or no run.
    """
    return read_run(run) if isinstance(run, Path | str) else run


def name_of(run: HasOutcomes) -> str:
    """Name outcomes in a message: by their folder, or by their data."""
    return str(run.folder or f"the ablation on {run.source['data']['spec']}")
