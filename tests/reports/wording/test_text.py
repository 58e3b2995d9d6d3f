"""Names are shown on one line, with control characters written out."""

from __future__ import annotations

from headtool.reports.wording.text import visible


def test_visible() -> None:
    assert visible("plain ü 漢字 'x' [b]") == "plain ü 漢字 'x' [b]"
    assert visible("a\tb\r\nc\u2028d\xa0e") == "a b c d e"
    assert visible("\x1b[2J\x07\u202e") == r"\x1b[2J\x07\u202e"
    assert visible("caf\udce9") == r"caf\udce9"
    assert visible("").encode() == b""
