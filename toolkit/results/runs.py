"""Run directories: a manifest beside Parquet tables, written whole or not at all."""

from __future__ import annotations

import dataclasses
import datetime
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headtool.errors import HeadtoolError
from headtool.reading import read_json
from headtool.results.folders import (
    AGAIN,
    MANIFEST,
    SCHEMA,
    describe_file,
    new_folder,
    read_described,
    unfinished_folder,
)
from headtool.results.older import has_draws_among_curves, modern
from headtool.schema import TABLES, Table, find_table
from headtool.schema.manifests import check_manifest

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from headtool.heads import AttentionSite, Sites
    from headtool.metrics.base import Metric
    from headtool.results.outcomes import Outcomes

__all__ = ["Run", "read_run", "site_frame", "write_run"]

_T = TypeVar("_T")
_MOST_HEADS = 10_000  # of a site
# What pandas raises for metadata that it did not write; text, not its bytes, is at fault.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)


@dataclass(frozen=True)
class Run:
    """A saved run.

    Attributes
    ----------
    folder
        Where it lies.
    manifest
        Schema, command, time, provenance, and each file's size and SHA-256.
    """

    folder: Path
    manifest: Mapping[str, Any]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of its tables."""
        held = tuple(self.manifest["tables"])
        drawn = has_draws_among_curves(self.folder, self.manifest["tables"])
        return (*held, "curve_draws") if drawn else held

    def table(self, name: str) -> pd.DataFrame:
        """Read one of the run's tables.

        Parameters
        ----------
        name
            One of `names`.

        Raises
        ------
        HeadtoolError
            If there is no such table, its file is missing or another one than was written, or its
            columns are not those that `headtool.schema` describes.
        """
        if name not in self.names:
            known = ", ".join(self.names) or "none"
            raise HeadtoolError(f"{self.folder} has no table '{name}' (it has: {known})")
        file = name if name in self.manifest["tables"] else "curves"
        path = self.folder / f"{file}.parquet"
        described = find_table(name) or Table(name, "", "", (), further="anything")
        frame = modern(name, _read_table(path, self.manifest["tables"][file]))
        checked = described.checked(frame, str(path))
        if name != "sites" and {"kind", "layer", "head"} <= set(checked.columns):
            self._check_heads(checked, path)
        return checked

    def _check_heads(self, frame: pd.DataFrame, path: Path) -> None:
        """Refuse heads that the model does not have, where the run says which it has."""
        if "sites" not in self.manifest["tables"]:
            return
        known = {(head.kind, head.layer, head.index) for head in self.sites.heads}
        if not known:
            return
        places = frame[["kind", "layer", "head"]].drop_duplicates()
        for place in places.itertuples(index=False, name=None):
            if place not in known:
                raise _damaged(path, f"the model has no head {'.'.join(map(str, place))}")

    @cached_property
    def sites(self) -> Sites:
        """The attention sites of its model, of a run that has the table ``sites``."""
        from headtool.heads import AttentionSite, Sites

        rows = self.table("sites").to_dict("records")
        path = self.folder / "sites.parquet"
        for row in rows:
            heads, shared = row["n_heads"], row["n_kv_heads"]
            if not (1 <= heads <= _MOST_HEADS and 1 <= shared <= heads and heads % shared == 0):
                raise _damaged(path, f"a site has {heads} heads and {shared} key/value heads")
        if len({(row["kind"], row["layer"]) for row in rows}) < len(rows):
            raise _damaged(path, "a site is there twice")
        return Sites(tuple(AttentionSite(**{str(k): v for k, v in row.items()}) for row in rows))

    def rows(self, name: str) -> int:
        """Count the rows of one of the run's tables, without reading it where that can be.

        Parameters
        ----------
        name
            One of `names`.

        Raises
        ------
        HeadtoolError
            As `table`.
        """
        from pyarrow.lib import ArrowException
        from pyarrow.parquet import read_metadata

        if (
            "curve_draws" in set(self.names) - set(self.manifest["tables"])
            or name not in self.names
        ):
            return len(self.table(name))
        path = self.folder / f"{name}.parquet"
        content = read_described(path, self.manifest["tables"][name])
        try:
            return int(read_metadata(io.BytesIO(content)).num_rows)
        except (OSError, ArrowException) as error:
            raise _no_parquet(path, error) from error

    @property
    def source(self) -> dict[str, Any]:
        """Provenance of the run's outcomes; a run without outcomes is a `HeadtoolError`."""
        found = self.manifest.get("provenance", {})
        name = next((name for name in ("ablate", "ablation") if name in found), None)
        if name is None or "sites" not in self.manifest["tables"]:
            raise HeadtoolError(
                f"{self.folder} holds no outcomes; make some with headtool ablate --out DIR"
            )
        return dict(found[name])

    def outcomes(self, metric: Metric | None = None, *, replacement: str | None = None) -> Outcomes:
        """Read the per-example outcomes; a run without any is a `HeadtoolError`.

        Parameters
        ----------
        metric
            The metric whose statistics they must hold. Metrics of translations are computed from
            the texts, if the run keeps these; any other that is missing is a `HeadtoolError`.
        replacement
            What closed heads put out; None for the first replacement. See
            `headtool.results.outcomes.replacements_of`.
        """
        from headtool.metrics.translation import TranslationMetric
        from headtool.results.outcomes import Outcomes, replacements_of

        own = "" if self.source["method"] == "ablate" else "ablation."
        further = replacement not in (None, replacements_of(self.source)[0])
        prefix = f"{own}{replacement}." if further else own
        outcomes = self._parsed(
            f"{prefix}outcomes", lambda frame: Outcomes.from_frame(frame, self.sites)
        )
        if not isinstance(metric, TranslationMetric):
            # What a model returns always has a loss; a run of translations has none.
            if metric is not None and "loss" not in outcomes.whole:
                raise self._lacks(metric)
            return outcomes
        if set(metric.statistics) <= set(outcomes.whole):
            return outcomes
        if f"{prefix}hypotheses" not in self.manifest["tables"]:
            raise self._lacks(metric)
        from headtool.results.hypotheses import Hypotheses

        references = self.table(f"{own}references")["text"].tolist()
        hypotheses = self._parsed(
            f"{prefix}hypotheses",
            lambda frame: Hypotheses.from_frame(frame, outcomes.masks, examples=len(references)),
        )
        return hypotheses.outcomes(references, metric)

    @property
    def screening(self) -> pd.DataFrame | None:
        """Which heads were screened out before the ablation; None if all were ablated."""
        name = next((n for n in ("screening", "ablation.screening") if n in self.names), None)
        return None if name is None else self.table(name)

    def weights(self, name: str) -> dict[str, Tensor]:
        """Read trained weights by parameter name.

        Parameters
        ----------
        name
            One of ``manifest["weights"]``.

        Raises
        ------
        HeadtoolError
            If their file is missing or another one than was written.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load

        path = self.folder / f"{name}.safetensors"
        content = read_described(path, self.manifest["weights"][name])
        try:
            return dict(load(content))
        except SafetensorError as error:
            raise _damaged(path, f"it holds no weights ({error})") from error

    def _parsed(self, name: str, parse: Callable[[pd.DataFrame], _T]) -> _T:
        """Make something of a table; what is wrong with it is said of its file."""
        try:
            return parse(self.table(name))
        except ValueError as error:
            raise _damaged(self.folder / f"{name}.parquet", str(error)) from error

    def signature(self, metric: Metric) -> str | None:
        """Return sacreBLEU's signature of the outcomes; None for metrics that have none.

        The run's own, with the settings and version of the time, or that of computing it now.
        """
        from headtool.metrics.translation import TranslationMetric

        if not isinstance(metric, TranslationMetric):
            return None
        source = self.source
        return str(source["signature"]) if source["metric"] == metric.name else metric.signature

    def _lacks(self, metric: Metric) -> HeadtoolError:
        return HeadtoolError(
            f"{self.folder} was made for {self.source['metric']} and holds nothing for "
            f"{metric.name}; make one with headtool ablate --metric {metric.name}"
        )


def site_frame(sites: Iterable[AttentionSite]) -> pd.DataFrame:
    """Table of attention sites, as `Run.outcomes` reads it."""
    return TABLES["sites"].frame(dataclasses.asdict(site) for site in sites)


def write_run(
    folder: Path,
    *,
    command: str,
    provenance: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    weights: Mapping[str, Mapping[str, Tensor]] | None = None,
    cost: Sequence[Mapping[str, Any]] = (),
    unfinished: Path | None = None,
    finish: Callable[[Path], object] | None = None,
    force: bool = False,
) -> Run:
    """Write a run directory; either all of it appears at `folder`, or nothing does.

    Parameters
    ----------
    folder
        Where to.
    command
        The command that makes it again.
    provenance
        What the numbers came from; must be JSON.
    tables
        Frames by name; each becomes ``<name>.parquet``.
    weights
        Trained weights by name; each becomes ``<name>.safetensors``.
    cost
        What was run, as `headtool.engine.metering.Meter.record` says: it differs from one time to
        the next, like the time, and is in the manifest alone.
    unfinished
        Folder of the work that becomes this run. A copy of the manifest goes there, so that it is
        known to be done with if the process is killed before it removes the folder.
    finish
        Adds further files to the run, given the folder that holds all the others.
    force
        Replace a run that is already there.
    """
    from safetensors.torch import save

    with new_folder(folder, force=force) as made:
        for name, frame in tables.items():
            frame.to_parquet(made / f"{name}.parquet", index=False)
        for name, state in (weights or {}).items():
            content = save({key: value.contiguous() for key, value in state.items()})
            (made / f"{name}.safetensors").write_bytes(content)
        manifest = {
            "schema": SCHEMA,
            "command": command,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            **({"cost": [dict(part) for part in cost]} if cost else {}),
            "provenance": dict(provenance),
            "tables": {name: describe_file(made / f"{name}.parquet") for name in tables},
            "weights": {
                name: describe_file(made / f"{name}.safetensors") for name in weights or {}
            },
        }
        text = json.dumps(manifest, indent=1, allow_nan=False) + "\n"
        (made / MANIFEST).write_text(text, encoding="utf-8")
        if finish is not None:
            finish(made)
        if unfinished is not None:
            (unfinished / MANIFEST).write_text(text, encoding="utf-8")
    return Run(folder, manifest)


def read_run(folder: Path | str) -> Run:
    """Open a run directory.

    Raises
    ------
    HeadtoolError
        If it is damaged, unfinished, or no run.

    Examples
    --------
    >>> import tempfile
    >>> import headtool
    >>> with tempfile.TemporaryDirectory() as place:
    ...     made = headtool.score("builtin:nli", limit=8, methods=["magnitude"], out=f"{place}/run")
    ...     headtool.read_run(made.folder).table("scores")["score"].shape
    (32,)
    """
    folder = Path(folder)
    path = folder / MANIFEST
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        if folder.name.endswith(".unfinished") or unfinished_folder(folder).is_dir():
            raise HeadtoolError(
                f"{folder} is not finished; give the command that began it again to continue it"
            ) from None
        if not folder.exists():
            raise HeadtoolError(
                f"{folder} is no headtool run: there is no such folder; check the path"
            ) from None
        raise HeadtoolError(f"{folder} is no headtool run: it has no {MANIFEST}") from None
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if schema != SCHEMA:
        shown = repr(schema)[:60]
        raise HeadtoolError(f"{path} has the schema {shown}; this version reads {SCHEMA!r}")
    if not isinstance(manifest.get("tables"), dict):
        raise HeadtoolError(f"{path} is damaged: it lists no tables")
    check_manifest(manifest, str(path))
    return Run(folder, manifest)


def _read_table(path: Path, expected: Mapping[str, Any]) -> pd.DataFrame:
    """Read a table from the bytes whose digest was checked."""
    import pandas as pd
    import pyarrow as pa

    content = read_described(path, expected)
    try:
        return pd.read_parquet(io.BytesIO(content))
    except (*_UNREADABLE, pa.ArrowException) as error:
        raise _no_parquet(path, error) from error


def _no_parquet(path: Path, error: Exception) -> HeadtoolError:
    reason = " ".join(str(error).split())[:200]
    return HeadtoolError(f"{path} is no Parquet file ({reason}); {AGAIN}")


def _damaged(path: Path, what: str) -> HeadtoolError:
    return HeadtoolError(f"{path} is damaged: {what}; {AGAIN}")
