"""The heads of a run in canonical order, with what every section looks up of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headtool.heads import Head, Kind
from headtool.reports.contents.facts import VERDICTS
from headtool.reports.contents.run import Contents, records

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Heads", "Place", "places", "verdict_legend"]

Place = tuple[Kind, int, int]
"""Kind, layer and head."""


class Heads:
    """The heads of a run in canonical order, with what every section looks up of them."""

    def __init__(self, contents: Contents) -> None:
        frames = [
            contents.tables[n]
            for n in ("scores", "tests", "ablation", "sequential", "best")
            if n in contents.tables
        ] or [contents.table("roles")]
        found: dict[Place, None] = {}
        for frame in frames:
            found |= dict.fromkeys(places(frame))
        self.contents = contents
        self.places = list(found)
        self.number = {place: i for i, place in enumerate(self.places)}
        self.names = [str(Head(*place)) for place in self.places]
        self.kinds = list(dict.fromkeys(kind for kind, _, _ in self.places))
        self.main = contents.data[0] if contents.data else ""
        self.tests = self._rows("tests") if "tests" in contents.tables else self._rows("sequential")
        self.effects = self.tests or self._rows("ablation")

    def _rows(self, table: str) -> dict[Place, Mapping[str, Any]]:
        """Rows of a table on the main data set (and by the main metric), by head."""
        frame = self.contents.table(table)
        frame = frame[frame["data"] == self.main]
        if "metric" in frame:
            frame = frame[frame["metric"] == self.contents.metric]
        return dict(zip(places(frame), records(frame), strict=True))

    def verdict(self, place: Place) -> str:
        """Verdict on the main data set; empty where there is none."""
        return str(self.tests.get(place, {}).get("verdict", ""))


def places(frame: pd.DataFrame) -> list[Place]:
    """Kind, layer and head of every row."""
    columns = (frame["kind"].astype(str), frame["layer"].astype(int), frame["head"].astype(int))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def verdict_legend(heads: Heads) -> list[tuple[str, str]]:
    """The marks of the verdicts that occur."""
    found = {heads.verdict(place) for place in heads.places}
    return [(f"mark {verdict}", verdict) for verdict in VERDICTS if verdict in found]
