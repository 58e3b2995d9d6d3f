"""Saved roles of made-up heads, to be joined with a synthetic comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from headtool.reports.contents.heads import places
from headtool.reports.contents.run import Contents
from headtool.results.runs import Run, write_run
from headtool.schema import TABLES

from . import hostile
from .comparisons import KINDS, SHA

Place = tuple[str, int, int]

HEADS = [
    (kind, layer, head)
    for kind, (layers, width) in KINDS.items()
    for layer in range(layers)
    for head in range(width)
]
DETAILS = {"syntactic": ("obj dependent->head", "nsubj head->dependent"), "positional": ("-1",)}
SOURCE: dict[str, Any] = {
    "method": "roles",
    "metric": "share",
    "model": {"spec": "models/sentiment", "sha256": SHA},
    "data": {"spec": "bank.conllu", "examples": 40, "sha256": SHA},
    "options": {"correction": "holm", "alpha": 0.05},
    "notes": ["rare-token of enc-self: no token of the data can show it"],
}


def role_frame(
    having: Mapping[str, Sequence[Place]],
    heads: Sequence[Place] = HEADS,
    *,
    untested: Sequence[str] = (),
    details: Mapping[str, Sequence[str]] = DETAILS,
) -> pd.DataFrame:
    """Evidence on every role of `having`, with the label yes for its heads, on all `heads`."""
    rows = []
    for role in (*having, *untested):
        for detail in details.get(role, ("",)):
            for number, place in enumerate(heads):
                has = place in having.get(role, ())
                share = 0.9 + number / 1000 if has else 0.1
                label = "yes" if has else "no"
                numbers: tuple[float, ...] = (share, 0.2, 0.5, share - 0.02, share + 0.02)
                if role in untested:
                    numbers, label = (math.nan,) * 5, "untested"
                p = 1e-6 if has else 1.0
                rows.append((*place, role, detail, *numbers, 400, 40, p, p, label, "any key"))
    return TABLES["roles"].frame(rows)


def write_roles(folder: Path, frame: pd.DataFrame, **source: Any) -> Run:
    """Write roles as ``headtool roles --out`` does; `source` replaces parts of `SOURCE`."""
    return write_run(
        folder,
        command="headtool roles --treebank bank.conllu --out roles",
        provenance={"roles": {**SOURCE, **source}},
        tables={"roles": frame},
        force=True,
    )


def roles_by_head(contents: Contents) -> dict[tuple[str, int, int], list[str]]:
    """Roles by head, straight from the table."""
    rows = contents.table("roles").query("label == 'yes'")
    found: dict[tuple[str, int, int], list[str]] = {}
    for place, role in zip(places(rows), rows["role"], strict=True):
        if role not in found.setdefault(place, []):
            found[place].append(role)
    return found


def hostile_roles(folder: Path) -> None:
    """Names of relations come from a treebank, those of roles from whoever wrote the run."""
    heads = [
        (kind, layer, head)
        for kind, (layers, width) in hostile.KINDS.items()
        for layer in range(layers)
        for head in range(width)
    ]
    details = {"syntactic": [hostile.SCRIPT, hostile.CLOSING], "positional": [hostile.LINES]}
    frame = role_frame({"positional": heads[:3], "syntactic": heads[2:9]}, heads, details=details)
    other = role_frame({hostile.IMAGE: heads[1:5]}, heads)
    notes = [hostile.SCRIPT, hostile.LINK]
    write_roles(folder, pd.concat([frame, other]), notes=notes)
