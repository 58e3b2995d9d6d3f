"""The progress bar in a terminal, in a notebook, and where there is neither."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import headtool
from headtool import ProgressBar
from headtool.progress import silent
from headtool.results.progress_bar import shown


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
    assert "letters" in err
    assert "0/2" in err
    assert err.rpartition("\x1b[2K")[2].strip("\r") == "\x1b[?25h"  # the line is gone
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


def test_work_inside_work_has_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = ProgressBar()
    for _ in bar("ab", total=2, label="outer"):
        assert list(bar("cd", total=2, label="[inner]")) == ["c", "d"]
    assert "[inner]" in capsys.readouterr().err
    assert list(bar("e", total=1, label="again")) == ["e"]
    assert "again" in capsys.readouterr().err


def test_true_is_a_bar() -> None:
    assert isinstance(shown(True), ProgressBar)
    assert shown(False) is silent
    bar = ProgressBar()
    assert shown(bar) is bar


def test_every_function_that_runs_a_model_takes_true(monkeypatch: pytest.MonkeyPatch) -> None:
    labels: list[str] = []

    def told(self: ProgressBar, items: Any, *, total: int, label: str) -> Any:
        labels.append(label)
        yield from items

    monkeypatch.setattr(ProgressBar, "__call__", told)
    model = headtool.load_model("builtin:nli", device="cpu")
    data = headtool.load_data("builtin:nli/matched", limit=8)
    examples = model.encode(data)
    runs: list[Callable[[], Any]] = [
        lambda: headtool.score(model, data, progress=True),
        lambda: headtool.ablate(model, data, heads=["enc-self.0.1"], progress=True),
        lambda: headtool.curve(
            model, data, steps="50%", draws=2, resamples=50, faithfulness=False, progress=True
        ),
        lambda: headtool.roles(model, data, roles=["separator"], progress=True),
        lambda: headtool.differentiate(model, examples, progress=True),
        lambda: headtool.evaluate(model, examples, [], progress=True),
        lambda: headtool.get_method("gradient")().score(model, examples, progress=True),
    ]
    for run in runs:
        labels.clear()
        run()
        assert labels
