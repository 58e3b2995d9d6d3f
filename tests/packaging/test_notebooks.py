"""The notebooks run from the top, and are saved with what they put out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("classifier", "language_model")
MOST = 100_000  # bytes of a notebook with its outputs


def cells(path: Path) -> list[Any]:
    import nbformat

    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_every_notebook_is_tested() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_saved_and_modest(name: str) -> None:
    path = EXAMPLES / f"{name}.ipynb"
    found = cells(path)
    assert [cell.execution_count for cell in found] == list(range(1, len(found) + 1))
    assert all(cell.outputs for cell in found[1:])
    assert path.stat().st_size < MOST
    text = path.read_text(encoding="utf-8")
    assert "<progress" in text
    assert "/site-packages/" not in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_notebooks_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120).execute()  # an error in a cell is raised
    shown = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    ]
    assert sum("text/html" in output.get("data", {}) for output in shown) >= 5
