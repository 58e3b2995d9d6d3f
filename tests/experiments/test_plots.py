"""Results draw and write themselves: figures of Matplotlib, reports, LaTeX, short reprs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import headtool
from headtool.errors import HeadtoolError
from headtool.reports.colours import HUES, look_of
from headtool.reports.results import Reported
from headtool.results.display import Tabled

MODEL, DATA = "builtin:nli", "builtin:nli/matched"


@pytest.fixture(scope="module")
def compared() -> headtool.Comparison:
    data = [DATA, "builtin:nli/mismatched"]
    options: dict[str, Any] = {"draws": 2, "resamples": 100, "steps": "25%", "limit": 24}
    return headtool.compare(MODEL, data, methods=["gradient", "confidence"], **options)


@pytest.fixture(scope="module")
def ablation() -> headtool.Ablation:
    return headtool.ablate(MODEL, DATA, limit=16)


@pytest.fixture(scope="module")
def scoring() -> headtool.Scoring:
    return headtool.score(MODEL, DATA, methods=["gradient", "magnitude"], limit=8)


@pytest.fixture(scope="module")
def course() -> headtool.Dynamics:
    twice = [("early", MODEL), ("late", MODEL)]
    return headtool.dynamics(twice, DATA, method="magnitude", steps="50%", limit=8)


@pytest.fixture(scope="module")
def correlation() -> headtool.Correlation:
    data = [DATA, "builtin:nli/mismatched"]
    return headtool.correlate(MODEL, data, limit=8, permutations=99, resamples=50)


@pytest.mark.parametrize("name", ["curves", "faithfulness", "agreement", "scores", "effects"])
def test_one_figure_has_one_axes(compared: headtool.Comparison, name: str) -> None:
    plot = getattr(compared, f"plot_{name}")
    made = plot()
    assert isinstance(made, Figure)
    assert made.axes
    given, ax = plt.subplots()
    assert plot(ax=ax) is given
    assert ax.get_xlabel() == made.axes[0].get_xlabel()
    assert ax.get_ylabel() == made.axes[0].get_ylabel()
    assert len(ax.lines) == len(made.axes[0].lines)
    plt.close(given)


def test_methods_have_their_colours(compared: headtool.Comparison) -> None:
    lines = {line.get_label(): line for line in compared.plot_curves().axes[0].lines}
    for method in ("gradient", "confidence"):
        assert to_hex(lines[method].get_color()).upper() == HUES[look_of(method).hue]
        points = compared.curves.query("kind == 'all' and method == @method")
        assert list(lines[method].get_ydata()) == points.sort_values("share")["value"].tolist()


def test_several_axes_where_the_method_says_so(compared: headtool.Comparison) -> None:
    figure, axes = plt.subplots(1, 3)
    assert compared.plot_heads(axes) is figure
    assert [ax.get_title() for ax in axes] == ["gradient", "confidence", "consensus"]
    with pytest.raises(HeadtoolError, match="this figure takes 1 x 3 axes as `ax`, got 1"):
        compared.plot_heads(axes[0])
    with pytest.raises(HeadtoolError, match="this figure takes one axes as `ax`, got 3"):
        compared.plot_curves(axes)
    assert compared.plot_against_random(axes[:2]) is figure
    assert compared.plot_data_sets(ax=axes[0]) is figure
    plt.close(figure)


def test_what_there_is_not_is_not_drawn(compared: headtool.Comparison) -> None:
    with pytest.raises(HeadtoolError, match=r"nothing to draw as role-survival here; .*curves"):
        compared.plot_role_survival()


def test_single_heads_are_drawn(
    scoring: headtool.Scoring, ablation: headtool.Ablation, tmp_path: Path
) -> None:
    titles = [ax.get_title() for ax in scoring.plot_heads().axes]
    assert titles[:2] == ["gradient", "magnitude"]
    assert scoring["gradient"].plot_heads().axes[0].get_title() == "gradient"
    figure = ablation.plot_effects()
    deltas = ablation.frame.query("metric == 'accuracy'")["delta"]
    drawn = figure.axes[0].collections[-1].get_offsets()
    assert sorted(drawn[:, 1].tolist()) == pytest.approx(sorted(deltas))
    verdicts = headtool.test(ablation)
    assert verdicts.plot_effects().axes[0].get_ylabel() == "change of accuracy"
    figure.savefig(tmp_path / "effects.pdf")
    assert b"/Type0" in (tmp_path / "effects.pdf").read_bytes()  # Type 42 fonts


def test_courses_and_correlations_are_drawn(
    course: headtool.Dynamics, correlation: headtool.Correlation
) -> None:
    assert [line.get_label() for line in course.plot_curves().axes[0].lines] == ["early", "late"]
    assert course.plot_rank_stability().axes[0].get_ylabel() == "Spearman with late"
    figure, ax = plt.subplots()
    assert correlation.plot_coefficients(ax=ax) is figure
    assert ax.lines[0].get_xdata()[0] == correlation.frame["pearson"].iloc[0]
    plt.close(figure)


def test_everything_reports_on_itself(
    compared: headtool.Comparison,
    scoring: headtool.Scoring,
    ablation: headtool.Ablation,
    course: headtool.Dynamics,
    correlation: headtool.Correlation,
    tmp_path: Path,
) -> None:
    for number, result in enumerate(
        [compared, scoring, scoring["gradient"], ablation, course, correlation]
    ):
        page = result.report(tmp_path / f"{number}.html")
        assert page.read_text()[:15] == "<!doctype html>"
        assert result.report(tmp_path / f"{number}.md").read_text().startswith("#")
        text = result.to_latex()
        assert "\\toprule" in text
        assert "\\documentclass" not in text
    assert "gradient" in compared.to_latex("curve-values")
    with pytest.raises(
        HeadtoolError, match="unknown table 'curve-value'; did you mean 'curve-values'"
    ):
        compared.to_latex("curve-value")
    with pytest.raises(HeadtoolError, match=r"says no format; write \.html or \.md"):
        compared.report(tmp_path / "report")
    with pytest.raises(HeadtoolError, match="exists already"):
        compared.report(tmp_path / "0.html")


def test_a_figure_shows_itself_in_a_notebook(scoring: headtool.Scoring) -> None:
    assert scoring.plot_heads()._repr_png_()[:4] == b"\x89PNG"  # type: ignore[attr-defined]


def test_results_print_one_line(
    compared: headtool.Comparison,
    scoring: headtool.Scoring,
    ablation: headtool.Ablation,
    course: headtool.Dynamics,
    correlation: headtool.Correlation,
) -> None:
    for result in (compared, scoring, ablation, course, correlation, headtool.test(ablation)):
        assert "\n" not in repr(result)
        assert len(repr(result)) < 200
        assert "<table>" in result._repr_html_()


def test_no_result_prints_its_frames() -> None:
    names = [name for name in headtool.__all__ if name[0].isupper()]
    classes = [getattr(headtool, name) for name in names]
    results = [one for one in classes if isinstance(one, type) and issubclass(one, Tabled)]
    assert len(results) >= 12
    for one in results:
        assert "frame" in dir(one) or "frame" in {f.name for f in dataclasses.fields(one)}
        assert one.__repr__.__qualname__.split(".")[0] in ("Tabled", one.__name__)
        assert not one.__repr__.__qualname__.endswith("__create_fn__.<locals>.__repr__")
    assert sum(issubclass(one, Reported) for one in results) >= 9
