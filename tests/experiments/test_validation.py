"""Methods on models whose truth is known: what is claimed of them, and what is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import headtool
from headtool.builtin.planted import truth
from headtool.errors import HeadtoolError
from headtool.experiments.validation import VARIANTS
from headtool.methods import get_method
from headtool.methods.base import Job, Method, Scored
from headtool.reports.wording.known_truth import found_by, mistakes
from headtool.schema import TABLES


@dataclass(frozen=True)
class Oracle(Method):
    """Scores heads by what the truth says."""

    name: ClassVar[str] = "oracle"
    summary: ClassVar[str] = "the truth"
    reference: ClassVar[str] = "none"
    worth: ClassVar[dict[str, float]] = {
        "necessary": 3.0,
        "interchangeable": 2.0,
        "idle": 1.0,
        "constant": 1.0,
        "harmful": -1.0,
    }

    def compute(self, job: Job) -> Scored:
        known = truth(int(job.model.spec.partition("=")[2]))
        score = np.array([self.worth[known.kind(head)] for head in job.sites.heads])
        return Scored(score, np.full(len(score), np.nan))


@dataclass(frozen=True)
class Contrary(Oracle):
    """The opposite of the truth."""

    name: ClassVar[str] = "contrary"
    worth: ClassVar[dict[str, float]] = {kind: -value for kind, value in Oracle.worth.items()}


@pytest.fixture(scope="module")
def found() -> headtool.Validation:
    """Quick methods on two models."""
    methods = [Oracle(), Contrary(), "ablation", "gradient", "activation", "random"]
    quick = [name for name in methods if name != "ablation"]
    return headtool.validate([*quick, get_method("ablation")()], models=2, limit=12)


def row(found: headtool.Validation, method: str) -> dict[str, object]:
    return found.frame[(found.frame["method"] == method) & (found.frame["variant"] == "")].iloc[0]


def test_the_truth_gets_full_marks_and_its_opposite_none(found: headtool.Validation) -> None:
    right, wrong = row(found, "oracle"), row(found, "contrary")
    for name in ("auroc_single", "ap_single", "auroc_set", "ap_set", "necessary"):
        assert right[name] == 1.0
    assert right["kept"] == 3.0
    assert mistakes(right) == []
    assert wrong["auroc_single"] == wrong["auroc_set"] == 0.0
    assert wrong["kept"] == 12.0
    assert mistakes(wrong) == ["necessary", "interchangeable", "harmful", "constant"]
    assert right["forward"] == right["backward"] == 0
    assert found_by(found.frame).startswith("oracle is right")
    assert list(found.frame["auroc_set"]) == sorted(found.frame["auroc_set"], reverse=True)


def test_what_methods_are_known_to_miss(found: headtool.Validation) -> None:
    alone = row(found, "ablation")
    assert alone["auroc_single"] == 1.0
    assert mistakes(alone) == ["interchangeable"]  # either of them suffices
    assert alone["forward"] > 1
    assert alone["backward"] == 0
    loud = row(found, "activation")
    assert "constant" in mistakes(loud)
    first_order = row(found, "gradient")
    assert "harmful" in mistakes(first_order)  # it takes absolute values
    assert (first_order["forward"], first_order["backward"]) == (1, 1)


def test_tables_are_as_described(found: headtool.Validation) -> None:
    for name, frame in (("validation", found.frame), ("validation_heads", found.heads)):
        assert tuple(frame.columns) == TABLES[name].names
        TABLES[name].checked(frame, name)
    assert len(found.heads) == 2 * 12 * len(found.frame)
    by_kind = found.heads[found.heads["method"] == "oracle"].groupby("truth")["score"].first()
    assert by_kind.to_dict() == Oracle.worth
    variants = found.frame[found.frame["method"] == "gradient"]["variant"].tolist()
    assert sorted(variants) == ["", "granularity=example"]


def test_every_variant_is_one_of_its_method() -> None:
    for name, variants in VARIANTS.items():
        assert {} in variants
        for options in variants:
            get_method(name)(**options)


def test_a_run_can_be_read_and_reported(tmp_path: Path) -> None:
    made = headtool.validate(["magnitude", "confidence"], models=2, limit=8, out=tmp_path / "run")
    run = headtool.read_run(tmp_path / "run")
    assert run.table("validation").equals(made.frame)
    for format in ("html", "markdown", "latex", "csv"):
        place = headtool.write_report(made, format=format, out=tmp_path / format)
        pages = [place] if place.is_file() else list(place.iterdir())
        text = "".join(page.read_text(encoding="utf-8") for page in pages)
        assert "confidence" in text
        assert "constant" in text
    assert "Scoring methods on heads whose work is known" in (tmp_path / "html").read_text()


def test_errors_are_one_line() -> None:
    with pytest.raises(HeadtoolError, match="did you mean 'gradient'"):
        headtool.validate(["gradiant"])
    with pytest.raises(HeadtoolError, match="`models` must be at least 1, got 0"):
        headtool.validate(["gradient"], models=0)
