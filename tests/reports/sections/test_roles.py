"""Roles on the page: the tables and the figure are the run's."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtool.reports.contents.heads import places
from headtool.reports.contents.run import Contents, read_contents, records
from headtool.reports.formats.html import render_html
from headtool.reports.sections.page import build_page

from ...support.few_roles import few_roles
from ...support.html import Page, payload
from ...support.pages import section
from ...support.roles import roles_by_head


def test_the_table_of_survival_is_the_runs(with_known_roles: Contents) -> None:
    (table,) = (t for t in section(with_known_roles, "roles").tables if t.name == "role-survival")
    survival = records(with_known_roles.table("role_survival"))
    assert len(table.rows) == len(survival) == 4 * 10 * 3
    for cells, row in zip(table.rows, survival, strict=True):
        assert cells[0].text == row["method"]
        assert cells[2].text == row["role"].replace("none", "no role")
        assert (cells[3].order, cells[4].order) == (row["heads"], row["kept"])
        assert cells[5].order == pytest.approx(row["expected_within_layers"])
        if row["p_adjusted"] == row["p_adjusted"]:
            assert cells[6].order == row["p_adjusted"]


def test_the_figure_has_a_panel_per_method_and_a_chart_per_role(
    with_known_roles: Contents,
) -> None:
    (figure,) = section(with_known_roles, "roles").figures
    assert [panel.title for panel in figure.panels] == [*with_known_roles.methods]
    survival = with_known_roles.table("role_survival")
    for panel in figure.panels:
        assert panel.drawing.count("<svg") == 3
        rows = survival.query(f"method == '{panel.title}'")
        rings = int((rows["p_adjusted"] <= 0.05).sum())
        assert panel.drawing.count('class="proven"') == rings
        for row in records(rows.query("role == 'syntactic'")):
            assert f"{row['kept']} of {row['heads']} kept" in panel.drawing
    assert figure.panels[0].drawing.count('class="proven"') > 0


def test_the_sentence_under_the_grid_counts_by_method_and_budget(
    role_page: Page, with_known_roles: Contents
) -> None:
    data, survival = payload(role_page), with_known_roles.table("role_survival")
    for view in data["views"][:4]:
        for budget, told in zip(data["budgets"], view["survival"], strict=True):
            rows = survival[
                (survival["method"] == view["name"]) & (survival["budget"] == budget["heads"])
            ]
            for row in records(rows[rows["role"] != "none"]):
                assert f"{row['role']} {row['kept']} of {row['heads']} (" in told
    assert set(data["views"][4]["survival"]) == {""}  # the consensus is no method


def test_expectation_is_the_hypergeometric_mean(with_known_roles: Contents) -> None:
    """The dashed line, computed again: layer by layer, from kept heads and roles alone."""
    expected, kept = roles_by_head(with_known_roles), with_known_roles.table("kept")
    survival = with_known_roles.table("role_survival").query("role == 'syntactic'")
    for row in records(survival.query("method == 'ablation'")):
        part = kept[(kept["method"] == "ablation") & (kept["budget"] == row["budget"])]
        mean = 0.0
        for _, layer in part.groupby(["kind", "layer"]):
            having = sum("syntactic" in expected.get(place, ()) for place in places(layer))
            mean += having * int(layer["kept"].sum()) / len(layer)
        assert row["expected_within_layers"] == pytest.approx(mean)


@pytest.mark.slow
def test_roles_are_counted_and_their_heads_listed(role_run: Path) -> None:
    page = build_page(read_contents(role_run))
    grid, section = page.sections
    assert grid.title == "Which heads have which role"
    assert [view.name for view in grid.choices.views] == ["roles"]
    table = few_roles()
    found = table[table["label"] == "yes"]
    heads = found[["kind", "layer", "head"]].drop_duplicates()
    assert f"Of three heads, {len(heads)} have at least one role" in section.text[0]
    counts, listed = section.tables
    assert {row[0].text for row in counts.rows} == {"syntactic", "first-token"}
    assert len(listed.rows) == len(found) > 0
    assert [row[0].text for row in listed.rows] == [
        f"{row['kind']}.{row['layer']}.{row['head']}"
        for _, row in found.sort_values("share", ascending=False, kind="stable").iterrows()
    ]
    assert "Heads that have a role" in render_html(read_contents(role_run))
