"""Roles as reports speak of them: their names, those of each head, and the clearest heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headtool.heads import head_name
from headtool.reports.contents.heads import Heads, Place, places
from headtool.reports.contents.run import Contents, records
from headtool.reports.wording.words import count, listed, number

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pandas as pd

__all__ = ["NO_ROLE", "ROLE_LETTERS", "HeadRoles", "letter_of", "role_name", "role_summary"]

NO_ROLE = "none"
"""What the table of survival calls heads without a role."""


def role_name(role: str) -> str:
    """A role as reports call it; heads without any are a group of the table, too."""
    return "no role" if role == NO_ROLE else role


ROLE_LETTERS = {
    "positional": "P",
    "syntactic": "S",
    "rare-token": "R",
    "separator": "E",
    "punctuation": "U",
    "first-token": "F",
    "previous-token": "V",
    "induction": "I",
}
"""Letters of the roles' own names, no two the same."""

_RELATIONS = 3  # of a syntactic head that its tooltip tells


def letter_of(role: str) -> str:
    """The letter that stands for a role."""
    return ROLE_LETTERS.get(role, "?")


class HeadRoles:
    """Which roles each head of a run has.

    Parameters
    ----------
    contents
        The run.
    heads
        Its heads.

    Attributes
    ----------
    known
        Whether the run says anything of roles.
    names
        Roles that some head of the run has, in the order of the table.
    of
        By number of the head: its roles, or None if it was not looked at.
    """

    def __init__(self, contents: Contents, heads: Heads) -> None:
        table = contents.table("roles")
        rows: dict[Place, list[Mapping[str, Any]]] = {}
        for place, row in zip(places(table), records(table), strict=True):
            rows.setdefault(place, []).append(row)
        self.known = any(place in rows for place in heads.places)
        having = {
            place: [row for row in evidence if row["label"] == "yes"]
            for place, evidence in rows.items()
        }
        order = list(dict.fromkeys(table["role"].astype(str)))
        self._rows = [having.get(place) for place in heads.places]
        self.of = [
            None if found is None else sorted({str(r["role"]) for r in found}, key=order.index)
            for found in self._rows
        ]
        self.names = [name for name in order if any(name in (of or ()) for of in self.of)]

    def words(self, head: int) -> str:
        """The roles of a head, for a list or a screen reader."""
        found = self.of[head]
        return "not looked at" if found is None else ", ".join(found)

    def letters(self, head: int) -> str:
        """The roles of a head, in a cell of the grid."""
        written = "".join(map(letter_of, self.of[head] or ()))
        return written if len(written) <= 3 else f"{written[:2]}+"

    def lines(self, head: int) -> list[list[str]]:
        """Roles of a head with share, interval and baseline, as its tooltip tells them."""
        found = self._rows[head]
        if not found:
            return [["role", "none shown" if found is not None else "not looked at"]]
        lines = []
        for role in self.of[head] or ():
            rows = [row for row in found if str(row["role"]) == role]
            rows.sort(key=lambda row: row["baseline"] - row["share"])
            for row in rows[:_RELATIONS]:
                detail = f" ({row['detail']})" if row["detail"] else ""
                lines.append([f"{role}{detail}", _evidence(row)])
            if rows[_RELATIONS:]:
                lines.append([role, f"and {count(len(rows) - _RELATIONS, 'more variant')}"])
        return lines

    @property
    def summary(self) -> str:
        """How many heads have each role."""
        counts = [f"{name} {sum(name in (of or ()) for of in self.of)}" for name in self.names] or [
            "no role"
        ]
        without = sum(of == [] for of in self.of)
        unseen = sum(of is None for of in self.of)
        rest = f"; {count(without, 'head')} without any" if without else ""
        rest += f"; {count(unseen, 'head')} not looked at" if unseen else ""
        return f"Heads by role: {listed(counts)}{rest}."


def _evidence(row: Mapping[str, Any]) -> str:
    return (
        f"{number(row['share'])} [{number(row['low'])}, {number(row['high'])}], "
        f"baseline {number(row['baseline'])}"
    )


def role_summary(tested: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each role and kind of heads: how many have it, and the clearest of them."""
    import pandas as pd

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
