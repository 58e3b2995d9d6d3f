"""F1 of the entities that tags mark."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from headtool.metrics.base import Array, Columns, Metric, column, ratio

__all__ = ["EntityF1", "mark_entities"]

_TAG = re.compile(r"O|[BIES](-.*)?", re.DOTALL)


def mark_entities(labels: Iterable[str]) -> bool:
    """Whether all labels are tags of entities: ``O``, or ``B-``, ``I-``, ``E-``, ``S-`` and a type.

    Parameters
    ----------
    labels
        Names of classes.

    Examples
    --------
    >>> from headtool.metrics.tagging import mark_entities
    >>> mark_entities(["O", "B-PER", "I-PER"]), mark_entities(["NOUN", "VERB"])
    (True, False)
    """
    return all(_TAG.fullmatch(label) for label in labels)


class EntityF1(Metric):
    """F1 over the entities of all examples: 2 * right / (predicted + gold).

    An entity is right if type, first and last token are. The value is seqeval's ``f1_score``
    (micro average, its default mode). NaN where there is no entity, neither predicted nor gold
    (seqeval warns and reports 0). It is a figure of the corpus: the statistics of an example are
    its counts.

    References
    ----------
    Tjong Kim Sang and De Meulder (2003), Introduction to the CoNLL-2003 Shared Task.
    """

    name = "f1"
    unit = "entity F1"
    higher_is_better = True
    tasks = ("token-classification",)

    def per_example(self, columns: Columns) -> Array:
        """Return [right, predicted, gold], entities of each example."""
        names = ("entities_right", "entities_predicted", "entities_gold")
        return np.stack([column(columns, name) for name in names], axis=1)

    def from_sums(self, sums: Array) -> Array:
        """Return 2 * right / (predicted + gold)."""
        return ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])
