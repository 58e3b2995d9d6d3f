"""The examples in docstrings run, and show what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from ..support.modules import MODULES

WITH_EXAMPLES = sorted(
    name for name, path in MODULES.items() if ">>>" in path.read_text(encoding="utf-8")
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_there_are_examples() -> None:
    assert {"headtool", "headtool.analysis.multiplicity"} <= set(WITH_EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_show_what_they_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where examples write
    if name.startswith("headtool.models.fairseq"):
        pytest.importorskip("fairseq")
    module = importlib.import_module(name)
    result = doctest.testmod(module, globs={}, optionflags=FLAGS)  # as they are when copied
    assert result.attempted > 0
    assert result.failed == 0, "the output above says which examples fail"


def test_an_example_that_is_wrong_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    module = type(pytest)("example")
    module.__doc__ = ">>> 1 + 1\n3\n"
    assert doctest.testmod(module, optionflags=FLAGS).failed == 1
    assert "Expected:\n    3" in capsys.readouterr().out
