"""Notebooks as pages: their cells, and the outputs that they were saved with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


def as_markdown(path: Path) -> str:
    """Return a notebook as Markdown.

    Parameters
    ----------
    path
        A notebook of format 4.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    note = (
        f"*This page is the notebook `examples/{path.name}`, with the outputs it was saved with.*"
    )
    parts = [_cell(cell) for cell in cells]
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    outputs = [text for output in cell["outputs"] if (text := _output(output))]
    return "\n\n".join([f"```python\n{source}\n```", *outputs])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        html = re.sub(r"\n\s*\n", "\n", "".join(data["text/html"]))
        return f'<div class="shown">{html}</div>'
    if "image/png" in data:
        place = f"data:image/png;base64,{''.join(data['image/png']).strip()}"
        return f'<img class="picture" alt="What the cell above draws" src="{place}">'
    text = "".join(data.get("text/plain", output.get("text", "")))
    if not text.strip() or output.get("name") == "stderr":
        return ""
    return f"```{{ .text .output }}\n{text.rstrip()}\n```"
