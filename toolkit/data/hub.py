"""Data sets from the Hugging Face hub or a local folder, through the `datasets` library."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headtool.data.messages import first_line, quoted
from headtool.data.tables import Table, as_cells
from headtool.data.textfile import user_path
from headtool.errors import HeadtoolError

__all__ = ["dataset_table", "hub_table"]

# The split may carry a slice that itself holds a colon: validation[:200].
_SPEC = re.compile(r"(?P<path>.+):(?P<split>[\w.+-]+(?:\[[^\]]*\])?)")


def hub_table(spec: str) -> Table:
    """Load ``hub:NAME[/CONFIG]:SPLIT``, such as ``hub:glue/sst2:validation``.

    NAME is a name on the hub, with or without its owner, or a local folder. Of two parts, the
    second is tried as a configuration first and as a name of the owner's second. Fields inside a
    field are columns with a dot: ``translation.de``.

    Raises
    ------
    HeadtoolError
        If the spec does not parse, or the data set, configuration or split is not there or not
        reachable.
    """
    match = _SPEC.fullmatch(spec.removeprefix("hub:"))
    if match is None:
        raise HeadtoolError(f"{spec!r} lacks its split; write it like hub:glue/sst2:validation")
    return dataset_table(_load(match["path"], match["split"], spec), repr(spec))


def dataset_table(data: Any, source: str) -> Table:
    """Give access to the columns of a `datasets.Dataset`.

    Parameters
    ----------
    data
        The data set, which stays as it is.
    source
        What to call it in messages.

    Raises
    ------
    HeadtoolError
        If it has no rows.
    """
    import datasets

    data = whole = data.with_format(None)
    if len(data) == 0:
        raise HeadtoolError(f"{source} has no rows; choose another split")
    sounds = [name for name, one in data.features.items() if isinstance(one, datasets.Audio)]
    data = data.remove_columns(sounds).flatten()
    features = data.features

    def place(index: int) -> str:
        return f"{source}, row {index + 1}"

    def values(name: str) -> Iterator[object]:
        try:
            yield from (whole if name in sounds else data)[name]
        except ImportError as error:  # what decodes sound is a package of its own
            raise HeadtoolError(
                f"{source}: the datasets library cannot decode column {quoted(name)} "
                f"({first_line(error)}); install that, or give arrays of floats"
            ) from error

    def cells(name: str, *, lists: bool = False) -> list[str | None]:
        feature = features.get(name)
        if isinstance(feature, datasets.Image):  # as it was encoded
            encoded = data.cast_column(name, datasets.Image(decode=False))[name]
            return as_cells(encoded, name, place, lists=lists)
        while hasattr(feature, "feature"):  # a list
            feature = feature.feature
        names = feature.names if isinstance(feature, datasets.ClassLabel) else None
        return as_cells(values(name), name, place, label_names=names, lists=lists)

    return Table(source, (*data.column_names, *sounds), cells, place, values)


def _load(path: str, split: str, spec: str) -> Any:
    import datasets

    error: Exception | None = None
    for arguments in _readings(path):
        try:
            return datasets.load_dataset(*arguments, split=split)
        except datasets.exceptions.DatasetNotFoundError as not_found:
            error = error or not_found
        except ConnectionError as unreachable:
            error = error or unreachable
            if not datasets.config.HF_HUB_OFFLINE:
                break  # each further try would wait for its own time-out
        except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as failed:
            raise HeadtoolError(
                f"cannot load {spec!r}: {first_line(failed.__cause__ or failed)}"
            ) from None
    if isinstance(error, ConnectionError):
        raise HeadtoolError(
            f"cannot reach the hub for {spec!r}, and it is not in the local cache; check the "
            "network (HF_HUB_OFFLINE must be unset), or give a file"
        ) from None
    raise HeadtoolError(
        f"the hub has no public data set for {spec!r}; check the name (owner/name/config), "
        "log in with 'hf auth login' if it is gated, or give a file"
    ) from None


def _readings(path: str) -> list[tuple[str, ...]]:
    """Return the ways to read a path as arguments of ``load_dataset``, the likelier first."""
    folder = user_path(path)
    if os.path.isdir(folder):
        return [(str(folder),)]
    if os.path.isdir(folder.parent) and folder.parent != Path("."):
        return [(str(folder.parent), folder.name)]
    parts = path.split("/")
    if len(parts) == 3:
        return [(f"{parts[0]}/{parts[1]}", parts[2])]
    if len(parts) == 2:
        return [(parts[0], parts[1]), (path,)]
    return [(path,)]
