"""Tables of studies: many comparisons side by side."""

from __future__ import annotations

from headtool.schema.columns import Column, Table, number, string

__all__ = ["STUDIES"]

_CELL: tuple[Column, ...] = (
    string("cell", "name of the cell: model, replicate and task"),
    string("model", "name of the model in the study"),
    string("replicate", "which of the model's replicates; empty where there is one alone"),
    string("task", "name of the task in the study"),
)

STUDIES = (
    Table(
        "study_plan",
        "a cell that is not done: what it will cost",
        "`headtool study run --dry-run`, `headtool.plan_study`; in no run",
        (
            *_CELL,
            number("forward", "passes", "forward passes over its examples, at most"),
            number("backward", "passes", "backward passes, at most"),
            number("decoded", "passes", "how often its examples are decoded, at most"),
            number("operations", "operations", "of all passes, at most"),
            number("memory", "bytes", "peak, estimated"),
            number("seconds_least", "seconds", "at least, from one batch that was timed"),
            number("seconds_most", "seconds", "the same, at most"),
        ),
        key=("cell",),
    ),
    Table(
        "study_status",
        "a cell: how far it is",
        "`headtool study status`, `headtool.study_status`; in no run",
        (
            *_CELL,
            string("state", "`done`, `running`, `failed`, or `left`, also for what was begun"),
            number(
                "seconds",
                "seconds",
                "that it took or failed after, or that it has been running; missing where nothing "
                "is known",
            ),
            string("error", "why it failed; or empty"),
            string("run", "its run directory"),
        ),
        key=("cell",),
    ),
)
