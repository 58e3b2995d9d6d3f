"""``headtool test``: significance, intervals and verdicts from a run that holds outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headtool.cli.console import note
from headtool.cli.groups import PrintOptions, command
from headtool.cli.options import Kinds, Seed
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from headtool.metrics.base import Metric as Measure
    from headtool.results.outcomes import Outcomes

__all__ = ["significance"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool test runs/dev\n\n"
    "headtool test runs/dev --margin 0.005 --correction holm --format json\n\n"
    "headtool test runs/dev --metric loss --test sign-flip --interval bca\n\n"
    "headtool test runs/bleu --metric chrf --kind cross"
)

_DEFAULTS = (0.05, None, "westfall-young", "auto", "auto")

RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Folder that `headtool ablate --out` wrote.")
]
Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Such as accuracy, mcc, loss; of a run of translations bleu, chrf or ter. "
        "Default: the run's own.",
    ),
]
Alpha = Annotated[float, typer.Option(metavar="LEVEL", help="Level after correction.")]
Margin = Annotated[
    float | None,
    typer.Option(
        metavar="SIZE",
        help="What a removable head may cost, in the metric's unit. "
        "Default: 1% of the metric's scale.",
    ),
]
Correction = Annotated[
    str, typer.Option(metavar="NAME", help="westfall-young, holm, bh, by or none.")
]
Test = Annotated[
    str,
    typer.Option(
        "--test",
        metavar="NAME",
        help="auto, mcnemar, mcnemar-midp, sign-flip or randomisation.",
    ),
]
Interval = Annotated[str, typer.Option(metavar="NAME", help="auto, newcombe, percentile or bca.")]
Resamples = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Resamples. Default: 10,000, and more where the correction needs them.",
    ),
]


Compat = Annotated[
    str | None,
    typer.Option(
        metavar="TOOL",
        help="Instead, the p-values of another tool: compare-mt-with-replacement, "
        "compare-mt-without-replacement, sacrebleu-paired-bs or sacrebleu-paired-ar.",
    ),
]


@command
def significance(
    *,
    run: RunFolder,
    metric: Metric = None,
    kind: Kinds = None,
    compat: Compat = None,
    alpha: Alpha = 0.05,
    margin: Margin = None,
    correction: Correction = "westfall-young",
    test: Test = "auto",
    interval: Interval = "auto",
    resamples: Resamples = None,
    seed: Seed = 0,
    show: PrintOptions,
) -> None:
    """Say which heads are needed, removable or harmful, and which are undecided.

    Works on the saved outcomes of every example; the model is not run. A run of bleu, chrf or ter
    keeps the translations, so that the other two can be tested from it as well. The correction is
    over the heads that are tested: all, or those of --kind.
    """
    show.prepare()
    from headtool.analysis.assessment import assess_outcomes
    from headtool.analysis.kinds import of_kinds, summarise_kinds
    from headtool.heads import parse_kinds
    from headtool.metrics import get_metric
    from headtool.reports.terminal.verdicts import test_tables
    from headtool.results.runs import read_run
    from headtool.results.scores import json_rows

    kinds = parse_kinds(kind) if kind is not None else None
    saved = read_run(run)
    source = saved.source
    name = metric or source["metric"]
    measure = get_metric(name, task=source["model"]["task"], n_labels=source["model"]["labels"])
    if compat is not None:
        if (alpha, margin, correction, test, interval) != _DEFAULTS:
            raise HeadtoolError(
                f"--compat {compat} has no other options than --metric, --kind, --resamples and "
                "--seed"
            )
        outcomes = of_kinds(saved.outcomes(measure), kinds)
        _print_compat(outcomes, measure, compat, resamples, seed, source, show)
        return
    tests = assess_outcomes(
        of_kinds(saved.outcomes(measure), kinds),
        measure,
        test=test,
        interval=interval,
        correction=correction,
        alpha=alpha,
        margin=margin,
        resamples=resamples,
        rng=seed,
    )
    signature = saved.signature(measure)
    by_kind = summarise_kinds(tests.frame, alpha=alpha)
    settings: dict[str, Any] = {
        "metric": name,
        **({"signature": signature} if signature else {}),
        "whole": tests.whole,
        "test": tests.test,
        "interval": tests.interval,
        "correction": tests.correction,
        "alpha": alpha,
        "margin": tests.margin,
        "resamples": tests.resamples,
        "examples": tests.n_examples,
        "heads": tests.n_tests,
        "expected_false_positives_uncorrected": tests.expected_false_positives,
        "seed": seed,
    }
    for line in tests.notes:
        note(line, quiet=show.quiet)
    show.print(
        document=lambda: {
            "schema": "headtool/tests/1",
            "provenance": {"run": str(run), **source, "settings": settings},
            "tests": json_rows(tests.frame),
            "kinds": json_rows(by_kind),
        },
        frame=lambda: tests.frame,
        tables=lambda: test_tables(tests, by_kind, source, signature=signature),
    )


def _print_compat(
    outcomes: Outcomes,
    metric: Measure,
    mode: str,
    resamples: int | None,
    seed: int,
    source: dict[str, Any],
    show: PrintOptions,
) -> None:
    """Print another tool's p-values, labelled as such."""
    from headtool.analysis.compat import compat_tests
    from headtool.analysis.labels import heads_of
    from headtool.analysis.paired import Paired
    from headtool.reports.terminal.verdicts import compat_tables
    from headtool.results.scores import json_rows

    paired = Paired.from_outcomes(outcomes, metric)
    tests = compat_tests(
        paired, mode, heads=heads_of(outcomes.masks), resamples=resamples, seed=seed
    )
    show.print(
        document=lambda: {
            "schema": "headtool/compat-tests/1",
            "provenance": {**source, "mode": mode, "seed": seed, "resamples": tests.resamples},
            "tests": json_rows(tests.frame),
        },
        frame=lambda: tests.frame,
        tables=lambda: compat_tables(tests),
    )
