"""Run directories: a manifest beside Parquet tables, written whole or not at all."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

__all__ = ["SCHEMA", "Run", "check_output", "read_run", "write_run"]

SCHEMA = "headtool/run/1"
_MANIFEST = "manifest.json"


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

    def table(self, name: str) -> pd.DataFrame:
        """Read one of the run's tables; a missing or changed file is a `HeadtoolError`."""
        import pandas as pd

        if name not in self.manifest["tables"]:
            known = ", ".join(self.manifest["tables"]) or "none"
            raise HeadtoolError(f"{self.folder} has no table '{name}' (it has: {known})")
        path = self.folder / f"{name}.parquet"
        _verify(path, self.manifest["tables"][name])
        return pd.read_parquet(path)


def check_output(folder: Path, *, force: bool) -> None:
    """Refuse, before any work is done, an output folder that could not be written later.

    Raises
    ------
    HeadtoolError
        If `folder` exists and `force` is not given, if it exists and is no run (which is never
        overwritten), or if its parent takes no files.
    """
    if folder.exists() or folder.is_symlink():
        if not force:
            raise HeadtoolError(f"{folder} exists already; choose another --out or add --force")
        if not folder.is_dir() or (any(folder.iterdir()) and not (folder / _MANIFEST).is_file()):
            raise HeadtoolError(f"{folder} is no headtool run, so --force does not replace it")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder.parent):
            pass
    except OSError as error:
        raise HeadtoolError(f"cannot write under {folder.parent}: {error.strerror}") from error


def write_run(
    folder: Path,
    *,
    command: str,
    provenance: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    weights: Mapping[str, Mapping[str, Tensor]] | None = None,
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
    force
        Replace a run that is already there.
    """
    from safetensors.torch import save_file

    check_output(folder, force=force)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        os.chmod(made, 0o777 & ~_umask())
        for name, frame in tables.items():
            frame.to_parquet(made / f"{name}.parquet", index=False)
        for name, state in (weights or {}).items():
            save_file({key: value.contiguous() for key, value in state.items()}, made / f"{name}.safetensors")
        manifest = {
            "schema": SCHEMA,
            "command": command,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "provenance": dict(provenance),
            "tables": {name: _describe(made / f"{name}.parquet") for name in tables},
            "weights": {name: _describe(made / f"{name}.safetensors") for name in weights or {}},
        }
        (made / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        _replace(folder, made)
    except OSError as error:
        raise HeadtoolError(f"cannot write {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return Run(folder, manifest)


def read_run(folder: Path) -> Run:
    """Open a run directory; one that is damaged or no run is a `HeadtoolError`."""
    path = folder / _MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HeadtoolError(f"{folder} is no headtool run: it has no {_MANIFEST}") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise HeadtoolError(f"{path} cannot be read: {error}") from error
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if schema != SCHEMA:
        raise HeadtoolError(f"{path} has the schema {schema!r}; this version reads {SCHEMA!r}")
    if not isinstance(manifest.get("tables"), dict):
        raise HeadtoolError(f"{path} is damaged: it lists no tables")
    return Run(folder, manifest)


def _replace(folder: Path, made: Path) -> None:
    """Put `made` at `folder`; an old run steps aside first and comes back if that fails."""
    if not folder.exists():
        os.rename(made, folder)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
    try:
        os.rename(folder, aside / "run")
        try:
            os.rename(made, folder)
        except OSError:
            os.rename(aside / "run", folder)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _describe(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _verify(path: Path, expected: Mapping[str, Any]) -> None:
    with contextlib.suppress(FileNotFoundError):
        if _describe(path) == expected:
            return
        raise HeadtoolError(f"{path} is damaged: it is not the file that the run wrote")
    raise HeadtoolError(f"{path} is missing from the run")


def _umask() -> int:
    """Return the process's umask; reading it means setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
