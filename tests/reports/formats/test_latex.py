"""LaTeX tables are sound, escape any text, and compile."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtool.errors import HeadtoolError
from headtool.reports.blocks import Cell, Column, DataTable
from headtool.reports.contents.run import Contents
from headtool.reports.formats.latex import DOCUMENT, render_latex
from headtool.reports.formats.latex_tables import latex_table
from headtool.reports.formats.latex_text import cell_text, escape_latex, running_text


def test_latex_tables_are_structurally_sound(contents: Contents) -> None:
    files = render_latex(contents)
    assert DOCUMENT in files
    for name in set(files) - {DOCUMENT}:
        assert f"\\input{{{name.removesuffix('.tex')}}}" in files[DOCUMENT]
        text = files[name]
        for part in re.split(r"(?=\\begin\{(?:tabular|longtable)\})", text)[1:]:
            columns = re.match(r"\\begin\{(?:tabular|longtable)\}\{(.*)\}\n", part)
            assert columns is not None
            letters = re.sub(
                r"@\{\}|>\{[^}]*\}|p\{\d+pt\}", lambda p: p[0][0].strip("@>"), columns[1]
            )
            assert set(letters) <= set("lrp")
            rows = [line for line in part.splitlines() if " & " in line]
            assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(letters)}
            for rule in ("toprule", "midrule", "bottomrule"):
                assert f"\\{rule}" in part
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
    known = re.sub(
        r"\\(text[a-z]+|dots|pm|infty|leq|lambda)(\{\})?|\\[{}$&#%_]|\$-\$|\{-\}", "", written
    )
    known = re.sub(r"\$\$|~", "", known)
    assert not set(known) & set("\\{}$&#%_^")


@pytest.mark.parametrize("which", ["contents", "attacked", "subsampled", "with_known_roles"])
def test_latex_compiles_without_overfull_boxes(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    log = compiled(render_latex(request.getfixturevalue(which)), tmp_path)
    assert (tmp_path / "all.pdf").stat().st_size > 10_000
    long_words = which == "attacked"  # that no rule of hyphenation divides
    assert long_words or "Overfull" not in log, [
        line for line in log.splitlines() if "Overfull" in line
    ]


def compiled(files: dict[str, str], folder: Path) -> str:
    """What TeX says of the document."""
    compiler = shutil.which("pdflatex") or shutil.which("tectonic")
    if compiler is None:
        pytest.skip("no pdflatex and no tectonic on the path")
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    options = ["-interaction=nonstopmode", "-halt-on-error"] if "pdflatex" in compiler else []
    done = subprocess.run(
        [compiler, *options, DOCUMENT],
        cwd=folder, capture_output=True, text=True, errors="replace", timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout + done.stderr


def table(columns: list[Column], *rows: list[str]) -> str:
    cells = [
        [Cell(text, float(i) if text[0].isdigit() else None) for i, text in enumerate(row)]
        for row in rows
    ]
    return "\n".join(latex_table(DataTable("t", "All", columns, cells)))


def test_columns_that_say_the_same_stand_in_the_caption() -> None:
    columns = [
        Column("head", is_number=False),
        Column("kind", is_number=False),
        Column("p"),
        Column("q"),
    ]
    text = table(columns, ["enc-self.0.1", "all", "0.1", "–"], ["enc-self.0.2", "all", "0.2", "–"])
    assert r"\caption{All (kind: all; encoder self{-}attention)}" in text
    assert "$0.1$ & $0.1$" in text
    assert "head & p" in text
    assert " q" not in text
    assert "enc" not in text.split("toprule")[1]


def test_one_row_keeps_all_its_columns() -> None:
    text = table([Column("a", is_number=False), Column("b"), Column("c")], ["x", "1", "2"])
    assert "a & b & c" in text


def test_the_best_is_bold() -> None:
    columns = [Column("method", is_number=False), Column("area", best="largest")]
    rows = [[Cell("a"), Cell("0.5", 0.5)], [Cell("b"), Cell("−0.1", -0.1)]]
    text = "\n".join(latex_table(DataTable("t", "All", columns, rows)))
    assert r"a & $\mathbf{0.5}$" in text
    assert r"b & $-0.1$" in text


def test_wide_tables_are_divided_and_repeat_their_first_column() -> None:
    columns = [Column("method", is_number=False), *(Column(f"quantity {i}") for i in range(30))]
    rows = [[f"m{j}", *(f"0.{i}{j}" for i in range(30))] for j in range(3)]
    text = table(columns, *rows)
    parts = text.split(r"\begin{table}")[1:]
    assert len(parts) > 1
    assert all(r"\\" in part and "m0 & " in part for part in parts)
    assert f"part 1 of {len(parts)}" in parts[0]
    assert r"\label{tab:t-2}" in parts[1]
    for value in ("0.00", "0.292"):
        assert sum(part.count(f"${value}$") for part in parts) == 1


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0.0531", "$0.0531$"),
        ("−1.2e−15", r"$-1.2 \times 10^{-15}$"),
        ("<0.001", "${<}0.001$"),
        ("12,345", "$12{,}345$"),
        ("0.1 ± 0.02", r"$0.1 \pm 0.02$"),
        ("0.9 [0.8, 1.00]", r"$0.9 \; [0.8, 1.00]$"),
        ("−0.1 to ∞", r"$[-0.1, \infty]$"),
        ("cross.3", "cross 3"),
        ("2 of 2", "2 of 2"),
        ("1 2 3", "1 2 3"),
        ("a_b", r"a\_b"),
    ],
)
def test_cells_are_mathematics_or_text(text: str, written: str) -> None:
    assert cell_text(text) == written


def test_names_may_be_broken_but_numbers_may_not() -> None:
    assert running_text("builtin:nli/x on 0.5. So") == (
        r"builtin:\allowbreak{}nli/\allowbreak{}x on 0.5. So"
    )


def test_columns_can_be_chosen(contents: Contents) -> None:
    files = render_latex(contents, columns=["effect", "verdict"])
    assert set(files) == {DOCUMENT, "every-head.tex"}
    assert "head & effect & verdict" in files["every-head.tex"]
    with pytest.raises(HeadtoolError, match=r"no table has a column 'nope' \(`columns`\); choose"):
        render_latex(contents, columns=["nope"])
