"""The options that ``compare`` and ``curve`` share, each with its help."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from headtool.cli.options import whole_number
from headtool.cli.replacement_options import WHICH, replacements
from headtool.experiments.request import Request

__all__ = ["CurveOptions", "KeepOne", "SelectData", "Steps"]

_CURVES, _DATA = "Curves", "Data"

_number_of_draws = whole_number("--draws", least=0)


def _draws(text: str) -> int | None:
    return None if text == "auto" else _number_of_draws(text)


SelectData = Annotated[
    str | None,
    typer.Option(
        "--select-data",
        metavar="SPEC",
        help="Score heads on this data set. Default: on one half of the first --data, drawn at "
        "random; the other half evaluates.",
        rich_help_panel=_DATA,
    ),
]
Steps = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Heads removed from point to point, such as 10% or 4; or the points themselves, such "
        "as 20%,50%.",
        rich_help_panel=_CURVES,
    ),
]
Iterative = Annotated[
    bool,
    typer.Option(
        "--iterative",
        metavar="",
        help="Score the remaining heads again after every step.",
        rich_help_panel=_CURVES,
    ),
]
Fill = Annotated[
    str,
    typer.Option(
        "--replacement",
        metavar="NAME,...",
        help=f"What closed heads put out when the model is measured: {WHICH}. Of several, such as "
        "zero,mean, the others are shown beside the first, for as many passes again.",
        rich_help_panel=_CURVES,
    ),
]
KeepOne = Annotated[
    bool,
    typer.Option(
        "--keep-one-per-layer",
        metavar="",
        help="Never remove the last head of a layer.",
        rich_help_panel=_CURVES,
    ),
]
PerKind = Annotated[
    bool,
    typer.Option(
        "--per-kind",
        metavar="",
        help="Also curves of each attention kind, with the others whole.",
        rich_help_panel=_CURVES,
    ),
]
Faithfulness = Annotated[
    bool,
    typer.Option(
        "--faithfulness/--no-faithfulness",
        help="Also keep-only curves, with only the most important heads open, and the areas CPR "
        "and CMD. Points that pruning curves have already cost nothing.",
        rich_help_panel=_CURVES,
    ),
]
Absolute = Annotated[
    bool,
    typer.Option(
        "--absolute",
        metavar="",
        help="In keep-only curves, keep the heads with the largest scores in absolute value, "
        "however signed. Default: those with the largest scores.",
        rich_help_panel=_CURVES,
    ),
]
Draws = Annotated[
    int | None,
    typer.Option(
        "--draws",
        parser=_draws,
        metavar="N|auto",
        show_default="auto",
        help="Random masks at every point, of any heads and matched to each method's layers. auto: "
        "as many as it takes to settle whether each method is better or worse than random, on some "
        "points and examples.",
        rich_help_panel=_CURVES,
    ),
]
Alpha = Annotated[float, typer.Option(metavar="LEVEL", help="Level of tests and intervals.")]
Resamples = Annotated[
    int | None,
    typer.Option(
        "--resamples",
        parser=whole_number("--resamples", least=1),
        metavar="N",
        help="Bootstrap resamples of the curves. Default: 10,000, and more where the correction "
        "needs them.",
        rich_help_panel=_CURVES,
    ),
]


@dataclass(frozen=True)
class CurveOptions:
    """Which points curves have, what they are compared with, and how; as `Request` takes them."""

    steps: Steps = Request.steps
    iterative: Iterative = Request.iterative
    keep_one_per_layer: KeepOne = Request.keep_one_per_layer
    per_kind: PerKind = Request.per_kind
    replacement: Fill = Request.replacement
    faithfulness: Faithfulness = Request.faithfulness
    absolute: Absolute = Request.absolute
    draws: Draws = Request.draws
    resamples: Resamples = Request.resamples
    alpha: Alpha = Request.alpha

    @property
    def fields(self) -> dict[str, Any]:
        """The options, as `Request` calls them."""
        return dataclasses.asdict(self) | replacements(self.replacement)
