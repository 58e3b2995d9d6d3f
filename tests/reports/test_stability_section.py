"""How often heads stay on random halves: the page and its prose say what the tables say."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headtool.analysis import subsampling
from headtool.analysis.subsampling import selection_frequency, subsample_agreement
from headtool.analysis.subsampling import subsample_overlap as overlap_of
from headtool.heads import Head
from headtool.reports.contents import facts
from headtool.reports.contents.run import Contents, read_contents
from headtool.reports.findings.summary import findings
from headtool.reports.formats.html import render_html
from headtool.reports.formats.markdown import render_markdown
from headtool.reports.sections.page import build_page
from headtool.results.runs import write_run

from ..support.comparisons import comparison

HALVES = 8
METHODS = ("gradient", "ablation")


def stability_tables(heads: pd.DataFrame, budgets: list[int]) -> dict[str, pd.DataFrame]:
    """Tables of two methods: one steady, one at random."""
    rng = np.random.default_rng(3)
    count = len(heads)
    worth = rng.normal(size=count)
    scores = {
        "gradient": worth + 0.2 * rng.normal(size=(HALVES, count)),
        "ablation": rng.normal(size=(HALVES, count)),
    }
    ranks = {name: np.argsort(np.argsort(-rows, axis=1), axis=1) for name, rows in scores.items()}
    kept = {name: {b: rows < count - b for b in budgets} for name, rows in ranks.items()}
    places = [Head(*place) for place in heads.itertuples(index=False)]
    return {
        "subsamples": subsample_agreement(scores, examples=50),
        "subsample_overlap": overlap_of(kept, heads["layer"].to_numpy()),
        "selection_frequency": selection_frequency(kept, places),
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of two methods with subsamples."""
    tables, settings = comparison(methods=METHODS)
    heads = tables["scores"].query("method == 'gradient'")[["kind", "layer", "head"]]
    tables |= stability_tables(heads, settings["budgets"])
    folder = tmp_path_factory.mktemp("stability") / "run"
    write_run(folder, command="", provenance={"compare": settings}, tables=tables)
    return folder


@pytest.fixture
def contents(run: Path) -> Contents:
    return read_contents(run)


def test_the_share_of_halves_is_that_of_the_analysis() -> None:
    assert facts.STABLE == subsampling.STABLE


def test_the_finding_names_the_steadiest_and_counts_stable_heads(contents: Contents) -> None:
    (finding,) = [one for one in findings(contents) if one.topic == "stability"]
    table = contents.table("subsamples").set_index("method")
    assert f"gradient ranks the heads with a tau-b of {table.loc['gradient', 'tau_b']:.3}" in (
        finding.headline
    )
    at_half = contents.table("subsample_overlap").query("budget == 36").set_index("method")
    stable, kept = (int(at_half.loc["gradient", name]) for name in ("stable_kept", "kept"))
    assert f"gradient {stable} of {kept} and ablation" in finding.headline
    assert "at least 90% of 8 halves" in finding.headline
    # 36 of 72 heads kept; the steady method has more stable ones than chance allows.
    assert stable > 36 * 0.5 / 0.8
    assert f"budget): at most 22.5 of the {stable} that gradient keeps. For" in finding.detail


def test_a_bound_that_says_nothing_is_not_told(contents: Contents) -> None:
    table = contents.table("subsample_overlap").assign(false_kept=9.0, stable_kept=9)
    told = dataclasses.replace(contents, tables={**contents.tables, "subsample_overlap": table})
    (finding,) = [one for one in findings(told) if one.topic == "stability"]
    assert "the bound is no smaller than what it bounds" in finding.detail


def test_the_page_shows_how_often_each_head_stays(contents: Contents) -> None:
    page = build_page(contents)
    (section,) = [one for one in page.sections if one.name == "stability"]
    frequency = contents.table("selection_frequency").query("budget == 36")
    often = frequency.set_index(["method", "kind", "layer", "head"])["times"]
    (table,) = [one for one in section.tables if one.name == "frequencies"]
    assert [column.title for column in table.columns] == ["head", *METHODS]
    for row in table.rows:
        kind, layer, head = row[0].text.split(".")
        for method, cell in zip(METHODS, row[1:], strict=True):
            assert cell.text == f"{often[method, kind, int(layer), int(head)]} of {HALVES}"
    grids, _ = section.figures
    assert [panel.title for panel in grids.panels] == list(METHODS)
    times = often["ablation", "enc-self", 2, 7]
    assert f"enc-self.2.7: kept in {times} of 8 halves" in grids.panels[1].drawing
    shown = section.data["frequency"]
    assert shown["halves"] == HALVES
    budget = contents.settings["budgets"].index(36)
    assert shown["times"][1][budget][2 * 12 + 7] == times


def test_every_format_tells_it(contents: Contents) -> None:
    html, markdown = render_html(contents), render_markdown(contents)
    assert 'id="stability"' in html
    assert "Would other examples say the same?" in markdown
    assert "| enc-self.0.0 | " in markdown
    assert "Shah & Samworth (2013)" in json.dumps(build_page(contents).procedure.references)


def test_a_method_without_stability_has_no_place_there(contents: Contents) -> None:
    tables = {
        name: table[table["method"] == "gradient"] if name in subsample_names() else table
        for name, table in contents.tables.items()
    }
    page = build_page(dataclasses.replace(contents, tables=tables))
    (section,) = [one for one in page.sections if one.name == "stability"]
    assert section.data["frequency"]["times"][1] is None
    assert [panel.title for panel in section.figures[0].panels] == ["gradient"]
    assert "gradient ranks the heads with a tau-b of" in section_headline(page)


def subsample_names() -> tuple[str, ...]:
    return ("subsamples", "subsample_overlap", "selection_frequency")


def section_headline(page: object) -> str:
    return " ".join(page.opening)  # type: ignore[attr-defined]


def test_a_run_without_subsamples_has_no_such_section(compared: Path) -> None:
    page = build_page(read_contents(compared))
    assert "stability" not in [section.name for section in page.sections]
    assert "From one random half" not in " ".join(page.opening)
