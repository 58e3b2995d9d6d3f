"""Made-up scores, and what a terminal shows of them."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from headtool.heads import AttentionSite, Sites
from headtool.reports.terminal.scores import score_tables
from headtool.results.scores import HeadScores, score_frame


def sites(*widths: int, kind: str = "enc-self") -> Sites:
    """Sites of so many heads each."""
    return Sites(
        tuple(
            AttentionSite(kind, layer, heads, heads, 4, f"layer{layer}")
            for layer, heads in enumerate(widths)
        )
    )


def result(where: Sites, scores: list[float], **changes: object) -> HeadScores:
    """Scores by a method; `changes` replace parts of the provenance."""
    values = np.array(scores, dtype=np.float64)
    frame = score_frame("gradient", where, values, abs(values) / 10)
    provenance = {
        "model": {"spec": "my/model"},
        "data": {"spec": "dev.tsv", "examples": 7},
        "options": {"granularity": "token", "heads": None},
    }
    return HeadScores("gradient", frame, provenance | changes)


def shown(scores: HeadScores, width: int = 80, *, terminal: bool = False) -> list[str]:
    """Lines of the terminal's page."""
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=terminal,
        color_system="truecolor" if terminal else None,
        legacy_windows=False,
    )
    for part in score_tables(scores, 1.25):
        console.print(part)
    return console.file.getvalue().splitlines()
