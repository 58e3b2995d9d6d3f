"""What each column of the page's tables says, in the words of `headtool.schema`.

A column of the page mostly is one of a run's, under a shorter title. Here stands which; what it
means stands in the schema alone. Text in quotes is for columns that the page makes itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from headtool.reports.blocks import Column, DataTable
from headtool.schema import TABLES

__all__ = ["Explained", "explain", "explanations"]

_HEAD = "'kind of attention, layer and number of the head, counted from 0'"
_PAIR = {"method": "method_x", "and": "method_y"}
_MODELS = {"method": "method", "model": "model_x", "and": "model_y"}
_KEPT_BY = {"kept by each": "kept", "by both": "shared", "Jaccard": "jaccard"}
_OPEN = "'open heads of this kind'"

_OTHERS = "*"

_STUDY = {
    "better than random by": "area",
    "interval": "low high",
    "comparisons": "cells",
    "first in": "best",
    "better in": "better",
    "beats random in": "better",
    "worse in": "worse",
    "better in at least": "at_least",
    "left at 50%": "study_budgets.value",
    "self-agreement": "self_agreement",
    "agreement of seeds": "seed_agreement",
    "layers over seeds": "seed_layers",
    "CPR": "cpr",
    "CMD": "cmd",
    "passes to score": "passes",
}

# Table of the page: the table of the run, and its column (or two, for an interval) by title; for a
# title that several columns have, in their order. `*` is for all other titles: names of methods.
_SOURCES: Mapping[str, tuple[str, Mapping[str, str | tuple[str, ...]]]] = {
    "replacements": ("replacements", {"head": _HEAD, _OTHERS: "delta"}),
    "replacement-scores": ("replacement_scores", {"head": _HEAD, _OTHERS: "score"}),
    "overview": (
        "curve_tests",
        {
            "method": "method_x",
            "better than random by": "area",
            "heads that can go": "'the largest share of the heads whose removal costs at most the "
            "margin by the estimate; only a whole band beyond the margin ends it'",
            "for sure": "'the same by the worse end of the band'",
            "passes to score": "'forward passes over the selection examples, backward ones as one'",
            "self-agreement": "stability.tau_b",
            _OTHERS: "low high",
        },
    ),
    "study-overview": ("study_ranking", _STUDY | {_OTHERS: "low high"}),
    "study-ranking": ("study_ranking", _STUDY),
    "study-reliability": ("study_ranking", _STUDY),
    "study-pairs": (
        "study_pairs",
        {
            **_PAIR,
            "interval": "low high",
            "ranks between": "rank_difference",
            "p Nemenyi": "p_nemenyi",
            "p by unit": "p_units",
            "better in": "better",
            "worse in": "worse",
        },
    ),
    "study-results": (
        "study_results",
        {
            "comparison": "cell",
            "interval": "low high",
            "share of all heads' worth": "advantage",
            "p Holm": "p_holm",
            "p BH": "p_bh",
        },
    ),
    "study-cells": (
        "study_cells",
        {
            "comparison": "cell",
            "seed": "replicate",
            "no head": "none",
            "report": "'the report of the comparison alone'",
        },
    ),
    "study-conclusions": (
        "study_conclusions",
        {"comparisons": "cells", "shown in": "hold", "opposite in": "contradict"},
    ),
    "study-variance": ("study_variance", {"interval": "low high", "note": "reason"}),
    "study-budgets": ("study_budgets", {"least to most": "least", _OTHERS: "value"}),
    "validation": (
        "validation",
        {
            "AUROC single": "auroc_single",
            "AUROC set": "auroc_set",
            "AP single": "ap_single",
            "AP set": "ap_set",
            "interval": ("auroc_single_low", "auroc_set_low"),
            "wrong about": "'kinds of heads that are in the wrong order in over a fifth of the "
            "pairs'",
        },
    ),
    "kept": (
        "kept",
        {
            "layer": "'kind of attention and number of the layer, from 0'",
            "kept by all": "'heads of the layer that every method keeps'",
            _OTHERS: "'heads of the layer that the method keeps'",
        },
    ),
    "scores": ("scores", {"head": _HEAD, "rank": "rank", _OTHERS: "score"}),
    "curve-values": ("curves", {"removed": "share", _OTHERS: "value"}),
    "areas": (
        "curve_tests",
        {
            "heads": "kind",
            "method": "method_x",
            "against": "method_y",
            "area": "area",
            "interval": "low high",
            "p of these masks": "p",
            "adjusted": "p_adjusted",
            "random draws beaten": "draws_beaten",
            "adjusted p among draws": "p_draws_adjusted",
        },
    ),
    "faithfulness": (
        "faithfulness_areas",
        {
            "heads": "kind",
            "method": "method",
            "CPR": "cpr",
            "CPR interval": "cpr_low cpr_high",
            "CMD": "cmd",
            "CMD interval": "cmd_low cmd_high",
            "random rankings beaten by CPR": "cpr_beaten",
            "random rankings beaten by CMD": "cmd_beaten",
        },
    ),
    "role-counts": (
        "roles",
        {
            "role": "role",
            "kind": "kind",
            "heads with it": "'heads that have the role'",
            "of": "'heads that were looked at'",
            "interval above": "'heads whose whole interval reaches the threshold'",
            "unproven": "'heads whose share reaches the threshold, but not by more than chance'",
            "best head": "'the head that shows the role most clearly'",
            "what": "detail",
            "share": "share",
            "baseline": "baseline",
            "threshold": "threshold",
        },
    ),
    "roles": ("roles", {"head": _HEAD}),
    "role-survival": (
        "role_survival",
        {
            "removed": "share",
            "expected within layers": "expected_within_layers",
            "adjusted p": "p_adjusted",
        },
    ),
    "agreement-values": (
        "agreement",
        {
            **_PAIR,
            "tau-b": "tau_b",
            "interval": "tau_b_low tau_b_high",
            "p within layers": (
                *("tau_b_p_within_layers", "spearman_p_within_layers"),
                "rbo_p_within_layers",
            ),
            "Spearman": "spearman",
            "rank-biased overlap": "rbo",
        },
    ),
    "overlap-values": (
        "overlap",
        {"removed": "share", **_PAIR, **_KEPT_BY, "p within layers": "p_within_layers"},
    ),
    "subsample-agreement": (
        "subsamples",
        {
            "tau-b": "tau_b",
            "interval": ("tau_b_low tau_b_high", "spearman_low spearman_high", "rbo_low rbo_high"),
            "Spearman": "spearman",
            "rank-biased overlap": "rbo",
            "by chance": "rbo_expected",
        },
    ),
    "stable-heads": (
        "subsample_overlap",
        {
            "removed": "share",
            "Jaccard": "jaccard",
            "interval": "low high",
            "random heads of the same layers": "expected_within_layers",
            "stably kept": "stable_kept",
            "by chance at most": ("false_kept", "false_removed"),
            "stably removed": "stable_removed",
            "tied at the cut": "tied",
        },
    ),
    "frequencies": ("selection_frequency", {"head": _HEAD, _OTHERS: "times"}),
    "replicates": ("replicates", {_OTHERS: "value"}),
    "replicate-agreement": (
        "replicate_agreement",
        {
            **_MODELS,
            "tau-b": "tau_b",
            "p": ("tau_b_p", "layer_spearman_p"),
            "p within layers": (
                *("tau_b_p_within_layers", "spearman_p_within_layers"),
                "rbo_p_within_layers",
            ),
            "Spearman": "spearman",
            "rank-biased overlap": "rbo",
            "Spearman of layers": "layer_spearman",
        },
    ),
    "replicate-overlap": (
        "replicate_overlap",
        {**_MODELS, **_KEPT_BY, "p": "p_hypergeometric", "p within layers": "p_within_layers"},
    ),
    "every-head": (
        "tests",
        {
            "head": _HEAD,
            "effect": "delta",
            "interval": "ci_low ci_high",
            "adjusted p": "p_adjusted",
            "detectable effect": "mde",
            "roles": "'roles that the head has'",
            _OTHERS: "'rank of the head by the method: 1 for the most important'",
        },
    ),
    "best": (
        "best",
        {"head": _HEAD, "effect": "delta", "on the half that chose it": "delta_chosen_on"},
    ),
    "additivity": ("additivity", {"removed": "share"}),
    "optimism": ("optimism", {"removed": "share"}),
    "sweep": (
        "gates.sweep",
        {
            "heads kept": "heads",
            **dict.fromkeys(("enc-self", "dec-self", "cross"), _OPEN),
            _OTHERS: "'value of the metric with the weights named'",
        },
    ),
    **{
        f"{method}-evaluation": (
            f"{method}.evaluation",
            {
                **dict.fromkeys(("enc-self", "dec-self", "cross"), _OPEN),
                _OTHERS: "'value of the metric'",
            },
        )
        for method in ("gates", "dsp")
    },
}


@dataclass(frozen=True)
class Explained:
    """What the page says of a table's columns.

    Attributes
    ----------
    name, caption
        Of the table.
    source
        The table of the run, as ``docs/tables.md`` calls it.
    lines
        Titles that mean the same, and what they mean.
    """

    name: str
    caption: str
    source: str
    lines: list[tuple[str, str]]


def explain(table: DataTable) -> DataTable:
    """Return a table whose columns say what they mean.

    Parameters
    ----------
    table
        A table of the page.
    """
    seen: dict[str, int] = {}
    columns = []
    for column in table.columns:
        turn = seen[column.title] = seen.get(column.title, -1) + 1
        columns.append(replace(column, about=_about(table.name, column, turn)))
    return replace(table, columns=columns)


def _source(name: str) -> tuple[str, Mapping[str, str | tuple[str, ...]]]:
    return _SOURCES.get(name, (name.replace("-", "_"), {}))


def _about(name: str, column: Column, turn: int) -> str:
    """What a column means; empty where nothing is known of it."""
    source, titles = _source(name)
    known = titles.get(column.title)
    if known is None and _meaning(source, column.title.replace(" ", "_")) == "":
        known = titles.get(_OTHERS)
    if isinstance(known, tuple):
        known = known[turn]
    if known is not None and known.startswith("'"):
        return known.strip("'")
    wanted = (known or column.title.replace(" ", "_")).split()[0]
    text = _meaning(source, wanted).replace("lower end of the interval", "interval")
    text = text.replace("lower end of its interval", f"interval of `{wanted.removesuffix('_low')}`")
    for title, one in titles.items():  # other columns by the names that they have here
        if isinstance(one, str) and " " not in one and title != _OTHERS:
            text = text.replace(f"`{one}`", title)
    return text.replace("`", "")


def _meaning(source: str, name: str) -> str:
    table, _, column = name.rpartition(".")
    if (table or source) not in TABLES:
        return ""
    found = [one.meaning for one in TABLES[table or source].columns if one.name == column]
    return found[0] if found else ""


def explanations(tables: list[DataTable]) -> list[Explained]:
    """Collect what tables say of their columns, for the end of the page.

    Parameters
    ----------
    tables
        Explained tables, in the order of the page.
    """
    found = []
    for table in tables:
        told = [column for column in table.columns if column.about]
        lines = [
            (", ".join(dict.fromkeys(column.title for column in columns)), about)
            for about, columns in groupby(told, key=lambda column: column.about)
        ]
        if lines:
            source = _source(table.name)[0]
            found.append(Explained(table.name, table.caption, source, lines))
    return found
