"""Methods of other packages: found through their entry points, as an installed package has them."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headtool.errors import HeadtoolError
from headtool.methods import BUILTIN, get_method, method_names
from headtool.methods.base import Method

EXAMPLE = Path(__file__).resolve().parents[1] / "example_package"
CODE = (EXAMPLE / "example_depth.py").read_text()


def install(folder: Path, package: str, entries: dict[str, str], code: str = CODE) -> None:
    """Lay out a package as pip does: its module, and the metadata that names its methods."""
    folder.mkdir(exist_ok=True)
    (folder / f"{package}.py").write_text(code)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {place}\n" for name, place in entries.items())
    (info / "entry_points.txt").write_text(f"[headtool.methods]\n{lines}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for packages, on Python's path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("example_"):
            del sys.modules[name]


def test_builtin_methods_are_classes_with_their_names() -> None:
    assert set(BUILTIN) <= set(method_names())
    for name in BUILTIN:
        assert issubclass(get_method(name), Method)
        assert get_method(name).name == name


def test_no_builtin_name_is_registered_by_headtool_itself() -> None:
    entries = importlib.metadata.entry_points(group="headtool.methods")
    assert not {entry.name for entry in entries} & set(BUILTIN)


def test_finds_a_method_of_another_package(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "depth" not in method_names()
    monkeypatch.syspath_prepend(EXAMPLE)
    assert method_names() == tuple(sorted([*BUILTIN, "depth"]))
    method = get_method("depth").configured({"slope": "2"})
    assert method.settings() == {"slope": 2.0}


def test_looks_at_a_method_only_when_it_is_asked_for(site: Path) -> None:
    install(site, "example_broken", {"broken": "example_broken:X"}, code="1 / 0")
    assert "broken" in method_names()
    assert get_method("gradient").name == "gradient"
    with pytest.raises(ZeroDivisionError):  # a bug in there keeps its traceback
        get_method("broken")


def test_a_name_taken_twice_is_an_error(site: Path) -> None:
    install(site, "example_one", {"depth": "example_one:Depth"})
    install(site, "example_two", {"depth": "example_two:Depth"})
    with pytest.raises(HeadtoolError, match="two methods are called 'depth'") as caught:
        method_names()
    assert "example_one:Depth" in str(caught.value)
    assert "example_two:Depth" in str(caught.value)
    assert "rename" in str(caught.value)


def test_builtin_names_are_not_to_be_had(site: Path) -> None:
    install(site, "example_depth", {"gradient": "example_depth:Depth"})
    with pytest.raises(HeadtoolError, match=r"two methods are called 'gradient'.*example_depth"):
        get_method("gradient")


@pytest.mark.parametrize(
    ("entry", "code", "reason"),
    [
        ("example_gone:Depth", CODE, "No module named 'example_gone'"),
        ("example_depth:Width", CODE, "has no attribute 'Width'"),
        ("example_depth", CODE, "no attribute ''"),
        ("example_depth:option", CODE, "no subclass of headtool.methods.base.Method"),
        ("example_depth:np", CODE, "no subclass of headtool.methods.base.Method"),
        ("example_depth:Depth", CODE.replace('"depth"', '"deep"'), "calls itself 'deep'"),
        ("example_depth:Depth", "import torhc\n", "No module named 'torhc'"),
        ("example_depth:Depth", "def :\n", "invalid syntax"),
    ],
    ids=["module", "class", "no class", "no method", "a module", "name", "import", "syntax"],
)
def test_a_broken_package_gives_one_line(site: Path, entry: str, code: str, reason: str) -> None:
    install(site, "example_depth", {"depth": entry}, code=code)
    with pytest.raises(HeadtoolError) as caught:
        get_method("depth")
    message = str(caught.value)
    assert message.startswith(f"method 'depth' ({entry}) cannot be loaded: ")
    assert reason in message
    assert "uninstall its package" in message
    assert "\n" not in message


def test_naming_methods_imports_none() -> None:
    code = (
        "import sys; from headtool.methods import method_names; method_names(); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'pandas')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
