"""What a run found about roles: which survive as heads are removed, and whether Voita's do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Finding
from headtool.reports.contents.facts import alpha_of
from headtool.reports.contents.roles import NO_ROLE
from headtool.reports.contents.run import Contents
from headtool.reports.wording.words import given, listed, number, p_value, percent

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["survival_finding"]

_VOITA = ("positional", "syntactic", "rare-token")


def survival_finding(contents: Contents) -> Finding | None:
    """Heads of which roles stay more often than chance; every claim is a corrected p-value's."""
    table = contents.table("role_survival")
    if table.empty:
        return None
    alpha = alpha_of(contents)
    tested = table[table["p_adjusted"].notna()]
    if not (tested["role"] != NO_ROLE).any():
        said = (
            "Whether heads with a role survive pruning cannot be tested: there is no head with "
            "one, or no budget at which some of these heads stay and others go."
        )
        return Finding("roles", said, "")
    proven = tested[tested["p_adjusted"] <= alpha]
    clear = proven[proven["role"] != NO_ROLE]
    roles = list(dict.fromkeys(clear["role"].astype(str)))
    if roles:
        masks = "than if as many heads of each layer were removed at random"
        headline = f"Heads of some roles survive more often {masks}: "
        headline += "; ".join(_role(clear[clear["role"] == role]) for role in roles) + "."
    else:
        least = _clearest(tested[tested["role"] != NO_ROLE]).iloc[0]
        headline = (
            "No method keeps heads of any role detectably more often than if as many heads of "
            "each layer were removed at random"
        )
        if least["kept"] > least["expected_within_layers"]:
            headline += f"; the clearest case is that {_size(least)}"
        headline += "."
    headline += " " + _as_voita(contents, roles)
    none = proven[proven["role"] == NO_ROLE]
    methods = listed(list(dict.fromkeys(none["method"].astype(str)))) if len(none) else ""
    detail = (
        f"Heads without any role also survive more often than chance (by {methods}). "
        if methods
        else ""
    )
    detail += (
        "Whether more heads of a role stay than by chance was tested for every method, budget and "
        f"role, exactly and one-sided, with Holm's correction over all {len(tested)} tests (level "
        f"{given(alpha)})."
    )
    if len(roles) < table.loc[table["role"] != NO_ROLE, "role"].nunique():
        detail += " Where few heads have a role, a real difference can go undetected."
    return Finding("roles", headline, detail)


def _clearest(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by their p-values; the correction makes many of them equal to 1."""
    return rows.sort_values(["p_adjusted", "p_within_layers"], kind="stable")


def _role(rows: pd.DataFrame) -> str:
    """Where a role survives most clearly, and by which other methods it does so at all."""
    ordered = _clearest(rows)
    first = ordered.iloc[0]
    others = [m for m in dict.fromkeys(ordered["method"].astype(str)) if m != first["method"]]
    verb = "does" if len(others) == 1 else "do"
    also = f", and so {verb} {listed(others)} at some budget" if others else ""
    return f"{_size(first)}{also}"


def _size(row: Any) -> str:
    return (
        f"{row['method']} keeps {row['kept']} of {row['heads']} {row['role']} heads with "
        f"{percent(float(row['share']))} of the heads removed "
        f"({number(row['expected_within_layers'])} expected, adjusted "
        f"{p_value(row['p_adjusted'])})"
    )


def _as_voita(contents: Contents, proven: Sequence[str]) -> str:
    """Whether the heads that Voita et al. found to be the last to go are so here."""
    survival = contents.table("role_survival")
    having = set(survival.loc[survival["heads"] > 0, "role"].astype(str))
    roles = contents.table("roles")
    looked = set(roles.loc[roles["label"] != "untested", "role"].astype(str)) | having
    groups: dict[str, list[str]] = {}
    for role in _VOITA:
        if role in proven:
            said = "holds for {}"
        elif role in having:
            said = "is not shown for {}"
        elif role in looked:
            said = "cannot be tested for {}, of which there are none"
        else:
            said = "was not looked at for {}"
        groups.setdefault(said, []).append(role)
    parts = [said.format(f"{listed(names)} heads") for said, names in groups.items()]
    return (
        "Voita et al. (2019) found that positional, syntactic and rare-token heads are the ones to "
        f"survive; here, this {'; it '.join(parts)}."
    )
