"""Exact match and F1 of answers, against the official script of SQuAD."""

from __future__ import annotations

import re
import string
from collections import Counter

import numpy as np

from headtool.metrics.questions import answer_scores

WORDS = ("the", "a", "The", "Seine", "seine,", "river", "42", "-", "an", "Paris.", "l'eau")


def official_answer(text: str) -> str:
    """`normalize_answer` of the official evaluation script, version 2.0."""

    def remove_articles(text: str) -> str:
        return re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", text)

    def white_space_fix(text: str) -> str:
        return " ".join(text.split())

    def remove_punc(text: str) -> str:
        exclude = set(string.punctuation)
        return "".join(ch for ch in text if ch not in exclude)

    return white_space_fix(remove_articles(remove_punc(text.lower())))


def official_f1(gold: str, predicted: str) -> float:
    """`compute_f1` of the official evaluation script, version 2.0."""
    gold_tokens, tokens = official_answer(gold).split(), official_answer(predicted).split()
    num_same = sum((Counter(gold_tokens) & Counter(tokens)).values())
    if len(gold_tokens) == 0 or len(tokens) == 0:
        return int(gold_tokens == tokens)
    if num_same == 0:
        return 0
    precision, recall = num_same / len(tokens), num_same / len(gold_tokens)
    return (2 * precision * recall) / (precision + recall)


def test_scores_are_those_of_the_official_script() -> None:
    rng = np.random.default_rng(0)

    def text() -> str:
        return " ".join(rng.choice(WORDS, size=rng.integers(0, 4)))

    for _ in range(300):
        answer, references = text(), [text() for _ in range(rng.integers(0, 4))]
        # `get_raw_scores`: references that normalise to nothing are left out; none of them: "".
        golds = [gold for gold in references if official_answer(gold)] or [""]
        exact = max(int(official_answer(gold) == official_answer(answer)) for gold in golds)
        f1 = max(official_f1(gold, answer) for gold in golds)
        found = answer_scores(answer, references)
        np.testing.assert_allclose(found, (exact, f1), err_msg=f"{answer!r} {references}")
