"""The roles of a run's heads, as grids, tables and tooltips show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from headtool.reports.charts.svg import element
from headtool.reports.contents.heads import Heads, Place, places
from headtool.reports.contents.run import Contents, records
from headtool.reports.wording.words import count, listed, number

__all__ = ["HeadRoles", "css_of", "letter_of", "role_swatch", "stripes"]

_LETTERS = {
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


class HeadRoles:
    """Which roles each head of a run has.

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

    @property
    def legend(self) -> list[tuple[Markup, str]]:
        """Colour and letter of every role that some head has."""
        return [(role_swatch(name), name) for name in self.names]


def _evidence(row: Mapping[str, Any]) -> str:
    return (
        f"{number(row['share'])} [{number(row['low'])}, {number(row['high'])}], "
        f"baseline {number(row['baseline'])}"
    )


def letter_of(role: str) -> str:
    """The letter that stands for a role."""
    return _LETTERS.get(role, "?")


def css_of(role: str) -> str:
    """The class of a role's colour; the same in every report."""
    return f"r{list(_LETTERS).index(role)}" if role in _LETTERS else "unknown"


def role_swatch(role: str) -> Markup:
    """A role's colour and letter, for legends."""
    return element(
        "svg",
        element("rect", x=1, y=1, width=14, height=14, rx=2),
        element("text", letter_of(role), x=8, y=8, dy=".36em", text_anchor="middle"),
        class_=f"stripe {css_of(role)}",
        width=16,
        height=16,
        aria_hidden="true",
    )


def stripes(roles: Sequence[str], x: float, y: float, side: float) -> Markup:
    """A cell in the colours of its roles, side by side."""
    width = side / len(roles)
    return element(
        "g",
        *(
            element(
                "rect",
                x=x + i * width,
                y=y,
                width=width,
                height=side,
                rx=min(3, side / 6) if len(roles) == 1 else None,
                class_=f"stripe {css_of(role)}",
            )
            for i, role in enumerate(roles)
        ),
        class_="stripes",
    )
