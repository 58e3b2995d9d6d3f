"""The prose on roles claims what is proven, and says what is not."""

from __future__ import annotations

from pathlib import Path

from headtool.reports.contents.heads import places
from headtool.reports.contents.run import Contents, with_roles
from headtool.reports.findings.summary import findings
from headtool.reports.formats.html import render_html
from headtool.reports.sections.page import build_page

from ...support.html import Page, payload
from ...support.pages import Make
from ...support.roles import HEADS, role_frame, write_roles


def claim(contents: Contents) -> tuple[str, str]:
    (found,) = (finding for finding in findings(contents) if finding.topic == "roles")
    return found.headline, found.detail


def test_what_is_proven_is_said_with_its_numbers(with_known_roles: Contents) -> None:
    headline, detail = claim(with_known_roles)
    survival = with_known_roles.table("role_survival")
    clear = survival[(survival["p_adjusted"] <= 0.05) & (survival["role"] != "none")]
    assert set(clear["role"]) == {"positional"}
    best = clear.sort_values(["p_adjusted", "p_within_layers"], kind="stable").iloc[0]
    assert f"{best['method']} keeps {best['kept']} of {best['heads']} positional heads" in headline
    others = set(clear["method"]) - {best["method"]}
    assert others
    assert all(method in headline for method in others)
    assert "holds for positional heads" in headline
    assert "is not shown for syntactic heads" in headline
    assert "cannot be tested for rare-token heads" in headline
    assert "syntactic heads with" not in headline
    tested = int(survival["p_adjusted"].notna().sum())
    assert f"over all {tested} tests" in detail
    assert build_page(with_known_roles).opening[1].count("Voita") == 1


def test_nothing_is_claimed_where_nothing_is_proven(make: Make, tmp_path: Path) -> None:
    write_roles(tmp_path / "roles", role_frame({"positional": HEADS[:1]}))
    headline, _ = claim(with_roles(make(), tmp_path / "roles"))
    assert headline.startswith("No method keeps heads of any role detectably more often")
    assert "is not shown for positional heads" in headline
    assert "was not looked at for syntactic and rare-token heads" in headline


def test_heads_without_roles_that_survive_are_told(make: Make, tmp_path: Path) -> None:
    contents = make()
    kept = contents.table("kept").query("method == 'gradient' and kept and budget == 58")
    having = [place for place in HEADS if place not in places(kept)]
    write_roles(tmp_path / "roles", role_frame({"positional": having}))
    headline, detail = claim(with_roles(contents, tmp_path / "roles"))
    assert headline.startswith("No method")
    assert detail.startswith("Heads without any role also survive more often than chance (by grad")


def test_no_role_at_all_cannot_be_tested(make: Make, tmp_path: Path) -> None:
    write_roles(tmp_path / "roles", role_frame({"positional": []}))
    joined = with_roles(make(), tmp_path / "roles")
    headline, _ = claim(joined)
    assert "cannot be tested" in headline
    assert "no role" in payload(Page(render_html(joined)))["roleSummary"]
