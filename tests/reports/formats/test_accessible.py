"""What axe-core finds wrong with the page, for a keyboard or a screen reader: nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headtool.reports.contents.run import Contents
from headtool.reports.formats.html import render_html


def violations(page: Any, *rules: str) -> list[str]:
    """What axe-core finds by some rules, or all, with the first element of each sort."""
    bundled = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
    page.evaluate((Path(bundled.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    found = page.evaluate("rules => axe.run(rules.length ? {runOnly: rules} : {})", rules)
    assert rules or len(found["passes"]) > 30
    return [f"{rule['id']}: {rule['nodes'][0]['html']}" for rule in found["violations"]]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
def test_axe_finds_nothing(
    open_page: Any, with_known_roles: Contents, tmp_path: Path, width: int, scheme: str
) -> None:
    path = tmp_path / "report.html"
    path.write_text(render_html(with_known_roles), encoding="utf-8")
    page, _ = open_page(path, width=width, color_scheme=scheme)
    assert violations(page) == []


def test_axe_finds_what_is_wrong(open_page: Any, page_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken.html"
    text = page_file.read_text(encoding="utf-8")
    path.write_text(text.replace("<h1", "<img src='data:,'><h1", 1), encoding="utf-8")
    page, _ = open_page(path)
    (found,) = violations(page, "image-alt")
    assert "data:," in found
