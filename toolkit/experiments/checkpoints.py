"""The checkpoints of a training run, in the order of training."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import Any

from headtool.errors import HeadtoolError

__all__ = ["find_checkpoints", "stamp"]


def find_checkpoints(pattern: str) -> list[tuple[str, str]]:
    """Find the checkpoints that a pattern names, in the order of training.

    Parameters
    ----------
    pattern
        fairseq checkpoints such as ``run/checkpoint*.pt``, folders of transformers models such as
        ``run/checkpoint-*``, or the output folder of a Trainer.

    Returns
    -------
    list of (name, SPEC)
        Ordered by the last number in their names. Where some have none (``checkpoint_best.pt``),
        these are copies of others and left out.

    Raises
    ------
    HeadtoolError
        If there are fewer than two.
    """
    place = os.path.expanduser(pattern)
    if os.path.isdir(place):
        place = os.path.join(glob.escape(place), "checkpoint*")
    paths = [Path(path) for path in glob.glob(place)]
    paths = [path for path in paths if path.suffix == ".pt" or (path / "config.json").is_file()]
    numbered = [path for path in paths if re.search(r"\d", path.stem)]
    paths = sorted(numbered or paths, key=lambda path: (_number(path), path.name))
    if len(paths) < 2:
        raise HeadtoolError(
            f"`checkpoints` '{pattern}' names {len(paths)} checkpoints, and two make a course; "
            "quote a pattern such as 'run/checkpoint*.pt', or name the output folder of a Trainer"
        )
    return [(path.stem, f"fairseq:{path}" if path.suffix == ".pt" else str(path)) for path in paths]


def _number(path: Path) -> int:
    numbers = re.findall(r"\d+", path.stem)
    return int(numbers[-1]) if numbers else 0


def stamp(spec: str) -> dict[str, Any]:
    """Describe a checkpoint so that a later one of the same name differs, without reading it."""
    path = Path(spec.removeprefix("fairseq:"))
    file = path if path.is_file() else path / "config.json"
    if not file.is_file():  # no file of the user's, such as a built-in model
        return {"spec": spec}
    return {"spec": spec, "bytes": file.stat().st_size, "modified": file.stat().st_mtime_ns}
