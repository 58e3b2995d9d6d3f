"""Runs of roles and of dynamics can be shown: what the page says is what the tables say."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from headtool.errors import HeadtoolError
from headtool.reports.contents.run import read_contents
from headtool.reports.formats.html import render_html
from headtool.reports.sections.page import build_page
from headtool.reports.writing import write_report
from headtool.results.runs import write_run

from .test_role_tables import SOURCE, frame


@pytest.fixture
def roles(tmp_path: Path) -> Path:
    write_run(
        tmp_path / "roles",
        command="headtool roles",
        provenance={"roles": {**SOURCE, "metric": "share"}},
        tables={"roles": frame()},
    )
    return tmp_path / "roles"


@pytest.fixture
def dynamics(tmp_path: Path) -> Path:
    shares = [0.0, 0.5, 0.0, 0.5]
    curves = pd.DataFrame({"checkpoint": [*"aabb"], "share": shares})
    tables = {
        "checkpoint_scores": pd.DataFrame({"checkpoint": ["a"], "score": [1.0]}),
        "checkpoint_curves": curves.assign(value=[0.8, 0.4, 0.9, 0.5], relative=[1, 0.5, 1, 0.55]),
        "prunability": pd.DataFrame({"checkpoint": [*"ab"], "whole": [0.8, 0.9]}),
        "rank_stability": pd.DataFrame(
            {"checkpoint_x": ["a"], "checkpoint_y": ["b"], "spearman": [0.321]}
        ),
    }
    source = {"command": "dynamics", "checkpoints": ["a", "b"], "options": {"steps": "50%"}}
    write_run(tmp_path / "run", command="", provenance={"dynamics": source}, tables=tables)
    return tmp_path / "run"


def test_roles_are_counted_and_their_heads_listed(roles: Path) -> None:
    page = build_page(read_contents(roles))
    grid, section = page.sections
    assert grid.title == "Which heads have which role"
    assert [view.name for view in grid.choices.views] == ["roles"]
    table = frame()
    found = table[table["label"] == "yes"]
    heads = found[["kind", "layer", "head"]].drop_duplicates()
    assert f"Of three heads, {len(heads)} have at least one role" in section.text[0]
    counts, listed = section.tables
    assert {row[0].text for row in counts.rows} == {"syntactic", "first-token"}
    assert len(listed.rows) == len(found) > 0
    assert [row[0].text for row in listed.rows] == [
        f"{row['kind']}.{row['layer']}.{row['head']}"
        for _, row in found.sort_values("share", ascending=False, kind="stable").iterrows()
    ]
    assert "Heads that have a role" in render_html(read_contents(roles))


def test_checkpoints_are_shown(dynamics: Path) -> None:
    (section,) = build_page(read_contents(dynamics)).sections
    by_name = {table.name: table for table in section.tables}
    assert list(by_name) == ["prunability", "checkpoint-curves", "rank-stability"]
    assert [cell.text for cell in by_name["rank-stability"].rows[0]] == ["a", "b", "0.321"]
    assert len(by_name["checkpoint-curves"].rows) == 4


@pytest.mark.parametrize("name", ["roles", "dynamics"])
@pytest.mark.parametrize("form", ["html", "markdown", "latex", "csv"])
def test_they_can_be_written(request, tmp_path: Path, name: str, form: str) -> None:
    run = request.getfixturevalue(name)
    assert write_report(run, format=form, out=tmp_path / "out").exists()


def test_a_run_without_figures_leaves_no_empty_folder(dynamics: Path, tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match="dynamics has tables and no figures"):
        write_report(dynamics, format="figures", out=tmp_path / "figures")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_roles_alone_have_a_figure(roles: Path, tmp_path: Path) -> None:
    folder = write_report(roles, format="figures", out=tmp_path / "figures")
    assert {path.name for path in folder.iterdir()} == {"heads.pdf", "heads.svg", "heads.png"}


def test_other_runs_are_told_which_can_be_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "run", command="", provenance={}, tables={})
    with pytest.raises(HeadtoolError, match="a run of compare, curve, score, ablate, roles or"):
        read_contents(tmp_path / "run")
