"""Roles of heads on a terminal: how many heads have each, which they are, and which survive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from headtool.heads import head_name
from headtool.reports.contents.roles import role_summary
from headtool.reports.terminal.tables import plain_table
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import short

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["role_tables", "survival_tables"]

_HEADS_OF_ROLE = 8
_RELATIONS = 24
_LESS = ("baseline", "queries", "guess")  # than whether a head has the role


def role_tables(
    frame: pd.DataFrame, source: Mapping[str, Any], survival: pd.DataFrame | None = None
) -> Iterator[RenderableType]:
    """Yield what a terminal shows of roles.

    Parameters
    ----------
    frame
        What `headtool.analysis.roles.role_table` returned.
    source
        Provenance.
    survival
        What `headtool.analysis.roles.surviving_roles` returned, if it was asked for.
    """
    options = source["options"]
    units = "sentences" if "treebank" in source else "examples"
    yield Text.assemble(
        ("roles", "bold"),
        f"  {visible(source['model']['spec'])} on {visible(source['data']['spec'])}, "
        f"{source['data']['examples']} {units}",
    )
    yield Text(
        f"  {options['correction']} within each role at {options['alpha']:g}; intervals of "
        f"{1 - options['alpha']:.0%} for each head, {units} as units",
        style="dim",
    )
    tested = frame[frame["label"] != "untested"]
    if tested.empty:
        yield Text("no role could be tested")
        return
    yield plain_table(role_summary(tested), keys=2)
    for (role, kind), part in tested.groupby(["role", "kind"], sort=False):
        if role == "syntactic":
            yield from _relations(part, str(kind))
        else:
            yield from _heads(part, str(role), str(kind))
    if survival is not None:
        yield from survival_tables(survival)


def _heads(part: pd.DataFrame, role: str, kind: str) -> Iterator[RenderableType]:
    """The heads that have a role, the clearest first."""
    found = part[part["label"] == "yes"].sort_values("share", ascending=False, kind="stable")
    if found.empty:
        return
    yield Text.assemble((f"\n{role}", "bold"), f"  {kind}")
    yield plain_table(_rows(found.head(_HEADS_OF_ROLE)), optional=_LESS)
    yield from _left_out(len(found) - _HEADS_OF_ROLE, "heads")


def _relations(part: pd.DataFrame, kind: str) -> Iterator[RenderableType]:
    """The best head of every relation and direction, the most frequent relations first."""
    best = part.loc[part.groupby("detail", sort=False)["share"].idxmax()]
    best = best.sort_values(["n", "detail"], ascending=[False, True], kind="stable")
    yield Text.assemble(("\nsyntactic", "bold"), f"  {kind}, the best head of each relation")
    rows = _rows(best.head(_RELATIONS))
    heads = part[part["label"] == "yes"].groupby("detail").size()
    rows.insert(2, "heads with it", [int(heads.get(name, 0)) for name in rows["what"]])
    yield plain_table(rows, keys=2, optional=_LESS)
    yield from _left_out(len(best) - _RELATIONS, "relations")


def _rows(part: pd.DataFrame) -> pd.DataFrame:
    fixed = part["guess"] != "any key"
    named = {
        "head": [head_name(row) for row in part.to_dict("records")],
        "what": part["detail"],
        "label": part["label"],
        "share": part["share"],
        "low": part["low"],
        "high": part["high"],
        "baseline": part["baseline"],
        "p corrected": part["p_adjusted"],
        "queries": part["n"],
        "guess": part["guess"],
    }
    rows = pd.DataFrame(named)
    if not (part["detail"] != "").any():
        rows = rows.drop(columns="what")
    return rows if fixed.any() else rows.drop(columns=["guess", "label"])


def _left_out(count: int, what: str) -> Iterator[RenderableType]:
    if count > 0:
        yield Text(f"and {count} more {what}, all of which are in CSV and JSON", style="dim")


def survival_tables(survival: pd.DataFrame) -> Iterator[RenderableType]:
    """Heads of every role that stay, a line per method and budget."""
    yield Text.assemble(
        ("\nsurviving roles", "bold"),
        "  heads that stay, with the number expected by chance within layers",
    )
    if (survival["role"] == "none").all():
        yield Text("no head has a role", style="dim")
        return
    for method, part in survival.groupby("method", sort=False):
        rows = []
        for (budget, share), line in part.groupby(["budget", "share"], sort=True):
            row: dict[str, Any] = {visible(str(method)): f"{share:.0%} removed", "budget": budget}
            for one in line.to_dict("records"):
                row[f"{one['role']} ({one['heads']})"] = _kept(one)
            rows.append(row)
        yield plain_table(pd.DataFrame(rows).drop(columns="budget"))
    yield Text("* more than expected by chance: p corrected at most 0.05", style="dim")


def _kept(row: Mapping[Hashable, Any]) -> str:
    star = "*" if row["p_adjusted"] <= 0.05 else ""
    return f"{row['kept']}{star} ({short(row['expected_within_layers'])})"
