"""The page in a real Chromium: it works, it fits, and hostile names stay names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headtool.reports.contents.run import read_contents
from headtool.reports.formats.html import render_html

from ...support import hostile
from ...support.comparisons import write_comparison
from ..conftest import Open


def states(page: Any) -> dict[int, str]:
    """Kept or removed, by the number of the head, as the large grid shows it."""
    cells = page.locator("svg[role=grid] .cell").evaluate_all(
        "cells => cells.map(c => [Number(c.dataset.head), c.getAttribute('class')])"
    )
    return {number: "kept" if "kept" in classes.split() else "removed" for number, classes in cells}


def expected(compared: Path, method: str, budget: int) -> dict[int, str]:
    kept = read_contents(compared).table("kept")
    rows = kept[(kept["method"] == method) & (kept["budget"] == budget)]
    return {i: "kept" if stays else "removed" for i, stays in enumerate(rows["kept"])}


def test_it_opens_from_disk_in_silence_and_asks_for_nothing(open_page: Open) -> None:
    page, seen = open_page()
    page.wait_for_timeout(200)
    assert seen.messages == []
    assert seen.dialogs == []
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []
    assert len(seen.requests) <= 2  # itself, and its empty icon


def test_method_and_budget_choose_the_heads(open_page: Open, compared: Path) -> None:
    page, seen = open_page()
    assert states(page) == expected(compared, "gradient", 36)
    page.get_by_label("gates", exact=True).check(force=True)
    assert states(page) == expected(compared, "gates", 36)
    slider = page.get_by_role("slider", name="Heads removed")
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert states(page) == expected(compared, "gates", 43)
    assert page.locator(".budget output").inner_text() == "43 (59.7%)"
    assert "gates keeps 29 of 72 heads; accuracy" in page.locator(".summary").inner_text()
    small = page.locator("figure.multiples svg.heads").nth(1).locator(".cell.kept")
    assert small.count() == 29
    page.keyboard.press("Home")
    assert set(states(page).values()) == {"kept"}
    assert seen.messages == []


def test_the_consensus_counts_methods(open_page: Open, compared: Path) -> None:
    page, _ = open_page()
    page.get_by_label("consensus", exact=True).check(force=True)
    table = read_contents(compared).table("consensus").query("budget == 36")
    status = table["status"].tolist()
    assert page.locator(".summary").inner_text() == (
        f"Kept by all methods: {status.count('consensus-kept')}; by none: "
        f"{status.count('consensus-removed')}; disputed: {status.count('disputed')} of 72 heads."
    )
    keeping = (table["methods_keeping"] > 0).tolist()
    assert states(page) == {i: "kept" if some else "removed" for i, some in enumerate(keeping)}


def test_a_head_tells_its_score_interval_p_and_verdict(open_page: Open, compared: Path) -> None:
    page, seen = open_page()
    page.locator("svg[role=grid] .cell").nth(7).hover()
    tip = page.locator("#tip")
    assert tip.is_visible()
    text = tip.inner_text()
    contents = read_contents(compared)
    row = contents.table("tests").query("data == 'data/news.tsv'").iloc[7]
    rank = contents.table("scores").query("method == 'gradient'").iloc[7]["rank"]
    assert text.startswith("enc-self.0.7")
    assert f"{rank} of 72" in text
    assert row["verdict"] in text
    for words in ("score", "±", "accuracy without it", "[", "adjusted", "kept by"):
        assert words in text
    page.mouse.move(5, 5)
    assert not tip.is_visible()
    assert seen.messages == []


def test_the_grid_works_from_the_keyboard(open_page: Open) -> None:
    page, _ = open_page()
    stops = page.locator("svg[role=grid] [tabindex='0']")
    assert stops.count() == 1
    stops.focus()
    for key, label in (
        ("ArrowRight", "enc-self.0.1"),
        ("ArrowDown", "enc-self.1.1"),
        ("End", "enc-self.1.11"),
        ("ArrowRight", "enc-self.1.11"),
        ("ArrowUp", "enc-self.0.11"),
        ("Home", "enc-self.0.0"),
    ):
        page.keyboard.press(key)
        focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert focused.split(",")[0] == label
        assert page.locator("#tip").inner_text().startswith(label)
    page.keyboard.press("Escape")
    assert not page.locator("#tip").is_visible()


def column(page: Any, number: int) -> list[str]:
    return page.locator(f"#table-every-head tbody td:nth-child({number + 1})").all_inner_texts()


def test_tables_sort_both_ways_and_filter(open_page: Open, compared: Path) -> None:
    page, seen = open_page()
    page.get_by_text("All 72 heads", exact=True).click()
    before = column(page, 0)
    deltas = read_contents(compared).table("tests").query("data == 'data/news.tsv'")["delta"]
    heading = page.locator("#table-every-head th").nth(1)
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert column(page, 0)[0] == before[deltas.to_numpy().argmin()]
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert column(page, 0)[0] == before[deltas.to_numpy().argmax()]
    page.locator("#table-every-head th").nth(0).get_by_role("button").click()
    assert column(page, 0)[:3] == ["enc-self.0.0", "enc-self.0.1", "enc-self.0.2"]
    assert heading.get_attribute("aria-sort") is None
    page.get_by_label("Filter").nth(1).fill("enc-self.3 needed")
    shown = page.locator("#table-every-head tbody tr:visible").all_inner_texts()
    assert shown
    assert all(row.startswith("enc-self.3.") and "needed" in row for row in shown)
    assert seen.messages == []


def test_curves_tell_values_under_pointer_and_arrows(open_page: Open) -> None:
    page, seen = open_page()
    chart = page.locator("svg.interactive").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
    tip = page.locator("#tip")
    first = tip.inner_text()
    assert re.match(r"\d+(\.\d)?% removed", first)
    assert all(name in first for name in ("gradient", "ablation", "gates", "confidence", "random"))
    assert chart.locator(".cursor").get_attribute("visibility") == "visible"
    page.mouse.move(5, 5)
    chart.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert tip.inner_text() != first
    assert seen.messages == []


def test_agreement_shows_any_coefficient_and_overlap_at_the_budget(
    open_page: Open, compared: Path
) -> None:
    page, seen = open_page()
    pair = page.locator("figure.agreement .pair[data-pair='0,1'] text")
    assert pair.inner_html() == ".60"
    page.get_by_label("Coefficient").select_option("spearman")
    assert pair.inner_html() == ".70"
    page.get_by_label("Coefficient").select_option("jaccard")
    overlap = read_contents(compared).table("overlap")
    both = (overlap["method_x"] == "gradient") & (overlap["method_y"] == "ablation")
    for presses, budget in ((0, 36), (1, 43)):
        slider = page.get_by_role("slider", name="Heads removed")
        slider.focus()
        for _ in range(presses):
            page.keyboard.press("ArrowRight")
        value = overlap[both & (overlap["budget"] == budget)]["jaccard"].iloc[0]
        assert pair.inner_html() == f"{value:.2f}".removeprefix("0")
    assert "59.7% of the heads removed" in page.locator("figure.agreement figcaption").inner_text()
    assert seen.messages == []


def test_points_of_the_scatter_plot_can_be_asked(open_page: Open) -> None:
    page, _ = open_page()
    point = page.locator("figure.scatter .point").nth(3)
    point.scroll_into_view_if_needed()
    point.locator(".mark").dispatch_event("pointerenter")
    point.dispatch_event("pointerenter")
    assert page.locator("#tip strong").inner_text() == "enc-self.0.3"


def background(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_light_and_dark_follow_the_reader(open_page: Open) -> None:
    light, _ = open_page(color_scheme="light")
    dark, _ = open_page(color_scheme="dark")
    pale, deep = background(light), background(dark)
    assert pale != deep
    light.get_by_role("button", name="Dark").click()
    assert background(light) == deep
    dark.get_by_role("button", name="Light").click()
    assert background(dark) == pale


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_it_fits_every_screen(open_page: Open, width: int) -> None:
    page, seen = open_page(width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("details").evaluate_all("all => all.forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.locator("svg:visible").evaluate_all(
        "(all, width) => all.filter(s => s.getBoundingClientRect().right > width + 1).length", width
    )
    assert outside == 0
    assert seen.messages == []


def test_no_text_of_a_figure_is_cut_off(open_page: Open) -> None:
    for width in (390, 1280):
        page, _ = open_page(width=width)
        cut = page.locator("svg:visible text:visible").evaluate_all(
            """texts => texts.filter(text => {
                const t = text.getBoundingClientRect();
                const s = text.closest("svg").getBoundingClientRect();
                return t.left < s.left - 1 || t.right > s.right + 1 || t.bottom > s.bottom + 1;
            }).map(text => text.textContent)"""
        )
        assert cut == []


def test_without_script_it_is_a_document_with_figures(open_page: Open) -> None:
    page, _ = open_page(java_script_enabled=False)
    assert page.locator("form.choices").is_hidden()
    assert page.get_by_role("button", name="Dark").is_hidden()
    assert page.locator("svg.heads").first.is_visible()
    assert page.locator("svg.chart >> visible=true").count() >= 10
    assert page.locator("svg[role=grid] .cell.kept").count() == 36
    page.get_by_text("All 72 heads", exact=True).click()
    assert page.locator("#table-every-head tbody tr").first.is_visible()


def test_it_prints_without_controls(open_page: Open) -> None:
    page, _ = open_page(color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    assert page.locator("form.choices").is_hidden()
    assert background(page) == "rgb(255, 255, 255)"
    line = page.locator("svg.chart .series.m0 .line").first
    assert line.evaluate("e => getComputedStyle(e).stroke") == "rgb(11, 92, 173)"
    page.emulate_media(media="screen")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.emulate_media(media="print")
    assert background(page) == "rgb(255, 255, 255)"
    assert page.locator("svg.heads").first.is_visible()
    assert len(page.pdf()) > 20_000


@pytest.mark.slow
@pytest.mark.parametrize("guarded", [True, False], ids=["as it is", "without its policy"])
def test_hostile_names_run_nothing_and_fetch_nothing(
    open_page: Open, tmp_path: Path, guarded: bool
) -> None:
    """Also without the content security policy: it must not be what holds."""
    write_comparison(tmp_path / "run", **hostile.OPTIONS)
    text = render_html(read_contents(tmp_path / "run"))
    if not guarded:
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    page, seen = open_page(tmp_path / "report.html", width=390)
    for number in range(5):
        page.locator(".chips input").nth(number).check(force=True)
        page.locator("svg[role=grid] .cell").nth(number).hover()
    page.locator("details").evaluate_all("all => all.forEach(d => { d.open = true; })")
    page.get_by_label("Coefficient").select_option("jaccard")
    page.locator("svg.interactive >> visible=true").first.hover()
    for heading in page.locator("#table-every-head th button").all()[:4]:
        heading.click()
    page.wait_for_timeout(200)
    assert page.evaluate("window.pwned") is None
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []
    assert seen.messages == []
    assert seen.dialogs == []
    assert page.locator("img, iframe, use, body > style").count() == 0
    assert page.locator(".chips span").all_inner_texts()[:4] == list(hostile.METHODS)
    assert hostile.SCRIPT in page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_script_that_got_in_would_be_stopped_by_the_policy(
    open_page: Open, page_file: Path, tmp_path: Path
) -> None:
    text = page_file.read_text(encoding="utf-8")
    attack = (
        "<script>window.pwned=1</script><img src='http://evil.test/x' onerror='window.pwned=2'>"
    )
    (tmp_path / "report.html").write_text(text.replace("<main>", f"<main>{attack}"), "utf-8")
    page, seen = open_page(tmp_path / "report.html")
    page.wait_for_timeout(200)
    assert page.evaluate("window.pwned") is None
    assert seen.messages  # the browser says that it refused


def test_columns_are_explained_to_pointer_and_keyboard(open_page: Open) -> None:
    page, seen = open_page()
    tip = page.locator("#tip")
    heading = page.locator("#table-overview th").nth(1)
    known = heading.get_by_role("button").get_attribute("aria-description")
    assert known.startswith("mean distance of the curves")
    heading.get_by_role("button").focus()
    assert known in tip.inner_text()
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    heading.hover()
    assert known in tip.inner_text()
    definitions = page.locator("#columns-overview")
    assert definitions.get_attribute("open") is None
    page.locator("a[href='#columns-overview']").click()
    assert known in definitions.inner_text()
    assert seen.messages == []
