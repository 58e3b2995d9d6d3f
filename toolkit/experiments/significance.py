"""Which heads are needed, removable or harmful: what ``headtool test`` says of outcomes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.assessment import HeadTests, assess_outcomes
from headtool.analysis.compat import CompatTests, compat_tests
from headtool.analysis.kinds import of_kinds, summarise_kinds
from headtool.analysis.labels import heads_of
from headtool.analysis.paired import Paired
from headtool.analysis.replacements import agreement_of_tests
from headtool.analysis.rounding import rounding_notes
from headtool.analysis.screening import (
    asked_screen,
    halves,
    screening_frame,
    screening_note,
    with_untested,
)
from headtool.errors import HeadtoolError
from headtool.experiments.inputs import HasOutcomes, name_of, open_outcomes
from headtool.experiments.replacements import check_replacements
from headtool.heads import Kind
from headtool.metrics import metric_of_run
from headtool.metrics.base import Metric
from headtool.reports.contents.held import Held
from headtool.reports.results import EffectPlots
from headtool.results.display import Tabled
from headtool.results.outcomes import Outcomes, replacements_of
from headtool.results.scores import json_rows
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CompatVerdicts", "Verdicts", "test", "test_as"]


@dataclass(frozen=True, eq=False, repr=False)
class Verdicts(EffectPlots):
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
    beside
        By further replacement, what `tests` is for the first.
    agreement
        How alike the verdicts are under several replacements, the table
        ``replacement_agreement`` of `headtool.schema`; None for one alone.
    """

    tests: HeadTests
    kinds: pd.DataFrame
    provenance: Mapping[str, Any]
    signature: str | None = None
    beside: Mapping[str, HeadTests] = field(default_factory=dict)
    agreement: pd.DataFrame | None = None

    folder = None

    @property
    def replacements(self) -> dict[str, HeadTests]:
        """All tests by what closed heads put out, the first included."""
        return {self.provenance["settings"]["replacement"]: self.tests, **self.beside}

    def held(self) -> Held:
        """Return the tests as the run of a comparison holds them, for a report."""
        spec = self.provenance["data"]["spec"]
        return Held(
            {"ablate": dict(self.provenance)}, {"tests": self.tests.frame.assign(data=spec)}
        )

    @property
    def frame(self) -> pd.DataFrame:
        """A row per head, with several replacements per replacement and head.

        See `headtool.analysis.assessment.HeadTests.frame`.
        """
        if not self.beside:
            return self.tests.frame
        frames = [one.frame.assign(replacement=name) for name, one in self.replacements.items()]
        return TABLES["tests"].joined(frames, "replacement")

    def document(self) -> dict[str, Any]:
        """Return the tests as JSON can hold them, in the format ``headtool/tests/1``."""
        return {
            "schema": "headtool/tests/1",
            "provenance": dict(self.provenance),
            "tests": json_rows(self.frame),
            "kinds": json_rows(self.kinds),
            **(
                {}
                if self.agreement is None
                else {"replacement_agreement": json_rows(self.agreement)}
            ),
        }


@dataclass(frozen=True, eq=False, repr=False)
class CompatVerdicts(Tabled):
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
    replacement: str | None = None,
    beside: Sequence[str] | None = None,
    alpha: float | None = None,
    alpha_total: float | None = None,
    margin: float | None = None,
    correction: str = "westfall-young",
    test: str = "auto",
    interval: str = "auto",
    resamples: int | None = None,
    screen: int | None = None,
    screen_cut: float = 0.5,
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
    replacement
        What closed heads put out, where the run has several; None for the first of them.
    beside
        Replacements that are tested beside it, each corrected for itself; None for all others if
        `replacement` is None, else for none.
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
    screen
        Test only so many heads, on one half of the examples: those whose effects on the other half
        rank nearest to the cut. Heads that were screened out before the ablation are not tested in
        any case.
    screen_cut
        Where the cut is: the share of the heads that would be cut off, the least important first.
    seed
        Draws the resamples, and the halves of a screen; None for 0.

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
    names = _replacements(saved, replacement, beside)
    asked = asked_screen(screen, "attribution", screen_cut)
    screening = saved.screening
    screened = dict(source.get("screen") or source["options"].get("screen") or {})
    if asked is not None and screening is not None:
        raise HeadtoolError(
            f"{name_of(saved)} was screened before the ablation; leave `screen` out"
        )
    found = {name: of_kinds(saved.outcomes(measure, replacement=name), kinds) for name in names}
    if asked is not None:
        first = found[names[0]]
        selection, rest = halves(len(next(iter(first.whole.values()))), seed or 0)
        score = _effects(first.on(selection), measure)
        screening = screening_frame(heads_of(first.masks), score, asked, seed=seed or 0)
        chosen = [i for i, tested in enumerate(screening["tested"]) if tested]
        found = {name: outcomes.on(rest).take(chosen) for name, outcomes in found.items()}
        sizes = {"of": len(score), "selection": len(selection), "evaluation": len(rest)}
        screened = {**asked.described(**sizes), "by": "ablation"}
    judged = {
        name: assess_outcomes(
            outcomes,
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
        for name, outcomes in found.items()
    }
    agreement = None
    if len(judged) > 1:
        agreement = agreement_of_tests(
            {name: tests.frame for name, tests in judged.items()}, measure.name
        )
    tests = judged[names[0]]
    signature = saved.signature(measure)
    settings: dict[str, Any] = {
        "metric": measure.name,
        "replacement": names[0],
        **({"beside": list(names[1:])} if names[1:] else {}),
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
    if screening is not None:
        settings["screen"] = screened
        judged = {
            name: replace(
                one,
                frame=with_untested(one.frame, screening),
                notes=(*one.notes, screening_note(screened, one.n_tests)),
            )
            for name, one in judged.items()
        }
    tests = judged.pop(names[0])
    rounded = rounding_notes(tests.frame, [measure], source.get("rounding"), tests.n_examples)
    tests = replace(tests, notes=(*tests.notes, *rounded))
    origin = {**made, **source, "settings": settings}
    if "rounding" in source:
        origin["notes"] = rounded  # of this metric and these examples, not of all
    return Verdicts(tests, by_kind, origin, signature, judged, agreement)


def _replacements(
    saved: HasOutcomes, replacement: str | None, beside: Sequence[str] | None
) -> tuple[str, ...]:
    """The replacements to test, among those that the outcomes were made with."""
    held = replacements_of(saved.source)
    first = replacement or held[0]
    if beside is None:
        others = tuple(name for name in held if name != first and replacement is None)
    else:
        check_replacements(first, beside)
        others = tuple(beside)
    for name in (first, *others):
        if name not in held:
            raise HeadtoolError(
                f"{name_of(saved)} holds no outcomes with `replacement` {name} (it has: "
                f"{', '.join(held)}); name one of these, or ablate again"
            )
    return (first, *others)


def _effects(outcomes: Outcomes, metric: Metric) -> NDArray[np.float64]:
    """What the metric loses without each head, [masks]."""
    sign = 1.0 if metric.higher_is_better else -1.0
    whole = metric.compute(outcomes.whole)
    rows = range(len(outcomes.masks))
    return np.array([sign * (whole - metric.compute(outcomes.row(row))) for row in rows])


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
