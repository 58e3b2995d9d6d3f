"""Versions of the software behind a result."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path

__all__ = ["installed", "versions"]


_PACKAGES = ("headtool", "torch", "transformers", "fairseq-fixed", "numpy")


@functools.cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide numbers, and headtool's git commit."""
    found = {"python": platform.python_version(), **installed(_PACKAGES)}
    commit = _git_commit(Path(__file__).resolve().parents[2])
    return found | ({"headtool-commit": commit} if commit else {})


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Versions of packages by name, without those that are not installed; none is imported.

    Parameters
    ----------
    packages
        Their names, as pip knows them.
    """
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that is not installed
    return found


def _git_commit(folder: Path) -> str | None:
    """Commit of the checkout that headtool runs from, ``-dirty`` appended; None for a wheel."""
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None  # no git here, or a repository without commits
    return done.stdout.strip() or None
