"""``--screen`` and what goes with it: ablate exactly only what a cheap method leaves open."""

from __future__ import annotations

from typing import Annotated

import typer

from headtool.cli.options import whole_number

__all__ = ["ScreenBy", "ScreenCut", "ScreenHeads"]

ScreenHeads = Annotated[
    int | None,
    typer.Option(
        "--screen",
        parser=whole_number("--screen", least=1),
        metavar="N",
        help="Only the N heads that rank nearest to the cut on one half of the examples, and these "
        "on the other half. All others are not tested.",
    ),
]
ScreenBy = Annotated[
    str,
    typer.Option(
        "--screen-by",
        metavar="NAME",
        help="With --screen: the method that ranks them, attribution or gradient.",
    ),
]
ScreenCut = Annotated[
    float,
    typer.Option(
        "--screen-cut",
        metavar="SHARE",
        help="With --screen: where the cut is, as a share of the heads from the least important; "
        "1 takes the N most important.",
    ),
]
