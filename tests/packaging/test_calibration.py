"""The page of calibration against the commands that print its tables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
COMMAND = [sys.executable, str(ROOT / "benchmarks" / "calibration.py")]


def printed(*names: str) -> str:
    done = subprocess.run([*COMMAND, *names], capture_output=True, text=True, check=True)
    return done.stdout


def test_every_table_has_its_command() -> None:
    names = printed().strip().partition("one of: ")[2].split(", ")
    shown = re.findall(r"python benchmarks/calibration.py (\S+)", PAGE)
    assert sorted(shown) == sorted(names)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["newcombe", "sequential"])
def test_tables_are_what_the_command_prints(name: str) -> None:
    assert printed(name) in PAGE


def test_rates_on_the_page_keep_what_they_promise() -> None:
    """Every rate of headtool's verdicts in the settings that are promised, at most .06."""
    checked = 0
    for section, column in (
        ("removable", -1),
        ("removable-families", 3),
        ("removable-families", 4),
    ):
        table = PAGE.partition(f"calibration.py {section}\n")[2].partition("\n\n")[2]
        for row in table.split("\n\n")[0].splitlines()[2:]:
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            if "beyond" not in cells[0]:
                assert float(cells[column].split()[0]) <= 0.06, row
                checked += 1
    assert checked == 60
