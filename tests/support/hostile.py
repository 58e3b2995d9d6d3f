"""Names as an attacker would choose them; each would set ``window.pwned`` or make a request."""

from __future__ import annotations

SCRIPT = "<script>window.pwned=1</script>"
CLOSING = "</script><script>window.pwned=2</script>"
IMAGE = '"><img src="http://evil.test/x.png" onerror="window.pwned=3">'
SVG = "<svg onload='window.pwned=4'><use href='http://evil.test/#x'/></svg>"
COMMENT = "<!--<script>{{7*7}}{% raw %}"
STYLE = "</style><style>@import url(http://evil.test/x.css);</style>"
HANDLER = "x' onmouseover='window.pwned=5' a='"
LINES = "line\u2028two\u2029three\x00\x1b[31m\u202eltr"
LINK = "[x](javascript:window.pwned=6) ![y](http://evil.test/y.png) | a | b"
TEX = r"\input{/etc/passwd} $x_1^2$ %comment & # ~ \end{document}"

METHODS = (SCRIPT, CLOSING, IMAGE, COMMENT)
DATA = (f"data/{SVG}{HANDLER}.tsv", f"{STYLE}.tsv")
MODEL = f"models/{SVG}{SCRIPT}"
KINDS = {"enc-self": (2, 3), "cross": (2, 4)}  # a run with other kinds is refused
FAILURES = ((SCRIPT, IMAGE, CLOSING + LINES),)
NOTES = (LINES, LINK, TEX, COMMENT, STYLE)
COMMAND = f"headtool compare --model '{CLOSING}' --data '{IMAGE}'"

OPTIONS = {
    "methods": METHODS,
    "data": DATA,
    "model": MODEL,
    "kinds": KINDS,
    "failures": FAILURES,
    "notes": NOTES,
    "command": COMMAND,
}
"""Options of a synthetic comparison."""
