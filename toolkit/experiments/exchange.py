"""Scores made elsewhere: what ``headtool import`` and ``headtool export`` do."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.engine.provenance import model_provenance
from headtool.errors import HeadtoolError, StorageError, unknown
from headtool.exchange.fitting import Fitted, fit, parse_shape
from headtool.exchange.foreign import Foreign
from headtool.exchange.reading import FORMATS, read_foreign
from headtool.exchange.writing import Exported, write_foreign
from headtool.experiments.choosing import ScoresLike, one_method, open_scores, shape_of
from headtool.experiments.inputs import ModelSource, open_model
from headtool.experiments.repeats import reliabilities, repeat_frame, saved_repeats
from headtool.experiments.score import Scoring
from headtool.heads import Kind
from headtool.masks.selection import budget
from headtool.methods import method_names
from headtool.methods.base import Method
from headtool.methods.saved import saved_method
from headtool.models.base import ModelAdapter
from headtool.reading import read_file
from headtool.reports.results import HeadScores
from headtool.results.folders import check_output
from headtool.results.runs import Run, site_frame, write_run
from headtool.results.scores import score_frame
from headtool.results.versions import versions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Imported", "export_scores", "import_scores", "method_of_run"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_TAKEN = ("ablate", "compare", "curve", "dynamics", "roles", "sequential", "speed")


@dataclass(frozen=True)
class Imported(Scoring):
    """Scores made elsewhere.

    Attributes
    ----------
    results, seconds, folder
        As of `Scoring`: one method, which bears the name given.
    format
        The format of the file.
    repeats
        How often every head was measured; None without repeats, or where heads differ in it.
    reliability
        Split-half reliability of the scores over random halves of the repeats, by Pearson's r and
        stepped up by Spearman-Brown; NaN without repeats.
    reliability_of_ranks
        The same by Spearman's rho.
    notes
        What a reader must know, one line each.
    """

    format: str = ""
    repeats: int | None = None
    reliability: float = math.nan
    reliability_of_ranks: float = math.nan
    notes: tuple[str, ...] = ()

    @property
    def result(self) -> HeadScores:
        """The scores."""
        return self.results[0]


def import_scores(
    file: Path | str,
    *,
    name: str,
    model: ModelAdapter | ModelSource | str | None = None,
    heads: str | None = None,
    kind: Kind | None = None,
    format: str | None = None,
    method: str | None = None,
    absolute: bool = False,
    seed: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    command: str = "",
) -> Imported:
    """Read scores that another tool gave to the heads of a model.

    What is written to `out` is a run: `headtool.prune`, `headtool.correlate_runs`,
    `headtool.compare` (see `method_of_run`) and reports take it.

    Parameters
    ----------
    file
        Rows with layer, head and score (CSV or JSON); JSON with keys such as ``L5H1``, ``a5.h1`` or
        ``5-1`` and a score or a list of repeats each; a graph of MIB or EAP-IG; DuoAttention's TSV
        of key/value groups; heads that go, ``{layer: [heads]}``. Higher means more important.
    name
        What to call the scores, as a method is called.
    model
        The model, or its SPEC. None where it is not at hand: the heads are then as many as the file
        or `heads` says.
    heads
        Layers and heads of a layer, such as ``32x32``, where there is no model and the file does
        not say.
    kind
        Kind of attention, where the file names none and the model has several. Without a model, it
        is ``dec-self``.
    format
        ``csv``, ``json``, ``retrieval``, ``mib``, ``duo`` or ``hf``; None to tell it from the
        content.
    method
        Whose scores, where the file has those of several methods.
    absolute
        Take the scores without their signs.
    seed
        Ranks equal scores, and draws the halves behind reliabilities.
    out
        Run directory to write.
    force
        Replace a run that is there.
    command
        The command line that makes the run again, for its manifest.

    Raises
    ------
    HeadtoolError
        If the file holds no such scores, or not one for each of the model's heads.

    Examples
    --------
    >>> import headtool
    >>> from pathlib import Path
    >>> _ = Path("theirs.json").write_text('{"L0H0": 0.1, "L0H1": 0.7, "L1H0": 0.2, "L1H1": 0.4}')
    >>> found = headtool.import_scores("theirs.json", name="theirs")
    >>> found.frame[["kind", "layer", "head", "score", "rank"]]
           kind  layer  head  score  rank
    0  dec-self      0     0    0.1     4
    1  dec-self      0     1    0.7     1
    2  dec-self      1     0    0.2     3
    3  dec-self      1     1    0.4     2
    """
    _check_name(name)
    path, folder = Path(file), None if out is None else Path(out)
    check_output(folder, force=force)
    if model is not None and heads is not None:
        raise HeadtoolError("`heads` is for scores without a model; leave it, or `model`, out")
    shape = None if heads is None else parse_shape(heads)
    foreign = read_foreign(path, format=format, method=method)
    adapter = None if model is None else open_model(model)
    sites = None if adapter is None else adapter.sites
    try:
        fitted = fit(foreign, sites, kind=kind, shape=shape, absolute=absolute)
    except HeadtoolError as error:
        raise HeadtoolError(f"{path}: {error}") from error
    frame = score_frame(name, fitted.heads, fitted.score, fitted.stderr, seed=seed)
    linear, ranked = reliabilities(name, fitted, seed)
    repeats = None if fitted.repeats is None else len(fitted.repeats)
    described = {
        "file": path.name,
        "sha256": hashlib.sha256(read_file(path)).hexdigest(),
        "format": foreign.format,
        "repeats": repeats,
        "reliability": None if math.isnan(linear) else linear,
        "reliability_of_ranks": None if math.isnan(ranked) else ranked,
        "width": foreign.width,
        "groups": foreign.shape[1] if foreign.shape and foreign.format == "duo" else None,
    }
    notes = tuple(_notes(foreign, fitted, adapter, kind))
    source = {
        "method": name,
        "options": {"format": foreign.format, "method": method, "absolute": absolute},
        "seed": seed,
        "model": {"heads": shape_of(frame)} if adapter is None else model_provenance(adapter),
        "imported": described,
        "versions": versions(),
        "summary": f"scores made elsewhere, read from {path.name}",
        "reference": path.name,
        "notes": list(notes),
    }
    result = HeadScores(name, frame, source)
    if folder is not None:
        tables = {"scores": frame}
        if fitted.repeats is not None:
            tables["score_repeats"] = repeat_frame(name, fitted)
        if adapter is not None:
            tables["sites"] = site_frame(adapter.sites)
        write_run(folder, command=command, provenance={name: source}, tables=tables, force=force)
    return Imported((result,), {name: 0.0}, folder, foreign.format, repeats, linear, ranked, notes)


def export_scores(
    scores: ScoresLike,
    *,
    to: str,
    method: str | None = None,
    kind: Kind | None = None,
    model: ModelAdapter | ModelSource | str | None = None,
    remove: str | None = None,
    keep_heads: int | None = None,
    out: Path | str | None = None,
    force: bool = False,
) -> str:
    """Write scores for another tool.

    Parameters
    ----------
    scores
        What `headtool.score`, `headtool.ablate` or `import_scores` returned, or a run.
    to
        ``csv``, ``json``, ``retrieval`` (lists of repeats by ``layer-head``), ``mib`` (a graph of
        MIB with scored heads and no edges), ``duo`` (DuoAttention's TSV; the mean over each
        key/value group, moved into 0 to 1 if it lies beyond) or ``hf`` (``{layer: [heads]}``, the
        heads that go).
    method
        Whose scores, where there are those of several methods.
    kind
        Kind of attention, for formats that know one only.
    model
        The model, or its SPEC, for what a run does not say: its width for ``mib``, key/value groups
        for ``duo``.
    remove, keep_heads
        How many heads go, for ``hf``: a share such as ``"40%"``, or how many stay.
    out
        File to write.
    force
        Replace a file that is there.

    Returns
    -------
    str
        The content of the file.

    Raises
    ------
    HeadtoolError
        If the format cannot say it, or wants something that is unknown.

    Examples
    --------
    >>> import headtool
    >>> scoring = headtool.score("builtin:nli", limit=8, methods=["magnitude"])
    >>> print(headtool.export_scores(scoring, to="hf", remove="10%").strip())
    {"0": [5, 6], "1": [2]}
    """
    if to not in FORMATS:
        raise unknown("format", to, FORMATS)
    if to != "hf":
        for field, value in (("remove", remove), ("keep_heads", keep_heads)):
            if value is not None:
                raise HeadtoolError(f"`{field}` is for the format hf; leave it out")
    place = None if out is None else Path(out)
    if place is None and force:
        raise HeadtoolError("`force` replaces a file at `out`, which is missing; give `out`")
    if place is not None and os.path.lexists(place) and not force:
        raise HeadtoolError(f"{place} exists already; choose another `out` or add `force=True`")
    opened = open_scores(scores)
    frame, source = one_method(opened, method)
    if "data" in frame:
        frame = frame[frame["data"] == frame["data"].iloc[0]]
    if kind is not None:
        frame = frame[frame["kind"] == kind]
        if not len(frame):
            raise HeadtoolError(f"there are no scores of {kind} heads; leave `kind` out")
    frame = frame.reset_index(drop=True)
    if frame.duplicated(["kind", "layer", "head"]).any():
        raise HeadtoolError("a head is scored twice; choose one method and data set")
    adapter = None if model is None else open_model(model)
    removed = None
    if to == "hf" and (remove is not None or keep_heads is not None):
        count = budget(remove, keep_heads, len(frame))
        removed = frame["rank"].rank(ascending=False).to_numpy() <= count
    groups, width = _sizes(opened, frame, source, adapter)
    exported = Exported(
        frame if "stderr" in frame else frame.assign(stderr=math.nan),
        {str(frame["method"].iloc[0]): dict(source)},
        saved_repeats(opened, frame) if to == "retrieval" else None,
        groups,
        width,
        removed,
    )
    text = write_foreign(exported, to)
    if place is not None:
        try:
            place.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"cannot write {place}: {error.strerror}; choose another `out`"
            ) from error
    return text


def method_of_run(scores: ScoresLike, *, method: str | None = None) -> Method:
    """Return saved scores as a method, for `headtool.compare` and `headtool.curve`.

    Parameters
    ----------
    scores
        What `headtool.score`, `headtool.ablate` or `import_scores` returned, or a run.
    method
        Whose scores, where there are those of several methods.

    Returns
    -------
    Method
        Scores the model that the scores are of, whatever the examples; another is refused.

    Raises
    ------
    HeadtoolError
        If there is no such method.

    Examples
    --------
    >>> import headtool
    >>> made = headtool.score("builtin:nli", limit=8, methods=["magnitude"])
    >>> headtool.method_of_run(made).name
    'magnitude'
    """
    opened = open_scores(scores)
    frame, source = one_method(opened, method)
    if "data" in frame:
        frame = frame[frame["data"] == frame["data"].iloc[0]]
    folder = opened.folder
    return saved_method(frame, source, place="" if folder is None else str(folder))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise HeadtoolError(
            f"`name` is made of letters, digits, dots and hyphens, at most 60, got {name[:70]!r}"
        )
    if name in _TAKEN or name in method_names():
        raise HeadtoolError(
            f"`name` {name} is headtool's own; choose another, such as {name}-theirs"
        )


def _notes(
    foreign: Foreign, fitted: Fitted, model: ModelAdapter | None, kind: Kind | None
) -> list[str]:
    notes = []
    if foreign.format == "duo":
        notes.append("heads that share a key/value group share its score")
    if foreign.format == "hf":
        notes.append("the file says which heads go: these score 0, all others 1")
    if fitted.uneven is not None:
        low, high = fitted.uneven
        notes.append(f"heads were measured {low} to {high} times: no reliability")
    if model is None and kind is None and all(row.kind is None for row in foreign.rows):
        notes.append(f"the file names no kind of attention: {fitted.heads[0].kind} is assumed")
    return notes


def _sizes(
    scores: object, frame: pd.DataFrame, source: Mapping[str, Any], model: ModelAdapter | None
) -> tuple[int | None, int | None]:
    """Key/value groups of a layer and width of the model, as far as they are known."""
    kinds = set(frame["kind"])
    width = source.get("imported", {}).get("width")
    sites: list[Any] = []
    if model is not None:
        sites = [site for site in model.sites if site.kind in kinds]
        check = {(head.kind, head.layer, head.index) for site in sites for head in site.heads}
        rows = zip(frame["kind"], frame["layer"], frame["head"], strict=True)
        if {(str(k), int(i), int(j)) for k, i, j in rows} != check:
            raise HeadtoolError(
                f"the scores are of {shape_of(frame)}, and {model.spec} has {model.sites.summary}; "
                "give the model that was scored"
            )
        projection: Any = model.module.get_submodule(sites[0].projection)
        names = ("out_features", "nf", "width")
        width = next(
            (getattr(projection, name) for name in names if hasattr(projection, name)), None
        )
    elif isinstance(scores, Run) and "sites" in scores.names:
        sites = [site for site in scores.sites if site.kind in kinds]
    groups = {site.n_kv_heads for site in sites}
    shared = groups.pop() if len(groups) == 1 else source.get("imported", {}).get("groups")
    return shared, width
