"""Sweeps of gates in reports: the chart is at the numbers of the table, in all formats."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headtool.reports.contents.run import read_contents
from headtool.reports.formats.html import render_html
from headtool.reports.sections.gates import gates_section, sweep_of
from headtool.reports.sections.page import build_page
from headtool.reports.writing import write_report
from headtool.results.runs import write_run

ORIGINAL, ADAPTED = "kept heads, original weights", "kept heads, adapted weights"


SCRATCH = "kept heads from scratch"


POINTS = {0.01: (20, 0.9), 0.1: (12, 0.8), 0.5: (3, 0.6)}


def source(**changes: Any) -> dict[str, Any]:
    return {
        "method": "gates",
        "options": {"sweep": "0.1,0.5"},
        "metric": "accuracy",
        "seed": 0,
        "model": {"spec": "mine", "task": "classification", "labels": 2},
        "data": {"spec": "dev.tsv", "examples": 50},
        "versions": {},
        **changes,
    }


def row(model: str, heads: int, value: float, **more: Any) -> dict[str, Any]:
    kinds = {"enc-self": heads // 2, "cross": heads - heads // 2}
    counted = {"model": model, "heads": heads, **kinds, "accuracy": value, "loss": 1 - value}
    return {**more, **counted, "examples": 10}


def write(folder: Path, *, models=(ORIGINAL, ADAPTED), sweep: bool = True, **changes: Any) -> Path:
    rows = [
        row(model, heads, value + 0.01 * place, **{"lambda": weight})
        for weight, (heads, value) in POINTS.items()
        for place, model in enumerate(models)
    ]
    evaluation = [row("whole model", 24, 0.95), row(ORIGINAL, 20, 0.9)]
    tables = {"gates.evaluation": pd.DataFrame(evaluation)}
    if sweep:
        tables["gates.sweep"] = pd.DataFrame(rows)
    write_run(
        folder,
        command="headtool score",
        provenance={"gates": source(**changes)},
        tables=tables,
        force=True,
    )
    return folder


def test_points_are_where_the_table_has_them(tmp_path: Path) -> None:
    contents = read_contents(write(tmp_path / "run"))
    found = sweep_of(contents)
    assert found is not None
    assert found.lines == {
        "original weights": [(3, 0.6), (12, 0.8), (20, 0.9)],
        "adapted weights": [(3, 0.61), (12, 0.81), (20, 0.91)],
    }
    assert found.lambdas == [(3, "λ 0.5"), (12, "λ 0.1"), (20, "λ 0.01")]
    assert (found.total, found.whole) == (24, 0.95)
    section = gates_section(contents)
    assert section is not None
    drawing = str(section.figures[0].panels[0].drawing)
    series = re.findall(r'<g class="series .*?</g>', drawing)
    dots = [[tuple(map(float, p)) for p in re.findall(r'cx="(.*?)" cy="(.*?)"', s)] for s in series]
    assert [len(line) for line in dots] == [3, 3]
    xs = [x for x, _ in dots[0]]
    assert (xs[1] - xs[0]) / (xs[2] - xs[0]) == pytest.approx((12 - 3) / (20 - 3), abs=1e-3)
    assert [y for _, y in dots[0]] == sorted((y for _, y in dots[0]), reverse=True)
    # Each lambda stands above its points.
    for (x, _), text in zip(dots[0], ("λ 0.5", "λ 0.1", "λ 0.01"), strict=True):
        label = re.search(rf'<text x="([\d.]+)"[^>]*>{text}</text>', drawing)
        assert label is not None
        assert float(label[1]) == pytest.approx(x, abs=0.01)


def test_a_row_for_each_lambda_with_heads_by_kind(tmp_path: Path) -> None:
    section = gates_section(read_contents(write(tmp_path / "run")))
    assert section is not None
    sweep, evaluation = section.tables
    assert [column.title for column in sweep.columns] == [
        "lambda",
        "heads kept",
        "enc-self",
        "cross",
        *(
            f"{metric}, {name} weights"
            for metric in ("accuracy", "loss")
            for name in ("original", "adapted")
        ),
    ]
    assert [cell.text for cell in sweep.rows[1]] == [
        *("0.1", "12", "6", "6", "0.800", "0.810", "0.200", "0.190")
    ]
    assert [line[0].text for line in evaluation.rows] == ["whole model", ORIGINAL]
    assert (
        "With lambda 0.5, 3 of 24 heads stay: accuracy is 0.6 on original weights and 0.61 on "
        "adapted weights, and 0.95 for the whole model."
    ) in section.text[0]
    assert section.text[1] == "Quality is measured on 10 examples that were held out of training."


def test_examples_that_trained_are_called_that(tmp_path: Path) -> None:
    used = {"spec": "dev.tsv", "examples": 10}
    section = gates_section(read_contents(write(tmp_path / "run", data=used)))
    assert section is not None
    assert "10 examples that the gates were trained on too" in " ".join(section.text)


def test_training_from_scratch_is_drawn_and_explained(tmp_path: Path) -> None:
    recipe = {"steps": 70, "batch_size": 8, "passes": 14.0, "examples": 40}
    run = write(tmp_path / "run", models=(ORIGINAL, SCRATCH), scratch=recipe)
    section = gates_section(read_contents(run))
    assert section is not None
    assert "From scratch means 70 steps of 8 examples" in section.text[2]
    assert "14 passes over 40 examples" in section.text[2]
    drawing = str(section.figures[0].panels[0].drawing)
    assert re.findall(r'data-series="(.*?)"><title', drawing) == [
        "original weights",
        "from scratch",
    ]


def test_lambdas_that_keep_as_many_share_a_label(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    tables = pd.DataFrame([row(ORIGINAL, 9, 0.7, **{"lambda": v}) for v in (0.3, 0.2)])
    whole = pd.DataFrame([row("whole model", 24, 0.95)])
    write_run(
        run,
        command="",
        provenance={"gates": source()},
        tables={"gates.sweep": tables, "gates.evaluation": whole},
        force=True,
    )
    found = sweep_of(read_contents(run))
    assert found is not None
    assert found.lambdas == [(9, "λ 0.2, 0.3")]
    assert found.lines == {"original weights": [(9, 0.7)]}


def test_without_a_sweep_there_is_the_table_alone(tmp_path: Path) -> None:
    contents = read_contents(write(tmp_path / "run", sweep=False))
    assert sweep_of(contents) is None
    section = gates_section(contents)
    assert section is not None
    assert [table.name for table in section.tables] == ["gates-evaluation"]
    assert section.figures == []


def test_every_format_shows_it(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    contents = read_contents(run)
    assert "gates" in [section.name for section in build_page(contents).sections]
    assert "What trained gates keep" in render_html(contents)
    markdown = write_report(run, format="markdown").read_text()
    assert "| 0.5 | 3 | 1 | 2 | 0.600 |" in markdown
    assert (
        "$0.5$ & $3$ & $1$ & $2$ & $0.600$"
        in (write_report(run, format="latex") / "sweep.tex").read_text()
    )
    figures = write_report(run, format="figures")
    assert {path.name for path in figures.iterdir()} >= {"sweep.pdf", "sweep.png", "sweep.svg"}
