"""Roles on the page of a comparison: cells, labels, tooltips, notes, and hostile names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headtool.analysis.roles import ROLES
from headtool.reports.contents.heads import places
from headtool.reports.contents.run import Contents, records, with_roles
from headtool.reports.formats.html import render_html
from headtool.reports.sections.page import build_page

from ...support import hostile
from ...support.html import Page, payload
from ...support.pages import Make
from ...support.roles import HEADS, hostile_roles, role_frame, roles_by_head, write_roles


def test_the_page_tells_them_in_cells_labels_and_tooltips(
    role_page: Page, with_known_roles: Contents
) -> None:
    data, expected = payload(role_page), roles_by_head(with_known_roles)
    cells = {
        a["data-head"]: str(a["aria-label"])
        for _, a in role_page.elements
        if a.get("role") == "gridcell"
    }
    rows = {
        (place, row["role"]): row
        for place, row in zip(
            places(with_known_roles.table("roles")),
            records(with_known_roles.table("roles")),
            strict=True,
        )
    }
    assert len(cells) == 72
    for i, place in enumerate(HEADS):
        words = ", ".join(expected.get(place, []))
        assert data["roles"][i] == words
        assert cells[str(i)].endswith(words)
        lines = dict(data["facts"][i])
        for role in expected.get(place, []):
            (told,) = (
                (value for name, value in lines.items() if name.startswith(f"{role} ("))
                if role == "positional"
                else (lines[f"{role} (obj dependent->head)"],)
            )
            row = rows[place, role]
            assert told.startswith(f"{row['share']:.3f}".rstrip("0"))
            assert "baseline 0.2" in told
        if place not in expected:
            assert lines["role"] == "none shown"
    assert data["views"][-1]["name"] == "roles"
    assert data["views"][-1]["byRole"] is True
    both = sum(len(found) == 2 for found in expected.values())
    letters = re.findall(r'class="role">([A-Z]+)</text>', render_html(with_known_roles))
    assert len(letters) == len(expected)
    assert letters.count("PS") == both
    for words in ("positional", "syntactic"):
        amount = sum(words in found for found in expected.values())
        assert f"{words} {amount}" in data["roleSummary"]


def test_without_roles_the_page_says_nothing_of_them(contents: Contents) -> None:
    data = payload(Page(render_html(contents)))
    assert "roles" not in data
    assert not any(view["byRole"] for view in data["views"])
    assert "roles" not in [part.name for part in build_page(contents).sections]


def test_notes_and_origin_of_the_roles_are_told(role_page: Page) -> None:
    assert "Roles: rare-token of enc-self: no token of the data can show it." in role_page.text
    assert "headtool roles --treebank bank.conllu --out roles" in role_page.text
    assert "specialized heads do the heavy lifting" in role_page.text


def test_hostile_relations_and_roles_stay_text(make: Make, tmp_path: Path) -> None:
    contents = make(**hostile.OPTIONS)
    hostile_roles(tmp_path / "roles")
    text = render_html(with_roles(contents, tmp_path / "roles"))
    page = Page(text)
    assert page.open == []
    assert not {"img", "iframe", "use"} & {tag for tag, _ in page.elements}
    assert [a.get("type") for tag, a in page.elements if tag == "script"] == [
        "application/json",
        None,
    ]
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
    assert hostile.IMAGE in json.dumps(payload(page)).replace('\\"', '"')
    assert not set("\x00\x1b\u202e\u2028") & set(text)


@pytest.mark.slow
def test_a_large_run_stays_small(make: Make, tmp_path: Path) -> None:
    heads = [("enc-self", layer, head) for layer in range(24) for head in range(16)]
    methods = ("gradient", "lrp", "confidence", "magnitude")
    contents = make(kinds={"enc-self": (24, 16)}, methods=methods, draws=2)
    having: dict[str, Any] = {role: heads[i :: 5 + i] for i, role in enumerate(ROLES)}
    write_roles(tmp_path / "roles", role_frame(having, heads))
    plain = len(render_html(contents).encode())
    joined = len(render_html(with_roles(contents, tmp_path / "roles")).encode())
    assert joined < plain + 700_000
    assert joined < 2_500_000
