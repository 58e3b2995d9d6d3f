"""The page on which method to trust: its table has every method, and is what the hook writes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import headtool
from headtool.experiments.validation import VARIANTS
from headtool.methods import BUILTIN

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "trust.md"


def test_every_method_and_variant_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)`(?: `([^`]+)`)? \| [01]\.\d\d ", PAGE.read_text(), re.MULTILINE)
    assert {name for name, _ in rows} == set(BUILTIN)
    for name, variants in VARIANTS.items():
        assert sum(found == name for found, _ in rows) == len(variants)


def test_the_hook_writes_the_table_of_a_run(tmp_path: Path) -> None:
    headtool.validate(["magnitude", "gradient"], models=2, limit=8, out=tmp_path / "run")
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- from headtool validate -->\nold\n<!-- end -->\nbelow\n")
    hook = REPOSITORY / "docs" / "hooks" / "trust.py"
    for _ in range(2):
        subprocess.run([sys.executable, hook, tmp_path / "run", page], check=True)
    text = page.read_text()
    assert text.startswith("above\n")
    assert text.endswith("<!-- end -->\nbelow\n")
    assert "old" not in text
    assert len(re.findall(r"^\| `(magnitude|gradient)`", text, re.MULTILINE)) == 3
