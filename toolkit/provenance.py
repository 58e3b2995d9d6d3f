"""What reproduces a number: the versions, fingerprints, options and seed behind it."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headtool.models.base import Examples, ModelAdapter

__all__ = ["provenance", "versions"]

_PACKAGES = ("headtool", "torch", "transformers", "fairseq-fixed", "numpy")


def provenance(
    model: ModelAdapter,
    examples: Examples,
    method: str,
    options: Mapping[str, Any],
    metric: str,
    seed: int,
) -> dict[str, Any]:
    """Describe one method's run; everything in it can be written as JSON."""
    return {
        "method": method,
        "options": dict(options),
        "metric": metric,
        "seed": seed,
        "model": {
            "spec": model.spec,
            "library": model.library,
            "class": type(model.module).__name__,
            "task": model.task,
            "labels": len(model.labels) or None,
            "heads": model.sites.summary,
            "dtype": str(next(model.module.parameters()).dtype).removeprefix("torch."),
            "device": str(model.device),
            "sha256": model.fingerprint,
        },
        "data": {
            "spec": examples.data.spec,
            "examples": len(examples),
            "truncated": examples.truncated,
            "batch_tokens": examples.batch_tokens,
            "sha256": examples.data.fingerprint,
        },
        "versions": versions(),
    }


@functools.cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide numbers, and headtool's git commit."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that is not installed
    commit = _git_commit(Path(__file__).resolve().parent)
    return found | ({"headtool-commit": commit} if commit else {})


def _git_commit(folder: Path) -> str | None:
    """Commit of the checkout that headtool runs from, ``-dirty`` appended; None for a wheel."""
    if not (folder.parent / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None  # no git here, or a repository without commits
    return done.stdout.strip() or None
