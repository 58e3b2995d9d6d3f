"""Words found in the tokens of four kinds of tokenizers, and trees carried over to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from headtool.data.conllu import Sentence, Treebank, Word
from headtool.errors import HeadtoolError
from headtool.models.huggingface.model import HuggingFaceModel
from headtool.models.pieces import Pieces, align
from headtool.patterns.parses import encode_treebank, parse_of

TEXTS = [
    "The old gardener doesn't water roses.",
    "Roses wither, gardeners don't care!",
    "Naïve gardeners water the roses twice.",
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def sentence(words: list[tuple[str, int, str]], glued: str = "") -> Sentence:
    """Words with heads from 1 and relations; those whose number is in `glued` follow directly."""
    text, found = "", []
    for number, (form, head, relation) in enumerate(words):
        text += "" if not number or str(number + 1) in glued.split() else " "
        found.append(Word(form, head - 1, relation, len(text), len(text) + len(form)))
        text += form
    return Sentence(text, tuple(found), 1)


ROSES = sentence(
    [
        ("The", 3, "det"),
        ("old", 3, "amod"),
        ("gardener", 6, "nsubj"),
        ("does", 6, "aux"),
        ("n't", 6, "advmod"),
        ("water", 0, "root"),
        ("roses", 6, "obj"),
        (".", 6, "punct"),
    ],
    glued="5 8",
)


def adapter(tokenizer: Any, length: int = 64) -> HuggingFaceModel:
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=length,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    return HuggingFaceModel(
        "tiny", "classification", BertForSequenceClassification(config), tokenizer
    )


def fast(tokenizer: Tokenizer, **options: Any) -> PreTrainedTokenizerFast:
    tokenizer.post_processor = processors.Sequence(
        [
            *([tokenizer.post_processor] if tokenizer.post_processor else []),
            processors.TemplateProcessing(
                single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
            ),
        ]
    )
    named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named, **options)


def wordpiece() -> PreTrainedTokenizerFast:
    vocabulary = [*SPECIAL, "the", "old", "garden", "##er", "##ers", "do", "##es", "does"]
    vocabulary += ["n", "'", "t", "water", "rose", "##s", ".", "##t", "!", "nai", "##ve"]
    table = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return fast(tokenizer)


def byte_level(*, trim: bool = True) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim)
    return fast(tokenizer)


def metaspace() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=60, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS * 5, trainer)
    return fast(tokenizer)


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "wordpiece": wordpiece,
    "byte-level": byte_level,
    "byte-level, spaces counted": lambda: byte_level(trim=False),
    "metaspace": metaspace,
}


def covered(pieces: Pieces, read: Sentence) -> list[str]:
    """The text under the tokens of each unit."""
    cut = pieces.cut(read.text)
    assert cut is not None
    parse = parse_of(read, cut.spans)
    parts = []
    for unit in range(parse.n_units):
        spans = [cut.spans[token] for token in np.flatnonzero(parse.units == unit)]
        parts.append(read.text[min(start for start, _ in spans) : max(end for _, end in spans)])
    return parts


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_word_is_a_unit_of_its_own_tokens(name: str) -> None:
    pieces = adapter(TOKENIZERS[name]()).pieces()
    units = covered(pieces, ROSES)
    if name == "wordpiece":  # "doesn" is unknown, so its token crosses both words
        assert units == ["The", "old", "gardener", "doesn't", "water", "roses", "."]
        return
    # Tokens may cross the words of "doesn't", which makes them one unit; nothing else may.
    whole = [word.form for word in ROSES.words]
    assert units in (whole, [*whole[:3], "doesn't", *whole[5:]])


def test_words_that_share_a_token_are_one_unit_with_all_their_arcs() -> None:
    pieces = adapter(wordpiece()).pieces()
    cut = pieces.cut(ROSES.text)
    assert cut is not None
    # [CLS] the old garden ##er doesn ' t water rose ##s . [SEP], "doesn" being unknown
    parse = parse_of(ROSES, cut.spans)
    assert parse.units.tolist() == [-1, 0, 1, 2, 2, 3, 3, 3, 4, 5, 5, 6, -1]
    assert set(parse.arcs) == {
        (0, 2, "det"),
        (1, 2, "amod"),
        (2, 4, "nsubj"),
        (3, 4, "aux"),
        (3, 4, "advmod"),
        (5, 4, "obj"),
        (6, 4, "punct"),
    }
    assert parse.lost == 0


def test_arcs_within_a_unit_and_words_without_tokens_are_left_out() -> None:
    words = (
        Word("de", 2, "case", 0, 2),
        Word("le", 2, "det", 0, 2),
        Word("roi", -1, "root", 3, 6),
        Word("\u200b", 2, "dep", 7, 8),
        Word("le", 0, "fixed", 0, 2),
    )
    parse = parse_of(Sentence("du roi \u200b", words, 1), [(0, 1), (1, 2), (3, 6), (0, 0)])
    assert parse.units.tolist() == [0, 0, 1, -1]
    assert set(parse.arcs) == {(0, 1, "case"), (0, 1, "det")}
    assert parse.lost == 1


def test_a_word_that_the_tokenizer_drops_is_counted() -> None:
    pieces = adapter(wordpiece()).pieces()
    odd = sentence([("water", 0, "root"), ("\u200b", 1, "dep"), ("roses", 1, "obj")])
    parsed = encode_treebank(pieces, Treebank("bank", (odd,)))
    assert parsed.lost == 1
    assert parsed.parses[0].arcs == ((1, 0, "obj"),)


def test_accents_that_a_tokenizer_strips_do_not_move_words() -> None:
    pieces = adapter(wordpiece()).pieces()
    assert covered(
        pieces, sentence([("Naïve", 2, "amod"), ("roses", 0, "root"), ("!", 2, "p")])
    ) == [
        "Naïve",
        "roses",
        "!",
    ]


def test_long_sentences_are_left_out_and_counted_never_cut() -> None:
    pieces = adapter(byte_level(), length=30).pieces()
    short = sentence([("water", 0, "root"), ("roses", 1, "obj")])
    long = sentence([("roses", 0, "root"), *[("roses", 1, "x")] * 30])
    parsed = encode_treebank(pieces, Treebank("bank", (long, short, long)))
    assert (parsed.too_long, parsed.unaligned, len(parsed.examples)) == (2, 0, 1)
    assert parsed.examples.data.columns["text"] == ("water roses",)
    with pytest.raises(HeadtoolError, match="2 are longer than its 30 tokens"):
        encode_treebank(pieces, Treebank("bank", (long, long)))


def test_a_treebank_without_a_usable_arc_is_refused() -> None:
    pieces = adapter(wordpiece()).pieces()
    only = sentence([("\u200b", 2, "dep"), ("water", 0, "root")])
    with pytest.raises(HeadtoolError, match=r"no dependency.*1 words have no token"):
        encode_treebank(pieces, Treebank("bank", (only,)))


def test_a_treebank_of_another_language_is_refused() -> None:
    pieces = adapter(wordpiece()).pieces()
    foreign = sentence([("xyz", 0, "root"), *[("qqq", 1, "obj")] * 9])
    with pytest.raises(HeadtoolError, match="83% of the tokens of bank are unknown to tiny"):
        encode_treebank(pieces, Treebank("bank", (foreign,)))


def test_rows_are_what_the_model_reads() -> None:
    model = adapter(wordpiece())
    pieces = model.pieces()
    examples = encode_treebank(pieces, Treebank("bank", (ROSES,))).examples
    batch = model.collate(examples, np.arange(1))
    assert batch.inputs["input_ids"][0].tolist() == model.tokenizer(ROSES.text)["input_ids"]
    assert model.forward(batch).losses.shape == (1,)


# -- pieces without offsets ---------------------------------------------------------------------


@given(st.text(alphabet="ab é…ﬁß\u0301\u200b\t", max_size=12), st.data())
def test_align_finds_any_cut_of_a_text(text: str, data: st.DataObject) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    ends = [*places, len(text)]
    spans = align([text[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)], text)
    assert spans is not None
    for (start, end), first, last in zip(spans, [0, *ends[:-1]], ends, strict=True):
        assert (start, end) == (0, 0) or first <= start < end <= last


def test_align_sees_through_normalisation_and_refuses_other_texts() -> None:
    assert align(["", "naive", "...", "fi"], "Naïve… ﬁ") == [(0, 0), (0, 5), (5, 6), (7, 8)]
    assert align(["na", "if"], "naive") is None
    assert align(["naive"], "naive people") is None
    assert align(["naive", "people"], "naive") is None


@pytest.fixture(scope="module")
def sentencepiece_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("spm")
    (folder / "text").write_text("\n".join(TEXTS * 20), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "m"),
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return folder / "m.model"


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_slow_tokenizers_are_aligned_by_their_characters(
    sentencepiece_file: Path, tmp_path: Path
) -> None:
    import json

    import sentencepiece
    from transformers import MarianTokenizer

    processor = sentencepiece.SentencePieceProcessor(model_file=str(sentencepiece_file))
    pieces = ["<pad>", "<unk>", "</s>"]
    pieces += [processor.id_to_piece(i) for i in range(3, len(processor))]
    (tmp_path / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(pieces)}))
    tokenizer = MarianTokenizer(
        source_spm=str(sentencepiece_file),
        target_spm=str(sentencepiece_file),
        vocab=str(tmp_path / "vocab.json"),
    )
    assert not tokenizer.is_fast
    units = covered(adapter(tokenizer).pieces(), ROSES)
    assert units[:3] == ["The", "old", "gardener"]
    assert units[-3:] == ["water", "roses", "."]


@pytest.mark.parametrize("bpe", ["none", "sentencepiece"])
def test_symbols_of_fairseq_are_found_in_the_text(
    bpe: str, sentencepiece_file: Path, save_fairseq: Callable[..., Path]
) -> None:
    from headtool.models.fairseq.model import FairseqModel

    name = bpe if bpe == "none" else f"{bpe}:{sentencepiece_file}"
    model = FairseqModel.load(
        str(save_fairseq()), device=torch.device("cpu"), dtype=torch.float32, bpe=name
    )
    pieces = model.pieces()
    assert pieces.wordwise is (bpe == "none")
    if bpe == "none":
        read = sentence([("a", 2, "x"), ("b", 0, "root"), ("c", 2, "y")], glued="2").spaced()
        assert read.text == "a b c"
        parsed = encode_treebank(pieces, Treebank("bank", (read,)))
        assert parsed.parses[0].units.tolist() == [0, 1, 2, -1]
        batch = model.collate(parsed.examples, np.arange(1))
        assert pieces.ids(batch, "enc-self").shape == (1, 4)
        assert model.forward(batch).losses.isfinite().all()
    else:
        assert covered(pieces, ROSES)[-3:] == ["water", "roses", "."]
