"""Every table that a run, a JSON document or a result can hold: columns, types, units, meaning.

What is written here is what the reader of runs checks, what empty tables are made of, and what
``docs/tables.md`` says; ``python -m headtool.schema > docs/tables.md`` writes that page again.
"""

from __future__ import annotations

from headtool.schema.columns import Column, Table
from headtool.schema.comparison import COMPARISON
from headtool.schema.heads import HEADS
from headtool.schema.others import OTHERS
from headtool.schema.over_cells import OVER_CELLS
from headtool.schema.repeats import REPEATS
from headtool.schema.studies import STUDIES
from headtool.schema.validation import VALIDATION
from headtool.schema.verdicts import VERDICTS

__all__ = ["GROUPS", "TABLES", "Column", "Table", "find_table"]

GROUPS: dict[str, tuple[Table, ...]] = {
    "Single heads": HEADS,
    "Tests": VERDICTS,
    "Comparisons": COMPARISON,
    "Repeated comparisons": REPEATS,
    "Roles, training runs and methods": OTHERS,
    "Known truth": VALIDATION,
    "Studies": (*STUDIES, *OVER_CELLS),
}
"""All tables by subject."""

TABLES: dict[str, Table] = {table.name: table for group in GROUPS.values() for table in group}
"""All tables by name."""

_OF_MASKS = ("outcomes", "hypotheses", "references", "screening")


def find_table(name: str) -> Table | None:
    """Return what is said of a run's table; None for tables of plug-in methods.

    Parameters
    ----------
    name
        Its name in the run, such as ``outcomes.2``, ``ablation.outcomes`` or
        ``ablation.mean.outcomes``.

    Examples
    --------
    >>> from headtool.schema import find_table
    >>> find_table("ablation.outcomes").name
    'outcomes'
    """
    if name in TABLES:
        return TABLES[name]
    first, _, last = name.rpartition(".")
    if first == "outcomes" and last.isdigit():
        return TABLES["outcomes"]
    return TABLES[last] if last in _OF_MASKS else None
