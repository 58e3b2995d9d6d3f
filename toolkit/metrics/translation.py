"""Metrics of generated text: BLEU, chrF and TER from sacreBLEU's statistics of sentences, ROUGE.

sacreBLEU counts n-grams, characters and edits, and every score here equals its corpus score. What
is new is that sums of the counts become values for any number of resamples at once. ROUGE is a mean
over texts, whose scores are those of the package rouge-score; so are exact match and F1 of answers,
by the official evaluation of SQuAD. Texts are translations, summaries, or what a language model
writes after a prompt.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np

from headtool.errors import HeadtoolError, unknown
from headtool.metrics.base import Array, Columns, Metric, column, ratio
from headtool.metrics.questions import answer_scores

__all__ = [
    *("BLEU", "CHRF", "TER", "Rouge1", "Rouge2", "RougeL", "WrittenF1", "WrittenMatch"),
    *("TOKENIZERS", "TRANSLATION_METRICS", "TranslationMetric"),
]

TOKENIZERS = ("13a", "intl", "zh", "char", "none")
"""sacreBLEU's tokenizers that need no further package and no download."""


class TranslationMetric(Metric):
    """Compare hypotheses with one reference each.

    The raw columns of these metrics are their sufficient statistics, named in `statistics`; a model
    does not return them, `compare` computes them from texts.
    """

    higher_is_better = True
    tasks: ClassVar[tuple[str, ...]] = ("seq2seq", "causal-lm")
    statistics: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def signature(self) -> str:
        """What to report with a score: the settings and version of what computes it."""

    @abstractmethod
    def _statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> Any:
        """Return the statistics of one text or more, [N, k]."""

    def compare(self, hypotheses: Sequence[str], references: Sequence[str]) -> Array:
        """Return the statistics of sentences.

        Parameters
        ----------
        hypotheses, references
            N detokenised texts each.

        Returns
        -------
        ndarray
            Shape [N, k], in the order of `statistics`.
        """
        if len(hypotheses) != len(references):
            raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
        if not hypotheses:
            return np.empty((0, len(self.statistics)))
        return np.array(self._statistics(hypotheses, references), dtype=np.float64)

    def per_example(self, columns: Columns) -> Array:
        """Return the statistics, shape [examples, k]."""
        return np.stack([column(columns, name) for name in self.statistics], axis=1)


class _SacreMetric(TranslationMetric):
    """A metric of sacreBLEU."""

    @abstractmethod
    def _scorer(self) -> Any:
        """Make sacreBLEU's metric."""

    def _statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> Any:
        return self._scorer()._extract_corpus_statistics(list(hypotheses), [list(references)])

    @property
    def signature(self) -> str:
        """The signature that sacreBLEU asks to report with a score: its settings and version."""
        scorer = self._scorer()
        scorer.num_refs = 1
        return f"{type(scorer).__name__}|{scorer.get_signature().format()}"


@dataclass(frozen=True)
class BLEU(_SacreMetric):
    """BLEU of a corpus, from 0 to 100: case kept, exponential smoothing.

    Without a common word it is 0; without any word in hypotheses and references it is NaN, where
    sacreBLEU says 0.

    Attributes
    ----------
    tokenize
        One of `TOKENIZERS`, by sacreBLEU's names: ``13a`` for languages with spaces, ``zh`` for
        Chinese, ``char`` for others without.

    References
    ----------
    Papineni et al. (2002), BLEU: a method for automatic evaluation of machine translation.
    Post (2018), A call for clarity in reporting BLEU scores.
    """

    tokenize: str = "13a"

    name: ClassVar[str] = "bleu"
    unit: ClassVar[str] = "BLEU"
    statistics: ClassVar[tuple[str, ...]] = (
        "bleu_length",
        "bleu_reference_length",
        *(f"bleu_{count}_{order}" for count in ("matches", "total") for order in (1, 2, 3, 4)),
    )

    def __post_init__(self) -> None:
        if self.tokenize not in TOKENIZERS:
            raise unknown("tokenizer", self.tokenize, TOKENIZERS)

    def _scorer(self) -> Any:
        import sacrebleu

        # It would warn of references that are tokenised, once per call.
        return sacrebleu.BLEU(tokenize=self.tokenize, force=True)

    def from_sums(self, sums: Array) -> Array:
        """Return the brevity penalty times the geometric mean of the four precisions."""
        length, reference = sums[..., 0], sums[..., 1]
        matches, total = sums[..., 2:6], sums[..., 6:10]
        defined = (matches[..., 0] > 0) & (total[..., 3] > 0)
        # An order without matches counts as half a match; the next such order as a quarter.
        smoothed = np.where(matches > 0, matches, 0.5 ** np.cumsum(matches == 0, axis=-1))
        precisions = 100.0 * smoothed / np.where(total > 0, total, 1.0)
        brevity = np.minimum(0.0, 1.0 - reference / np.where(length > 0, length, 1.0))
        score = np.exp(brevity) * np.exp(np.log(precisions).mean(axis=-1))
        return np.where(length + reference > 0, np.where(defined, score, 0.0), np.nan)


class CHRF(_SacreMetric):
    """Character n-gram F-score of a corpus (chrF2), from 0 to 100: orders 1 to 6, no word orders.

    Precision and recall are means over the orders that hypotheses and references have. Without any
    character in the references it is NaN, where sacreBLEU says 0.

    References
    ----------
    Popović (2015), chrF: character n-gram F-score for automatic MT evaluation.
    """

    name = "chrf"
    unit = "chrF"
    statistics = tuple(
        f"chrf_{count}_{order}"
        for order in (1, 2, 3, 4, 5, 6)
        for count in ("total", "reference_total", "matches")
    )

    def _scorer(self) -> Any:
        import sacrebleu

        return sacrebleu.CHRF()

    def from_sums(self, sums: Array) -> Array:
        """Return the F2-score of the mean precision and the mean recall."""
        total, reference, matches = sums[..., 0::3], sums[..., 1::3], sums[..., 2::3]
        counts = (total > 0) & (reference > 0)
        orders = np.maximum(1, counts.sum(axis=-1))
        precision, recall = (
            np.where(counts, matches / np.where(counts, size, 1.0), 0.0).sum(axis=-1) / orders
            for size in (total, reference)
        )
        weighted = 4 * precision + recall
        score = 100 * 5 * precision * recall / np.where(weighted > 0, weighted, 1.0)
        return np.where(reference[..., 0] > 0, score, np.nan)


class TER(_SacreMetric):
    """Translation edit rate of a corpus in percent: edits and shifts per word of the references.

    Lower is better, and it may exceed 100. Case is ignored, as by tercom. Without any word in the
    references it is 100 if there are edits, as in sacreBLEU; without edits either it is NaN, where
    sacreBLEU says 0.

    References
    ----------
    Snover et al. (2006), A study of translation edit rate with targeted human annotation.
    """

    name = "ter"
    unit = "TER"
    higher_is_better = False
    statistics = ("ter_edits", "ter_reference_length")

    def _scorer(self) -> Any:
        import sacrebleu

        return sacrebleu.TER()

    def from_sums(self, sums: Array) -> Array:
        """Return 100 * edits / words of the references."""
        edits, words = sums[..., 0], sums[..., 1]
        rate = 100.0 * edits / np.where(words > 0, words, 1.0)
        nothing = np.where(edits > 0, 100.0, np.nan)
        return np.where(words > 0, rate, nothing)


class _Rouge(TranslationMetric):
    """Mean over texts of ROUGE's F1, from 0 to 1, as the package rouge-score has it.

    Without stemming. Words are runs of the letters a to z and digits, in lower case, so texts in
    other scripts score 0.

    References
    ----------
    Lin (2004), ROUGE: A Package for Automatic Evaluation of Summaries.
    """

    def _scorer(self) -> Any:
        try:
            from rouge_score.rouge_scorer import RougeScorer
        except ModuleNotFoundError as error:
            raise HeadtoolError(
                f"`metric` {self.name} needs the package {error.name}; pip install headtool[rouge]"
            ) from error
        return RougeScorer([self.name])

    def _statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> Any:
        scorer = self._scorer()
        return [
            [scorer.score(reference, hypothesis)[self.name].fmeasure, 1.0]
            for hypothesis, reference in zip(hypotheses, references, strict=True)
        ]

    @property
    def signature(self) -> str:
        """Name, settings and the version of rouge-score."""
        self._scorer()
        return f"{self.name}|stemmer:no|version:{version('rouge-score')}"

    def from_sums(self, sums: Array) -> Array:
        """Return the mean F1."""
        return ratio(sums[..., 0], sums[..., 1])


class Rouge1(_Rouge):
    """ROUGE-1: F1 of words."""

    name = "rouge1"
    unit = "ROUGE-1"
    statistics = ("rouge1_f1", "rouge1_texts")


class Rouge2(_Rouge):
    """ROUGE-2: F1 of pairs of neighbouring words."""

    name = "rouge2"
    unit = "ROUGE-2"
    statistics = ("rouge2_f1", "rouge2_texts")


class RougeL(_Rouge):
    """ROUGE-L: F1 of the longest common subsequence of words."""

    name = "rougeL"
    unit = "ROUGE-L"
    statistics = ("rougeL_f1", "rougeL_texts")


class WrittenMatch(TranslationMetric):
    """Share of prompts after which the model writes the answer, and nothing else.

    Case, punctuation and English articles do not count; see `answer_scores`.

    References
    ----------
    Rajpurkar et al. (2016), SQuAD: 100,000+ Questions for Machine Comprehension of Text, sec. 6.
    """

    name = "em"
    unit = "share of prompts"
    tasks = ("causal-lm",)
    statistics = ("written_em", "written_texts")

    @property
    def signature(self) -> str:
        """Name and definition."""
        return f"{self.name}|squad"

    def _statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> Any:
        pairs = zip(hypotheses, references, strict=True)
        return [[self._value(*answer_scores(text, [answer])), 1.0] for text, answer in pairs]

    def _value(self, exact: float, f1: float) -> float:
        return exact

    def from_sums(self, sums: Array) -> Array:
        """Return the mean."""
        return ratio(sums[..., 0], sums[..., 1])


class WrittenF1(WrittenMatch):
    """Mean over prompts of the F1 of the words that the model writes; see `answer_scores`.

    References
    ----------
    Rajpurkar et al. (2016), SQuAD: 100,000+ Questions for Machine Comprehension of Text, sec. 6.
    """

    name = "f1"
    unit = "mean F1"
    statistics = ("written_f1", "written_texts")

    def _value(self, exact: float, f1: float) -> float:
        return f1


TRANSLATION_METRICS = tuple(
    metric.name for metric in (BLEU, CHRF, TER, Rouge1, Rouge2, RougeL, WrittenMatch, WrittenF1)
)
