"""Tables over many comparisons: each number against a naive loop over the cells."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata
from statsmodels.stats.multitest import multipletests

from headtool.analysis.study_runs import runs_of_folders
from headtool.analysis.study_tables import StudyTables, study_tables
from headtool.errors import HeadtoolError
from headtool.results.runs import read_run, write_run
from headtool.schema import TABLES

from ..support.studies import METHODS, area_of, changed, write_cells


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_cells(tmp_path_factory.mktemp("cells"))


@pytest.fixture(scope="module")
def study(places: list[Path]) -> StudyTables:
    runs, left = runs_of_folders(places)
    assert left == []
    return study_tables(runs)


def test_cells_are_models_seeds_and_tasks(study: StudyTables) -> None:
    cells = study.tables["study_cells"]
    assert cells["model"].unique().tolist() == ["models/bert", "models/gpt", "models/t5"]
    assert cells["replicate"].tolist() == ["seed-1"] * 2 + ["seed-2"] * 2 + [""] * 4
    assert set(cells["task"]) == {"data/news.tsv", "data/reviews.tsv"}
    assert (cells["seconds"] == 10.0).all()


def test_means_are_over_models_and_ranks_over_models_on_tasks(study: StudyTables) -> None:
    ranking = study.tables["study_ranking"].set_index("method")
    blocks: dict[tuple[str, str], list[np.ndarray]] = {}
    for run in study.runs:
        areas = np.array([area_of(run, name) for name in METHODS])
        blocks.setdefault((run.cell.model, run.cell.task), []).append(areas)
    ranks = np.mean([rankdata(-np.mean(found, axis=0)) for found in blocks.values()], axis=0)
    for name, rank in zip(METHODS, ranks, strict=True):
        assert ranking.loc[name, "mean_rank"] == pytest.approx(rank)
        models = {run.cell.model for run in study.runs}
        means = [
            np.mean([area_of(run, name) for run in study.runs if run.cell.model == model])
            for model in models
        ]
        assert ranking.loc[name, "area"] == pytest.approx(np.mean(means))
    design = study.design
    assert (design["levels"], design["units"], design["blocks"]) == ("model", 3, 6)
    assert study.ranked[0] == "gradient"
    assert study.tables["study_ranking"]["method"].tolist() == list(study.ranked)


def test_claims_about_cells_are_corrected_over_methods_and_cells(study: StudyTables) -> None:
    results = study.tables["study_results"]
    for name, how in (("p_holm", "holm"), ("p_bh", "fdr_bh")):
        expected = multipletests(results["p"].to_numpy(), method=how)[1]
        assert results[name].to_numpy() == pytest.approx(expected)
    better = results[(results["p_bh"] <= 0.05) & (results["area"] > 0)]
    assert (results.loc[better.index, "claim"] == "better").all()
    ranking = study.tables["study_ranking"].set_index("method")
    for name in METHODS:
        assert ranking.loc[name, "better"] == (better["method"] == name).sum()
    # All eight p-values of the best method are .01, at most .05 over four methods.
    assert ranking.loc["gradient", "at_least"] == 8
    assert (ranking.drop("gradient")["at_least"] == 0).all()


def test_pairs_count_the_cells_that_tell_them_apart(study: StudyTables) -> None:
    pairs = study.tables["study_pairs"]
    for row in pairs.to_dict("records"):
        gaps = np.array(
            [area_of(run, row["method_x"]) - area_of(run, row["method_y"]) for run in study.runs]
        )
        assert row["cells"] == 8
        assert (row["better"], row["worse"]) == ((gaps > 0.03).sum(), (gaps < -0.03).sum())
    found = study.tables["study_conclusions"].set_index("statement")["where"]
    assert found["gradient > random"] == "everywhere"
    assert found["gates > random"] == "nowhere"


def test_quality_at_budgets_is_read_off_the_curves(study: StudyTables) -> None:
    budgets = study.tables["study_budgets"]
    curve = study.runs[0].curves
    own = curve[curve["method"] == "gates"].sort_values("share")
    expected = np.interp(0.5, own["share"], own["value"])
    row = budgets[(budgets["method"] == "gates") & (budgets["share"] == 0.5)].iloc[0]
    assert row["value"] == pytest.approx(expected)  # these curves are alike in all cells
    assert row["cells"] == 8


def test_seeds_of_a_model_are_compared_and_other_models_are_not(study: StudyTables) -> None:
    seeds = study.tables["study_seeds"]
    assert set(seeds["model"]) == {"models/bert"}
    assert len(seeds) == len(METHODS) * 2
    assert seeds["tau_b"].between(-1, 1).all()


def test_cost_is_that_of_scoring(study: StudyTables) -> None:
    ranking = study.tables["study_ranking"].set_index("method")
    assert ranking.loc["gradient", "seconds"] == 2.0
    assert math.isnan(ranking.loc["gates", "seconds"])
    assert ranking.loc["gates", "passes"] == 2.0


def test_every_table_is_as_described(study: StudyTables) -> None:
    for name, frame in study.tables.items():
        TABLES[name].checked(frame, name)


def test_metrics_that_differ_are_compared_by_what_all_heads_are_worth(
    places: list[Path], tmp_path: Path
) -> None:
    other = changed(tmp_path / "f1", read_run(places[4]), metric="f1", data=["data/other.tsv"])
    runs, left = runs_of_folders([*places[:2], other])
    assert left == []
    found = study_tables(runs)
    assert found.design["unit"] == "share"
    results = found.tables["study_results"]
    worth = 0.912 - 0.5  # the whole model, and the model with no head
    assert results["advantage"].to_numpy() == pytest.approx(results["area"].to_numpy() / worth)
    values = found.tables["study_budgets"]
    whole = (np.interp(0.25, *_curve(runs[0], "ablation")) - 0.5) / worth
    row = values[(values["method"] == "ablation") & (values["share"] == 0.25)].iloc[0]
    assert row["value"] == pytest.approx(whole)


def _curve(run, method: str) -> tuple[np.ndarray, np.ndarray]:
    rows = run.curves[run.curves["method"] == method].sort_values("share")
    return rows["share"].to_numpy(), rows["value"].to_numpy()


def test_what_does_not_fit_is_left_out_with_its_reason(places: list[Path], tmp_path: Path) -> None:
    others = write_cells(tmp_path / "others", models=["models/x"], methods=["lrp", "wanda"])
    twice = changed(tmp_path / "twice", read_run(places[0]))
    source = read_run(places[6])
    tables = {name: source.table(name) for name in source.names}
    del tables["faithfulness_areas"], tables["faithfulness"]
    settings = source.manifest["provenance"]["compare"] | {"metric": "mcc", "data": ["data/z.tsv"]}
    write_run(tmp_path / "mcc", command="", provenance={"compare": settings}, tables=tables)
    undrawn = {name: frame for name, frame in tables.items() if name != "curve_tests"}
    settings = settings | {"metric": "accuracy", "data": ["data/y.tsv"]}
    write_run(tmp_path / "undrawn", command="", provenance={"compare": settings}, tables=undrawn)
    given = [*places[:4], others[0], twice, tmp_path / "mcc", tmp_path / "undrawn", tmp_path / "no"]
    runs, left = runs_of_folders(given)
    assert [run.cell.run for run in runs] == places[:4]
    why = dict(left)
    assert "no method in common" in next(why[name] for name in why if "others" in name)
    assert "same model and data as" in why[next(n for n in why if n.endswith("twice"))]
    assert (
        "its metric is mcc, and that of most is accuracy"
        in why[next(n for n in why if n.endswith("mcc"))]
    )
    assert "random masks" in why[next(n for n in why if n.endswith("undrawn"))]
    assert "no such folder" in why[next(n for n in why if n.endswith("no"))]


def test_a_single_cell_has_no_intervals(places: list[Path]) -> None:
    found = study_tables(runs_of_folders(places[:1])[0])
    ranking = found.tables["study_ranking"]
    assert ranking["low"].isna().all()
    assert found.design["units"] == 1
    assert math.isnan(found.design["p_units"])
    with pytest.raises(HeadtoolError, match="no comparison"):
        study_tables([])


def test_a_method_that_few_cells_have_is_not_ranked(places: list[Path], tmp_path: Path) -> None:
    more = write_cells(tmp_path, models=["models/z"], methods=[*METHODS, "lrp"])
    found = study_tables(runs_of_folders([*places, *more])[0])
    assert "lrp" not in found.ranked
    assert "lrp" in found.methods
    ranking = found.tables["study_ranking"].set_index("method")
    assert math.isnan(ranking.loc["lrp", "mean_rank"])
    assert not math.isnan(ranking.loc["lrp", "area"])
    assert (found.design["cells"], found.design["cells_all"]) == (10, 2)
    areas = np.array([[area_of(run, name) for name in found.methods] for run in found.runs[8:]])
    expected = rankdata(-areas, axis=1).mean(axis=0)
    assert ranking.loc[list(found.methods), "rank_among_all"].to_numpy() == pytest.approx(expected)


def test_a_method_that_failed_once_is_ranked_over_the_other_cells(
    places: list[Path], tmp_path: Path
) -> None:
    source = read_run(places[0])
    tables = {name: source.table(name) for name in source.names}
    for name, columns in (("curve_tests", ("method_x", "method_y")), ("curves", ("method",))):
        for column in columns:
            tables[name] = tables[name][tables[name][column] != "gates"]
    provenance = dict(source.manifest["provenance"])
    write_run(tmp_path / "cell", command="", provenance=provenance, tables=tables)
    found = study_tables(runs_of_folders([tmp_path / "cell", *places[1:]])[0])
    assert set(found.ranked) == set(METHODS)
    assert found.design["cells"] == 7  # the model stays by its other seed and task


@pytest.mark.slow
def test_how_many_cells_is_seldom_too_many() -> None:
    """At most alpha of the time is a number of cells above the true one, draws shared or not."""
    from headtool.analysis.partial_conjunction import partial_conjunction_p

    rng = np.random.default_rng(0)
    for shared in (0.0, 0.9):
        wrong = 0
        for _ in range(2000):
            noise = math.sqrt(shared) * rng.normal() + math.sqrt(1 - shared) * rng.normal(size=8)
            p = _p_of(noise + np.array([6.0, 6.0, 6.0, 0, 0, 0, 0, 0]))
            held = np.flatnonzero(partial_conjunction_p(p) <= 0.05)
            wrong += len(held) > 0 and held[-1] + 1 > 3
        assert wrong <= 100 + 3 * math.sqrt(2000 * 0.05 * 0.95)


def _p_of(z: np.ndarray) -> np.ndarray:
    """Two-sided p-values, 1 where the effect is in the other direction."""
    from scipy.stats import norm

    return np.where(z > 0, 2 * norm.sf(z), 1.0)
