"""The page of the docs that describes every table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from headtool.schema import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def test_the_page_is_what_the_schema_says() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headtool.schema"], capture_output=True, text=True, check=True
    )
    assert PAGE.read_text(encoding="utf-8") == done.stdout, "write it again: make tables"


def test_every_table_and_column_is_on_the_page_and_linked() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        section = text.split(f"\n### {name}\n")[1].split("\n### ")[0]
        assert re.findall(r"^\| `(.+?)` \|", section, re.M) == [c.name for c in table.columns]
        assert f"[{name}](#{name.replace('.', '')})" in text
