"""What a run holds: what made it, on what, when, and its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError
from headtool.reports.contents.run import command_of
from headtool.reports.writing import FORMATS
from headtool.results.runs import Run, read_run
from headtool.schema import TABLES, find_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Shown", "show"]


@dataclass(frozen=True)
class Shown:
    """What a run holds.

    Attributes
    ----------
    run
        The run.
    origin
        What made it: ``folder``, ``command``, ``created`` (ISO 8601, UTC), ``kind`` (name of the
        command), ``methods``, ``metric``, ``seed``, ``models`` and ``data`` (each with ``spec``),
        ``versions``.
    tables
        Name, number of rows, and what a row is, of every table.
    reports
        Reports that lie in the run.
    notes
        What a reader of the run must know.
    """

    run: Run
    origin: Mapping[str, Any]
    tables: tuple[tuple[str, int, str], ...]
    reports: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """A row per table: name, rows, and what a row is."""
        return TABLES["tables"].frame(self.tables)

    @property
    def folder(self) -> Path:
        """Where the run lies."""
        return self.run.folder

    def document(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it, in the format ``headtool/show/1``."""
        return {
            "schema": "headtool/show/1",
            "provenance": dict(self.origin),
            "tables": [dict(zip(("name", "rows", "row"), row, strict=True)) for row in self.tables],
            "weights": list(self.run.manifest.get("weights") or ()),
            "reports": list(self.reports),
            "notes": list(self.notes),
        }


def show(run: Run | Path | str) -> Shown:
    """Say what a run holds: what made it, on which model and data, when, and its tables.

    Parameters
    ----------
    run
        A run, or its folder.

    Raises
    ------
    HeadtoolError
        If there is no finished run, or it is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import headtool
    >>> with tempfile.TemporaryDirectory() as place:
    ...     made = headtool.score("builtin:nli", limit=8, methods=["magnitude"], out=f"{place}/run")
    ...     headtool.show(made.folder).frame[["name", "rows"]].to_numpy().tolist()
    [['scores', 32]]
    """
    found = run if isinstance(run, Run) else read_run(run)
    provenance = found.manifest.get("provenance")
    if not isinstance(provenance, dict):
        raise HeadtoolError(f"{found.folder} is damaged: its manifest has no provenance")
    described = [(name, find_table(name)) for name in found.names]
    places = sorted({name for name, _ in FORMATS.values()})
    sources = list(_sources(provenance))
    return Shown(
        found,
        {
            "folder": str(found.folder),
            "command": str(found.manifest.get("command", "")),
            "created": str(found.manifest.get("created", "")),
            **_origin(provenance, sources),
        },
        tuple((name, found.rows(name), table.row if table else "") for name, table in described),
        tuple(name for name in places if (found.folder / name).exists()),
        tuple(
            str(note)
            for source in sources
            if isinstance(source.get("notes"), list)
            for note in source["notes"]
        ),
    )


def _origin(provenance: Mapping[str, Any], sources: list[Mapping[str, Any]]) -> dict[str, Any]:
    """What the sources of a run's numbers have in common, each model and data set once."""
    kind = command_of(provenance)
    asked = provenance[kind].get("methods") if kind in ("compare", "curve") else None
    methods = asked or [one["method"] for one in sources if one.get("method", kind) != kind]
    models = _mappings(source.get("model") for source in sources)
    data = _mappings(
        one for source in sources for one in (source.get("data"), *_values(source.get("sources")))
    )
    return {
        "kind": kind,
        "methods": list(dict.fromkeys(map(str, methods))),
        "metric": next((one["metric"] for one in sources if "metric" in one), None),
        "seed": next((one["seed"] for one in sources if "seed" in one), None),
        "models": _once(models, ("spec", "class", "heads")),
        "data": _once(data, ("spec", "examples")),
        "versions": next((one["versions"] for one in sources if "versions" in one), {}),
    }


def _sources(provenance: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What each number of a run comes from; comparisons and training runs keep several in one."""
    for source in _mappings(provenance.values()):
        yield source
        yield from _mappings(_values(source.get("provenance")))


def _values(mapping: object) -> list[Any]:
    return list(mapping.values()) if isinstance(mapping, dict) else []


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, dict)]


def _once(described: list[Mapping[str, Any]], keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """The descriptions with different values of these keys, without the other keys."""
    found = [{key: one[key] for key in keys if key in one} for one in described]
    return [one for place, one in enumerate(found) if one and one not in found[:place]]
