"""Roles of three heads, counted on made-up attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from headtool.analysis.roles import role_table
from headtool.heads import AttentionSite, Sites
from headtool.results.role_counts import RoleCounts

SITES = Sites((AttentionSite("enc-self", 0, 3, 3, 2, "out"),))


SOURCE: dict[str, Any] = {
    "model": {"spec": "model"},
    "data": {"spec": "bank.conllu", "examples": 40},
    "options": {"correction": "holm", "alpha": 0.05},
    "treebank": {"spec": "bank.conllu"},
}


def few_roles() -> pd.DataFrame:
    """Evidence on three roles, one of which no data could test."""
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
