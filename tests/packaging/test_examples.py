"""The examples run, and say what the tables say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "compare_classifier",
        "prune_translation",
        "wrap_model",
    }


@pytest.mark.slow
def test_comparing_methods_on_a_classifier(capsys: pytest.CaptureFixture[str]) -> None:
    found = example("compare_classifier").main(limit=20, draws=1)
    printed = capsys.readouterr().out
    assert "heads one at a time:" in printed
    assert f"{found.agreement['tau_b'][0]:.6f}" in printed
    assert f"{found.stability['tau_b'][2]:.6f}" in printed
    assert len(found.tests) == 64
    assert "16 heads removed: {'whole': " in printed


@pytest.mark.slow
def test_pruning_a_translation_model(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fairseq")
    found = example("prune_translation").main(limit=8, draws=1)
    printed = capsys.readouterr().out
    (first, *rows) = printed.splitlines()[:5]
    assert first.startswith("the whole model: ")
    assert [row.split()[0] for row in rows] == ["all", "enc-self", "dec-self", "cross"]
    assert "100%" not in rows[1]  # the last head of a layer stays
    assert found.settings["keep_one_per_layer"] is True


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_wrapping_a_model_that_was_trained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = example("wrap_model").main(tmp_path)
    printed = capsys.readouterr().out
    assert "memory:BertForSequenceClassification@" in printed
    assert found.settings["whole"][found.settings["data"][0]]["accuracy"] > 0.8
    assert {path.name for path in tmp_path.iterdir()} == {
        *("curves.pdf", "heads.pdf", "overview.tex", "report.html")
    }
