"""What a terminal shows of scores."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from headtool.results.scores import HeadScores

from ...support.scores import result, shown, sites


def test_whole_page() -> None:
    lines = shown(result(sites(3, 3), [0.1, 0.25, 1, 0, -0.5, 0.75]))
    assert [line.rstrip() for line in lines] == [
        "gradient  my/model on dev.tsv, 7 examples, 1.2 s",
        "  granularity=token",
        "enc-self (rows: layers, columns: heads)",
        "       0     1     2",
        "0   0.10  0.25  1.00",
        "1   0.00 -0.50  0.75",
        "most important  score      +-  least important   score      +-",
        "enc-self.0.2     1.00   0.100  enc-self.1.1     -0.500  0.0500",
        "enc-self.1.2    0.750  0.0750  enc-self.1.0          0       0",
        "enc-self.0.1    0.250  0.0250  enc-self.0.0      0.100  0.0100",
        "",
    ]


def test_options_without_an_effect_are_not_shown() -> None:
    options = {"beam": None, "tokenize": "13a", "signal": "loss", "samples": 5}
    scores = result(sites(2), [1, 2], options=options, idle_options=["tokenize"])
    assert shown(scores)[1] == "  signal=loss, samples=5"


def test_kept_heads_are_listed_and_errors_that_are_none_are_not() -> None:
    plain = result(sites(3, 2), [5, 4, 3, 2, 1])
    frame = plain.frame.assign(kept=[True, False, True, False, False], stderr=math.nan)
    lines = shown(HeadScores("fisher", frame, plain.provenance))
    start = lines.index("keeps 2 of 5 heads")
    assert [line.rstrip() for line in lines[start - 3 : start + 3]] == [
        "most important  score  least important  score",
        "enc-self.0.0     5.00  enc-self.1.1      1.00",
        "enc-self.0.1     4.00  enc-self.1.0      2.00",
        "keeps 2 of 5 heads",
        "enc-self.0  0 2",
        "enc-self.1  none",
    ]
    assert "keeps" not in "".join(shown(plain))


def test_ties_with_heads_that_are_not_listed_are_marked() -> None:
    scored = result(sites(12), [3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.4, 0.3, 0.2, 0.1])
    lines = shown(scored)
    text = "\n".join(lines)
    marked = [line.split()[0] for line in lines if line[12:].startswith(" =")]
    listed = scored.frame.nsmallest(5, "rank")["head"].tolist()
    assert set(listed[2:]) < {2, 3, 4, 5, 6}
    assert marked == [f"enc-self.0.{head}" for head in listed[2:]]
    assert "= tied with heads that are not listed: 2 more under most important" in text
    assert "under least" not in text
    assert " = " not in "\n".join(shown(result(sites(4), [2.0, 2.0, 1.0, 0.0])))


def test_further_tables_of_a_method() -> None:
    table = pd.DataFrame({"model": ["[red]", "b"], "loss": [0.12345, math.nan], "heads": [12, 3]})
    scores = HeadScores(
        "gates",
        result(sites(2), [1, 2]).frame,
        result(sites(2), [1, 2]).provenance,
        {"evaluation": table},
    )
    lines = [line.rstrip() for line in shown(scores)]
    start = lines.index("evaluation")
    assert lines[start + 1 : start + 4] == [
        "model   loss  heads",
        "[red]  0.123     12",
        "b          -      3",
    ]


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/x]", ":smile:", "a\x1b[31mb", "a\nb"])
def test_names_are_shown_as_they_are(name: str) -> None:
    scores = result(sites(2), [1, 2], model={"spec": name}, options={"train": name})
    text = "\n".join(shown(scores, terminal=True))
    literal = name.replace("\x1b", r"\x1b").replace("\n", " ")
    assert f"  {literal} on dev.tsv" in text
    assert f"train={literal}" in text
