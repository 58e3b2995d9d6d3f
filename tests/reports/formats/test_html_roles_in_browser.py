"""Roles on the page in a real Chromium: on the grid, as heads are removed, beside the scores."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headtool.reports.contents.run import Contents, with_roles
from headtool.reports.formats.html import render_html

from ...support import hostile
from ...support.roles import HEADS, hostile_roles, roles_by_head
from ..conftest import Open


@pytest.fixture(scope="module")
def file(with_known_roles: Contents, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_html(with_known_roles), encoding="utf-8")
    return path


def colours(page: Any, head: int) -> list[str]:
    """Colours that a cell of the large grid shows, from left to right."""
    cell = page.locator(f"svg[role=grid] .cell[data-head='{head}']")
    shown = cell.locator("rect.stripe:visible")
    return [str(c) for c in shown.evaluate_all("all => all.map(r => getComputedStyle(r).fill)")]


def test_roles_are_a_choice_beside_the_methods(
    open_page: Open, file: Path, with_known_roles: Contents
) -> None:
    page, seen = open_page(file)
    expected = roles_by_head(with_known_roles)
    both = next(i for i, place in enumerate(HEADS) if len(expected.get(place, ())) == 2)
    assert colours(page, both) == []
    page.get_by_label("roles", exact=True).check(force=True)
    assert len(set(colours(page, both))) == 2
    alone = next(i for i, place in enumerate(HEADS) if expected.get(place) == ["syntactic"])
    assert colours(page, alone) == colours(page, both)[1:]
    assert page.locator("svg[role=grid] .cell .mark:visible").count() == 0
    summary = page.locator(".summary").inner_text()
    amount = sum("syntactic" in found for found in expected.values())
    assert f"syntactic {amount}" in summary
    assert "heads without any" in summary
    page.get_by_label("gates", exact=True).check(force=True)
    assert colours(page, both) == []
    assert page.locator("svg[role=grid] .cell.kept").count() == 36
    assert seen.messages == []


def test_heads_tell_their_roles_to_the_keyboard_and_to_screen_readers(
    open_page: Open, file: Path, with_known_roles: Contents
) -> None:
    page, _ = open_page(file)
    for view in ("roles", "gradient"):
        page.get_by_label(view, exact=True).check(force=True)
        page.locator("svg[role=grid] [tabindex='0']").focus()
        page.keyboard.press("Home")
        label = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert label.startswith("enc-self.0.0")
        assert label.endswith(", ".join(roles_by_head(with_known_roles)[HEADS[0]]))
        tip = page.locator("#tip").inner_text()
        assert "syntactic (obj dependent->head)" in tip
        assert "baseline 0.2" in tip
        page.keyboard.press("Escape")


def test_what_survives_follows_the_budget(
    open_page: Open, file: Path, with_known_roles: Contents
) -> None:
    page, seen = open_page(file)
    survival = with_known_roles.table("role_survival")
    slider = page.get_by_role("slider", name="Heads removed")
    slider.focus()
    places = []
    for budget in (43, 50):
        page.keyboard.press("ArrowRight")
        rows = survival[(survival["method"] == "gradient") & (survival["budget"] == budget)]
        summary = page.locator(".summary").inner_text()
        for row in rows.query("role != 'none'").to_dict("records"):
            assert f"{row['role']} {row['kept']} of {row['heads']}" in summary
        marks = page.locator("svg.mini .cursor")
        assert marks.count() == 12
        places.append(float(marks.first.get_attribute("x1")))
    assert places[0] < places[1]
    assert seen.messages == []


def test_any_two_methods_can_be_set_against_each_other(
    open_page: Open, file: Path, with_known_roles: Contents
) -> None:
    page, seen = open_page(file)
    figure = page.locator("figure.scores")
    chart = figure.locator("svg.chart")
    assert chart.get_attribute("aria-label").startswith("gradient against confidence")
    for box, method in (("across", "gradient"), ("up", "ablation")):
        page.locator(f"select[name={box}]").select_option(label=method)
    caption = figure.locator("figcaption").inner_text()
    row = with_known_roles.table("agreement").iloc[0]
    assert f"rho {row['spearman']:.2g}" in caption
    assert f"tau-b {row['tau_b']:.2g}" in caption
    assert chart.get_attribute("aria-label").startswith("ablation against gradient")
    scores = with_known_roles.table("scores")
    for axis, method, sign in ((0, "gradient", 1), (1, "ablation", -1)):
        at = [
            float(re.findall(r"[\d.]+", where)[axis])
            for where in figure.locator(".point[data-head]").evaluate_all(
                "all => all.map(p => p.getAttribute('transform'))"
            )
        ]
        values = scores.loc[scores["method"] == method, "score"].to_numpy()
        order = sorted(range(72), key=lambda i: sign * at[i])
        assert values[order[0]] == values.min()
        assert values[order[-1]] == values.max()
    point = figure.locator(".point[data-head='3']")
    point.dispatch_event("pointerenter")
    told = page.locator("#tip").inner_text()
    assert told.startswith("enc-self.0.3")
    assert all(method in told for method in ("gradient", "ablation"))
    page.locator("select[name=up]").select_option(label="gradient")
    assert "rho" not in figure.locator("figcaption").inner_text()
    assert seen.messages == []


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_and_nothing_is_cut_off(open_page: Open, file: Path, width: int) -> None:
    page, seen = open_page(file, width=width, color_scheme="dark")
    page.locator("details").evaluate_all("all => all.forEach(d => { d.open = true; })")
    for view in ("gradient", "roles"):
        page.get_by_label(view, exact=True).check(force=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut = page.locator("svg:visible text:visible").evaluate_all(
        """texts => texts.filter(text => {
            const t = text.getBoundingClientRect();
            const s = text.closest("svg").getBoundingClientRect();
            return t.left < s.left - 1 || t.right > s.right + 1 || t.bottom > s.bottom + 1;
        }).map(text => text.textContent)"""
    )
    assert cut == []
    assert seen.messages == []


def test_without_script_roles_are_letters_charts_and_tables(open_page: Open, file: Path) -> None:
    page, _ = open_page(file, java_script_enabled=False)
    assert page.locator("svg[role=grid] .cell text.role:visible").count() > 10
    assert page.locator("svg.mini:visible").count() == 12
    assert page.locator("figure.scores .point[data-head]:visible").count() == 72
    assert page.locator("select[name=across]").is_hidden()


def test_hostile_roles_run_nothing_and_fetch_nothing(
    open_page: Open, make: Callable[..., Contents], tmp_path: Path
) -> None:
    contents = make(**hostile.OPTIONS)
    hostile_roles(tmp_path / "roles")
    text = render_html(with_roles(contents, tmp_path / "roles"))
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    page, seen = open_page(tmp_path / "report.html", width=390)
    page.get_by_label("roles", exact=True).check(force=True)
    for number in range(6):
        page.locator("svg[role=grid] .cell").nth(number).hover()
    for box in ("across", "up"):
        page.locator(f"select[name={box}]").select_option(label=hostile.METHODS[2])
    page.locator("figure.scores .point[data-head]").first.dispatch_event("pointerenter")
    page.locator("details").evaluate_all("all => all.forEach(d => { d.open = true; })")
    page.wait_for_timeout(200)
    assert page.evaluate("window.pwned") is None
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []
    assert seen.messages == []
    assert page.locator("img, iframe, use, body > style").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
