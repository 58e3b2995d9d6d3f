"""What `headtool.compare` and the commands ``compare`` and ``curve`` do with a model.

Methods, analysis and the model meet here, which only this room may know all of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.analysis.comparison import TABLES, Comparison
from headtool.analysis.role_runs import SavedRoles, read_roles
from headtool.data import TextData, load_data
from headtool.experiments.pipeline import Pipeline
from headtool.experiments.request import Request
from headtool.experiments.stages import stages
from headtool.heads import Kind
from headtool.methods import get_method
from headtool.methods.base import Method
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.progress import Progress, silent
from headtool.results.folders import check_output
from headtool.results.runs import write_run
from headtool.searching import Search

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DEFAULT_METHODS", "compare", "run_comparison"]

DEFAULT_METHODS = ("gradient", "ablation", "gates", "confidence")


def compare(
    model: ModelAdapter | str,
    data: TextData | str | Sequence[TextData | str],
    *,
    methods: Sequence[Method | str] = DEFAULT_METHODS,
    select_data: TextData | str | None = None,
    replicates: Sequence[ModelAdapter | str] = (),
    kinds: Iterable[Kind] | None = None,
    metric: str | None = None,
    search: Search | None = None,
    steps: str = "10%",
    iterative: bool = False,
    keep_one_per_layer: bool = False,
    per_kind: bool = False,
    draws: int = 20,
    alpha: float = 0.05,
    margin: float | None = None,
    resamples: int | None = None,
    stability: int = 0,
    limit: int | None = None,
    batch_tokens: int = 4096,
    seed: int = 0,
    roles: Path | str | None = None,
    out: Path | str | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Comparison:
    """Compare scoring methods on one model: what ``headtool compare`` does.

    Heads are scored on one half of the first data set, drawn at random, or on `select_data`.
    Everything else is measured on the other half, and on all of the further data sets.

    Parameters
    ----------
    model
        A model, or its SPEC.
    data
        One or more data sets, or their SPECs. The first is the one of the curves.
    methods
        Scoring methods, or their names for their default options.
    select_data
        Scores heads on this data set, so that the first of `data` is not halved.
    replicates
        The same architecture trained with other seeds, or their SPECs: does what is found hold for
        them?
    kinds, metric, search, steps, iterative, keep_one_per_layer, per_kind, draws
        As for `Request`.
    alpha, margin, resamples, stability, limit, batch_tokens, seed
        As for `Request`.
    roles
        Run directory of ``headtool roles`` on the same model: which roles does each method leave?
    out
        Run directory to write. While it is unfinished, what was done lies beside it and is
        continued by the same call.
    force
        Replace a run that is there.
    progress
        Reports progress.

    Returns
    -------
    Comparison
        Its tables; methods that failed are in `Comparison.failures`.

    Raises
    ------
    HeadtoolError
        If something does not fit, or all methods fail.

    Examples
    --------
    >>> import headtool
    >>> found = headtool.compare(
    ...     "builtin:nli",
    ...     "builtin:nli/matched",
    ...     methods=["gradient", "magnitude"],
    ...     steps="50%",
    ...     draws=2,
    ...     resamples=100,
    ...     limit=16,
    ... )
    >>> found.kept.groupby(["method", "budget"])["kept"].sum()
    method     budget
    gradient   0         32
               16        16
               32         0
    magnitude  0         32
               16        16
               32         0
    Name: kept, dtype: int64
    >>> found.failures.empty
    True
    """
    request = Request(
        methods=tuple(get_method(m)() if isinstance(m, str) else m for m in methods),
        kinds=None if kinds is None else tuple(kinds),
        metric=metric,
        search=search or Search(),
        steps=steps,
        iterative=iterative,
        keep_one_per_layer=keep_one_per_layer,
        per_kind=per_kind,
        draws=draws,
        alpha=alpha,
        margin=margin,
        resamples=resamples,
        stability=stability,
        limit=limit,
        batch_tokens=batch_tokens,
        seed=seed,
    )

    known = None if roles is None else read_roles(Path(roles))

    def text(item: TextData | str) -> TextData:
        return load_data(item, limit=limit) if isinstance(item, str) else item

    sets = [data] if isinstance(data, TextData | str) else list(data)
    return run_comparison(
        load_model(model) if isinstance(model, str) else model,
        [text(item) for item in sets],
        None if select_data is None else text(select_data),
        request,
        replicates=[load_model(one) if isinstance(one, str) else one for one in replicates],
        roles=known,
        out=None if out is None else Path(out),
        force=force,
        progress=progress,
    )


def run_comparison(
    model: ModelAdapter,
    data: Sequence[TextData],
    select_data: TextData | None,
    request: Request,
    *,
    replicates: Sequence[ModelAdapter] = (),
    name: str = "compare",
    command: str = "",
    roles: SavedRoles | None = None,
    out: Path | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Comparison:
    """Run a comparison on what is loaded; see `compare`.

    Parameters
    ----------
    model, data, select_data, request, replicates, out, force, progress
        As for `compare`.
    name
        ``compare``, or ``curve``, which leaves out single heads and methods' agreement.
    command
        The command that makes it again, for the run.
    roles
        Roles of the model's heads, read.
    """
    pipeline = Pipeline(
        model,
        data,
        select_data,
        request,
        replicates=replicates,
        name=name,
        roles=roles,
        progress=progress,
    )
    if out is not None:
        check_output(out, force=force)
    with stages(out, pipeline.description, force=force) as kept:
        tables, settings = pipeline.run(kept)
        if out is None:
            return _comparison(tables, settings)
        run = write_run(
            out,
            command=command,
            provenance=pipeline.manifest(settings),
            tables=tables,
            weights=pipeline.weights,
            force=force,
        )
    return dataclasses.replace(
        _comparison(tables, settings),
        command=command,
        created=str(run.manifest["created"]),
        folder=out,
    )


def _comparison(tables: Mapping[str, pd.DataFrame], settings: Mapping[str, Any]) -> Comparison:
    frames: dict[str, Any] = {name: tables[name] for name in TABLES}
    return Comparison(**frames, settings=settings)
