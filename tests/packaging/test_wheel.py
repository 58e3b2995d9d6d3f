"""The wheel holds what the repository holds: no room, subfolder or asset is forgotten."""

from __future__ import annotations

import email
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

# Folder of the repository -> where its files must lie in the wheel. Written out rather than read
# from pyproject.toml, so that a room missing there is noticed.
ROOMS = {
    "toolkit": "headtool",
    "analysis": "headtool/analysis",
    "cli": "headtool/cli",
    "methods": "headtool/methods",
    "reports": "headtool/reports",
}
ASSETS = (
    "headtool/builtin/assets/",
    "headtool/methods/catalogue.json",
    "headtool/reports/formats/assets/",
    "headtool/reports/formats/templates/",
    "headtool/studies/example.yaml",
    "headtool/studies/study.schema.json",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources: a build leaves folders behind, and stale ones end up in wheels."""
    folder = tmp_path_factory.mktemp("source")
    for room in ROOMS:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(REPOSITORY / room, folder / room, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, folder)
    return folder


@pytest.fixture(scope="module")
def built(source: Path) -> Path:
    """The built wheel."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--no-build-isolation", "--wheel-dir", str(source / "dist"), "."),
        ],
        cwd=source,
        check=True,
        capture_output=True,
        text=True,
    )
    (found,) = (source / "dist").iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(built: Path) -> list[str]:
    """Names of the files in the built wheel."""
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


def in_wheel(source: Path, pattern: str) -> set[str]:
    """Where the files of the rooms that match a pattern must lie."""
    return {
        f"{target}/{path.relative_to(source / room).as_posix()}"
        for room, target in ROOMS.items()
        for path in (source / room).rglob(pattern)
        if path.is_file()
    }


def test_every_module_is_in_the_wheel(source: Path, wheel: list[str]) -> None:
    modules = {name for name in wheel if name.endswith(".py")}
    assert modules == in_wheel(source, "*.py")


def test_every_asset_and_the_type_marker_are_in_the_wheel(source: Path, wheel: list[str]) -> None:
    assets = {name for name in in_wheel(source, "*") if name.startswith(ASSETS)}
    for place in ASSETS:
        assert any(name.startswith(place) for name in assets), f"{place} is empty"
    assert assets | {"headtool/py.typed"} <= set(wheel)


def test_the_wheel_holds_nothing_else(wheel: list[str]) -> None:
    top = {name.split("/")[0] for name in wheel}
    (metadata,) = (name for name in top if name != "headtool")
    assert metadata.endswith(".dist-info")
    strays = [
        name
        for name in wheel
        if name.startswith("headtool/")
        and not name.endswith((".py", "py.typed"))
        and not name.startswith(ASSETS)
    ]
    assert strays == []


def test_a_folder_missing_from_the_package_list_would_be_noticed(
    source: Path, wheel: list[str]
) -> None:
    extra = source / "toolkit" / "forgotten" / "module.py"
    extra.parent.mkdir()
    extra.write_text("")
    try:
        missing = in_wheel(source, "*.py") - set(wheel)
    finally:
        shutil.rmtree(extra.parent)
    assert missing == {"headtool/forgotten/module.py"}


def test_the_metadata_is_complete(built: Path) -> None:
    with zipfile.ZipFile(built) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
        names = set(archive.namelist())
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert f"name: {metadata['Author']}" in citation
    assert f"version: {metadata['Version']}" in citation
    assert f"license: {metadata['License-Expression']}" in citation
    assert set(metadata["Keywords"].split(",")) == set(
        re.findall(r"^  - ([\w ]+)$", citation.partition("keywords:")[2], re.MULTILINE)
    )
    assert metadata["Summary"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert f"{name.removesuffix('METADATA')}licenses/LICENSE" in names


def demo() -> list[str]:
    """The command of ``make demo``, without the place that it writes to."""
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"headtool (compare .*--out demo.*)$", makefile, re.MULTILINE)
    return [word for word in shlex.split(line) if word not in ("--out", "demo", "--force")]


@pytest.mark.slow
def test_the_installed_wheel_runs_the_demo(built: Path, tmp_path: Path) -> None:
    """In an environment of its own, which borrows from this one everything but headtool."""
    place = tmp_path / "environment"
    venv.create(place, with_pip=False)
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    (site,) = place.glob("[Ll]ib/**/site-packages")
    # A path in a .pth file is searched, but .pth files in it (an editable headtool) are not read.
    (site / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = ["install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", str(built)]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COLUMNS")
    }

    def run(*words: object) -> str:
        done = subprocess.run(
            [*map(str, words)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "pip", "--python", python, *install)
    where = run(python, "-c", "import headtool; print(headtool.__file__)")
    assert Path(where.strip()).is_relative_to(site)
    small = ("--limit", 16, "--draws", 2, "--resamples", 50, "--steps", "50%")
    gates = ("--set", "gates.steps=5")
    command = python.with_name("headtool")
    assert "agreement" in run(command, *demo(), *small, *gates, "--out", "demo")
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert "<!doctype html>" in page
    held = run(command, "show", "demo")
    assert "report.html" in held
    assert "gradient" in run(command, "methods")
