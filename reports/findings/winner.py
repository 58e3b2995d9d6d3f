"""What a run found about methods: which beat random masks, and which beat each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Finding
from headtool.reports.contents.facts import MATCHED, alpha_of, interval, level_of
from headtool.reports.contents.run import Contents, records
from headtool.reports.wording.words import count, is_or_are, listed, number, p_value

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["against_random", "winner_finding"]

Row = Mapping[str, Any]


def winner_finding(contents: Contents) -> Finding | None:
    """Which methods beat random masks, and which of them beats which."""
    rows = _versus_random(contents)
    said = []
    if len(rows):
        ordered = rows.sort_values("area", ascending=False, kind="stable")
        said.append(_against_matched(contents, _grouped(ordered, alpha_of(contents))))
    said += _versus_any(contents)
    if not said:
        return None
    alpha, headline = alpha_of(contents), " ".join(said)
    tests = contents.table("curve_tests")
    pairs = tests[
        (tests["kind"] == "all") & ~tests["method_y"].astype(str).str.startswith("random")
    ]
    clear = pairs[pairs["p_adjusted"] < alpha]
    if len(pairs):
        headline += " " + _ranking(clear)
    caution = (
        "Matched masks differ from method to method: they show what a method knows beyond how many "
        "heads each layer needs, but only the direct comparison ranks the methods."
    )
    models = len(contents.described("replicates"))
    if models > 1:
        caution += f" Areas are means over the {models} models, and tested over these."
    return Finding("winner", headline, f"{_direct(pairs, clear)} {caution}".strip())


def _versus_random(contents: Contents) -> pd.DataFrame:
    tests = contents.table("curve_tests")
    rows = tests[tests["kind"] == "all"]
    return rows[rows["method_y"] == MATCHED + rows["method_x"].astype(str)]


def _grouped(rows: pd.DataFrame, alpha: float) -> dict[str, list[Row]]:
    """Methods by how they do against random masks.

    ``won`` and ``lost``: better, or worse, than all but few of the draws; ``lucky`` and
    ``unlucky``: better, or worse, than the mean of these draws on other examples, but a random draw
    could do as well, or as badly; ``open``: none of these.
    """
    groups: dict[str, list[Row]] = {
        name: [] for name in ("won", "lucky", "lost", "unlucky", "open")
    }
    for row in records(rows):
        if row["p_draws_adjusted"] <= alpha:
            groups["won" if 2 * row["draws_beaten"] > row["draws"] else "lost"].append(row)
        elif row["p_adjusted"] < alpha:
            groups["lucky" if row["area"] > 0 else "unlucky"].append(row)
        else:
            groups["open"].append(row)
    return groups


def _against_matched(contents: Contents, groups: Mapping[str, list[Row]]) -> str:
    """Which methods do better than random masks with as many heads in every layer."""
    won, lucky, lost = groups["won"], groups["lucky"], groups["lost"]
    unlucky = groups["unlucky"]
    masks = "random masks that remove as many heads of every layer"
    if won:
        text = f"{won[0]['method_x']} beats {masks} by {_size(contents, won[0])}"
        if won[1:]:
            also = [f"{row['method_x']} (by {number(row['area'])})" for row in won[1:]]
            text += f"; {listed(also)} {_do(also)} so as well"
        if groups["open"]:
            names_open = [str(row["method_x"]) for row in groups["open"]]
            text += f"; {listed(names_open)} {_do(names_open)} not, as far as these data can tell"
        text += "."
    elif lucky:
        text = f"No method is shown to beat {masks}."
    else:
        top = max((*groups["open"], *lost, *unlucky), key=lambda row: float(row["area"]))
        text = (
            f"No method does detectably better than {masks}; the largest difference is "
            f"{_size(contents, top)}, for {top['method_x']}."
        )
    if lucky:
        better = [
            f"{row['method_x']} (by {number(row['area'])}; better than {int(row['draws_beaten'])} "
            f"of {int(row['draws'])} draws, adjusted {p_value(row['p_draws_adjusted'])})"
            for row in lucky
        ]
        text += (
            " Better than the average of such masks, though a lucky draw may do as well: "
            f"{listed(better)}."
        )
    if lost:
        names_lost = [str(row["method_x"]) for row in lost]
        text += f" {listed(names_lost)} {_do(names_lost)} worse than such masks."
    if unlucky:
        worse = [str(row["method_x"]) for row in unlucky]
        text += (
            f" {listed(worse)} {_do(worse)} worse than their average, and random draws do as badly."
        )
    return text


def _do(names_: Sequence[str]) -> str:
    return "does" if len(names_) == 1 else "do"


def _size(contents: Contents, row: Row) -> str:
    draws = ""
    if not math.isnan(row["draws_beaten"]):
        draws = f", better than {int(row['draws_beaten'])} of {int(row['draws'])} draws"
    return (
        f"{number(row['area'])} of {contents.measure} on average over the curve "
        f"({level_of(contents)} interval {interval(row)}, adjusted "
        f"{p_value(row['p_draws_adjusted'])} among draws{draws})"
    )


def against_random(contents: Contents) -> dict[str, list[Row]]:
    """Group the tests of methods with random masks of any heads by outcome; empty without any.

    ``won``, ``lost``, ``lucky``, ``unlucky`` and ``open``, see `_grouped`.
    """
    tests = contents.table("curve_tests")
    rows = tests[(tests["kind"] == "all") & (tests["method_y"] == "random")]
    return _grouped(rows, alpha_of(contents)) if len(rows) else {}


def _versus_any(contents: Contents) -> list[str]:
    """How the methods do against random masks of any heads, layers aside."""
    groups = against_random(contents)
    if not groups:
        return []
    said = []
    for key, words in (
        ("won", "better"),
        ("lucky", "better than their average only"),
        ("lost", "worse"),
        ("unlucky", "worse than their average only"),
    ):
        chosen = [str(row["method_x"]) for row in groups[key]]
        if chosen:
            said.append(f"{listed(chosen)} {is_or_are(len(chosen))} {words}")
    if groups["open"]:
        rest = [str(row["method_x"]) for row in groups["open"]]
        said.append(f"{listed(rest)} cannot be told apart from them")
    return [f"Against random masks of any heads, {'; '.join(said)}."]


def _ranking(clear: pd.DataFrame) -> str:
    """Who is better than whom, without numbers."""
    if clear.empty:
        return "Compared with each other, no two methods differ detectably."
    losers: dict[str, list[str]] = {}
    for row in records(clear):
        pair = [str(row["method_x"]), str(row["method_y"])]
        better, worse = pair if row["area"] > 0 else pair[::-1]
        losers.setdefault(better, []).append(worse)
    winners: dict[tuple[str, ...], list[str]] = {}
    for better, beaten in losers.items():
        winners.setdefault(tuple(sorted(beaten)), []).append(better)
    said = [
        f"{listed(better)} {is_or_are(len(better))} better than {listed(beaten)}"
        for beaten, better in winners.items()
    ]
    return f"Compared with each other, {'; '.join(said)}."


def _direct(rows: pd.DataFrame, clear: pd.DataFrame) -> str:
    """How the methods' curves compare with each other, pair by pair."""
    if rows.empty:
        return ""
    if clear.empty:
        top = rows.assign(size=rows["area"].abs()).sort_values("size").iloc[-1]
        x, y = (top["method_x"], top["method_y"])[:: 1 if top["area"] >= 0 else -1]
        return (
            "Compared with each other, no two methods differ detectably; the largest difference is "
            f"{number(abs(top['area']))}, of {x} over {y} (adjusted {p_value(top['p_adjusted'])})."
        )
    ordered = [
        (str(row["method_x"]), str(row["method_y"]), row)
        if row["area"] > 0
        else (str(row["method_y"]), str(row["method_x"]), row)
        for _, row in clear.iterrows()
    ]
    said = [
        f"{x} is better than {y} by {number(abs(row['area']))} "
        f"(adjusted {p_value(row['p_adjusted'])})"
        for x, y, row in ordered
    ]
    rest = len(rows) - len(clear)
    text = f"Compared with each other, {listed(said)}"
    if rest:
        others = "pair" if rest == 1 else f"{count(rest, 'pair')}"
        text += f"; the other {others} cannot be told apart"
    return text + "."
