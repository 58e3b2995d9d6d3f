"""Names of roles, and the clearest heads of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from headtool.heads import head_name

if TYPE_CHECKING:
    from collections.abc import Hashable


__all__ = ["NO_ROLE", "role_name", "role_summary"]


NO_ROLE = "none"
"""What the table of survival calls heads without a role."""


def role_name(role: str) -> str:
    """A role as reports call it; heads without any are a group of the table, too."""
    return "no role" if role == NO_ROLE else role


def role_summary(tested: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each role and kind of heads: how many have it, and the clearest of them."""
    rows = []
    place = ["kind", "layer", "head"]
    for (role, kind), part in tested.groupby(["role", "kind"], sort=False):
        labelled = part[part["label"] == "yes"]
        unproven = part[part["label"] == "unproven"].merge(
            labelled[place], how="left", indicator=True
        )
        best = _clearest(part if labelled.empty else labelled, str(role))
        rows.append(
            {
                "role": role,
                "kind": kind,
                "heads with it": len(labelled[place].drop_duplicates()),
                "of": len(part[place].drop_duplicates()),
                "interval above": len(
                    labelled.loc[labelled["low"] >= labelled["threshold"], place].drop_duplicates()
                ),
                "unproven": len(
                    unproven.loc[unproven["_merge"] == "left_only", place].drop_duplicates()
                ),
                "best head": head_name(best),
                "what": best["detail"],
                "share": best["share"],
                "baseline": best["baseline"],
                "threshold": best["threshold"],
            }
        )
    return pd.DataFrame(rows)


def _clearest(part: pd.DataFrame, role: str) -> Mapping[Hashable, Any]:
    """The head of the largest share; of syntactic ones, that whose gain is the least by chance."""
    better = part[part["share"] > part["baseline"]]
    if role == "syntactic" and len(better):
        found = better.loc[[better["p"].idxmin()]]
    else:
        found = part.loc[[part["share"].idxmax()]]
    return found.to_dict("records")[0]
