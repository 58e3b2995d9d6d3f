"""What a terminal shows of roles says what the table says."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
from rich.console import Console

from headtool.analysis.overlap import kept_frame
from headtool.analysis.roles import surviving_roles
from headtool.reports.terminal.roles import role_tables

from ...support.few_roles import SITES, SOURCE, few_roles


def shown(table: pd.DataFrame, survival: pd.DataFrame | None = None) -> str:
    console = Console(file=io.StringIO(), width=160)
    for part in role_tables(table, SOURCE, survival):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def line(text: str, *parts: str) -> list[str]:
    (found,) = (row for row in text.splitlines() if all(part in row for part in parts))
    return found.split()


def test_roles_are_summed_up_and_their_heads_named() -> None:
    text = shown(few_roles())
    assert "model on bank.conllu, 40 sentences" in text
    # Two of three heads gain ten points on a relation, two attend to the first token.
    assert line(text, "syntactic", "enc-self", "0.600")[2:4] == ["2", "3"]
    assert line(text, "first-token", "0.800", "0.100")[2:4] == ["2", "3"]
    assert line(text, "enc-self.0.0", "obj dependent->head", "-2")[3:6] == ["1", "yes", "0.800"]
    assert line(text, "enc-self.0.1", "nsubj dependent->head", "+1")[3:6] == ["1", "yes", "0.700"]
    assert "rare-token" not in text  # nothing was rare


def test_data_without_trees_are_examples() -> None:
    source = {name: value for name, value in SOURCE.items() if name != "treebank"}
    heading, method, *_ = role_tables(few_roles(), source)
    assert "40 examples" in str(heading)
    assert "examples as units" in str(method)


def test_untested_roles_alone_say_so() -> None:
    table = few_roles()
    assert "no role could be tested" in shown(table[table["label"] == "untested"])


def test_survivors_are_shown_by_method_and_budget() -> None:
    table = few_roles()
    kept = kept_frame({"gradient": {2: np.array([True, False, False])}}, SITES.heads)
    text = shown(table, surviving_roles(table, kept))
    assert "syntactic (2)" in text
    row = line(text, "67% removed")
    assert row[2:6] == ["1", "(0.667)", "1", "(0.667)"]
