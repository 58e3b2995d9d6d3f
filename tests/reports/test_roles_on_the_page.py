"""Roles on the page of a comparison: on the grid, as heads are removed, beside the scores."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from headtool.analysis.roles import ROLES
from headtool.reports.blocks import Section
from headtool.reports.charts.roles import css_of
from headtool.reports.contents.heads import Heads, places
from headtool.reports.contents.roles import HeadRoles, letter_of
from headtool.reports.contents.run import Contents, records, with_roles
from headtool.reports.findings.summary import findings
from headtool.reports.formats.figures import write_figures
from headtool.reports.formats.html import render_html
from headtool.reports.formats.role_figures import draw_survival
from headtool.reports.sections.page import build_page
from headtool.reports.sections.scores import score_pair

from ..support import hostile
from ..support.roles import HEADS, role_frame, write_roles
from .test_html import Page, payload

Make = Callable[..., Contents]


@pytest.fixture(scope="module")
def page(with_known_roles: Contents) -> Page:
    return Page(render_html(with_known_roles))


def section(contents: Contents, name: str) -> Section:
    (found,) = (part for part in build_page(contents).sections if part.name == name)
    return found


def has(contents: Contents) -> dict[tuple[str, int, int], list[str]]:
    """Roles by head, straight from the table."""
    rows = contents.table("roles").query("label == 'yes'")
    found: dict[tuple[str, int, int], list[str]] = {}
    for place, role in zip(places(rows), rows["role"], strict=True):
        if role not in found.setdefault(place, []):
            found[place].append(role)
    return found


# -- on the grid --------------------------------------------------------------------------------


def test_every_role_has_a_letter_and_a_colour_of_its_own() -> None:
    assert len({letter_of(role) for role in ROLES}) == len(ROLES)
    assert len({css_of(role) for role in ROLES}) == len(ROLES)
    assert all(letter_of(role).lower() in role for role in ROLES)
    assert (letter_of("of another version"), css_of("of another version")) == ("?", "unknown")


def test_the_roles_of_a_head_are_those_of_the_table(with_known_roles: Contents) -> None:
    heads = Heads(with_known_roles)
    roles, expected = HeadRoles(with_known_roles, heads), has(with_known_roles)
    assert any(len(found) == 2 for found in expected.values())
    for i, place in enumerate(heads.places):
        assert roles.of[i] == expected.get(place, [])
    assert roles.names == ["positional", "syntactic"]


def test_the_page_tells_them_in_cells_labels_and_tooltips(
    page: Page, with_known_roles: Contents
) -> None:
    data, expected = payload(page), has(with_known_roles)
    cells = {
        a["data-head"]: str(a["aria-label"])
        for _, a in page.elements
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


# -- as heads are removed -----------------------------------------------------------------------


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
    page: Page, with_known_roles: Contents
) -> None:
    data, survival = payload(page), with_known_roles.table("role_survival")
    for view in data["views"][:4]:
        for budget, told in zip(data["budgets"], view["survival"], strict=True):
            rows = survival[
                (survival["method"] == view["name"]) & (survival["budget"] == budget["heads"])
            ]
            for row in records(rows[rows["role"] != "none"]):
                assert f"{row['role']} {row['kept']} of {row['heads']} (" in told
    assert set(data["views"][4]["survival"]) == {""}  # the consensus is no method


# -- what is claimed ----------------------------------------------------------------------------


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
    assert "cannot be asked of rare-token heads" in headline
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
    assert detail.startswith("Heads without any role survive more often than chance, too, by grad")


def test_no_role_at_all_cannot_be_tested(make: Make, tmp_path: Path) -> None:
    write_roles(tmp_path / "roles", role_frame({"positional": []}))
    joined = with_roles(make(), tmp_path / "roles")
    headline, _ = claim(joined)
    assert "cannot be tested" in headline
    assert "no role" in payload(Page(render_html(joined)))["roleSummary"]


def test_expectation_is_the_hypergeometric_mean(with_known_roles: Contents) -> None:
    """The dashed line, computed again: layer by layer, from kept heads and roles alone."""
    expected, kept = has(with_known_roles), with_known_roles.table("kept")
    survival = with_known_roles.table("role_survival").query("role == 'syntactic'")
    for row in records(survival.query("method == 'ablation'")):
        part = kept[(kept["method"] == "ablation") & (kept["budget"] == row["budget"])]
        mean = 0.0
        for _, layer in part.groupby(["kind", "layer"]):
            having = sum("syntactic" in expected.get(place, ()) for place in places(layer))
            mean += having * int(layer["kept"].sum()) / len(layer)
        assert row["expected_within_layers"] == pytest.approx(mean)


def test_notes_and_origin_of_the_roles_are_told(page: Page) -> None:
    assert "Roles: rare-token of enc-self: the data has no query for it." in page.text
    assert "headtool roles --treebank bank.conllu --out roles" in page.text
    assert "specialized heads do the heavy lifting" in page.text


# -- beside the scores --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("methods", "pair"),
    [
        (["gradient", "lrp", "confidence"], ("confidence", "lrp")),
        (["lrp", "gates"], ("gates", "lrp")),
        (["gradient", "gates"], ("gates", "gradient")),
        (["confidence", "gradient"], ("confidence", "gradient")),
        (["lrp", "confidence"], ("confidence", "lrp")),
        (["confidence"], None),
    ],
)
def test_relevance_lies_over_confidence(methods: list[str], pair: tuple[str, str] | None) -> None:
    assert score_pair(methods) == pair


def test_points_lie_where_the_scores_are(page: Page, with_known_roles: Contents) -> None:
    scores = payload(page)["scores"]
    table = with_known_roles.table("scores")
    for axis in scores["axes"]:
        values = table.loc[table["method"] == axis["name"], "score"].to_numpy()
        at = [place for place in axis["at"] if place is not None]
        span = (values - values.min()) / (values.max() - values.min())
        low, high = min(at), max(at)
        assert [(a - low) / (high - low) for a in at] == pytest.approx(span, abs=1e-3)
    names = [axis["name"] for axis in scores["axes"]]
    for row in records(with_known_roles.table("agreement")):
        x, y = names.index(row["method_x"]), names.index(row["method_y"])
        for caption in (scores["captions"][x][y], scores["captions"][y][x]):
            assert f"rho {row['spearman']:.3g}" in caption
            assert f"p = {row['tau_b_p_within_layers']:.2g}" in caption
    x, y = (scores["axes"][number] for number in scores["pair"])
    left, right, bottom, top = scores["frame"]
    drawn = {
        a["data-head"]: str(a["transform"])
        for _, a in page.elements
        if "data-head" in a and str(a["class"]).startswith("point") and "transform" in a
    }
    assert len(drawn) == 72
    for head, where in drawn.items():
        numbers = re.findall(r"[\d.]+", where)
        assert float(numbers[0]) == pytest.approx(left + x["at"][int(head)] * (right - left), abs=1)
        assert float(numbers[1]) == pytest.approx(
            bottom + y["at"][int(head)] * (top - bottom), abs=1
        )


def test_figures_for_a_paper(with_known_roles: Contents, tmp_path: Path) -> None:
    written = {
        path.name: path for path in write_figures(with_known_roles, tmp_path, formats=("svg",))
    }
    assert {"role-survival.svg", "scores.svg", "heads.svg"} <= set(written)
    for path in written.values():
        assert path.stat().st_size > 2000


def test_the_figure_of_survival_names_methods_and_roles(with_known_roles: Contents) -> None:
    figure = Figure()
    axes = figure.subplots(4, 3, squeeze=False)
    draw_survival(with_known_roles, axes)
    heads = with_known_roles.table("role_survival").drop_duplicates("role").set_index("role")
    amounts = [heads.loc[role, "heads"] for role in ("positional", "syntactic", "none")]
    names = ("positional", "syntactic", "no role")
    assert [axis.get_title() for axis in axes[0]] == [
        f"{name} ({amount})" for name, amount in zip(names, amounts, strict=True)
    ]
    assert [row[0].get_ylabel() for row in axes] == with_known_roles.methods
    assert {axis.get_xlabel() for axis in axes[-1]} == {"removed (%)"}
    line = axes[1][1].get_lines()[1].get_ydata()
    rows = with_known_roles.table("role_survival").query("method == 'ablation'")
    assert list(line) == rows.query("role == 'syntactic'").sort_values("budget")["kept"].tolist()


# -- hostile and large --------------------------------------------------------------------------


def hostile_roles(folder: Path) -> None:
    """Names of relations come from a treebank, those of roles from whoever wrote the run."""
    heads = [
        (kind, layer, head)
        for kind, (layers, width) in hostile.KINDS.items()
        for layer in range(layers)
        for head in range(width)
    ]
    details = {"syntactic": [hostile.SCRIPT, hostile.CLOSING], "positional": [hostile.LINES]}
    frame = role_frame({"positional": heads[:3], "syntactic": heads[2:9]}, heads, details=details)
    other = role_frame({hostile.IMAGE: heads[1:5]}, heads)
    notes = [hostile.SCRIPT, hostile.LINK]
    write_roles(folder, pd.concat([frame, other]), notes=notes)


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
