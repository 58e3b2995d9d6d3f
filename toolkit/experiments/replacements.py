"""Several replacements of closed heads, side by side: which are asked for, and how alike they are.

Nothing heavy is imported, so that ``--help`` stays quick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headtool.errors import HeadtoolError, unknown

if TYPE_CHECKING:
    import pandas as pd

    from headtool.methods.base import Method
    from headtool.reports.results import HeadScores

__all__ = ["Variant", "asked_variants", "check_replacements", "side_by_side"]


def check_replacements(first: str, beside: Sequence[str]) -> None:
    """Refuse further replacements that there are not, or that are named twice.

    Parameters
    ----------
    first
        The replacement that stands everywhere.
    beside
        Those that are shown beside it.

    Raises
    ------
    HeadtoolError
        Naming the replacement.
    """
    if isinstance(beside, str):
        raise HeadtoolError(f"`beside` is a list, got '{beside}'; give ['{beside}']")
    if not beside:
        return
    from headtool.engine.replacement import REPLACEMENTS  # torch

    for name in beside:
        if name not in REPLACEMENTS:
            raise unknown("replacement", name, REPLACEMENTS)
    if len({first, *beside}) <= len(beside):
        raise HeadtoolError(
            f"`replacement` names one twice: {','.join((first, *beside))}; leave it out"
        )


@dataclass(frozen=True)
class Variant:
    """A method to score by, perhaps once more with another replacement.

    Attributes
    ----------
    method
        The method, with this replacement.
    replacement
        The further replacement; empty for the first, or for methods that take none.
    """

    method: Method
    replacement: str = ""

    @property
    def name(self) -> str:
        """What its part of the work is called."""
        return f"{self.method.name}.{self.replacement}" if self.replacement else self.method.name


def asked_variants(
    methods: Sequence[Method], replacement: str | None, beside: Sequence[str]
) -> list[Variant]:
    """Set the replacement of the methods that take one, and repeat these for further ones.

    Parameters
    ----------
    methods
        The methods.
    replacement
        What closed heads put out; None: as the methods are set.
    beside
        Further replacements.

    Raises
    ------
    HeadtoolError
        If no method takes a replacement, or one of them not this one.
    """
    if replacement is None and not beside:
        return [Variant(method) for method in methods]
    if not any(method.replaced_by for method in methods):
        names = ",".join(method.name for method in methods)
        raise HeadtoolError(f"`replacement` has no effect on {names}; leave it out")
    found = []
    for method in methods:
        option = method.replaced_by
        if not option:
            found.append(Variant(method))
            continue
        given = getattr(method, option)
        (default,) = (one.default for one in method.options() if one.name == option)
        if replacement is not None and given not in (default, replacement):
            raise HeadtoolError(
                f"`replacement` {replacement} and {method.name}.{option} {given} exclude each "
                "other; leave one out"
            )
        check_replacements(replacement or given, beside)
        if beside and getattr(method, "screen", None) is not None:
            raise HeadtoolError(
                f"{method.name}.screen chooses heads with one replacement, and `replacement` "
                "names several; leave one out, or use headtool ablate --screen"
            )
        found.append(Variant(replace(method, **{option: replacement or given})))
        found += [Variant(replace(method, **{option: name}), name) for name in beside]
    return found


def side_by_side(
    results: Sequence[HeadScores], beside: Mapping[str, Sequence[HeadScores]]
) -> dict[str, pd.DataFrame]:
    """Put scores under several replacements side by side, with how alike they are.

    Parameters
    ----------
    results
        The scores of each method, with its first replacement.
    beside
        By further replacement, the scores of those that take one.

    Returns
    -------
    dict
        The tables ``replacement_scores``, ``replacement_score_agreement`` and, where ``ablation``
        is among the methods, ``replacement_agreement``; empty for one replacement alone.
    """
    from headtool.analysis.replacements import agreement_of_scores, replacement_agreement
    from headtool.metrics import metric_of_run
    from headtool.schema import TABLES

    if not beside:
        return {}
    scores, agreements, tables = [], [], {}
    for result in results:
        others = {
            name: one
            for name, found in beside.items()
            for one in found
            if one.method == result.method
        }
        if not others:
            continue
        options = result.provenance["options"]
        first = options["replacement"] if "replacement" in options else options["baseline"]
        each = {first: result, **others}
        scores += [one.frame.assign(replacement=name) for name, one in each.items()]
        agreements.append(agreement_of_scores({name: one.frame for name, one in each.items()}))
        outcomes = {name: one.outcomes for name, one in each.items() if one.outcomes is not None}
        if outcomes:
            metric = metric_of_run(result.provenance)
            tables["replacement_agreement"] = replacement_agreement(outcomes, metric)
    joined = TABLES["replacement_scores"].joined(scores)
    return {
        "replacement_scores": joined,
        "replacement_score_agreement": TABLES["replacement_score_agreement"].joined(agreements),
        **tables,
    }
