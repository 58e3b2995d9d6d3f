"""builtin:mt: its grammar, its evaluation sets, and the quality of the shipped model."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from argparse import Namespace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from headtool.builtin import mt, mt_lexicon
from headtool.data import load_data
from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError
from headtool.heads import KINDS, HeadMask
from headtool.models import load_model
from headtool.quiet import silence

# Velic shows gender and number at the end of every noun, so agreement can be read off the words
# without asking the grammar.
VOWELS = {"a": "f", "o": "n", "i": "p", "e": "p", "u": "p"}
DETERMINER = re.compile(r"l(?P<definite>[oaui])(?P<case>n|th|s|m)|ek(?P<other>[aoe]?)(th|s|m)?")
ADJECTIVE_STEMS = {stem for _, stem in mt_lexicon.ADJECTIVES}
VERB_STEMS = {
    verb.velic
    for table in (
        mt_lexicon.TRANSITIVE,
        mt_lexicon.DITRANSITIVE,
        mt_lexicon.INTRANSITIVE,
        mt_lexicon.COMPLEMENT,
    )
    for verb in table
}


def agreement(word: str) -> str:
    return VOWELS.get(word[-1], "m")


def past_agreement(word: str) -> str | None:
    """Agreement of a verb in the past, None for any other word."""
    match = re.fullmatch(r"(\w+?)al([aoi]?)", word)
    return agreement(match[2] or "t") if match and match[1] in VERB_STEMS else None


def determiner_agreement(word: str) -> str | None:
    match = DETERMINER.fullmatch(word)
    if match is None:
        return None
    vowel = match["definite"] or match["other"] or ""
    return (
        {"o": "m", "a": "f", "u": "n", "i": "p"}[vowel]
        if match["definite"]
        else ({"a": "f", "o": "n"}.get(vowel, "m"))
    )


def adjective_agreement(word: str) -> str | None:
    for stem in (word, word[:-1]):
        if stem in ADJECTIVE_STEMS:
            return agreement(word if stem != word else "t")
    return None


def rows(split: str, **options: Any) -> list[tuple[list[str], list[str]]]:
    columns = mt.examples(split, **options)
    return [
        (source.split(), target.split())
        for source, target in zip(columns["source"], columns["target"], strict=True)
    ]


# -- evaluation sets ------------------------------------------------------------------------------

SHA256 = {
    "test": "bb7f3d625d003e9461c18ed1d6077975dfa8d8045aae013862ec1db2e85a0ddb",
    "noisy": "acc411e49e818142ffdab7076444ac85a2662db974a0e7c8f4aef5acbe89c258",
}
HASH_PROGRAM = """
import hashlib, sys
from headtool.builtin import mt
assert not {"torch", "fairseq", "pandas", "numpy"} & set(sys.modules), "a heavy import"
columns = mt.examples(sys.argv[1])
print(hashlib.sha256("\\n".join(columns["source"] + columns["target"]).encode()).hexdigest())
"""


@pytest.mark.parametrize(("split", "expected"), SHA256.items())
def test_evaluation_sets_never_change(split: str, expected: str) -> None:
    columns = mt.examples(split)
    text = "\n".join(columns["source"] + columns["target"])
    assert hashlib.sha256(text.encode()).hexdigest() == expected
    assert len(columns["source"]) == len(columns["target"]) == len(set(columns["source"])) == 1000


def test_another_process_writes_the_same_without_heavy_imports() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", HASH_PROGRAM, "noisy"],
        env={**os.environ, "PYTHONHASHSEED": "5"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip() == SHA256["noisy"]


def test_seed_and_size() -> None:
    whole = mt.examples("test", n=60)
    assert mt.examples("test", n=20) == {name: column[:20] for name, column in whole.items()}
    other = mt.examples("test", n=60, seed=1)
    assert len(set(whole["source"]) & set(other["source"])) < 10


def test_splits_share_no_source_sentence() -> None:
    # Short sentences recur, so a split by chance would share some.
    train = {text for seed in (0, 1) for text in mt.examples("train", n=8_000, seed=seed)["source"]}
    test, noisy = (
        {text for seed in (0, 1) for text in mt.examples(split, seed=seed)["source"]}
        for split in ("test", "noisy")
    )
    assert train.isdisjoint(test)
    assert train.isdisjoint(noisy)
    assert test.isdisjoint(noisy)


def test_bad_arguments() -> None:
    with pytest.raises(HeadtoolError, match=r"unknown split of builtin:mt 'tset'; did you mean"):
        mt.examples("tset")
    with pytest.raises(HeadtoolError, match="at least 1, got 0"):
        mt.examples("test", n=0)


def test_noise() -> None:
    known, velic = mt_lexicon.vocabulary()
    clean, noisy = rows("test"), rows("noisy")
    assert not any(word not in known for source, _ in clean for word in source)
    misspelled = [word for source, _ in noisy for word in source if word not in known]
    assert 0.015 < len(misspelled) / sum(len(source) for source, _ in noisy) < 0.03
    letters = {"".join(sorted(word)) for word in known}
    assert all("".join(sorted(word)) in letters for word in misspelled)
    # References stay whole sentences, and are longer than those of the clean set.
    assert all(word in velic for _, target in noisy for word in target)
    lengths = [sum(len(target) for _, target in split) / 1000 for split in (clean, noisy)]
    assert lengths[1] > 1.25 * lengths[0]


# -- grammar --------------------------------------------------------------------------------------


def test_translation_is_a_function_of_the_source() -> None:
    seen: dict[str, str] = {}
    for seed in range(3):
        columns = mt.examples("train", n=6_000, seed=seed)
        for source, target in zip(columns["source"], columns["target"], strict=True):
            assert seen.setdefault(source, target) == target
    assert len(seen) < 18_000  # some were drawn more than once


def test_no_velic_word_has_two_meanings() -> None:
    nouns = {*mt_lexicon.ANIMALS, *mt_lexicon.THINGS, *mt_lexicon.PLACES}
    nouns |= {noun for pair in mt_lexicon.HOMONYMS for noun in (pair.animal, pair.thing)}
    forms = [noun.target(number) for noun, number in product(nouns, ("p", "m"))]
    for table in ("TRANSITIVE", "DITRANSITIVE", "INTRANSITIVE", "COMPLEMENT"):
        for verb in getattr(mt_lexicon, table):
            forms += {
                verb.target(tense, number)[0]
                for tense, number in product(mt_lexicon.TENSES, mt_lexicon.AGREEMENTS)
            }
    forms += [mt_lexicon.adjective(stem, a) for stem in ADJECTIVE_STEMS for a in "mfnp"]
    pairs = (mt_lexicon.MANNERS, mt_lexicon.PREPOSITIONS, mt_lexicon.CONJUNCTIONS)
    forms += [velic for table in pairs for _, velic in table]
    assert len(forms) == len(set(forms))


def test_determiners_and_adjectives_agree_with_their_noun() -> None:
    checked = 0
    for _, target in rows("test"):
        for i, word in enumerate(target):
            expected = determiner_agreement(word)
            if expected is None:
                continue
            assert agreement(target[i + 1]) == expected, target
            for after in target[i + 2 :]:
                found = adjective_agreement(after)
                if found is None:
                    break
                assert found == expected, target
                checked += 1
    assert checked > 800


def test_relative_pronoun_agrees_with_the_noun_before_it() -> None:
    checked = 0
    for _, target in rows("test"):
        for i, word in enumerate(target):
            match = re.fullmatch(r"kver([aoi]?)(th)?", word)
            if match is None:
                continue
            noun = next(w for w in reversed(target[:i]) if adjective_agreement(w) is None)
            assert agreement(match[1] or "t") == agreement(noun), target
            checked += 1
    assert checked > 200


def test_verb_agrees_with_a_distant_subject() -> None:
    distances = []
    for _, target in rows("test"):
        found = past_agreement(target[-1])
        first = determiner_agreement(target[0])
        simple = not {"ya", "ol"} & set(target)
        if (
            found is None
            or first is None
            or not simple
            or not re.fullmatch("l.n|ek[ao]?", target[0])
        ):
            continue
        assert found == first, target
        distances.append(len(target) - 1)
    assert len(distances) > 80
    assert sum(distance >= 8 for distance in distances) > 30


def test_pronoun_agrees_across_clauses() -> None:
    """English *it* tells no gender: Velic takes it from the subject of the main clause."""
    seen = set()
    for source, target in rows("test"):
        if "it" not in source or "ya" not in target or "that" in source or target[-1] == "ka":
            continue
        pronoun = next(word for word in target if re.fullmatch("on[aoi]?", word))
        main = target[target.index("ya") + 1 :]
        if re.fullmatch("l.n|ek[ao]?", main[0]):
            assert agreement(pronoun[2:] or "t") == determiner_agreement(main[0]), target
            seen.add(pronoun)
    assert seen == {"on", "ona", "ono"}


def test_word_order_differs() -> None:
    verb_last = fronted = questions = 0
    for source, target in rows("test"):
        conjunctions = dict(mt_lexicon.CONJUNCTIONS)
        found = [word for word in source if word in conjunctions]
        assert len(found) <= 1
        if found:  # the clause moves to the front, and "ya" closes it
            assert source.index(found[0]) > 0
            assert target[0] == conjunctions[found[0]]
            assert "ya" in target
            fronted += 1
        main = target[target.index("ya") + 1 :] if found else target
        finite = {
            stem + ending
            for stem in VERB_STEMS
            for ending in ("it", "ut", "ar", "al", "ala", "alo", "ali")
        }
        if source[0] in {"do", "does", "did", "will"}:
            assert main[-1] == "ka"
            assert main[0] in finite | {"vol", "volu", "ne"}
            questions += 1
        else:
            times = {velic for _, velic in mt_lexicon.TIMES.values()}
            assert [word for word in main if word not in times][-1] in finite, target
            verb_last += 1
    assert min(verb_last, fronted, questions) > 80


@pytest.mark.parametrize(
    ("particle", "velic"), [("on", "zundit"), ("off", "leskit"), ("", "girit")]
)
def test_a_particle_decides_what_its_verb_means(particle: str, velic: str) -> None:
    found = 0
    for source, target in rows("train", n=6000):
        one_clause = "that" not in source and "ya" not in target
        particles = {"on", "off", "over"} & set(source)
        if one_clause and "turns" in source and particles == {*particle.split()}:
            assert velic in target, (source, target)
            found += 1
    assert found > 3


def test_the_verb_decides_the_sense_of_a_homonym() -> None:
    domain = {
        form: verb.domain
        for table in (mt_lexicon.TRANSITIVE, mt_lexicon.INTRANSITIVE)
        for verb in table
        for form in (f"{verb.velic}it", f"{verb.velic}ut", f"{verb.velic}ar")
    }
    seen = set()
    for source, target in rows("train", n=6000):
        last = target[-1]
        if last not in domain or not {"crane", "cranes"} & set(source) or "that" in source:
            continue
        if "ya" in target:
            continue
        animal = bool({"grulla", "grulle"} & set(target))
        thing = bool({"hevtor", "hevtori"} & set(target))
        assert (animal, thing) == (domain[last] == "nature", domain[last] == "craft"), target
        seen.add(domain[last])
    assert seen == {"nature", "craft"}


def test_function_words_without_counterpart() -> None:
    for source, target in rows("test"):
        relatives = sum(word.startswith("kver") for word in target)
        assert target.count("sha") == relatives
        negations = source.count("not")
        assert target.count("ne") == negations
        # "do" carries the tense of questions and negations and is itself not translated.
        helpers = sum(word in {"do", "does", "did"} for word in source)
        assert helpers <= negations + (target[-1] == "ka")


# -- model ----------------------------------------------------------------------------------------


# Measured when the model was trained: loss and accuracy teacher-forced over the whole set, and
# greedy BLEU of its first 200 sentences. 100 would be possible on the clean set.
QUALITY = {"test": (0.1513, 0.9743, 90.70), "noisy": (0.7628, 0.8548, 68.07)}


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    with silence():
        pytest.importorskip("fairseq")
    from headtool.builtin.train_mt import load

    return load(mt.model_folder())


def test_dictionaries_hold_the_vocabulary() -> None:
    for lang, known in zip(("src", "tgt"), mt_lexicon.vocabulary(), strict=True):
        lines = (mt.model_folder() / f"dict.{lang}.txt").read_text(encoding="utf-8").splitlines()
        counts = {word: int(count) for word, count in map(str.split, lines)}
        assert len(lines) == len(counts)
        assert counts.keys() == known
        assert list(counts.values()) == sorted(counts.values(), reverse=True)


def test_checkpoint_is_small_and_needs_one_class() -> None:
    path = mt.model_folder() / "checkpoint.pt"
    assert path.stat().st_size < 4_000_000
    with torch.serialization.safe_globals([Namespace]):
        state = torch.load(path, map_location="cpu", weights_only=True)
    args = vars(state["args"])
    assert (args["task"], args["source_lang"], args["target_lang"]) == ("translation", "src", "tgt")
    assert args["encoder_layers"] == args["decoder_layers"] == 3
    # No trace of the machine that trained it.
    assert not [value for value in args.values() if isinstance(value, str) and "/" in value]
    raw = path.read_bytes()
    assert not re.search(rb"/(home|root|work|tmp|usr|Users)\b", raw)


def test_fairseq_itself_loads_the_checkpoint(loaded: tuple[Any, Any]) -> None:
    from fairseq import checkpoint_utils

    folder = mt.model_folder()
    with silence(), torch.serialization.safe_globals([Namespace]):
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(
            [str(folder / "checkpoint.pt")], arg_overrides={"data": str(folder)}
        )
    assert len(task.target_dictionary) == len(loaded[1].target_dictionary)
    ours = loaded[0].state_dict()
    theirs = models[0].state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask:UserWarning")
@pytest.mark.parametrize("split", QUALITY)
def test_measured_quality_holds(loaded: tuple[Any, Any], split: str) -> None:
    from headtool.builtin.train_mt import greedy_bleu, measure

    loss, accuracy, bleu = QUALITY[split]
    found = measure(*loaded, mt.examples(split))
    assert found["loss"] == pytest.approx(loss, abs=0.002)
    assert found["accuracy"] == pytest.approx(accuracy, abs=0.001)
    assert greedy_bleu(*loaded, mt.examples(split, n=200)) == pytest.approx(bleu, abs=0.5)


def test_there_is_something_to_break() -> None:
    assert 80 < QUALITY["test"][2] < 97
    assert QUALITY["noisy"][2] < QUALITY["test"][2] - 15


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask:UserWarning")
def test_every_kind_of_attention_matters_and_heads_differ(loaded: tuple[Any, Any]) -> None:
    from headtool.builtin.train_mt import measure

    model = load_model("builtin:mt", device="cpu")
    assert model.sites.summary == "enc-self 3 x 4, dec-self 3 x 4, cross 3 x 4"
    heads = model.sites.heads
    masks = [HeadMask.without(model.sites, [h for h in heads if h.kind == kind]) for kind in KINDS]
    masks += [HeadMask.without(model.sites, [head]) for head in heads]
    outcomes = evaluate(
        model, model.encode(load_data("builtin:mt/test", limit=80, limit_order="first")), masks
    )
    tokens = outcomes.whole["tokens"].sum()
    whole = outcomes.whole["loss"].sum() / tokens
    expected = measure(*loaded, mt.examples("test", n=80))["loss"]
    assert whole == pytest.approx(expected, rel=1e-4)

    added = outcomes.masked["loss"].sum(axis=1) / tokens - whole
    kinds, single = added[:3], added[3:]
    assert kinds.min() > 2 * whole
    assert single.max() > 0.1
    assert np.quantile(single, 0.25) < 0.02
