"""Names and messages as a terminal may show them."""

from __future__ import annotations

__all__ = ["visible"]


def visible(text: str) -> str:
    r"""Return `text` on one line, with what a terminal would obey or choke on written out.

    File names and labels are other people's: an escape sequence in them must not move the cursor,
    and half a surrogate pair (a file name that is not UTF-8) must not break the output.

    Examples
    --------
    >>> from headtool.reports.wording.text import visible
    >>> print(visible("models/a\x1b[31mb"))
    models/a\x1b[31mb
    """
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
