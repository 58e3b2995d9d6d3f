"""The wheel holds what the repository holds: no room, subfolder or asset is forgotten."""

from __future__ import annotations

import shutil
import subprocess
import sys
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
    "headtool/reports/formats/assets/",
    "headtool/reports/formats/templates/",
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
def wheel(source: Path) -> list[str]:
    """Names of the files in the built wheel."""
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
    (built,) = (source / "dist").iterdir()
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
