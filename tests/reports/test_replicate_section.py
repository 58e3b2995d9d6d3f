"""Models trained with other seeds: the page and its prose say what the tables say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headtool.analysis.replication import replicate_agreement, replicate_overlap
from headtool.reports.contents.run import Contents, read_contents
from headtool.reports.findings.findings import findings
from headtool.reports.formats.html import render_html
from headtool.reports.formats.markdown import render_markdown
from headtool.reports.sections.page import build_page
from headtool.results.runs import write_run

from ..support.comparisons import comparison

METHODS = ("gradient", "ablation")
MODELS = ("models/first", "models/<b>second</b>", "models/third")


@pytest.fixture
def contents(tmp_path: Path) -> Contents:
    tables, settings = comparison(methods=METHODS)
    rng = np.random.default_rng(2)
    heads = tables["scores"].query("method == 'gradient'")
    layers = heads["layer"].to_numpy()
    by_layer = rng.normal(size=6)[layers]
    scores = {name: {model: by_layer + rng.normal(size=72) for model in MODELS} for name in METHODS}
    kept = {
        name: {model: {36: values > np.median(values)} for model, values in by_model.items()}
        for name, by_model in scores.items()
    }
    curves = tables["curves"]
    tables |= {
        "replicates": pd.DataFrame(
            [
                (model, "0" * 64, metric, 0.9 - 0.01 * place)
                for place, model in enumerate(MODELS)
                for metric in ("accuracy", "loss")
            ],
            columns=["model", "sha256", "metric", "value"],
        ),
        "replicate_agreement": replicate_agreement(scores, layers, permutations=200),
        "replicate_overlap": replicate_overlap(kept, layers),
        "replicate_curves": pd.concat([curves.assign(model=model) for model in MODELS]),
    }
    settings["replicates"] = dict.fromkeys(MODELS, "0" * 64)
    folder = tmp_path / "run"
    write_run(folder, command="", provenance={"compare": settings}, tables=tables)
    return read_contents(folder)


def test_the_finding_gives_heads_and_layers(contents: Contents) -> None:
    (finding,) = [one for one in findings(contents) if one.topic == "replicates"]
    table = contents.table("replicate_agreement")
    mean = table[table["method"] == "ablation"]["tau_b"].mean()
    layers = table[table["method"] == "gradient"]["layer_spearman"].mean()
    assert (
        "Over three models trained with different seeds (accuracy 0.88 to 0.9)" in finding.headline
    )
    assert f"{mean:.3g} for ablation" in finding.headline
    assert f"Spearman correlation of {layers:.3g} for gradient" in finding.headline
    beyond = (table["tau_b_p_within_layers"] < 0.05).sum()
    assert f"{beyond} of 6 pairs of rankings agree" in finding.detail
    assert "have no counterpart in a model that was trained from another" in finding.detail


def test_the_page_has_models_agreement_overlap_and_a_chart_for_each_method(
    contents: Contents,
) -> None:
    page = build_page(contents)
    (section,) = [one for one in page.sections if one.name == "replicates"]
    models, agreement, overlap = section.tables
    assert [row[1].text for row in models.rows] == ["0.900", "0.890", "0.880"]
    assert len(agreement.rows) == len(overlap.rows) == 6
    (figure,) = section.figures
    assert [panel.title for panel in figure.panels] == list(METHODS)
    assert all(panel.drawing.count('class="series') == 3 for panel in figure.panels)
    assert "Owen (2007)" in " ".join(page.procedure.references)
    (curves,) = [one for one in page.sections if one.name == "curves"]
    assert "Areas are means over the 3 models" in " ".join(curves.text)
    html = render_html(contents)
    assert "<b>second</b>" not in html
    assert 'id="replicates"' in html
    assert "Does it hold for other training runs?" in render_markdown(contents)


def test_methods_that_failed_on_a_replicate_leave_the_models(contents: Contents) -> None:
    nothing = {
        name: contents.tables[name].iloc[:0]
        for name in ("replicate_agreement", "replicate_overlap")
    }
    page = build_page(dataclasses.replace(contents, tables={**contents.tables, **nothing}))
    (section,) = [one for one in page.sections if one.name == "replicates"]
    assert [table.name for table in section.tables] == ["replicates"]
    assert "no ranking could be compared" in " ".join(page.opening)


def test_a_run_without_replicates_has_no_such_section(compared: Path) -> None:
    page = build_page(read_contents(compared))
    assert "replicates" not in [section.name for section in page.sections]
