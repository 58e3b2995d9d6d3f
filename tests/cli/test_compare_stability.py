"""``headtool compare --stability``: scoring again on random halves of the selection examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import headtool.methods
from headtool.analysis.comparison import Comparison, read_comparison
from headtool.analysis.subsampling import complementary_halves
from headtool.data import load_data
from headtool.experiments import compare as comparing
from headtool.models import load_model

PLACE = ["kind", "layer", "head"]
TABLES = ("subsamples", "subsample_overlap", "selection_frequency", "subsample_scores")

FRAIL = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from headtool.errors import HeadtoolError
from headtool.methods.base import Job, Method, Scored

@dataclass(frozen=True)
class Frail(Method):
    name: ClassVar[str] = "frail"
    summary: ClassVar[str] = "fails on few examples"
    reference: ClassVar[str] = "none"

    def compute(self, job: Job) -> Scored:
        if len(job.examples) < 4:
            raise HeadtoolError("frail needs four examples")
        score = np.random.default_rng(job.seed).normal(size=job.sites.n_heads)
        return Scored(score, np.full(len(score), np.nan))
"""


@pytest.fixture(scope="module")
def found(bert: Path, reviews: Path, folder: Path) -> Comparison:
    """Three methods on six halves of four examples, through Python."""
    return comparing.compare(
        str(bert),
        str(reviews),
        methods=["gradient", "ablation", "confidence"],
        steps="25%",
        draws=0,
        resamples=20,
        stability=6,
        out=folder / "stability",
    )


def halves_of(found: Comparison) -> list[np.ndarray]:
    """Rows of the data set in each half."""
    chosen = found.splits.query("split == 'selection'")["example"].to_numpy()
    rng = np.random.default_rng([0, 13])
    return [chosen[half] for half in complementary_halves(len(chosen), 6, rng)]


@pytest.mark.parametrize("name", ["gradient", "ablation", "confidence"])
def test_scores_are_those_of_the_method_on_the_half(found: Comparison, name: str) -> None:
    model = load_model(found.settings["model"]["spec"])
    text = load_data(found.settings["data"][0])
    rows = found.subsample_scores.query("method == @name")
    for number, half in enumerate(halves_of(found), start=1):
        examples = model.encode(text.take(half.tolist()))
        alone = headtool.methods.get_method(name)().score(model, examples).frame
        ours = rows[rows["subsample"] == number]
        np.testing.assert_allclose(ours["score"], alone["score"], atol=1e-6)
    assert rows["subsample"].max() == 6


def test_frequencies_count_the_best_ranks(found: Comparison) -> None:
    ranks = found.subsample_scores.set_index(["method", *PLACE])["rank"].sort_index()
    assert found.selection_frequency["budget"].unique().tolist() == found.settings["budgets"]
    for row in found.selection_frequency.to_dict("records"):
        place = (row["method"], *(row[name] for name in PLACE))
        kept = ranks.loc[place] <= 8 - row["budget"]
        assert (row["times"], row["subsamples"]) == (kept.sum(), 6)


def test_agreement_is_between_the_halves_of_a_pair(found: Comparison) -> None:
    from scipy.stats import kendalltau

    for row in found.subsamples.to_dict("records"):
        wide = found.subsample_scores.query("method == @row['method']").pivot(
            index=PLACE, columns="subsample", values="score"
        )
        pairs = [kendalltau(wide[i], wide[i + 1]).statistic for i in (1, 3, 5)]
        assert row["tau_b"] == pytest.approx(np.nanmean(pairs))
        assert (row["examples"], row["pairs"]) == (2, 3)


def test_ablation_runs_no_mask_again(
    bert: Path, reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headtool.engine import measurement

    runs: list[int] = []
    plain = measurement.evaluate

    def counted(model: Any, examples: Any, masks: Any, **settings: Any) -> Any:
        runs.append(len(masks))
        return plain(model, examples, masks, **settings)

    monkeypatch.setattr(measurement, "evaluate", counted)

    def total(stability: int) -> int:
        runs.clear()
        comparing.compare(
            str(bert),
            str(reviews),
            methods=["ablation"],
            steps="50%",
            draws=0,
            resamples=5,
            stability=stability,
        )
        return sum(runs)

    assert total(4) == total(0) > 0


def test_means_over_the_examples_are_of_the_half(bert: Path, reviews: Path) -> None:
    """Where a closed head puts out its mean, outcomes among all examples are not the half's."""
    method = headtool.methods.get_method("ablation")(replacement="mean", signal="loss")
    found = comparing.compare(
        str(bert), str(reviews), methods=[method], steps="50%", draws=0, resamples=5, stability=2
    )
    model, text = load_model(str(bert)), load_data(str(reviews))
    chosen = found.splits.query("split == 'selection'")["example"].to_numpy()
    first = complementary_halves(len(chosen), 2, np.random.default_rng([0, 13]))[0]
    alone = method.score(model, model.encode(text.take(chosen[first].tolist()))).frame
    ours = found.subsample_scores.query("subsample == 1")
    np.testing.assert_allclose(ours["score"], alone["score"], atol=1e-6)


def test_random_methods_get_a_seed_for_every_half(bert: Path, reviews: Path) -> None:
    from headtool.experiments.subsampling import _seed

    seeds = {_seed(seed, number) for seed in range(3) for number in range(1, 40)}
    assert len(seeds) == 3 * 39
    assert 0 not in seeds


@pytest.fixture
def frail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method ``frail`` that scores at random, and fails on a half."""
    (tmp_path / "example_frail.py").write_text(FRAIL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(headtool.methods.BUILTIN, "frail", "example_frail:Frail")


@pytest.fixture
def compare(headtool, bert: Path, reviews: Path, workplace: Path) -> Callable[..., Any]:
    """Run ``headtool compare --stability 4`` on the small classifier."""

    def run(*arguments: object) -> Any:
        few = ("--draws", 2, "--resamples", 20, "--steps", "25%", "--stability", 4)
        return headtool("compare", "--model", bert, "--data", reviews, *few, *arguments)

    return run


@pytest.mark.usefixtures("frail")
def test_a_method_that_fails_on_a_half_loses_its_stability_alone(
    compare: Callable[..., Any],
) -> None:
    done = compare("--method", "frail,gradient", "--out", "run")
    assert done.code == 2
    assert "frail failed and has no stability: frail needs four examples" in done.err
    run = read_comparison(Path("run"))
    assert set(run.scores["method"]) == {"frail", "gradient"}
    assert set(run.selection_frequency["method"]) == set(run.subsamples["method"]) == {"gradient"}
    assert run.failures["stage"].tolist() == ["subsample 1"]


def test_without_it_the_tables_have_no_rows(compare: Callable[..., Any]) -> None:
    document = json.loads(compare("--method", "gradient", "--stability", 0, "--format", "json").out)
    assert [document[name] for name in TABLES] == [[], [], [], []]
    assert document["provenance"]["stability"] == 0


def test_the_terminal_shows_agreement_and_stable_heads(compare: Callable[..., Any]) -> None:
    done = compare("--method", "gradient,ablation")
    assert done.code == 0, done.err
    assert "stability  4 random halves" in done.out
    document = json.loads(compare("--method", "gradient", "--format", "json").out)
    assert len(document["selection_frequency"]) == 8 * 5
    assert document["provenance"]["stability"] == 4


def test_scoring_again_after_every_step_is_done_on_every_half(compare: Callable[..., Any]) -> None:
    one, again = (
        pd.DataFrame(
            json.loads(compare("--method", "gradient", *more, "--format", "json").out)[
                "selection_frequency"
            ]
        )
        for more in ((), ("--iterative",))
    )
    first = one["budget"] == 2  # after one step from the same scores
    assert one[first]["times"].tolist() == again[first]["times"].tolist()
    assert one["times"].tolist() != again["times"].tolist()


def test_selection_examples_of_their_own_are_halved(
    compare: Callable[..., Any], reviews: Path
) -> None:
    lines = reviews.read_text().splitlines()
    Path("other.tsv").write_text("\n".join([lines[0], *lines[:2:-1]]) + "\n")
    done = compare("--method", "gradient", "--select-data", "other.tsv", "--format", "json")
    assert json.loads(done.out)["subsamples"][0]["examples"] == 3


def test_progress_names_subsample_and_method(bert: Path, reviews: Path) -> None:
    labels: list[str] = []

    def watched(items: Any, *, total: int, label: str) -> Any:
        labels.append(label)
        yield from items

    comparing.compare(
        str(bert),
        str(reviews),
        methods=["gradient"],
        steps="50%",
        draws=0,
        resamples=5,
        stability=2,
        progress=watched,
    )
    assert "subsample 2 of 2, gradient: gradients" in labels


@pytest.mark.slow
def test_an_interrupted_comparison_continues_with_the_next_half(
    compare: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headtool.engine import evaluation
    from headtool.methods.base import Method

    done: list[str] = []
    stop_after = [10**9]

    def noted(what: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def doing(*arguments: Any, **settings: Any) -> Any:
            if len(done) >= stop_after[0]:
                raise KeyboardInterrupt
            result = work(*arguments, **settings)
            done.append(what)
            return result

        return doing

    monkeypatch.setattr(evaluation.Runner, "run", noted("unit", evaluation.Runner.run))
    monkeypatch.setattr(Method, "score", noted("score", Method.score))
    asked = ("--method", "gradient,ablation", "--batch-tokens", 9)
    assert compare(*asked, "--out", "straight").code == 0
    total = len(done)
    assert done.count("score") == 2 * 2 + 2 * 4
    stop_after[0] = total - 3  # in the halves of ablation
    done.clear()
    assert compare(*asked, "--out", "parts").code == 130
    finished = len(done)
    stop_after[0] = 10**9
    done.clear()
    assert compare(*asked, "--out", "parts").code == 0
    assert finished + len(done) == total
    straight, parts = (read_comparison(Path(name)) for name in ("straight", "parts"))
    for name in TABLES:
        pd.testing.assert_frame_equal(straight.tables[name], parts.tables[name])
