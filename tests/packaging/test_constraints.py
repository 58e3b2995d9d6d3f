"""The pinned versions: complete, portable, and without what breaks an installation."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]


def pins() -> dict[str, str]:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def declared(*extras: str) -> list[Requirement]:
    """What headtool asks for, with some of its extras."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    found, waiting = [Requirement(line) for line in project["dependencies"]], [*extras]
    while waiting:
        for line in optional[waiting.pop()]:
            requirement = Requirement(line)
            if requirement.name == "headtool":
                waiting += requirement.extras
            else:
                found.append(requirement)
    return found


def needed(distribution: str, extra: str = "") -> list[Requirement]:
    """What an installed distribution asks for on this machine, with one of its extras."""
    requirements = map(Requirement, importlib.metadata.requires(distribution) or [])
    return [r for r in requirements if r.marker is None or r.marker.evaluate({"extra": extra})]


def names(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(requirement.name) for requirement in requirements}


def test_each_line_pins_one_public_version() -> None:
    text = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    bad = [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line)]
    assert bad == []
    assert len(pins()) == len(lines)


def test_everything_that_gets_installed_is_pinned() -> None:
    found: set[str] = set()
    waiting = declared("dev", "fairseq-deps")
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found:
            continue
        found.add(name)
        # A build of torch for GPUs brings its own libraries, each pinned by torch itself.
        if name == "torch":
            continue
        try:
            for extra in ("", *requirement.extras):
                waiting += needed(requirement.name, extra)
        except importlib.metadata.PackageNotFoundError:
            continue  # set up without fairseq
    assert {"pytest", "torch", "omegaconf"} <= found
    assert found - set(pins()) == set()


def test_pins_satisfy_the_declared_ranges() -> None:
    pinned = pins()
    for requirement in declared("dev", "fairseq-deps"):
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} but {version} is pinned"


def test_torchaudio_is_left_out() -> None:
    """One that does not match torch breaks the import of every transformers model."""
    assert "torchaudio" not in pins()
    assert "torchaudio" not in names(declared("dev", "fairseq-deps"))


def test_what_fairseq_needs_is_listed() -> None:
    """fairseq-fixed is installed without its dependencies, so that the extra has to name them."""
    pytest.importorskip("fairseq")
    assert names(needed("fairseq-fixed")) - names(declared("fairseq-deps")) == {"torchaudio"}
