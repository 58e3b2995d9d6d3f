"""The page as text: self-contained, well-formed, escaped, small, and quickly made."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from headtool.reports.contents.run import Contents, read_contents
from headtool.reports.formats.html import embedded_json, render_html

from ...support import hostile
from ...support.comparisons import write_comparison
from ...support.html import Page, payload


@pytest.fixture(scope="module")
def page(contents: Contents) -> Page:
    return Page(render_html(contents))


@pytest.fixture(scope="module")
def attacked_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("hostile") / "run"
    write_comparison(folder, **hostile.OPTIONS)
    return render_html(read_contents(folder))


def hashed(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def policy(page: Page) -> dict[str, list[str]]:
    (text,) = (
        a["content"]
        for tag, a in page.elements
        if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    return {part.split()[0]: part.split()[1:] for part in (text or "").split(";")}


def test_every_element_is_closed(page: Page) -> None:
    assert page.open == []


def test_the_policy_allows_this_script_and_this_style_and_no_request(page: Page) -> None:
    allowed = policy(page)
    scripts = [text for tag, a, text in page.raw if tag == "script" and "type" not in a]
    styles = [text for tag, _, text in page.raw if tag == "style"]
    assert allowed["default-src"] == ["'none'"]
    assert allowed["script-src"] == [hashed(text) for text in scripts]
    assert allowed["style-src"] == [hashed(text) for text in styles]
    assert set(allowed) == {
        *("default-src", "script-src", "style-src", "img-src", "base-uri", "form-action")
    }
    assert allowed["img-src"] == ["data:"]


def test_nothing_is_fetched_and_nothing_needs_inline_permission(page: Page) -> None:
    for tag, attributes in page.elements:
        assert "src" not in attributes
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        if "href" in attributes:
            assert str(attributes["href"]).startswith(("#", "data:,"))
    style = next(text for tag, _, text in page.raw if tag == "style")
    assert "url(" not in style
    assert "@import" not in style


def test_identifiers_are_unique_and_links_lead_somewhere(page: Page) -> None:
    ids = Counter(a["id"] for _, a in page.elements if "id" in a)
    assert max(ids.values()) == 1
    for tag, attributes in page.elements:
        for name in ("for", "aria-labelledby", "aria-controls"):
            if name in attributes:
                assert attributes[name] in ids, (tag, attributes)
        if str(attributes.get("href", "")).startswith("#"):
            assert str(attributes["href"])[1:] in ids


def test_figures_have_names(page: Page) -> None:
    drawings = [a for tag, a in page.elements if tag == "svg" and a.get("aria-hidden") != "true"]
    assert len(drawings) > 15
    for attributes in drawings:
        assert attributes["role"] in ("img", "grid")
        assert attributes["aria-label"]


def test_every_section_is_there(page: Page) -> None:
    ids = [a["id"] for tag, a in page.elements if tag == "section"]
    assert ids == [
        *("findings", "heads", "curves", "faithfulness", "agreement", "effects", "data"),
        "additivity",
        *("methods", "columns", "reproduce"),
    ]
    for words in (
        "Figure 1.",
        "lrp failed at score",
        "McNemar (1947)",
        "headtool compare",
        "SHA-256",
    ):
        assert words in page.text


def test_the_page_knows_which_heads_each_method_keeps(page: Page, contents: Contents) -> None:
    data = payload(page)
    kept = contents.table("kept")
    for view in data["views"][:4]:
        for budget, bits in zip(data["budgets"], view["kept"], strict=True):
            rows = kept[(kept["method"] == view["name"]) & (kept["budget"] == budget["heads"])]
            assert bits == "".join("1" if stays else "0" for stays in rows["kept"])
    consensus = data["views"][4]
    counts = contents.table("consensus").query("budget == 36")["methods_keeping"]
    place = [budget["heads"] for budget in data["budgets"]].index(36)
    assert consensus["keeping"][place] == "".join(map(str, counts))


def test_the_static_grid_shows_what_is_kept_at_the_first_budget(
    page: Page, contents: Contents
) -> None:
    cells = [a for tag, a in page.elements if tag == "g" and "data-head" in a]
    grid = {a["data-head"]: str(a["class"]).split() for a in cells if a.get("role") == "gridcell"}
    kept = contents.table("kept").query("method == 'gradient' and budget == 36")["kept"]
    assert len(grid) == 72
    for number, stays in enumerate(kept):
        assert ("kept" in grid[str(number)]) == bool(stays)
        assert ("removed" in grid[str(number)]) != bool(stays)


def test_hostile_names_make_no_element(attacked_page: str) -> None:
    page = Page(attacked_page)
    assert page.open == []
    harmless = {tag for tag, _ in Page(attacked_page).elements}
    assert not harmless & {"img", "iframe", "object", "use", "base"}
    assert [a.get("type") for tag, a in page.elements if tag == "script"] == [
        "application/json",
        None,
    ]
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
    assert len([1 for tag, _ in page.elements if tag == "style"]) == 1
    data = payload(page)
    assert [view["name"] for view in data["views"]][:4] == list(hostile.METHODS)
    assert hostile.SCRIPT in page.text  # shown as text
    assert "49" not in re.findall(r"<!--<script>(\d+)", page.text)
    assert not set("\x00\x1b\u202e\u2028") & set(attacked_page)


def test_json_cannot_end_its_element() -> None:
    text = str(embedded_json({"a": "</script><!--&\u2028\u2029"}))
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"a": "</script><!--&\u2028\u2029"}
    with pytest.raises(ValueError, match="JSON"):
        embedded_json({"a": float("nan")})


def test_a_large_run_is_small_and_soon_there(tmp_path: Path) -> None:
    methods = ("gradient", "ablation", "gates", "confidence", "shapley")
    write_comparison(tmp_path / "run", methods=methods, kinds={"enc-self": (12, 12)}, draws=20)
    start = time.process_time()
    text = render_html(read_contents(tmp_path / "run"))
    assert time.process_time() - start < 5
    assert len(text.encode()) < 1_500_000
    assert text.count("data-head") > 144


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def themes() -> list[dict[str, str]]:
    css = (Path(__file__).parents[3] / "reports/formats/assets/report.css").read_text(
        encoding="utf-8"
    )
    light, dark, chosen = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for block in (
            css[css.index(":root {") : css.index("@media screen and (prefers")],
            css[css.index("@media screen and (prefers") : css.index(':root[data-theme="dark"]')],
            css[css.index(':root[data-theme="dark"]') : css.index(':root[data-theme="light"] {')],
        )
    )
    assert dark == chosen
    return [light, dark]


@pytest.mark.parametrize("theme", themes(), ids=["light", "dark"])
def test_text_and_lines_stand_out_from_the_paper(theme: dict[str, str]) -> None:
    for ink in ("ink", "soft", "accent", "needed", "removable", "harmful", "undecided"):
        for paper in ("paper", "raised"):
            assert contrast(theme[ink], theme[paper]) >= 4.5, (ink, paper)
    for line in (
        *(f"m{i}" for i in range(10)),
        *(f"r{i}" for i in range(8)),
        "random",
        "undecided",
    ):
        assert contrast(theme[line], theme["paper"]) >= 3, line
    for step in range(7):
        mark = "on-pale" if step < 4 else "on-deep"
        assert contrast(theme[f"s{step}"], theme[mark]) >= 3, step
