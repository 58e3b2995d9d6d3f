"""Compatibility modes: sacreBLEU's own numbers, and a literal compare-mt loop."""

from __future__ import annotations

import numpy as np
import pytest
import sacrebleu
import scipy.stats
from sacrebleu.significance import PairedTest

from headtool.analysis import compat
from headtool.analysis.compat import COMPAT_MODES, compat_tests
from headtool.analysis.paired import Paired
from headtool.errors import HeadtoolError
from headtool.metrics.translation import BLEU
from headtool.schema import TABLES

from ..support.bleu import sentences

WORDS = [*"abcdefghijklmnopqrst"]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(61)


def translations(rng: np.random.Generator) -> tuple[list[str], list[list[str]]]:
    """References, and outputs of four systems of decreasing quality; the last equals the first."""

    def noisy(words: list[str], rate: float) -> str:
        kept = [rng.choice(WORDS) if rng.random() < rate else word for word in words]
        return " ".join(word for word in kept if rng.random() > rate / 4) or "a"

    references = [list(rng.choice(WORDS, rng.integers(5, 18))) for _ in range(90)]
    systems = [[noisy(words, rate) for words in references] for rate in (0.2, 0.22, 0.3)]
    return [" ".join(words) for words in references], [*systems, systems[0]]


def paired_bleu(references: list[str], systems: list[list[str]]) -> Paired:
    metric = sacrebleu.BLEU(references=[references])
    statistics = [np.array(metric._extract_corpus_statistics(s, None)) for s in systems]
    whole, masked = statistics[0], np.stack(statistics[1:])
    return Paired(whole, masked, BLEU().from_sums, higher_is_better=True, name="bleu")


@pytest.mark.parametrize("rows", [None, 50])
@pytest.mark.parametrize("kind", ["bs", "ar"])
def test_sacrebleu_modes_give_sacrebleus_numbers(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, kind: str, rows: int | None
) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    if rows:
        monkeypatch.setattr(compat, "block_rows", lambda paired: rows)
    references, systems = translations(rng)
    named = [(str(number), system) for number, system in enumerate(systems)]
    resamples = 300
    _, scores = PairedTest(
        named, {"BLEU": sacrebleu.BLEU()}, [references], test_type=kind, n_samples=resamples
    )()
    theirs = scores["BLEU"]
    paired = paired_bleu(references, systems)
    assert paired.whole_value == pytest.approx(theirs[0].score, rel=1e-12)
    tests = compat_tests(paired, f"sacrebleu-paired-{kind}", resamples=resamples)
    assert tests.frame["p"].tolist() == [result.p_value for result in theirs[1:]]
    assert 0 < tests.frame["p"].iloc[0] < 1
    assert tests.frame["p"].iloc[2] == 1 / (resamples + 1)  # sacreBLEU's p for equal systems
    if kind == "bs":
        means = [result.mean for result in theirs[1:]]
        # sacreBLEU computes in single precision; counts, and so p-values, are the same.
        np.testing.assert_allclose(tests.frame["mean"], means, rtol=1e-8)
        np.testing.assert_allclose(tests.frame["ci"], [r.ci for r in theirs[1:]], rtol=1e-6)
    else:
        assert tests.frame["mean"].isna().all()


def sacrebleus(
    references: list[str], systems: list[list[str]], kind: str, resamples: int
) -> list[float | None]:
    named = [(str(number), system) for number, system in enumerate(systems)]
    _, scores = PairedTest(
        named, {"BLEU": sacrebleu.BLEU()}, [references], test_type=kind, n_samples=resamples
    )()
    return [result.p_value for result in scores["BLEU"][1:]]


@pytest.mark.parametrize("kind", ["bs", "ar"])
def test_sacrebleu_modes_take_the_seed_as_sacrebleu_does(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    references, systems = translations(rng)
    paired, mode = paired_bleu(references, systems), f"sacrebleu-paired-{kind}"
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    default = compat_tests(paired, mode, resamples=400)
    assert default.seed == 12345
    assert default.frame["p"].tolist() == sacrebleus(references, systems, kind, 400)
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    seven = compat_tests(paired, mode, resamples=400)
    assert seven.seed == 7
    assert seven.frame["p"].tolist() == sacrebleus(references, systems, kind, 400)
    assert compat_tests(paired, mode, resamples=400, seed=12345).frame.equals(default.frame)
    for unseeded in ("0", "none", "None"):
        monkeypatch.setenv("SACREBLEU_SEED", unseeded)
        assert compat_tests(paired, mode, resamples=10).seed is None
    monkeypatch.delenv("SACREBLEU_SEED")
    drawn = [compat_tests(paired, mode, resamples=400, seed=0) for _ in range(6)]
    assert {tests.seed for tests in drawn} == {None}
    assert len({tests.frame["p"].iloc[0] for tests in drawn}) > 1
    monkeypatch.setenv("SACREBLEU_SEED", "0")
    assert len({sacrebleus(references, systems, kind, 400)[0] for _ in range(6)}) > 1  # it too
    monkeypatch.setenv("SACREBLEU_SEED", "seven")
    with pytest.raises(HeadtoolError, match="SACREBLEU_SEED must be a whole number or none, got"):
        compat_tests(paired, mode, resamples=10)


def test_defaults_are_those_of_the_tools(rng: np.random.Generator) -> None:
    paired = sentences(rng, masks=1, n=20, changed=0.5)
    defaults = {mode: compat_tests(paired, mode).resamples for mode in COMPAT_MODES}
    assert defaults == {
        "compare-mt-without-replacement": 1_000,
        "compare-mt-with-replacement": 1_000,
        "sacrebleu-paired-bs": 1_000,
        "sacrebleu-paired-ar": 10_000,
    }


@pytest.mark.parametrize("replace", [False, True])
def test_compare_mt_equals_a_literal_loop(rng: np.random.Generator, replace: bool) -> None:
    paired = sentences(rng, masks=2, n=51, changed=0.5)
    mode = f"compare-mt-{'with' if replace else 'without'}-replacement"
    tests = compat_tests(paired, mode, resamples=200, seed=4)
    for mask, p in enumerate(tests.frame["p"]):
        legacy = np.random.RandomState(4)
        ids, wins = list(range(51)), [0, 0]
        for _ in range(200):
            if replace:
                sample = legacy.choice(ids, size=25, replace=True)
            else:
                legacy.shuffle(ids)
                sample = np.array(ids[:25])
            left = paired.value(paired.whole[sample].sum(axis=0))
            right = paired.value(paired.masked[mask, sample].sum(axis=0))
            wins[0] += bool(left > right)
            wins[1] += bool(left < right)
        assert p == pytest.approx(1 - max(wins) / 200, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["compare-mt-without-replacement", "compare-mt-with-replacement"])
def test_stated_two_sided_levels_of_compare_mt(rng: np.random.Generator, mode: str) -> None:
    """Under the null, the share of trials below .01, by the normal two-sided level it states."""
    trials, n = 4_000, 400
    paired = Paired.from_values(np.zeros(n), rng.normal(size=(trials, n)), higher_is_better=True)
    tests = compat_tests(paired, mode, resamples=2_000)
    share = (tests.frame["p"] < 0.01).mean()
    spread = np.sqrt(tests.two_sided_level / trials)
    assert share == pytest.approx(tests.two_sided_level, abs=4 * spread)
    factor = np.sqrt(2) if mode.endswith("with-replacement") else 1
    normal = 2 * scipy.stats.norm.sf(scipy.stats.norm.isf(0.01) * factor)
    if mode == "compare-mt-without-replacement":
        assert tests.two_sided_level == pytest.approx(normal, rel=0.01)


def test_table_and_errors(rng: np.random.Generator) -> None:
    paired = sentences(rng, masks=2, n=20, changed=0.5)
    tests = compat_tests(paired, "sacrebleu-paired-bs", resamples=50)
    assert tuple(tests.frame.columns) == TABLES["compat_tests"].names
    assert tests.frame["mode"].unique().tolist() == ["sacrebleu-paired-bs"]
    none = Paired(paired.whole, paired.masked[:0], paired.value, higher_is_better=True)
    for mode in COMPAT_MODES:
        empty = compat_tests(none, mode, resamples=50).frame
        assert tuple(empty.columns) == TABLES["compat_tests"].names
        assert len(empty) == 0
    with pytest.raises(HeadtoolError, match="unknown compatibility mode 'sacrebleu-bs'"):
        compat_tests(paired, "sacrebleu-bs")
    with pytest.raises(HeadtoolError, match="`resamples` must be at least 1, got -5"):
        compat_tests(paired, "sacrebleu-paired-bs", resamples=-5)
