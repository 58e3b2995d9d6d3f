"""How often tokens occur in another corpus, from a file."""

from __future__ import annotations

import re

from headtool.data.messages import quoted
from headtool.data.textfile import quoted_path, read_lines, user_path
from headtool.errors import HeadtoolError

__all__ = ["read_frequencies"]


def read_frequencies(spec: str) -> dict[str, int]:
    """Read lines of a token, a space or tab, and its count; fairseq's ``dict.LANGUAGE.txt`` is one.

    Blank lines are ignored.

    Raises
    ------
    HeadtoolError
        If the file cannot be read, holds no token, a line is not of that form, or a token comes
        twice; the message names file and line.
    """
    path = user_path(spec)
    counts: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        match = re.fullmatch(r"(\S+)[ \t]+(\d{1,18})\s*", line)
        if match is None:
            raise HeadtoolError(
                f"{quoted_path(path)}, line {number}: {quoted(line)} is no token with its count; "
                "write TOKEN COUNT on each line"
            )
        if match[1] in counts:
            raise HeadtoolError(
                f"{quoted_path(path)}, line {number}: token {quoted(match[1])} comes twice; "
                "write one count for it"
            )
        counts[match[1]] = int(match[2])
    if not counts:
        raise HeadtoolError(f"{quoted_path(path)} holds no token; write TOKEN COUNT on each line")
    return counts
