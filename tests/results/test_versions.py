"""Versions name the commit of the checkout that headtool runs from."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

from headtool.results.versions import installed, versions

REPOSITORY = Path(__file__).parents[2]


def test_a_checkout_knows_its_commit() -> None:
    commit = versions().get("headtool-commit", "").removesuffix("-dirty")
    head = subprocess.run(
        ["git", "-C", str(REPOSITORY), "rev-parse", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert commit == head.stdout.strip()


def test_what_is_not_installed_has_no_version() -> None:
    assert installed(["numpy", "no-such-package"]) == {"numpy": version("numpy")}
