"""Verdicts on a terminal: how many heads got which, and the table of all that were decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from headtool.analysis.assessment import HeadTests
from headtool.analysis.compat import CompatTests
from headtool.analysis.equivalence import VERDICTS
from headtool.analysis.screening import NOT_TESTED
from headtool.reports.contents.facts import examples_note, false_verdicts, unchanged_note
from headtool.reports.terminal.tables import field_table
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import short

__all__ = ["compat_tables", "sequential_tables", "test_tables"]

_COLUMNS = [
    "kind",
    "layer",
    "head",
    "delta",
    "ci_low",
    "ci_high",
    "p",
    "p_adjusted",
    "verdict",
    "mde",
    "examples_needed",
    "reason",
]
_LESS = ("sd", "lowest", "highest", "p", "mde", "examples_needed", "reason")  # than the verdict


def test_tables(
    tests: HeadTests,
    by_kind: pd.DataFrame,
    source: Mapping[str, Any],
    *,
    signature: str | None,
) -> Iterator[RenderableType]:
    """Yield what a terminal shows of the tests.

    Parameters
    ----------
    tests
        The tests.
    by_kind
        What `headtool.analysis.kinds.summarise_kinds` says of them.
    source
        Provenance of the outcomes.
    signature
        sacreBLEU's signature of the metric, if it has one.
    """
    yield Text.assemble(
        ("tests", "bold"),
        f"  {visible(source['model']['spec'])} on {visible(source['data']['spec'])}: "
        f"{tests.metric} {short(tests.whole)} on {tests.n_examples} examples",
    )
    if signature is not None:
        yield Text(f"  {signature}", style="dim")
    resamples = f", {tests.resamples} resamples" if tests.resamples else ""
    yield Text(
        f"  {tests.test}{resamples}; corrected by {tests.correction} over {tests.n_tests} heads, "
        f"level {tests.alpha:g}; margin {short(tests.margin)}; {tests.interval} intervals of "
        f"{100 * (1 - tests.alpha):g}% for each head",
        style="dim",
    )
    yield Text(false_verdicts(tests.alpha), style="dim")
    counts = tests.frame["verdict"].value_counts()
    given = [*VERDICTS, NOT_TESTED] if NOT_TESTED in counts else VERDICTS
    yield Text(", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in given))
    raw = int((tests.frame["p"] < tests.alpha).sum())
    yield Text(
        f"without correction {raw} heads have p < {tests.alpha:g}; if no head mattered, up to "
        f"{tests.expected_false_positives:.1f} would",
        style="dim",
    )
    if len(by_kind) > 1:
        yield field_table(by_kind, optional=_LESS)
    tested = tests.frame[tests.frame["verdict"] != NOT_TESTED]
    order = tested["p"].sort_values(kind="stable").index
    yield field_table(tests.frame.loc[order, _COLUMNS], optional=_LESS)
    if (tests.frame["ci_low"] == tests.frame["ci_high"]).any():
        yield Text(unchanged_note(tests.n_examples), style="dim")
    if (needed := tests.frame["examples_needed"]).notna().any():
        yield Text(examples_note(needed.tolist()), style="dim")


def sequential_tables(
    frame: pd.DataFrame, source: Mapping[str, Any], share: float
) -> Iterator[RenderableType]:
    """Yield what a terminal shows of a sequential test.

    Parameters
    ----------
    frame
        What `headtool.analysis.sequential.SequentialTest.frame` returned.
    source
        Provenance.
    share
        Runs of masked models on examples, as a share of those of a full ablation.
    """
    yield Text.assemble(
        ("sequential tests", "bold"),
        f"  {visible(source['model']['spec'])} on {visible(source['data']['spec'])}, "
        f"{source['data']['examples']} examples; margin {short(source['options']['margin'])}",
    )
    counts = frame["verdict"].value_counts()
    yield Text(", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in VERDICTS))
    yield Text(
        f"{share:.0%} of the runs of a full ablation; the claims are about these examples' mean",
        style="dim",
    )
    yield field_table(frame.sort_values("n_examples", kind="stable"))


def compat_tables(tests: CompatTests) -> Iterator[RenderableType]:
    """Yield what a terminal shows of another tool's p-values, labelled as such."""
    seed = "no seed" if tests.seed is None else f"seed {tests.seed}"
    yield Text(
        f"{tests.mode}, {tests.resamples} resamples, {seed}, not corrected; its p < .01 amounts to "
        f"a two-sided level of {tests.two_sided_level:.2g}",
        style="dim",
    )
    yield field_table(tests.frame.drop(columns="mode").sort_values("p"))
