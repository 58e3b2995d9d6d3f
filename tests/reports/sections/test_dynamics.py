"""Runs of dynamics can be shown: what the page says is what the tables say."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtool.errors import HeadtoolError
from headtool.reports.contents.run import read_contents
from headtool.reports.sections.page import build_page
from headtool.reports.writing import write_report


def test_checkpoints_are_shown(dynamics_run: Path) -> None:
    (section,) = build_page(read_contents(dynamics_run)).sections
    by_name = {table.name: table for table in section.tables}
    assert list(by_name) == ["prunability", "checkpoint-curves", "rank-stability"]
    cells = [cell.text for cell in by_name["rank-stability"].rows[0]]
    assert cells == ["a", "b", "0", "0.321", "–", "–"]
    assert len(by_name["checkpoint-curves"].rows) == 4


def test_a_run_without_figures_leaves_no_empty_folder(dynamics_run: Path, tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match="dynamics has tables and no figures"):
        write_report(dynamics_run, format="figures", out=tmp_path / "figures")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
