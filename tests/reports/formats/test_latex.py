"""LaTeX tables are sound, escape any text, and compile."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtool.reports.contents.run import Contents
from headtool.reports.formats.latex import DOCUMENT, escape_latex, render_latex


def test_latex_tables_are_structurally_sound(contents: Contents) -> None:
    files = render_latex(contents)
    assert DOCUMENT in files
    for name in set(files) - {DOCUMENT}:
        assert f"\\input{{{name.removesuffix('.tex')}}}" in files[DOCUMENT]
        text = files[name]
        columns = re.search(r"\\begin\{(?:tabular|longtable)\}\{([lr]+)\}", text)
        assert columns is not None
        rows = [line for line in text.splitlines() if " & " in line]
        assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(columns[1])}
        for rule in ("toprule", "midrule", "bottomrule"):
            assert f"\\{rule}" in text
        assert "|" not in columns[1]
        assert "\\hline" not in text
        assert text.count("\\begin") == text.count("\\end{")


def test_hostile_names_stay_text_in_latex(attacked: Contents) -> None:
    for name, text in render_latex(attacked).items():
        if name != DOCUMENT:
            assert "\\input{/etc" not in text
            assert "\\end{document}" not in text


@given(st.text(max_size=60))
def test_latex_escapes_leave_nothing_active(text: str) -> None:
    written = escape_latex(text)
    assert written.isascii() or not re.search(r"[^\x00-\x7fÀ-ÿ]", written)
    known = re.sub(r"\\(text[a-z]+|dots|pm|infty|leq)(\{\})?|\\[{}$&#%_]|\$-\$|\{-\}", "", written)
    known = re.sub(r"\$\$|~", "", known)
    assert not set(known) & set("\\{}$&#%_^")


@pytest.mark.parametrize("which", ["contents", "attacked"])
def test_latex_compiles(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    compiler = shutil.which("pdflatex") or shutil.which("tectonic")
    if compiler is None:
        pytest.skip("no pdflatex and no tectonic on the path")
    for name, text in render_latex(request.getfixturevalue(which)).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    options = ["-interaction=nonstopmode", "-halt-on-error"] if "pdflatex" in compiler else []
    done = subprocess.run(
        [compiler, *options, DOCUMENT],
        cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "all.pdf").stat().st_size > 10_000
