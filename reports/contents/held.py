"""Results in memory, opened as saved runs are: what a run directory of them would hold."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from headtool.errors import HeadtoolError
from headtool.reports.contents.run import Contents, read_contents

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Held", "InMemory", "Written", "contents_of", "folder_of", "run_of"]


@dataclass(frozen=True)
class Held:
    """What a run directory of a result would hold.

    Attributes
    ----------
    provenance
        As its manifest has it.
    tables
        Frames by name.
    command
        The command that makes it again; empty where there is none.
    """

    provenance: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    command: str = ""


@runtime_checkable
class InMemory(Protocol):
    """A result that says what its run would hold, whether it was written or not."""

    @property
    def folder(self) -> Path | None:
        """The run directory; None where there is none."""

    def held(self) -> Held:
        """Return what a run directory of it would hold."""


class Written(Protocol):
    """A result that may have been written to a folder."""

    @property
    def folder(self) -> Path | None:
        """The run directory; None where there is none."""


def folder_of(source: Written | Path | str) -> Path:
    """Return the folder of a result that was written.

    Parameters
    ----------
    source
        The result, or the folder itself.

    Raises
    ------
    HeadtoolError
        If it was not written.
    """
    if isinstance(source, Path | str):
        return Path(source)
    if source.folder is None:
        raise HeadtoolError("this result was not written to a folder; make it again with `out`")
    return source.folder


@contextlib.contextmanager
def contents_of(source: InMemory | Written | Path | str) -> Iterator[Contents]:
    """Open a result or a saved run as reports see it.

    Parameters
    ----------
    source
        A result, or the folder of a run.

    Raises
    ------
    HeadtoolError
        If there is no finished run, or it is damaged or of another version.
    """
    with run_of(source) as (run, _):
        yield read_contents(run)


@contextlib.contextmanager
def run_of(source: InMemory | Written | Path | str) -> Iterator[tuple[Path, bool]]:
    """Give the run's folder, and whether it lasts; that of a result in memory does not.

    Parameters
    ----------
    source
        A result, or the folder of a run.
    """
    from headtool.results.runs import write_run

    if not isinstance(source, InMemory) or source.folder is not None:
        yield folder_of(source), True
        return
    held = source.held()
    with tempfile.TemporaryDirectory(prefix="headtool-") as place:
        run = Path(place) / "run"
        write_run(
            run,
            command=held.command,
            provenance=held.provenance,
            tables=held.tables,
        )
        yield run, False
