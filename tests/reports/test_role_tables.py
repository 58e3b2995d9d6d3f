"""What a terminal shows of roles says what the table says."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from headtool.analysis.overlap import kept_frame
from headtool.analysis.roles import role_table, surviving_roles
from headtool.heads import AttentionSite, Sites
from headtool.reports.contents.roles import role_summary
from headtool.reports.terminal.roles import role_tables
from headtool.results.role_counts import RoleCounts

SITES = Sites((AttentionSite("enc-self", 0, 3, 3, 2, "out"),))
SOURCE: dict[str, Any] = {
    "model": {"spec": "model"},
    "data": {"spec": "bank.conllu", "examples": 40},
    "options": {"correction": "holm", "alpha": 0.05},
    "treebank": {"spec": "bank.conllu"},
}


def frame() -> pd.DataFrame:
    syntactic = RoleCounts(
        "syntactic", ["obj dependent->head", "nsubj dependent->head"], SITES, ["-2", "+1"]
    )
    first = RoleCounts("first-token", [""], SITES, ["any key"])
    queries = np.full(40, 10.0)
    for counts, place, hits, share in (
        (syntactic, 0, [8.0, 4, 5], 0.5),
        (syntactic, 1, [3.0, 7, 5], 0.5),
        (first, 0, [8.0, 4, 5], 0.1),
    ):
        detail = np.full(40, place)
        counts.add_queries(detail, queries, share * queries)
        counts.add_hits(SITES[0], detail, np.tile(hits, (40, 1)), queries, share * queries)
    rare = RoleCounts("rare-token", [""], SITES, ["any key"])
    return role_table([syntactic, first, rare])


def shown(table: pd.DataFrame, survival: pd.DataFrame | None = None) -> str:
    console = Console(file=io.StringIO(), width=160)
    for part in role_tables(table, SOURCE, survival):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def line(text: str, *parts: str) -> list[str]:
    (found,) = (row for row in text.splitlines() if all(part in row for part in parts))
    return found.split()


def test_roles_are_summed_up_and_their_heads_named() -> None:
    text = shown(frame())
    assert "model on bank.conllu, 40 sentences" in text
    # Two of three heads gain ten points on a relation, two attend to the first token.
    assert line(text, "syntactic", "enc-self", "0.600")[2:4] == ["2", "3"]
    assert line(text, "first-token", "0.800", "0.100")[2:4] == ["2", "3"]
    assert line(text, "enc-self.0.0", "obj dependent->head", "-2")[3] == "0.800"
    assert line(text, "enc-self.0.1", "nsubj dependent->head", "+1")[3] == "0.700"
    assert "rare-token" not in text  # nothing was rare


def test_unproven_heads_are_counted_once_and_not_if_they_have_the_role_elsewhere() -> None:
    table = frame()
    syntactic = table["role"] == "syntactic"
    # Head 0 has one relation and lacks proof of the other; head 2 lacks proof of both.
    for layer_head, labels in ((0, ["yes", "unproven"]), (1, ["no", "no"]), (2, ["unproven"] * 2)):
        table.loc[syntactic & (table["head"] == layer_head), "label"] = labels
    tested = table[table["label"] != "untested"]
    assert role_summary(tested).set_index("role").loc["syntactic", "unproven"] == 1


def test_data_without_trees_are_examples() -> None:
    source = {name: value for name, value in SOURCE.items() if name != "treebank"}
    heading, method, *_ = role_tables(frame(), source)
    assert "40 examples" in str(heading)
    assert "examples as units" in str(method)


def test_untested_roles_alone_say_so() -> None:
    table = frame()
    assert "no role could be tested" in shown(table[table["label"] == "untested"])


def test_survivors_are_shown_by_method_and_budget() -> None:
    table = frame()
    kept = kept_frame({"gradient": {2: np.array([True, False, False])}}, SITES.heads)
    text = shown(table, surviving_roles(table, kept))
    assert "syntactic (2)" in text
    row = line(text, "67% removed")
    assert row[2:6] == ["1", "(0.667)", "1", "(0.667)"]
