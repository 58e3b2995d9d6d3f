"""``headtool test``: significance, intervals and verdicts from a run that holds outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtool.cli.choices import chosen_kinds
from headtool.cli.groups import PrintOptions, command
from headtool.cli.options import LARGEST_SEED, Kinds, whole_number
from headtool.cli.replacement_options import replacements
from headtool.cli.screen_options import ScreenCut, ScreenHeads
from headtool.errors import HeadtoolError

__all__ = ["significance"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool test runs/dev\n\n"
    "headtool test runs/dev --margin 0.005 --correction holm --format json\n\n"
    "headtool test runs/dev --metric loss --test sign-flip --interval bca\n\n"
    "headtool test runs/bleu --metric chrf --kind cross"
)

_DEFAULTS = (None, None, None, "westfall-young", "auto", "auto")

RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Folder that `headtool ablate --out` wrote.")
]
Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Such as accuracy, mcc, loss; of a run of translations bleu, chrf, ter or rougeL. "
        "Default: the run's own.",
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        metavar="LEVEL",
        help="Level after correction, of the verdicts needed and harmful and of the verdict "
        "removable each: a false one of either sort can reach twice as much. Default: 0.05.",
    ),
]
AlphaTotal = Annotated[
    float | None,
    typer.Option(
        "--alpha-total",
        metavar="LEVEL",
        help="Instead of --alpha: the level of all verdicts together. Half of it goes to needed "
        "and harmful, half to removable.",
    ),
]
TestSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        parser=whole_number("--seed", least=0, most=LARGEST_SEED),
        metavar="N",
        help="Seed of everything random. Default: 0; with --compat sacrebleu-* what sacreBLEU "
        "takes, SACREBLEU_SEED or 12345, and there 0 means a new one every time.",
    ),
]
Fill = Annotated[
    str | None,
    typer.Option(
        "--replacement",
        metavar="NAME,...",
        help="Of a run with several replacements, test these side by side, each corrected for "
        "itself. Default: all of the run.",
    ),
]
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
    fill: Fill = None,
    alpha: Alpha = None,
    alpha_total: AlphaTotal = None,
    margin: Margin = None,
    correction: Correction = "westfall-young",
    test: Test = "auto",
    interval: Interval = "auto",
    resamples: Resamples = None,
    screen: ScreenHeads = None,
    screen_cut: ScreenCut = 0.5,
    seed: TestSeed = None,
    show: PrintOptions,
) -> None:
    """Say which heads are needed, removable or harmful, and which are undecided.

    Works on the saved outcomes of every example; the model is not run. A run of bleu, chrf or ter
    keeps the translations, so that the other two can be tested from it as well. The correction is
    over the heads that are tested: all, or those of --kind.
    """
    show.prepare()
    kinds = chosen_kinds(kind)
    from headtool.experiments.significance import test as test_heads
    from headtool.experiments.significance import test_as
    from headtool.reports.terminal.replacements import verdict_tables
    from headtool.reports.terminal.verdicts import compat_tables, test_tables

    if compat is not None:
        if (alpha, alpha_total, margin, correction, test, interval) != _DEFAULTS or screen or fill:
            raise HeadtoolError(
                f"--compat {compat} has no other options than --metric, --kind, --resamples and "
                "--seed"
            )
        theirs = test_as(compat, run, metric=metric, kinds=kinds, resamples=resamples, seed=seed)
        show.print(
            document=theirs.document,
            frame=lambda: theirs.frame,
            tables=lambda: compat_tables(theirs.tests),
        )
        return
    verdicts = test_heads(
        run,
        metric=metric,
        kinds=kinds,
        **replacements(fill),
        alpha=alpha,
        alpha_total=alpha_total,
        margin=margin,
        correction=correction,
        test=test,
        interval=interval,
        resamples=resamples,
        screen=screen,
        screen_cut=screen_cut,
        seed=seed,
    )
    show.notes(verdicts.tests.notes)
    show.print(
        document=verdicts.document,
        frame=lambda: verdicts.frame,
        tables=lambda: (
            *test_tables(
                verdicts.tests, verdicts.kinds, verdicts.provenance, signature=verdicts.signature
            ),
            *verdict_tables(verdicts.replacements, verdicts.agreement),
        ),
    )
