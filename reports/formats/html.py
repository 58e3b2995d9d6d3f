"""The HTML report: one file that needs no network, readable without its script.

Names, texts and file names come from other people. They are escaped by the template, embedded as
JSON that cannot close its element, and put on the page by the script as text only; a content
security policy allows this page's own script and style by their hashes, and no request at all.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from headtool.reports.contents.run import Contents
from headtool.reports.sections.page import Page, build_page
from headtool.reports.wording.text import visible

__all__ = ["embedded_json", "render_html", "render_page"]

_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def render_html(contents: Contents) -> str:
    """Render a run as one HTML document."""
    return render_page(build_page(contents))


def render_page(page: Page) -> str:
    """Render a page as one HTML document.

    Parameters
    ----------
    page
        What it shows.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _asset("report.css"), _asset("report.js") + _asset("downloads.js")
    return environment.get_template("report.html.j2").render(
        page=page,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=embedded_json(page.data),
    )


def embedded_json(data: Mapping[str, Any]) -> Markup:
    """JSON for a ``<script type="application/json">``: nothing in it can end the element."""
    return Markup(json.dumps(data, allow_nan=False, separators=(",", ":")).translate(_UNSAFE))


def _shown(value: Any) -> Any:
    """Write out control characters and the like in everything that the template prints."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return _read("assets", name)


def _template(name: str) -> str:
    return _read("templates", name)


def _read(folder: str, name: str) -> str:
    place = importlib.resources.files("headtool.reports.formats").joinpath(folder, name)
    return place.read_text(encoding="utf-8")
