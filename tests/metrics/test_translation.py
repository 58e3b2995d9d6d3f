"""BLEU, chrF and TER: sacreBLEU's values from sums over any examples, and translations kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from headtool.analysis.assessment import assess_outcomes
from headtool.analysis.compat import compat_tests
from headtool.analysis.importance import Importance
from headtool.analysis.paired import Paired
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Head, HeadMask, Sites
from headtool.metrics.translation import BLEU, CHRF, TER, TOKENIZERS
from headtool.results.hypotheses import Hypotheses

METRICS = {"bleu": (BLEU(), sacrebleu.BLEU), "chrf": (CHRF(), sacrebleu.CHRF)}
METRICS["ter"] = (TER(), sacrebleu.TER)
WORDS = ["the", "The", "a", "crane", "it's", "(hi)", "3.5%", "naïve", "»ja«", "鶴", ".", "don't"]
SITES = Sites((AttentionSite("enc-self", 0, 2, 2, 8, "projection"),))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def corpus(rng: np.random.Generator, n: int, rate: float = 0.3) -> tuple[list[str], list[str]]:
    """Hypotheses and references; a few of either are empty, and lines keep odd spaces."""
    references, hypotheses = [], []
    for _ in range(n):
        words = [str(word) for word in rng.choice(WORDS, rng.integers(0, 14))]
        changed = [str(rng.choice(WORDS)) if rng.random() < rate else word for word in words]
        if rng.random() < rate:
            rng.shuffle(changed)
        references.append(" ".join(words))
        hypotheses.append(" ".join(w for w in changed if rng.random() > rate / 3) + "  ")
    return hypotheses, references


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.97])
def test_sums_over_any_examples_give_sacrebleus_corpus_score(
    rng: np.random.Generator, name: str, rate: float
) -> None:
    metric, theirs = METRICS[name]
    hypotheses, references = corpus(rng, 60, rate)
    statistics = metric.compare(hypotheses, references)
    assert statistics.shape == (60, len(metric.statistics))
    draws = [rng.integers(0, 60, size) for size in (1, 1, 1, 2, 2, 3, 5, 8, 40, 200)]
    sums = np.stack([statistics[rows].sum(axis=0) for rows in draws])
    values = metric.from_sums(sums)
    for value, rows in zip(values, draws, strict=True):
        chosen = [hypotheses[i] for i in rows], [[references[i] for i in rows]]
        score = theirs(force=True).corpus_score(*chosen) if name == "bleu" else None
        expected = (score or theirs().corpus_score(*chosen)).score
        if math.isnan(value):
            assert not any(text.strip() for text in chosen[1][0])
        else:
            assert value == pytest.approx(expected, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize(
    ("name", "hypothesis", "reference"),
    [
        *((name, "", "the crane") for name in METRICS),
        *((name, "x", "the crane") for name in METRICS),  # nothing in common
        *((name, "the", "the") for name in METRICS),  # shorter than the longest n-gram
        ("bleu", "the the x y z", "the a b c d"),  # orders without a match are smoothed
        ("ter", "a b c", "d"),  # above 100
        ("ter", "a b c", ""),
    ],
)
def test_edge_cases(name: str, hypothesis: str, reference: str) -> None:
    metric, theirs = METRICS[name]
    value = metric.from_sums(metric.compare([hypothesis], [reference]).sum(axis=0))
    assert value == pytest.approx(theirs().corpus_score([hypothesis], [[reference]]).score)


@pytest.mark.parametrize("name", METRICS)
def test_without_any_word_it_is_undefined(name: str) -> None:
    metric, _ = METRICS[name]
    assert math.isnan(float(metric.from_sums(metric.compare([""], [""]).sum(axis=0))))


@pytest.mark.parametrize("name", METRICS)
def test_signature_is_sacrebleus(name: str) -> None:
    metric, theirs = METRICS[name]
    scorer = theirs()
    scorer.corpus_score(["a"], [["b"]])
    assert metric.signature == f"{metric.unit.upper()}|{scorer.get_signature()}"


@pytest.mark.parametrize("tokenize", TOKENIZERS)
def test_tokenizers_are_sacrebleus(rng: np.random.Generator, tokenize: str) -> None:
    hypotheses, references = corpus(rng, 20)
    metric = BLEU(tokenize)
    theirs = sacrebleu.BLEU(tokenize=tokenize, force=True)
    value = metric.from_sums(metric.compare(hypotheses, references).sum(axis=0))
    assert value == pytest.approx(theirs.corpus_score(hypotheses, [references]).score)
    assert metric.signature == f"BLEU|{theirs.get_signature()}"


def test_an_unknown_tokenizer_suggests_the_nearest() -> None:
    with pytest.raises(HeadtoolError, match="unknown tokenizer '13'; did you mean '13a'"):
        BLEU("13")


def test_texts_of_unequal_number_are_refused() -> None:
    with pytest.raises(ValueError, match="1 hypotheses for 2 references"):
        BLEU().compare(["a"], ["a", "b"])


# --- translations of masked models ---------------------------------------------------------------


def masked_corpus(rng: np.random.Generator, n: int = 80) -> tuple[Hypotheses, list[str]]:
    whole, references = corpus(rng, n, 0.2)
    worse, _ = zip(*(corpus(rng, 1, 0.9) for _ in range(n)), strict=True)
    changed = tuple(
        w[0] if rng.random() < 0.4 else text for w, text in zip(worse, whole, strict=True)
    )
    masks = tuple(HeadMask.without(SITES, [head]) for head in SITES.heads)
    return Hypotheses(masks, tuple(whole), (changed, tuple(whole))), references


@pytest.mark.parametrize("name", METRICS)
def test_outcomes_of_translations(rng: np.random.Generator, name: str) -> None:
    metric, _ = METRICS[name]
    hypotheses, references = masked_corpus(rng)
    outcomes = hypotheses.outcomes(references, metric)
    assert set(outcomes.whole) == set(metric.statistics)
    for texts, columns in (
        (hypotheses.whole, outcomes.whole),
        (hypotheses.masked[0], outcomes.row(0)),
        (hypotheses.masked[1], outcomes.row(1)),
    ):
        assert metric.per_example(columns).tolist() == metric.compare(texts, references).tolist()


def test_translations_survive_being_written_and_read(rng: np.random.Generator, tmp_path) -> None:
    import pandas as pd

    hypotheses, _ = masked_corpus(rng)
    frame = hypotheses.to_frame()
    assert (frame["mask"] == "").sum() == 80
    assert not (frame["mask"] == str(SITES.heads[1])).any()  # it changes no sentence
    frame.to_parquet(tmp_path / "h.parquet", index=False)
    again = Hypotheses.from_frame(
        pd.read_parquet(tmp_path / "h.parquet"), hypotheses.masks, examples=len(hypotheses.whole)
    )
    assert again == hypotheses


@pytest.mark.parametrize("name", METRICS)
def test_every_statistic_works_on_them(rng: np.random.Generator, name: str) -> None:
    metric, _ = METRICS[name]
    hypotheses, references = masked_corpus(rng)
    outcomes = hypotheses.outcomes(references, metric)
    tests = assess_outcomes(outcomes, metric, resamples=2000)
    worse, same = tests.frame.to_dict("records")
    assert tests.margin == 1.0  # a point
    assert worse["verdict"] == "needed"
    assert worse["delta"] == pytest.approx(
        metric.compute(outcomes.row(0)) - metric.compute(outcomes.whole)
    )
    assert worse["ci_low"] < worse["delta"] < worse["ci_high"]
    jackknife = metric.jackknife_stderr(outcomes.row(0), outcomes.whole)
    assert worse["stderr"] == pytest.approx(jackknife)
    assert (same["delta"], same["p"], same["n_differing"]) == (0.0, 1.0, 0)
    # TER's denominators, the references' words, are the same for every mask: it is a mean.
    assert tests.test == ("sign-flip" if name == "ter" else "randomisation")
    importance = Importance.from_outcomes("dev", outcomes, metric)
    scores = importance.bootstrap(resamples=200, rng=rng)
    assert scores[:, 0].std() == pytest.approx(jackknife, rel=0.25)
    assert (scores[:, 1] == 0).all()


@pytest.mark.parametrize("kind", ["bs", "ar"])
def test_sacrebleus_own_tests_give_its_numbers(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    hypotheses, references = masked_corpus(rng)
    systems = [("whole", list(hypotheses.whole)), ("masked", list(hypotheses.masked[0]))]
    for name, (metric, theirs) in METRICS.items():
        _, scores = PairedTest(
            systems, {name: theirs()}, [references], test_type=kind, n_samples=200
        )()
        (found,) = (results for key, results in scores.items() if key != "System")
        outcomes = hypotheses.outcomes(references, metric)
        tests = compat_tests(
            Paired.from_outcomes(outcomes, metric), f"sacrebleu-paired-{kind}", resamples=200
        )
        assert tests.frame["p"].iloc[0] == found[1].p_value


def test_heads_of_the_masks_are_those_of_the_table(rng: np.random.Generator) -> None:
    hypotheses, references = masked_corpus(rng)
    frame = hypotheses.outcomes(references, BLEU()).to_frame()
    assert frame["mask"].cat.categories.tolist() == ["", "enc-self.0.0", "enc-self.0.1"]
    assert Head.parse("enc-self.0.1") == hypotheses.masks[1].closed[0]
