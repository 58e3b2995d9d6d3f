"""What the heads of a model do, and which roles pruning leaves: what ``headtool roles`` does."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.analysis.comparison import Comparison, read_comparison
from headtool.analysis.role_runs import check_model, read_roles
from headtool.analysis.roles import check_thresholds, role_table, surviving_roles
from headtool.data.conllu import Treebank, read_treebank
from headtool.data.drawing import LimitOrder
from headtool.engine.provenance import provenance
from headtool.errors import HeadtoolError
from headtool.experiments.inputs import (
    DataLike,
    DataSource,
    ModelSource,
    encode,
    fitted,
    held,
    open_model,
    read_data,
)
from headtool.experiments.planning import Sketch, begin
from headtool.heads import Kind
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.pieces import Pieces
from headtool.patterns.counting import COMMON_TYPES, count_roles, request_roles
from headtool.patterns.parses import Parse, encode_treebank
from headtool.progress import ProgressLike, silent
from headtool.reports.contents.held import Held
from headtool.reports.results import HeadPlots
from headtool.results.folders import check_output
from headtool.results.runs import site_frame, write_run
from headtool.results.scores import json_rows
from headtool.work import Passes
from headtool.workers.pool import WorkersLike, open_workers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Roles", "roles", "roles_of_run"]

_LOG = logging.getLogger("headtool")


@dataclass(frozen=True, eq=False, repr=False)
class Roles(HeadPlots):
    """Roles of a model's heads.

    Attributes
    ----------
    frame
        A row per head and role: the table ``roles`` of `headtool.schema`.
    provenance
        What reproduces it; under ``notes``, what a reader must know, one line each.
    survival
        Which roles each method leaves, as `headtool.analysis.roles.surviving_roles` counts them;
        None where no comparison was given.
    folder
        The run directory; None where there is none.
    """

    frame: pd.DataFrame
    provenance: Mapping[str, Any]
    survival: pd.DataFrame | None = None
    folder: Path | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know, one line each."""
        return tuple(self.provenance["notes"])

    def held(self) -> Held:
        """Return what its run directory holds, for its report."""
        survival = {} if self.survival is None else {"role_survival": self.survival}
        return Held({"roles": dict(self.provenance)}, {"roles": self.frame, **survival})

    def document(self) -> dict[str, Any]:
        """Return the tables as JSON can hold them, in the format ``headtool/roles/1``."""
        return {
            "schema": "headtool/roles/1",
            "provenance": dict(self.provenance),
            "roles": json_rows(self.frame),
            **({} if self.survival is None else {"survival": json_rows(self.survival)}),
        }


def roles(
    model: ModelAdapter | ModelSource | str = "builtin:nli",
    data: DataLike | None = None,
    *,
    treebank: Sequence[Path | str] = (),
    kinds: Iterable[Kind] | None = None,
    roles: Sequence[str] | None = None,
    thresholds: Mapping[str, float] | None = None,
    common: int = COMMON_TYPES,
    frequencies: str | None = None,
    least: int = 20,
    correction: str = "holm",
    alpha: float = 0.05,
    kept: Comparison | Path | str | None = None,
    limit: int | None = None,
    limit_order: LimitOrder = "seeded",
    batch_tokens: int | None = 4096,
    seed: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    command: str = "",
    workers: WorkersLike = None,
    progress: ProgressLike = silent,
) -> Roles:
    """Say what self-attention heads do: follow positions, syntax, rare tokens and the like.

    A head has a role if its largest attention weight lies where the role says for a large enough
    share of the queries, and more often than a baseline's, corrected over all heads and variants.

    Parameters
    ----------
    model
        A model, or its SPEC.
    data
        A data set, or its SPEC; None for the built-in set of a built-in model, or for `treebank`.
    treebank
        Files of sentences with their dependencies in CoNLL-U, instead of `data`; syntactic roles
        need them. A translation model reads them with its encoder.
    kinds
        Kinds of self-attention; None for all.
    roles
        Names of roles, of `headtool.analysis.roles.ROLES`; None for all that are possible.
    thresholds
        By role, from which share of its queries a head has it; for ``syntactic``, how much better
        than the baseline it must be. What is missing is as in
        `headtool.analysis.roles.THRESHOLDS`.
    common
        How many of the most frequent types of tokens are never rare.
    frequencies
        File of counts that decide what is rare: lines of TOKEN COUNT, tokens as the model's
        vocabulary writes them. None counts the data.
    least
        Dependency relations with fewer queries in a direction are left out.
    correction
        ``holm``, ``bh``, ``by`` or ``none``, within each role.
    alpha
        Level after correction.
    kept
        A comparison of methods on this model, or its run directory: which roles does each method
        leave?
    limit
        Examples to use; None for all.
    limit_order
        ``seeded`` draws them by `seed`, each class in its share; ``first`` takes the first ones.
    batch_tokens
        Tokens in a batch, padding included; None: as many as fit into the memory.
    seed
        Seed of everything random.
    out
        Run directory to write.
    force
        Replace a run that is there.
    command
        The command line that makes the run again, for its manifest.
    workers
        How many processes run the units of work, or a `headtool.Workers`; None: this one alone.
    progress
        Reports progress; True shows a bar.

    Raises
    ------
    HeadtoolError
        If something does not fit, or a role is unknown or not possible here.

    References
    ----------
    Voita, Talbot, Moiseev, Sennrich & Titov 2019, "Analyzing Multi-Head Self-Attention", sec. 5.

    Examples
    --------
    >>> import headtool
    >>> found = headtool.roles("builtin:nli", limit=16, roles=["separator"])
    >>> found.frame["role"].unique().tolist(), len(found.frame)
    (['separator'], 32)
    """
    survivors = _comparison(kept)
    data = held(data)
    spec = data.spec if isinstance(data, DataSource) else data
    if treebank and spec is not None:
        raise HeadtoolError("`treebank` and `data` exclude each other; leave one out")
    if isinstance(spec, str) and spec.lower().endswith(".conllu"):
        raise HeadtoolError(f"{spec} is a treebank; give it with `treebank`")
    if treebank and isinstance(data, DataSource) and data.columns is not None:
        raise HeadtoolError("`columns` is for `data`; leave it out with `treebank`")
    limits = check_thresholds(thresholds or {})
    check_thresholds(dict.fromkeys(roles or (), 1.0))  # complains of roles that there are not
    role_table([], correction=correction, alpha=alpha)  # complains of what cannot be
    for name, number, smallest in (("common", common, 0), ("least", least, 1)):
        if number < smallest:
            raise HeadtoolError(f"`{name}` must be at least {smallest}, got {number}")
    kinds = None if kinds is None else tuple(kinds)
    folder = None if out is None else Path(out)
    check_output(folder, force=force)
    text = trees = None
    if treebank:
        files = [str(file) for file in treebank]
        trees = read_treebank(files, limit=limit, limit_order=limit_order, seed=seed)
    else:
        text = read_data(data, model, limit=limit, limit_order=limit_order, seed=seed)
    adapter = open_model(model)
    request = request_roles(
        adapter, trees, kinds=kinds, roles=roles, common=common, frequencies=frequencies
    )
    pieces = adapter.pieces()
    parses: tuple[Parse, ...] = ()
    described: dict[str, Any] = {}
    if trees is not None:
        examples, parses, described = _parsed(pieces, trees, batch_tokens)
    else:
        assert text is not None
        examples = encode(adapter, text, batch_tokens=batch_tokens, seed=seed)
    settings = {
        "roles": list(request.roles),
        "kinds": list(request.kinds),
        "thresholds": {name: limits[name] for name in request.roles},
        "common": common,
        "frequencies": frequencies,
        "least": least,
        "correction": correction,
        "alpha": alpha,
    }
    source = provenance(adapter, examples, "roles", settings, "share", seed) | described
    _check_model(survivors, source)
    sketch = Sketch("roles", adapter)
    sketch.add("roles", Passes(forward=1), examples)
    meter = begin(progress, sketch.plan(), adapter, examples)
    with open_workers(workers) as execute:
        counts, notes = count_roles(
            pieces, examples, request, parses=parses, seed=seed, execute=execute, progress=meter
        )
    source["notes"] = notes
    frame = role_table(counts, thresholds=limits, least=least, correction=correction, alpha=alpha)
    survival = None if survivors is None else surviving_roles(frame, survivors.kept)
    if folder is not None:
        tables = {"roles": frame, "sites": site_frame(adapter.sites)}
        if survival is not None:
            tables["role_survival"] = survival
        write_run(
            folder,
            command=command,
            provenance={"roles": source},
            tables=tables,
            cost=meter.record(),
            force=force,
        )
    return Roles(frame, source, survival, folder)


def roles_of_run(run: Path | str, *, kept: Comparison | Path | str | None = None) -> Roles:
    """Read the roles of a run directory; the model is not run.

    Parameters
    ----------
    run
        What `roles` wrote to its `out`.
    kept
        A comparison of methods on the same model, or its run directory: which roles does each
        method leave?

    Raises
    ------
    HeadtoolError
        If `run` holds no roles, or `kept` is of another model.

    Examples
    --------
    >>> import tempfile
    >>> import headtool
    >>> with tempfile.TemporaryDirectory() as place:
    ...     made = headtool.roles(limit=16, roles=["separator"], out=f"{place}/run")
    ...     len(headtool.roles_of_run(f"{place}/run").frame)
    32
    """
    survivors = _comparison(kept)
    saved = read_roles(Path(run))
    _check_model(survivors, saved.source)
    survival = None if survivors is None else surviving_roles(saved.frame, survivors.kept)
    return Roles(saved.frame, saved.source, survival, saved.folder)


def _comparison(kept: Comparison | Path | str | None) -> Comparison | None:
    """Read which heads a comparison keeps."""
    return read_comparison(Path(kept)) if isinstance(kept, Path | str) else kept


def _check_model(compared: Comparison | None, source: Mapping[str, Any]) -> None:
    """Refuse to join roles and kept heads of two models."""
    if compared is not None:
        given = compared.folder or "the comparison"
        check_model(source["model"], compared.settings.get("model", {}), given=given)


def _parsed(
    pieces: Pieces[ModelAdapter], trees: Treebank, batch_tokens: int | None
) -> tuple[Examples, tuple[Parse, ...], dict[str, Any]]:
    """Tokenise a treebank, saying what was left out."""
    parsed = encode_treebank(pieces, trees, batch_tokens=batch_tokens or 4096)
    spec = pieces.model.spec
    total = len(trees.sentences)
    if parsed.too_long:
        _LOG.warning(
            "%d of %d sentences left out: longer than the %d tokens of %s",
            parsed.too_long,
            total,
            pieces.max_length,
            spec,
        )
    if parsed.unaligned:
        _LOG.warning(
            "%d of %d sentences left out: they could not be aligned with their tokens",
            parsed.unaligned,
            total,
        )
    if parsed.lost:
        _LOG.warning("words without a token, whose dependencies do not count: %d", parsed.lost)
    described = {
        "treebank": {
            "spec": trees.spec,
            "drawn": None if trees.drawn is None else trees.drawn.described(),
            "sha256": trees.fingerprint,
            "sentences": total,
            "too_long": parsed.too_long,
            "unaligned": parsed.unaligned,
            "words_without_token": parsed.lost,
        }
    }
    examples = parsed.examples if batch_tokens else fitted(pieces.model, parsed.examples)
    return examples, parsed.parses, described
