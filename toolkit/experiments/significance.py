"""Which heads are needed, removable or harmful: what ``headtool test`` says of outcomes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.analysis.assessment import HeadTests, assess_outcomes
from headtool.analysis.compat import CompatTests, compat_tests
from headtool.analysis.kinds import of_kinds, summarise_kinds
from headtool.analysis.labels import heads_of
from headtool.analysis.paired import Paired
from headtool.experiments.inputs import HasOutcomes, open_outcomes
from headtool.heads import Kind
from headtool.metrics import metric_of_run
from headtool.results.scores import json_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CompatVerdicts", "Verdicts", "test", "test_as"]


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What outcomes say about every head.

    Attributes
    ----------
    tests
        The tests, and how they were made.
    kinds
        A row per attention kind: how many of its heads have which verdict, as
        `headtool.analysis.kinds.summarise_kinds` counts them.
    provenance
        Provenance of the outcomes, and the settings of the tests.
    signature
        sacreBLEU's signature of the metric; None for metrics that have none.
    """

    tests: HeadTests
    kinds: pd.DataFrame
    provenance: Mapping[str, Any]
    signature: str | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """A row per head; see `headtool.analysis.assessment.HeadTests.frame`."""
        return self.tests.frame

    def document(self) -> dict[str, Any]:
        """Return the tests as JSON can hold them, in the format ``headtool/tests/1``."""
        return {
            "schema": "headtool/tests/1",
            "provenance": dict(self.provenance),
            "tests": json_rows(self.frame),
            "kinds": json_rows(self.kinds),
        }


@dataclass(frozen=True, eq=False)
class CompatVerdicts:
    """What another tool would say about every head.

    Attributes
    ----------
    tests
        Its p-values, and how they were made.
    provenance
        Provenance of the outcomes, and the settings of the tests.
    """

    tests: CompatTests
    provenance: Mapping[str, Any]

    @property
    def frame(self) -> pd.DataFrame:
        """A row per head; see `headtool.analysis.compat.CompatTests.frame`."""
        return self.tests.frame

    def document(self) -> dict[str, Any]:
        """Return the p-values as JSON can hold them, in the format ``headtool/compat-tests/1``."""
        return {
            "schema": "headtool/compat-tests/1",
            "provenance": dict(self.provenance),
            "tests": json_rows(self.frame),
        }


def test(
    run: HasOutcomes | Path | str,
    *,
    metric: str | None = None,
    kinds: Collection[Kind] | None = None,
    alpha: float | None = None,
    alpha_total: float | None = None,
    margin: float | None = None,
    correction: str = "westfall-young",
    test: str = "auto",
    interval: str = "auto",
    resamples: int | None = None,
    seed: int | None = None,
) -> Verdicts:
    """Say which heads are needed, removable or harmful, and which are undecided.

    The model is not run. The correction is over the heads that are tested: all, or those of
    `kinds`.

    Parameters
    ----------
    run
        What `headtool.ablate` returned, or the run directory that it wrote. Of translations, all of
        bleu, chrf, ter and rouge can be tested, whichever the run was made for.
    metric
        The metric; None for the run's own.
    kinds
        Attention kinds whose heads are tested; None for all.
    alpha
        Level after correction, of needed and harmful and of removable each; None for 0.05.
    alpha_total
        Instead of `alpha`: the level of all verdicts together, shared by both.
    margin
        What a removable head may cost, in the metric's unit; None for 1% of the metric's scale.
    correction
        ``westfall-young``, ``holm``, ``bh``, ``by`` or ``none``.
    test
        ``auto``, ``mcnemar``, ``mcnemar-midp``, ``sign-flip`` or ``randomisation``.
    interval
        ``auto``, ``newcombe``, ``percentile`` or ``bca``.
    resamples
        Resamples; None for 10,000, and more where the correction needs them.
    seed
        Draws the resamples; None for 0.

    Raises
    ------
    HeadtoolError
        If the run holds no outcomes of this metric, or an argument is out of its range.

    Examples
    --------
    >>> import headtool
    >>> ablation = headtool.ablate("builtin:nli", limit=64, heads=["enc-self.0.1", "enc-self.2.3"])
    >>> verdicts = headtool.test(ablation, margin=0.2)
    >>> verdicts.frame[["kind", "layer", "head", "verdict"]]
           kind  layer  head    verdict
    0  enc-self      0     1  removable
    1  enc-self      2     3  removable
    """
    saved = open_outcomes(run)
    source = saved.source
    measure = metric_of_run(source, metric)
    tests = assess_outcomes(
        of_kinds(saved.outcomes(measure), kinds),
        measure,
        test=test,
        interval=interval,
        correction=correction,
        alpha=alpha,
        alpha_total=alpha_total,
        margin=margin,
        resamples=resamples,
        rng=seed or 0,
    )
    signature = saved.signature(measure)
    settings: dict[str, Any] = {
        "metric": measure.name,
        **({"signature": signature} if signature else {}),
        "whole": tests.whole,
        "test": tests.test,
        "interval": tests.interval,
        "correction": tests.correction,
        "alpha": tests.alpha,
        "alpha_total": tests.alpha_total,
        "margin": tests.margin,
        "resamples": tests.resamples,
        "examples": tests.n_examples,
        "heads": tests.n_tests,
        "expected_false_positives_uncorrected": tests.expected_false_positives,
        "seed": seed or 0,
    }
    made = {} if saved.folder is None else {"run": str(saved.folder)}
    by_kind = summarise_kinds(tests.frame, alpha=tests.alpha)
    return Verdicts(tests, by_kind, {**made, **source, "settings": settings}, signature)


def test_as(
    tool: str,
    run: HasOutcomes | Path | str,
    *,
    metric: str | None = None,
    kinds: Collection[Kind] | None = None,
    resamples: int | None = None,
    seed: int | None = None,
) -> CompatVerdicts:
    """Compute p-values as another tool does, for comparison with published ones.

    Parameters
    ----------
    tool
        ``compare-mt-with-replacement``, ``compare-mt-without-replacement``,
        ``sacrebleu-paired-bs`` or ``sacrebleu-paired-ar``.
    run, metric, kinds
        As for `test`.
    resamples
        Resamples; None for the tool's own number.
    seed
        Draws the resamples.

    Raises
    ------
    HeadtoolError
        If there is no such tool, or the run holds no outcomes of this metric.

    Examples
    --------
    >>> import headtool
    >>> ablation = headtool.ablate("builtin:nli", limit=64, heads=["enc-self.0.1", "enc-self.2.3"])
    >>> headtool.test_as("sacrebleu-paired-ar", ablation, resamples=100).frame["head"].tolist()
    [1, 3]
    """
    saved = open_outcomes(run)
    source = saved.source
    measure = metric_of_run(source, metric)
    outcomes = of_kinds(saved.outcomes(measure), kinds)
    tests = compat_tests(
        Paired.from_outcomes(outcomes, measure),
        tool,
        heads=heads_of(outcomes.masks),
        resamples=resamples,
        seed=seed,
    )
    settings = {"mode": tool, "seed": seed, "resamples": tests.resamples}
    return CompatVerdicts(tests, {**source, **settings})
