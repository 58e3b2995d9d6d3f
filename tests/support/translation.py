"""What the tests of translation commands share."""

from __future__ import annotations

from typing import Any

MT = ("--model", "builtin:mt", "--device", "cpu")
GREEDY = ("--metric", "bleu", "--greedy")


def deltas(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {f"{row['kind']}.{row['layer']}.{row['head']}": row["delta"] for row in rows}


def refused(done: Any, words: tuple[str, ...]) -> None:
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1, done.err
    assert all(word in done.err for word in words), done.err
