"""Run directories: a manifest beside Parquet tables, written whole or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from headtool.heads import AttentionSite
    from headtool.metric_base import Metric
    from headtool.results import Outcomes

__all__ = [
    "PRUNED_RECORD",
    "SCHEMA",
    "Run",
    "check_output",
    "new_folder",
    "read_run",
    "site_frame",
    "write_run",
]

SCHEMA = "headtool/run/1"
_MANIFEST = "manifest.json"
PRUNED_RECORD = "headtool-pruned.json"
_HIDDEN = ".headtool-"  # how the names of unfinished runs begin


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

    def outcomes(self, metric: Metric | None = None) -> Outcomes:
        """Read the per-example outcomes; a run without any is a `HeadtoolError`.

        Parameters
        ----------
        metric
            What they must hold the statistics of. Metrics of translations are computed from the
            texts, if the run keeps these; any other that is missing is a `HeadtoolError`.
        """
        from headtool.heads import AttentionSite, Sites
        from headtool.results import Outcomes
        from headtool.translation_metrics import TranslationMetric

        prefix = "" if self.source["method"] == "ablate" else "ablation."
        rows = self.table("sites").to_dict("records")
        sites = Sites(tuple(AttentionSite(**{str(k): v for k, v in row.items()}) for row in rows))
        outcomes = Outcomes.from_frame(self.table(f"{prefix}outcomes"), sites)
        if not isinstance(metric, TranslationMetric):
            # What a model returns always has a loss; a run of translations has nothing of it.
            if metric is not None and "loss" not in outcomes.whole:
                raise self._lacks(metric)
            return outcomes
        if set(metric.statistics) <= set(outcomes.whole):
            return outcomes
        if f"{prefix}hypotheses" not in self.manifest["tables"]:
            raise self._lacks(metric)
        from headtool.hypotheses import Hypotheses

        frame = self.table(f"{prefix}hypotheses")
        references = self.table(f"{prefix}references")["text"].tolist()
        return Hypotheses.from_frame(frame, outcomes.masks).outcomes(references, metric)

    def signature(self, metric: Metric) -> str | None:
        """Return sacreBLEU's signature of the outcomes; None for metrics that have none.

        The run's own, with the settings and version of the time, or that of computing it now.
        """
        from headtool.translation_metrics import TranslationMetric

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
    import pandas as pd

    return pd.DataFrame([dataclasses.asdict(site) for site in sites])


def check_output(folder: Path, *, force: bool) -> None:
    """Refuse, before any work is done, an output folder that could not be written later.

    Raises
    ------
    HeadtoolError
        If `folder` exists and `force` is not given, if it exists and is no run (which is never
        overwritten), or if its parent takes no files.
    """
    try:
        taken = _exists(folder)
        if taken and not force:
            raise HeadtoolError(f"{folder} exists already; choose another --out or add --force")
        if taken and not _is_replaceable(folder):
            raise HeadtoolError(
                f"{folder} is no headtool run, so --force does not replace it; choose another --out"
            )
        # Nothing may be left behind by a command that fails later, so no folder is made yet.
        with tempfile.TemporaryFile(dir=_missing_parents(folder)[1]):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from error


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
            "provenance": dict(provenance),
            "tables": {name: _describe(made / f"{name}.parquet") for name in tables},
            "weights": {name: _describe(made / f"{name}.safetensors") for name in weights or {}},
        }
        text = json.dumps(manifest, indent=1, allow_nan=False) + "\n"
        (made / _MANIFEST).write_text(text, encoding="utf-8")
    return Run(folder, manifest)


@contextlib.contextmanager
def new_folder(folder: Path, *, force: bool) -> Iterator[Path]:
    """Fill a folder that appears at `folder` when the block ends, or, if it raises, not at all.

    Parameters
    ----------
    folder
        Where it is to appear.
    force
        Replace what headtool wrote there before.

    Raises
    ------
    HeadtoolError
        As `check_output`, or if the files cannot be written.
    """
    check_output(folder, force=force)
    place = folder.resolve()  # behind a link lies the folder that is replaced
    missing, _ = _missing_parents(place)
    made: Path | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=place.parent))
        made.chmod(0o777 & ~_umask())
        yield made
        _replace(place, made)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        for above in missing:
            with contextlib.suppress(OSError):  # it holds the new folder
                above.rmdir()


def read_run(folder: Path) -> Run:
    """Open a run directory; one that is damaged or no run is a `HeadtoolError`."""
    path = folder / _MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if (
            folder.name.endswith(".unfinished")
            or folder.with_name(f"{folder.name}.unfinished").is_dir()
        ):
            raise HeadtoolError(
                f"{folder} is not finished; give the command that began it again to continue it"
            ) from None
        if not folder.exists():
            raise HeadtoolError(
                f"{folder} is no headtool run: there is no such folder; check the path"
            ) from None
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
    aside = Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=folder.parent))
    old = aside / "run"
    try:
        os.rename(folder, old)
        os.rename(made, folder)
    except BaseException:
        if old.exists():
            os.rename(old, folder)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exists(path: Path) -> bool:
    """Whether there is anything at `path`, a dangling link included; else why not may be raised."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def _missing_parents(folder: Path) -> tuple[list[Path], Path]:
    """Folders above `folder` that do not exist, the innermost first, and the first that does."""
    missing: list[Path] = []
    for above in folder.absolute().parents:
        if _exists(above):
            return missing, above
        missing.append(above)
    raise AssertionError("the root folder exists")


def _is_replaceable(folder: Path) -> bool:
    """Whether headtool wrote a folder, in whatever version, or it is empty."""
    if not folder.is_dir():
        return False
    if not any(folder.iterdir()):
        return True
    for name, schema in ((_MANIFEST, "headtool/run/"), (PRUNED_RECORD, "headtool/pruned/")):
        try:
            record = json.loads((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and str(record.get("schema")).startswith(schema):
            return True
    return False


def _unwritable(folder: Path, error: OSError) -> HeadtoolError:
    return HeadtoolError(f"cannot write {folder}: {error.strerror or error}; choose another --out")


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
