"""What a bug report needs is found without importing anything heavy, and no secret is in it."""

from __future__ import annotations

import os
import stat
from importlib.metadata import version
from pathlib import Path

import pytest

import headtool
from headtool.experiments import environment


def facts(part: str) -> dict[str, str]:
    return {name: value for of, name, value in headtool.env().facts if of == part}


def test_versions_are_those_of_the_packages() -> None:
    found = facts("versions")
    for package in ("headtool", "torch", "transformers", "pandas", "scipy", "typer"):
        assert found[package] == version(package)
    assert "no-such-package" not in found


def test_the_machine_is_described() -> None:
    import torch

    found = facts("machine")
    assert found["cores"].endswith(f" of {os.cpu_count()}")
    built = torch.version.cuda
    assert found["torch built for"] == ("CPU" if built is None else f"CUDA {built}")
    assert all(found[name] for name in ("system", "processor", "GPU"))


def test_variables_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    found = facts("variables")
    assert found["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in found
    assert "hf_secret" not in str(headtool.env().document())


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo 'Tesla T4, 15360 MiB, 550.1'; echo", "Tesla T4, 15360 MiB, 550.1"),
        ("echo a; echo b", "a; b"),
        ("echo 'no driver'; exit 9", "none found"),
    ],
)
def test_gpus_are_those_that_the_driver_lists(
    script: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert facts("machine")["GPU"] == found


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("cuda: Optional[str] = None\nhip: Optional[str] = None\n", "CPU"),
        ("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n", "CUDA 12.8"),
        ("cuda = None\nhip: Optional[str] = '6.4'\n", "HIP 6.4"),
    ],
)
def test_what_torch_was_built_for_is_read_not_imported(
    text: str, build: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version.py").write_text(text)

    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: Spec())
    assert facts("machine")["torch built for"] == build


def test_as_table_and_document() -> None:
    found = headtool.env()
    assert list(found.frame.columns) == ["part", "name", "value"]
    rows = found.document()["env"]
    assert [tuple(row.values()) for row in rows] == list(found.facts)
