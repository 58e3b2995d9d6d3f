"""Roles as reports speak of them: letters, the roles of each head, and the clearest heads."""

from __future__ import annotations

from pathlib import Path

from headtool.analysis.roles import ROLES
from headtool.reports.charts.roles import css_of
from headtool.reports.contents.heads import Heads
from headtool.reports.contents.roles import HeadRoles, letter_of, role_summary
from headtool.reports.contents.run import Contents, with_roles
from headtool.reports.formats.html import render_html

from ...support.few_roles import few_roles
from ...support.html import Page, payload
from ...support.pages import Make, section
from ...support.roles import HEADS, role_frame, roles_by_head, write_roles


def test_unproven_heads_are_counted_once_and_not_if_they_have_the_role_elsewhere() -> None:
    table = few_roles()
    syntactic = table["role"] == "syntactic"
    # Head 0 has one relation and lacks proof of the other; head 2 lacks proof of both.
    for layer_head, labels in ((0, ["yes", "unproven"]), (1, ["no", "no"]), (2, ["unproven"] * 2)):
        table.loc[syntactic & (table["head"] == layer_head), "label"] = labels
    tested = table[table["label"] != "untested"]
    assert role_summary(tested).set_index("role").loc["syntactic", "unproven"] == 1


def test_every_role_has_a_letter_and_a_colour_of_its_own() -> None:
    assert len({letter_of(role) for role in ROLES}) == len(ROLES)
    assert len({css_of(role) for role in ROLES}) == len(ROLES)
    assert all(letter_of(role).lower() in role for role in ROLES)
    assert (letter_of("of another version"), css_of("of another version")) == ("?", "unknown")


def test_the_roles_of_a_head_are_those_of_the_table(with_known_roles: Contents) -> None:
    heads = Heads(with_known_roles)
    roles, expected = HeadRoles(with_known_roles, heads), roles_by_head(with_known_roles)
    assert any(len(found) == 2 for found in expected.values())
    for i, place in enumerate(heads.places):
        assert roles.of[i] == expected.get(place, [])
    assert roles.names == ["positional", "syntactic"]


def test_kinds_that_were_not_looked_at_are_told(make: Make, tmp_path: Path) -> None:
    contents = make(kinds={"enc-self": (2, 3), "cross": (2, 3)})
    heads = [(kind, i, j) for kind in ("enc-self",) for i in range(2) for j in range(3)]
    write_roles(tmp_path / "roles", role_frame({"positional": heads[:2]}, heads))
    joined = with_roles(contents, tmp_path / "roles")
    data = payload(Page(render_html(joined)))
    assert data["roles"] == ["positional"] * 2 + [""] * 4 + ["not looked at"] * 6
    assert ["role", "not looked at"] in data["facts"][-1]
    assert "six heads not looked at" in data["roleSummary"]
    assert set(joined.table("role_survival").query("role == 'none'")["heads"]) == {4}
    scores = section(joined, "agreement").figures[1]
    assert [name for _, name in scores.legend] == ["positional", "no role", "not looked at"]
    assert scores.panels[0].drawing.count('class="point unseen"') == 6


def test_a_head_of_many_roles_has_room(make: Make, tmp_path: Path) -> None:
    write_roles(tmp_path / "roles", role_frame(dict.fromkeys(ROLES, HEADS[:1])))
    joined = with_roles(make(), tmp_path / "roles")
    roles = HeadRoles(joined, Heads(joined))
    assert roles.letters(0) == "PS+"
    assert roles.of[0] == list(ROLES)
    assert roles.words(0) == ", ".join(ROLES)
    assert render_html(joined).count('class="stripe r7"') == 3  # grid, small grid and legend
