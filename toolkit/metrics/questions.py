"""Exact match and F1 of answers, as the official evaluation of SQuAD computes them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from headtool.metrics.base import Array, Columns, Metric, column, ratio

__all__ = ["AnswerF1", "ExactMatch", "answer_scores"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def answer_scores(answer: str, references: Sequence[str]) -> tuple[float, float]:
    """Compare an answer with the references: exact match and F1 of words, the best of each.

    Case, punctuation and English articles do not count. A question without references is one that
    has no answer, and "" is right.

    Parameters
    ----------
    answer
        The answer.
    references
        What is right; none: nothing.

    Returns
    -------
    exact, f1
        From 0 to 1.

    Examples
    --------
    >>> from headtool.metrics.questions import answer_scores
    >>> answer_scores("the Seine", ["Seine river", "a Seine!"]), answer_scores("", [])
    ((1.0, 1.0), (1.0, 1.0))
    """
    words = _words(answer)
    wanted = [found for text in references if (found := _words(text))] or [[]]
    exact = max(float(words == reference) for reference in wanted)
    return exact, max(_f1(words, reference) for reference in wanted)


def _words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def _f1(words: list[str], reference: list[str]) -> float:
    if not words or not reference:
        return float(words == reference)
    common = (Counter(words) & Counter(reference)).total()
    return 2 * common / (len(words) + len(reference))


class _OfAnswers(Metric):
    """The mean of a value that every question has."""

    is_mean = True
    higher_is_better = True
    tasks = ("question-answering",)

    def per_example(self, columns: Columns) -> Array:
        """Return [value, 1]."""
        values = column(columns, f"answer_{self.name}")
        return np.stack([values, np.ones(len(values))], axis=1)

    def from_sums(self, sums: Array) -> Array:
        """Return the mean."""
        return ratio(sums[..., 0], sums[..., 1])


class ExactMatch(_OfAnswers):
    """Share of questions whose answer is one of the references; see `answer_scores`.

    References
    ----------
    Rajpurkar et al. (2016), SQuAD: 100,000+ Questions for Machine Comprehension of Text, sec. 6.
    """

    name = "em"
    unit = "share of questions"


class AnswerF1(_OfAnswers):
    """Mean over questions of the F1 of the answer's words; see `answer_scores`.

    References
    ----------
    Rajpurkar et al. (2016), SQuAD: 100,000+ Questions for Machine Comprehension of Text, sec. 6.
    """

    name = "f1"
    unit = "mean F1"
