"""``--replacement zero,mean`` in ``ablate``, ``test`` and ``score``: both side by side."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import headtool as library
from headtool import HeadtoolError
from headtool.experiments.score import Scoring
from headtool.results.runs import read_run


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> library.Ablation:
    folder = tmp_path_factory.mktemp("both") / "run"
    return library.ablate("builtin:nli", limit=24, beside=["mean"], out=folder)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Scoring:
    return library.score(
        "builtin:nli",
        methods=["ablation", "attribution", "magnitude"],
        limit=24,
        replacement="zero",
        beside=["mean"],
        out=tmp_path_factory.mktemp("scored") / "run",
    )


@pytest.mark.parametrize("name", ["zero", "mean"])
def test_each_is_what_it_is_alone(both: library.Ablation, name: str) -> None:
    alone = library.ablate("builtin:nli", limit=24, replacement=name)
    assert both.replacements is not None
    rows = both.replacements.query(f"replacement == '{name}'").reset_index(drop=True)
    assert rows["delta"].tolist() == alone.frame["delta"].tolist()
    assert rows["stderr"].tolist() == pytest.approx(alone.frame["stderr"].tolist(), nan_ok=True)
    held = both.outcomes(replacement=name).masked["loss"]
    assert np.array_equal(held, alone.outcomes().masked["loss"])


def test_verdicts_are_corrected_under_each_apart(both: library.Ablation) -> None:
    verdicts = library.test(both, margin=0.2)
    alone = library.test(library.ablate("builtin:nli", limit=24, replacement="mean"), margin=0.2)
    rows = verdicts.frame.query("replacement == 'mean'").drop(columns="replacement")
    assert rows["p_adjusted"].tolist() == alone.frame["p_adjusted"].tolist()
    assert rows["verdict"].tolist() == alone.frame["verdict"].tolist()


def test_agreement_names_the_heads_whose_verdict_changes(both: library.Ablation) -> None:
    verdicts = library.test(both, margin=0.2)
    assert verdicts.agreement is not None
    (row,) = verdicts.agreement.to_dict("records")
    zero, mean = (one.frame for one in verdicts.replacements.values())
    assert row["tau_b"] == pytest.approx(
        scipy.stats.kendalltau(zero["delta"], mean["delta"]).statistic
    )
    differing = zero["verdict"].to_numpy() != mean["verdict"].to_numpy()
    heads = zero[differing]
    names = [f"{k}.{i}.{h}" for k, i, h in heads[["kind", "layer", "head"]].to_numpy()]
    assert row["changed"].split() == names
    assert row["same_verdict"] == pytest.approx(1 - differing.mean())


def test_the_run_holds_both(both: library.Ablation, headtool) -> None:
    assert both.folder is not None
    run = read_run(both.folder)
    whole, again = library.test(both), library.test(run)
    assert whole.frame.equals(again.frame)
    assert {"mean.outcomes", "replacements", "replacement_agreement"} <= set(run.names)
    done = headtool("test", both.folder, "--replacement", "mean", "--format", "json")
    document = json.loads(done.out)
    assert document["provenance"]["settings"]["replacement"] == "mean"
    assert "replacement_agreement" not in document
    refused = headtool("test", both.folder, "--replacement", "resample")
    assert refused.code == 2
    assert "holds no outcomes with --replacement resample (it has: zero, mean)" in refused.err


def test_terminal_csv_report_and_latex_show_both(
    both: library.Ablation, headtool, tmp_path: Path
) -> None:
    asked = ("ablate", "--limit", 8, "--heads", "enc-self.0.1,enc-self.1.7,enc-self.2.0")
    shown = headtool(*asked, "--replacement", "zero,mean")
    assert "replacements  change of accuracy by what closed heads put out" in shown.out
    table = headtool(*asked, "--replacement", "zero,mean", "--format", "csv").out.splitlines()
    assert table[0] == "replacement,kind,layer,head,delta,stderr,metric"
    assert len(table) == 1 + 2 * 2 * 3
    tested = headtool("test", both.folder)
    assert "verdicts by what closed heads put out, each corrected for itself" in tested.out
    page = library.write_report(both.folder, out=tmp_path / "page.html").read_text()
    assert "Does it matter what removed heads put out?" in page
    folder = library.write_report(both.folder, format="latex", out=tmp_path / "latex")
    assert (folder / "replacements.tex").is_file()
    assert "zero & mean" in (folder / "replacement-agreement.tex").read_text()


def test_scores_of_the_methods_that_take_one(scored: Scoring) -> None:
    table = scored.replacements["replacement_scores"]
    assert set(table["method"]) == {"ablation", "attribution"}
    for name, option in (("ablation", "replacement"), ("attribution", "baseline")):
        method = library.get_method(name)(**{option: "mean"})
        alone = library.score("builtin:nli", methods=[method], limit=24)[name].frame
        rows = table.query(f"method == '{name}' and replacement == 'mean'")
        assert rows["score"].tolist() == alone["score"].tolist()
    agreed = scored.replacements["replacement_score_agreement"].set_index("method")
    pair = [
        table.query(f"method == 'attribution' and replacement == '{name}'")["score"]
        for name in ("zero", "mean")
    ]
    rho = scipy.stats.spearmanr(*pair).statistic
    assert agreed.loc["attribution", "spearman"] == pytest.approx(rho)
    assert scored.replacements["replacement_agreement"]["heads"].tolist() == [32]


def test_a_scored_run_is_tested_and_reported_under_both(scored: Scoring, tmp_path: Path) -> None:
    assert scored.folder is not None
    verdicts = library.test(scored.folder)
    assert list(verdicts.replacements) == ["zero", "mean"]
    page = library.write_report(scored.folder, out=tmp_path / "page.html").read_text()
    assert "Scores from attribution under zero and mean" in page


def test_what_takes_none_is_told(headtool) -> None:
    done = headtool("score", "--method", "magnitude", "--replacement", "zero,mean")
    assert done.code == 2
    assert "--replacement has no effect on magnitude" in done.err
    with pytest.raises(HeadtoolError, match=r"mean and ablation\.replacement resample exclude"):
        library.score(
            methods=[library.get_method("ablation")(replacement="resample")], replacement="mean"
        )
    with pytest.raises(HeadtoolError, match="names one twice: mean,mean"):
        library.ablate(replacement="mean", beside=["mean"])
