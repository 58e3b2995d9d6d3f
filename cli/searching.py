"""How commands let models write and compare: the options, and what they come to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from headtool.cli.options import whole_number
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from headtool.searching import Search

__all__ = ["Beam", "Greedy", "LengthPenalty", "MaxNewTokens", "Tokenize", "asked_search"]

_DECODING = "Written text (bleu, chrf, ter, rouge, em)"

Beam = Annotated[
    int | None,
    typer.Option(
        "--beam",
        parser=whole_number("--beam", least=1),
        metavar="N",
        help="Width of the beam. Default: the model's own; 5 for fairseq.",
        rich_help_panel=_DECODING,
    ),
]
Greedy = Annotated[
    bool,
    typer.Option("--greedy", metavar="", help="The same as --beam 1.", rich_help_panel=_DECODING),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        "--lenpen",
        metavar="X",
        help="Scores of hypotheses are divided by length to the power of X. "
        "Default: the model's own; 1 for fairseq.",
        rich_help_panel=_DECODING,
    ),
]
MaxNewTokens = Annotated[
    int | None,
    typer.Option(
        "--max-new-tokens",
        parser=whole_number("--max-new-tokens", least=1),
        metavar="N",
        help="Most tokens that are written for a source or prompt. Default: the model's own, which "
        "is 20 where it has no setting; 201 for fairseq.",
        rich_help_panel=_DECODING,
    ),
]

Tokenize = Annotated[
    str | None,
    typer.Option(
        "--tokenize",
        metavar="NAME",
        help="sacreBLEU's tokens for bleu: 13a, intl, zh, char or none. Default: 13a.",
        rich_help_panel=_DECODING,
    ),
]


def asked_search(
    metric: str | None,
    *,
    beam: int | None,
    greedy: bool,
    length_penalty: float | None,
    max_length: int | None,
) -> Search:
    """Check the options of decoding against each other and the metric, which needs no model yet.

    Parameters
    ----------
    metric
        Name of the metric; None for the task's own.
    beam, greedy, length_penalty, max_length
        The options of these names.
    """
    from headtool.metrics.translation import TRANSLATION_METRICS
    from headtool.searching import Search

    options = {
        "--beam": beam is not None,
        "--greedy": greedy,
        "--lenpen": length_penalty is not None,
        "--max-new-tokens": max_length is not None,
    }
    given = [name for name, is_given in options.items() if is_given]
    if given and metric not in TRANSLATION_METRICS:
        raise HeadtoolError(
            f"{given[0]} is for metrics that decode; add --metric bleu, chrf or ter, or leave "
            f"{given[0]} out"
        )
    if beam is not None and greedy:
        raise HeadtoolError("--beam and --greedy exclude each other; leave one out")
    if length_penalty is not None and not math.isfinite(length_penalty):
        raise HeadtoolError(f"--lenpen must be a finite number, got {length_penalty}")
    return Search(1 if greedy else beam, length_penalty, max_length)
