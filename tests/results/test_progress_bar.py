"""The progress bar in a terminal, in a notebook, and where there is neither."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from headtool import ProgressBar


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(ProgressBar()("abc", total=3, label="letters")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(ProgressBar()("ab", total=2, label="letters")) == ["a", "b"]
    out, err = capsys.readouterr()
    assert out == ""
    assert "0/2 letters" in err
    assert err.endswith("\r\x1b[K")
    assert "\n" not in err


class _Handle:
    def __init__(self, drawn: list[str]) -> None:
        self.drawn = drawn

    def update(self, drawing: str) -> None:
        self.drawn.append(drawing)


def test_a_notebook_has_one_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def display(drawing: str, *, display_id: bool) -> _Handle:
        assert display_id
        drawn.append("new: " + drawing)
        return _Handle(drawn)

    shell = SimpleNamespace(kernel=object())
    modules: dict[str, Any] = {
        "IPython": SimpleNamespace(get_ipython=lambda: shell),
        "IPython.display": SimpleNamespace(HTML=str, display=display),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    bar = ProgressBar()
    for label in ("<first>", "second"):
        assert list(bar(range(4), total=4, label=label)) == [0, 1, 2, 3]
    assert [text.startswith("new: ") for text in drawn] == [True] + [False] * (len(drawn) - 1)
    assert 'value="0" max="4"' in drawn[0]
    assert "&lt;first&gt;" in drawn[0]
    assert 'value="4" max="4"' in drawn[-1]
    assert "second: done" in drawn[-1]
