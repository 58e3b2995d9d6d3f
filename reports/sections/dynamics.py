"""The report's sections that are tables alone: heads over the course of training."""

from __future__ import annotations

from headtool.reports.blocks import Section
from headtool.reports.contents.run import Contents
from headtool.reports.sections.frames import frame_table

__all__ = ["dynamics_section"]


def dynamics_section(contents: Contents) -> Section | None:
    """What is left without heads at each checkpoint, and how their ranks change."""
    tables = [
        frame_table(name.replace("_", "-"), caption, frame)
        for name, caption in (
            ("prunability", "Whole models, and how many heads can be removed"),
            ("checkpoint_curves", "What is left when heads are removed"),
            ("rank_stability", "How alike the ranks of heads are at two checkpoints"),
        )
        if len(frame := contents.table(name))
    ]
    if not tables:
        return None
    return Section("dynamics", "Heads over the course of training", tables=tables)
