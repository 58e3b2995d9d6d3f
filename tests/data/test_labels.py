"""Labels of a data set against the labels of a model."""

from __future__ import annotations

import numpy as np
import pytest

from headtool.data import match_labels, regression_targets
from headtool.errors import HeadtoolError

NLI = {"CONTRADICTION": 0, "NEUTRAL": 1, "ENTAILMENT": 2}


@pytest.mark.parametrize(
    ("raw", "label2id", "expected"),
    [
        (["ENTAILMENT", "NEUTRAL"], NLI, [2, 1]),
        (["entailment", " Contradiction "], NLI, [2, 0]),
        (["2", "0"], NLI, [2, 0]),
        (["2.0", "0.0"], NLI, [2, 0]),
        (["1", "0"], {"LABEL_0": 0, "LABEL_1": 1}, [1, 0]),
        (["LABEL_1"], {"LABEL_0": 0, "LABEL_1": 1}, [1]),
        (["yes", "YES"], {"yes": 0, "YES": 1}, [0, 1]),
        (["1", "2"], {"1": 0, "2": 1}, [0, 1]),
        (["10", "20"], {"a": 10, "b": 20}, [10, 20]),
    ],
)
def test_labels_match_by_name_then_by_number(raw, label2id, expected):
    matched = match_labels(raw, label2id, spec="x.tsv")
    assert matched.dtype == np.int64
    assert matched.tolist() == expected


@pytest.mark.parametrize(
    ("raw", "label2id"),
    [
        (["not_entailment"], NLI),
        (["entailment", "1"], NLI),
        (["0", "3"], NLI),
        (["0.5"], NLI),
        (["inf"], NLI),
        (["-1"], NLI),
        (["Yes"], {"yes": 0, "YES": 1}),
        (["0", "1"], {"1": 0, "2": 1}),
    ],
)
def test_a_mismatch_shows_both_sets(raw, label2id):
    with pytest.raises(HeadtoolError) as caught:
        match_labels(raw, label2id, spec="x.tsv")
    message = str(caught.value)
    assert "\n" not in message
    assert "x.tsv" in message
    assert "`columns`" in message
    for label in raw:
        assert repr(label) in message
    for name, number in label2id.items():
        assert f"{name!r} ({number})" in message


def test_many_labels_are_cut_short():
    with pytest.raises(HeadtoolError, match="and 988 more") as caught:
        match_labels([f"{i / 7:.3f}" for i in range(1000)], NLI, spec="x.tsv")
    assert len(str(caught.value)) < 500


def test_regression_targets():
    targets = regression_targets(["0", " 3.8", "-1e-3"], spec="x.tsv")
    assert targets.dtype == np.float64
    assert targets.tolist() == [0.0, 3.8, -0.001]


@pytest.mark.parametrize("bad", ["good", "nan", "inf", "", "1,5"])
def test_a_target_that_is_no_number_names_the_example(bad):
    with pytest.raises(HeadtoolError, match=r"'x\.tsv', example 2: the label .* not a finite"):
        regression_targets(["1", bad], spec="x.tsv")
