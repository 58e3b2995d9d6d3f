"""``headtool compare`` and ``headtool curve``: what they compute, write, continue and survive."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import headtool.methods
from headtool.analysis.comparison import TABLES, Comparison, read_comparison
from headtool.data import load_data
from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError
from headtool.experiments import compare as comparing
from headtool.heads import Head, HeadMask
from headtool.metrics import get_metric
from headtool.models import load_model
from headtool.results.runs import read_run

PLACE = ["kind", "layer", "head"]

BROKEN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from headtool.errors import HeadtoolError
from headtool.methods.base import Job, Method, Scored, option

@dataclass(frozen=True)
class Broken(Method):
    name: ClassVar[str] = "broken"
    summary: ClassVar[str] = "fails"
    reference: ClassVar[str] = "none"
    how: str = option("user", "how", choices=("user", "bug", "nan", "later"))

    def compute(self, job: Job) -> Scored:
        if self.how == "user":
            raise HeadtoolError("the data are too short; give longer ones")
        if self.how == "bug":
            return {}["missing"]
        score = np.arange(job.sites.n_heads, dtype=float)
        if self.how == "nan":
            score[2] = np.nan
        if self.how == "later" and any(m._forward_pre_hooks for m in job.model.module.modules()):
            raise HeadtoolError("cannot score this again")
        return Scored(score, np.full(len(score), np.nan))
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method ``broken`` that fails in the way of its option."""
    (tmp_path / "example_failing.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(headtool.methods.BUILTIN, "broken", "example_failing:Broken")


@pytest.fixture
def compare(headtool, bert: Path, reviews: Path, workplace: Path) -> Callable[..., Any]:
    """Run ``headtool compare`` on the small classifier with few draws and resamples."""

    def run(*arguments: object, command: str = "compare") -> Any:
        few = ("--draws", 3, "--resamples", 50, "--steps", "25%")
        return headtool(command, "--model", bert, "--data", reviews, *few, *arguments)

    return run


@pytest.fixture(scope="module")
def saved(bert: Path, reviews: Path, folder: Path) -> Comparison:
    """A comparison of three methods on two data sets, through Python."""
    second = folder / "others.tsv"
    lines = reviews.read_text().splitlines()
    second.write_text("\n".join([lines[0], *reversed(lines[3:])]) + "\n")
    return comparing.compare(
        str(bert),
        [str(reviews), str(second)],
        methods=["gradient", "ablation", "confidence"],
        steps="25%",
        draws=3,
        resamples=200,
        out=folder / "saved",
    )


def head_rows(frame: pd.DataFrame) -> list[str]:
    return [str(Head(row["kind"], row["layer"], row["head"])) for row in frame.to_dict("records")]


@pytest.mark.slow
def test_the_halves_are_disjoint_and_everything_else_is_evaluated(saved: Comparison) -> None:
    first, second = saved.settings["data"]
    splits = saved.splits.groupby(["data", "split"])["example"].apply(list)
    assert sorted(splits[first, "selection"] + splits[first, "evaluation"]) == list(range(8))
    assert len(splits[first, "selection"]) == 4
    assert splits[second, "evaluation"] == list(range(6))
    assert set(saved.scores["data"]) == {first}


def test_scores_are_those_of_the_method_on_the_selection_half(saved: Comparison) -> None:
    model = load_model(saved.settings["model"]["spec"])
    first = saved.settings["data"][0]
    chosen = saved.splits[(saved.splits["data"] == first) & (saved.splits["split"] == "selection")]
    examples = model.encode(load_data(first).take(chosen["example"].tolist()))
    for name in ("gradient", "ablation", "confidence"):
        alone = headtool.methods.get_method(name)().score(model, examples).frame
        ours = saved.scores[saved.scores["method"] == name].reset_index(drop=True)
        np.testing.assert_allclose(ours["score"], alone["score"], atol=1e-6)
        assert ours["rank"].tolist() == alone["rank"].tolist()


def test_kept_heads_are_those_of_the_best_ranks(saved: Comparison) -> None:
    ranks = saved.scores.set_index(["method", *PLACE])["rank"]
    for (method, budget), rows in saved.kept.groupby(["method", "budget"]):
        kept = {ranks[(method, *place)] for place in rows[rows["kept"]][PLACE].to_numpy().tolist()}
        assert kept == set(range(1, 8 - budget + 1))
    assert saved.kept["budget"].unique().tolist() == [0, 2, 4, 6, 8]


def test_curves_are_the_metric_of_the_masks_on_the_evaluation_half(saved: Comparison) -> None:
    model = load_model(saved.settings["model"]["spec"])
    first = saved.settings["data"][0]
    used = saved.splits[(saved.splits["data"] == first) & (saved.splits["split"] == "evaluation")]
    examples = model.encode(load_data(first).take(used["example"].tolist()))
    metric = get_metric("accuracy", task="classification", n_labels=2)
    for method in saved.settings["methods"]:
        for budget in saved.settings["budgets"]:
            here = (saved.kept["method"] == method) & (saved.kept["budget"] == budget)
            rows = saved.kept[here & ~saved.kept["kept"]]
            mask = HeadMask.without(model.sites, map(Head.parse, head_rows(rows)))
            expected = metric.compute(evaluate(model, examples, [mask]).row(0))
            here = (saved.curves["method"] == method) & (saved.curves["budget"] == budget)
            point = saved.curves[here]
            assert point["value"].tolist() == pytest.approx([expected])
    whole = saved.settings["whole"][first]["accuracy"]
    np.testing.assert_allclose(saved.curves["delta"], saved.curves["value"] - whole, atol=1e-12)


def test_additivity_adds_up_the_ablations(saved: Comparison) -> None:
    first = saved.settings["data"][0]
    here = (saved.ablation["data"] == first) & (saved.ablation["metric"] == "accuracy")
    single = saved.ablation[here]
    deltas = dict(zip(head_rows(single), single["delta"], strict=True))
    for row in saved.additivity.to_dict("records"):
        removed = saved.kept.query(
            f"method == '{row['method']}' and budget == {row['budget']} and not kept"
        )
        assert row["sum_of_singles"] == pytest.approx(sum(deltas[h] for h in head_rows(removed)))
        point = saved.curves.query(f"method == '{row['method']}' and budget == {row['budget']}")
        assert row["joint"] == pytest.approx(point["delta"].item())


def test_tests_are_those_of_the_command(saved: Comparison, headtool) -> None:
    done = headtool("test", saved.folder, "--format", "json")
    assert done.code == 0, done.err
    first = saved.settings["data"][0]
    ours = saved.tests[saved.tests["data"] == first]
    theirs = pd.DataFrame(json.loads(done.out)["tests"])
    assert ours["verdict"].tolist() == theirs["verdict"].tolist()
    np.testing.assert_allclose(ours["p_adjusted"], theirs["p_adjusted"])


def test_consensus_and_overlap_count_the_kept_heads(saved: Comparison) -> None:
    for budget, votes in saved.consensus.groupby("budget"):
        kept = saved.kept[saved.kept["budget"] == budget].groupby(PLACE, sort=False)["kept"].sum()
        assert votes["methods_keeping"].tolist() == kept.tolist()
    for row in saved.overlap.to_dict("records"):
        sets = [
            set(
                head_rows(
                    saved.kept.query(f"method == '{m}' and budget == {row['budget']} and kept")
                )
            )
            for m in (row["method_x"], row["method_y"])
        ]
        assert row["shared"] == len(sets[0] & sets[1])
        assert row["jaccard"] == pytest.approx(len(sets[0] & sets[1]) / len(sets[0] | sets[1]))


def test_a_run_reads_back_as_it_was(saved: Comparison) -> None:
    assert saved.folder is not None
    again = read_comparison(saved.folder)
    for name in TABLES:
        pd.testing.assert_frame_equal(again.tables[name], saved.tables[name], check_dtype=False)
    assert again.settings == json.loads(json.dumps(saved.settings))
    assert not saved.folder.with_name("saved.unfinished").exists()
    tables = read_run(saved.folder).manifest["tables"]
    assert {"outcomes", "outcomes.2", "curve_outcomes"} <= set(tables)


def test_it_says_what_it_is_and_what_it_is_doing(bert: Path, reviews: Path) -> None:
    labels: list[str] = []

    def watched(items, *, total, label):
        labels.append(label)
        yield from items

    found = comparing.compare(
        str(bert),
        str(reviews),
        methods=["gradient", "ablation"],
        steps="50%",
        draws=1,
        resamples=5,
        progress=watched,
    )
    assert repr(found) == f"Comparison(gradient, ablation on {bert} with {reviews})"
    assert {"scores.gradient: gradients", "scores.ablation: evaluate"} <= set(labels)
    assert labels[-1] == "curves: evaluate"


def test_every_mask_is_evaluated_once(
    bert: Path, reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where budgets close everything, one head, or the same heads by two methods."""
    from headtool.engine import measurement

    seen: list[tuple[int, HeadMask]] = []
    plain = measurement.evaluate

    def counted(model, examples, masks, **settings):
        seen.extend((id(examples), mask) for mask in masks)
        kept.append(examples)  # ids stay different
        return plain(model, examples, masks, **settings)

    kept: list[object] = []
    monkeypatch.setattr(measurement, "evaluate", counted)
    found = comparing.compare(
        str(bert), str(reviews), methods=["ablation", "gradient"], steps="1", draws=4, resamples=20
    )
    assert len(seen) == len(set(seen))
    # 8 heads one at a time on either half; then the curves on one of them.
    assert len({examples for examples, _ in seen}) == 2
    assert sum(examples == seen[0][0] for examples, _ in seen) == 8
    assert len(found.curves) == 9 * 5


@pytest.mark.slow
def test_the_table_and_the_other_formats(compare: Callable[..., Any]) -> None:
    table = compare("--method", "gradient,confidence")
    assert table.code == 0, table.err
    for part in ("heads one at a time", "agreement", "pruning", "area between curves", "kept"):
        assert part in table.out
    document = json.loads(compare("--method", "gradient,confidence", "--format", "json").out)
    assert document["schema"] == "headtool/comparison/1"
    assert set(TABLES) - set(document) == {"splits", "sites", "roles"}
    assert document["provenance"]["methods"] == ["gradient", "confidence"]
    sheet = compare("--method", "gradient,confidence", "--format", "csv").out.splitlines()
    assert len(sheet) == 9
    assert sheet[0].endswith(
        "verdict,score.gradient,rank.gradient,score.confidence,rank.confidence"
    )


def test_one_method_is_compared_with_random_masks_only(compare: Callable[..., Any]) -> None:
    done = compare("--method", "gradient")
    assert done.code == 0, done.err
    assert "agreement between methods is left out: gradient is the only method" in done.err
    assert "agreement  tau-b" not in done.out
    assert "random-matched:gradient" in done.out


@pytest.mark.slow
def test_curve_gives_the_same_curves_as_compare(compare: Callable[..., Any]) -> None:
    asked = ("--method", "gradient,confidence", "--format", "json")
    whole, curve = (
        json.loads(compare(*asked, command=command).out) for command in ("compare", "curve")
    )
    assert curve["schema"] == "headtool/curves/1"
    drawn = [
        [
            (row["method"], row["draw"], row["budget"], row["value"])
            for row in document["curve_draws"]
        ]
        for document in (whole, curve)
    ]
    assert drawn[0] == drawn[1]
    assert {draw for _, draw, _, _ in drawn[0]} == {0, 1, 2}
    means = [
        [(row["method"], row["budget"], row["value"]) for row in document["curves"]]
        for document in (whole, curve)
    ]
    assert means[0] == means[1]
    alone = compare(command="curve")
    assert "kept" not in alone.out.split()
    assert "agreement" not in alone.err
    sheet = compare("--format", "csv", command="curve").out.splitlines()
    assert sheet[0] == "kind,method,budget,share,metric,value,delta,low,high"


@pytest.mark.slow
def test_auto_leaves_the_draws_open_as_none_does(
    compare: Callable[..., Any], bert: Path, reviews: Path
) -> None:
    document = json.loads(compare("--draws", "auto", "--format", "json", command="curve").out)
    assert document["provenance"]["draws"] is None
    found = comparing.curve(str(bert), str(reviews), steps="25%", resamples=50)
    assert document["curve_tests"] == found.document()["curve_tests"]
    assert document["provenance"]["draws_plan"] == found.settings["draws_plan"]
    refused = compare("--draws", "some")
    assert refused.code == 2
    assert "--draws must be a whole number, got 'some'" in refused.err


@pytest.mark.slow
def test_no_draws_no_baselines(compare: Callable[..., Any]) -> None:
    document = json.loads(compare("--draws", 0, "--format", "json", command="curve").out)
    assert {row["method"] for row in document["curves"]} == {"gradient"}
    assert document["curve_tests"] == []
    assert compare("--draws", 0).code == 0


def test_a_layer_keeps_one_head(compare: Callable[..., Any]) -> None:
    done = compare("--keep-one-per-layer", "--format", "json", command="curve")
    document = json.loads(done.out)
    assert document["provenance"]["budgets"] == [0, 2, 4, 6]
    kept = pd.DataFrame(document["kept"])
    assert (kept.groupby(["budget", "layer"])["kept"].sum() >= 1).all()
    ranks = pd.DataFrame(document["scores"]).set_index(PLACE)["rank"]
    best = ranks.groupby("layer").min().tolist()
    last = kept[(kept["budget"] == 6) & kept["kept"]]
    assert sorted(ranks[tuple(place)] for place in last[PLACE].to_numpy().tolist()) == sorted(best)


def test_scoring_again_removes_by_the_model_that_is_left(
    compare: Callable[..., Any], bert: Path, reviews: Path
) -> None:
    from headtool.attention.closing import closing

    document = json.loads(compare("--iterative", "--format", "json", command="curve").out)
    kept = pd.DataFrame(document["kept"])
    model = load_model(str(bert))
    found = comparing.compare(
        str(bert), str(reviews), methods=["gradient"], draws=0, resamples=5, steps="25%"
    )
    chosen = found.splits.query("split == 'selection'")["example"].tolist()
    examples = model.encode(load_data(str(reviews)).take(chosen))
    removed: list[Head] = []
    for budget in (2, 4, 6):
        with closing(model.handles, HeadMask.without(model.sites, removed), spec=model.spec):
            frame = headtool.methods.get_method("gradient")().score(model, examples).frame
        worst = frame.sort_values("rank", ascending=False)
        left = [h for h in map(Head.parse, head_rows(worst)) if h not in removed]
        removed += left[:2]
        rows = kept[(kept["budget"] == budget) & ~kept["kept"]]
        assert set(head_rows(rows)) == set(map(str, removed))


def test_curves_of_each_kind_leave_the_others_whole(
    headtool, bart: Path, folder: Path, workplace: Path
) -> None:
    source, target = folder / "lines.xx", folder / "lines.yy"
    source.write_text("a good film\nbad plot\nfine\na b c\n" * 2)
    target.write_text("good\nbad film\nfine plot\nc b\n" * 2)
    done = headtool(
        *("curve", "--model", bart, "--data", f"{source},{target}", "--per-kind"),
        *("--draws", 2, "--resamples", 20, "--steps", "50%", "--out", "runs"),
    )
    assert done.code == 0, done.err
    found = read_comparison(Path("runs"))
    assert found.curves["kind"].unique().tolist() == ["all", "enc-self", "dec-self", "cross"]
    shares = found.curves.query("kind == 'cross' and method == 'gradient'")
    assert shares["budget"].tolist() == [0, 4, 8]
    outcomes = read_run(Path("runs")).table("curve_outcomes")
    masks = [str(mask).split() for mask in outcomes["mask"].unique()]
    alone = [{head.split(".")[0] for head in mask} for mask in masks]
    assert {"cross"} in alone
    assert found.tests.empty
    done = headtool("curve", "--model", bart, "--data", f"{source},{target}", "--kind", "cross",
                    "--per-kind")  # fmt: skip
    assert done.code == 2
    assert "--per-kind needs several kinds" in done.err


def test_another_data_set_may_select(compare: Callable[..., Any], folder: Path) -> None:
    other = folder / "selecting.tsv"
    other.write_text("text\tlabel\na good plot\t1\nb c d\t0\nthe film\t1\n")
    done = compare("--method", "gradient", "--select-data", other, "--format", "json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["provenance"]["selection_source"]["examples"] == 3
    assert [s["examples"] for s in document["provenance"]["sources"].values()] == [8]
    assert {row["data"] for row in document["scores"]} == {str(other)}


def test_running_text_is_halved_block_by_block(
    headtool, llama: Path, book: Path, workplace: Path
) -> None:
    done = headtool(
        *("compare", "--model", llama, "--data", book, "--method", "gradient", "--draws", 1),
        *("--resamples", 20, "--steps", "50%", "--limit", 10, "--out", "run"),
    )
    assert done.code == 0, done.err
    found = read_comparison(Path("run"))
    assert found.splits["split"].value_counts().to_dict() == {"selection": 5, "evaluation": 5}
    assert found.settings["metric"] == "perplexity" or not found.settings["higher_is_better"]
    assert found.settings["sources"][str(book)]["examples"] == 5
    # A lower loss is better: the area is positive where the first curve is lower.
    row = found.curve_tests.iloc[0]
    mean = found.curves.pivot(index="share", columns="method", values="value")
    area = np.trapezoid(mean[row["method_y"]] - mean[row["method_x"]], mean.index)
    assert row["area"] == pytest.approx(area)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("user", "broken: the data are too short; give longer ones"),
        ("bug", "broken: method 'broken' (example_failing) raised KeyError: 'missing'"),
        ("nan", "broken: broken scores 7 of 8 heads (not enc-self.0.2)"),
    ],
)
@pytest.mark.usefixtures("broken")
def test_a_method_that_fails_does_not_lose_the_others(
    compare: Callable[..., Any], how: str, message: str
) -> None:
    done = compare(
        *("--method", "gradient,broken,confidence", "--set", f"broken.how={how}"),
        *("--out", "run"),
    )
    assert done.code == 2
    assert message in done.err.splitlines()[-1]
    assert "broken failed" in done.out
    assert "Traceback" not in done.err
    found = read_comparison(Path("run"))
    assert found.settings["methods"] == ["gradient", "confidence"]
    assert found.failures["method"].tolist() == ["broken"]
    assert set(found.scores["method"]) == {"gradient", "confidence"}
    assert len(found.agreement) == 1


@pytest.mark.usefixtures("broken")
def test_a_method_may_fail_when_it_scores_again(compare: Callable[..., Any]) -> None:
    done = compare(
        *("--method", "broken,gradient", "--set", "broken.how=later", "--iterative"),
        *("--format", "json"),
        command="curve",
    )
    assert done.code == 2
    document = json.loads(done.out)
    assert document["failures"] == [
        {"stage": "score again", "method": "broken", "error": "cannot score this again"}
    ]
    assert {row["method"] for row in document["curves"]} == {
        "gradient",
        "random",
        "random-matched:gradient",
    }


@pytest.mark.usefixtures("broken")
def test_nothing_is_left_if_all_methods_fail(compare: Callable[..., Any]) -> None:
    done = compare("--method", "broken", "--out", "run")
    assert done.code == 2
    assert "no method is left to compare. broken: the data are too short" in done.err
    assert not Path("run").exists()
    assert not Path("run.unfinished").exists()


def count_work(monkeypatch: pytest.MonkeyPatch, *, stop_after: int | None = None) -> list[str]:
    """Note every unit and every scoring that is done; stop as Ctrl-C does after some of them."""
    from headtool.engine import evaluation
    from headtool.methods.base import Method

    done: list[str] = []

    def noted(what: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def doing(*arguments: Any, **settings: Any) -> Any:
            if stop_after is not None and len(done) >= stop_after:
                raise KeyboardInterrupt
            result = work(*arguments, **settings)
            done.append(what)
            return result

        return doing

    monkeypatch.setattr(evaluation.Runner, "run", noted("unit", evaluation.Runner.run))
    monkeypatch.setattr(Method, "score", noted("score", Method.score))
    return done


@pytest.mark.slow
def test_an_interrupted_comparison_continues_where_it_was(
    compare: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("--method", "gradient,ablation", "--batch-tokens", 9)
    with monkeypatch.context() as patch:
        everything = count_work(patch)
        assert compare(*asked, "--out", "straight").code == 0
    total = len(everything)
    assert everything.count("score") == 4
    assert total > 12
    finished = 0
    for stop in (2, 1, 3, 0):
        with monkeypatch.context() as patch:
            done = count_work(patch, stop_after=stop)
            stopped = compare(*asked, "--out", "parts")
            assert stopped.code == 130
            assert "interrupted; to continue: headtool compare" in stopped.err
            finished += len(done)
        assert not Path("parts").exists()
    with monkeypatch.context() as patch:
        rest = count_work(patch)
        assert compare(*asked, "--out", "parts").code == 0
    # A scoring that is interrupted is begun again, but its finished units are not.
    assert finished + len(rest) == total
    straight, parts = (read_comparison(Path(name)) for name in ("straight", "parts"))
    for name in TABLES:
        pd.testing.assert_frame_equal(straight.tables[name], parts.tables[name])
    assert not Path("parts.unfinished").exists()


def test_a_full_disk_is_no_fault_of_a_method(
    compare: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    asked = ("--method", "magnitude,ablation", "--out", "run", "--format", "json")
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        done = compare(*asked)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: cannot write ")
    assert done.err.endswith(": No space left on device; choose another --out\n")
    assert [path.name for path in Path().iterdir()] == ["run.unfinished"]
    done = compare(*asked)
    assert done.code == 0, done.err
    methods = {row["method"] for row in json.loads(done.out)["kept"]}
    assert methods == {"magnitude", "ablation"}


def test_leftovers_of_something_else_are_refused(
    compare: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        count_work(patch, stop_after=1)
        assert compare("--method", "gradient", "--out", "run").code == 130
    done = compare("--method", "gradient", "--seed", 1, "--out", "run")
    assert done.code == 2
    assert "run.unfinished holds an unfinished run of something else" in done.err
    assert compare("--method", "gradient", "--out", "run").code == 0


def test_a_finished_run_is_not_overwritten(compare: Callable[..., Any]) -> None:
    assert compare("--out", "run", command="curve").code == 0
    done = compare("--out", "run", command="curve")
    assert done.code == 2
    assert "exists already" in done.err
    assert compare("--out", "run", "--force", command="curve").code == 0


# What is wrong, the arguments, and what the message must contain.
BAD = [
    ("steps", "compare --steps 0%", ["--steps 0%", "above 0 and at most 100%"]),
    ("steps above all", "curve --steps 150%", ["150%", "at most 100%"]),
    ("steps beyond the model", "curve --steps 9", ["--steps 9", "at most the model's 8 heads"]),
    ("steps text", "curve --steps ten", ["--steps", "10%", "'ten'"]),
    (
        "budget that leaves no head",
        "curve --steps 50%,100% --keep-one-per-layer",
        ["100% is 8 heads", "at most 6 of 8"],
    ),
    ("falling budgets", "curve --steps 50%,20%", ["budgets must rise"]),
    ("draws", "compare --draws -1", ["--draws must be at least 0", "-1"]),
    ("resamples", "compare --resamples 0", ["--resamples must be at least 1", "0"]),
    ("level", "compare --alpha 1.5", ["alpha must be between 0 and 1", "1.5"]),
    ("margin", "compare --method gradient --margin -1", ["--margin must be above 0", "-1"]),
    ("no margin", "compare --margin nan", ["--margin must be above 0", "nan"]),
    ("method twice", "compare --method gradient,gradient", ["'gradient' is given twice"]),
    ("random", "compare --method gradient,random", ["random masks are in every comparison"]),
    ("unknown method", "compare --method gradeint", ["did you mean 'gradient'"]),
    ("kinds", "curve --per-kind", ["--per-kind needs several kinds", "enc-self"]),
    ("absent kind", "curve --kind cross", ["no cross attention", "enc-self"]),
    ("data twice", "compare --data {reviews}", ["is given twice"]),
    ("same contents", "compare --data {copy}", ["holds the same as"]),
    ("stability", "compare --stability 1", ["--stability must be at least 2", "got 1"]),
    ("stability below", "compare --stability -2", ["--stability must be at least 0", "-2"]),
    ("no number", "compare --stability many", ["--stability must be a whole number", "'many'"]),
    (
        "too few for halves",
        "compare --stability 4 --limit 6",
        ["--stability", "and 3 of", "below 4", "leave out --stability"],
    ),
    ("selecting by itself", "compare --select-data {copy}", ["holds the same as"]),
    ("too few examples", "compare --limit 3", ["gives 3 examples", "--select-data"]),
    ("one example", "compare --data {one}", ["one.tsv has one example", "give more"]),
    ("force alone", "compare --force", ["--force replaces a run at --out", "give --out"]),
    ("beam", "compare --beam 2", ["--beam is for metrics that decode"]),
    ("metric", "compare --metric bleu", ["bleu"]),
]


@pytest.mark.parametrize(("what", "command", "parts"), BAD, ids=[row[0] for row in BAD])
def test_bad_input(
    headtool,
    bert: Path,
    reviews: Path,
    workplace: Path,
    what: str,
    command: str,
    parts: list[str],
) -> None:
    files = {"copy.tsv": reviews.read_text(), "one.tsv": "text\tlabel\na fine film\t1\n"}
    for file, text in files.items():
        (workplace / file).write_text(text)
    name, *rest = command.format(reviews=reviews, copy="copy.tsv", one="one.tsv").split()
    done = headtool(name, "--model", bert, "--data", reviews, *rest)
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.strip().splitlines()
    assert line.startswith("error: ")
    assert [part for part in parts if part not in line] == []
    assert {path.name for path in workplace.iterdir()} == set(files)


def test_what_is_no_comparison_is_not_read_as_one(headtool, workplace: Path) -> None:
    with pytest.raises(HeadtoolError, match="no headtool run"):
        read_comparison(workplace)
    assert headtool("score", "--limit", 4, "--out", "run").code == 0
    with pytest.raises(HeadtoolError, match="holds no comparison"):
        read_comparison(Path("run"))


def test_a_damaged_comparison_is_named(compare: Callable[..., Any]) -> None:
    assert compare("--out", "run", command="curve").code == 0
    table = Path("run") / "curves.parquet"
    table.write_bytes(table.read_bytes()[:-7])
    with pytest.raises(HeadtoolError, match=r"curves\.parquet is damaged"):
        read_comparison(Path("run"))
    manifest = Path("run") / "manifest.json"
    manifest.write_text(manifest.read_text().replace("headtool/run/1", "headtool/run/9"))
    with pytest.raises(HeadtoolError, match="headtool/run/9"):
        read_comparison(Path("run"))
