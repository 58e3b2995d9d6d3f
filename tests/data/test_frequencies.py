"""Files of token counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtool.data.frequencies import read_frequencies
from headtool.errors import HeadtoolError


def test_counts_by_token(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text("\N{LOWER ONE EIGHTH BLOCK}the 12\n##ing\t3\n\n5 0\n", encoding="utf-8")
    assert read_frequencies(str(path)) == {"\N{LOWER ONE EIGHTH BLOCK}the": 12, "##ing": 3, "5": 0}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("the 1\nof\n", ["line 2", "'of'", "TOKEN COUNT"]),
        ("the many\n", ["line 1", "'the many'"]),
        ("the -1\n", ["line 1"]),
        ("the 1\nthe 2\n", ["line 2", "'the' comes twice"]),
        ("\n\n", ["holds no token"]),
    ],
)
def test_a_broken_line_is_named(text: str, parts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text(text)
    with pytest.raises(HeadtoolError) as caught:
        read_frequencies(str(path))
    assert all(part in str(caught.value) for part in [str(path), *parts])
