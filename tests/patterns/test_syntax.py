"""Syntactic heads: planted attention with exact counts, and literal loops over real models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor

from headtool.data.conllu import Sentence, Treebank, Word
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Kind, Sites
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Queries
from headtool.models.huggingface.model import HuggingFaceModel
from headtool.patterns.counting import count_roles, request_roles
from headtool.patterns.parses import Parse, encode_treebank
from headtool.patterns.syntax import DIRECTIONS, SyntacticRoles
from headtool.results.role_counts import RoleCounts

UP, DOWN = DIRECTIONS


def parse(units: Sequence[int], *arcs: tuple[int, int, str]) -> Parse:
    return Parse(np.array(units), arcs, 0)


def fed(parses: Sequence[Parse], maps: Tensor, kind: Kind = "enc-self") -> RoleCounts:
    """Counts for attention maps [B, H, T, T] of one batch."""
    site = AttentionSite(kind, 0, maps.shape[1], maps.shape[1], 2, "out")
    statistic = SyntacticRoles(parses, Sites((site,)), kind)
    real = torch.ones(maps.shape[0], maps.shape[-1], dtype=torch.bool)
    queries = Queries(real, ~real, ~real)
    batch = Batch(np.arange(len(parses)), {}, torch.empty(0), {kind: queries})
    summary = statistic.summarise(site, maps, torch.empty(0), batch)
    if summary:
        statistic.add(site, batch.index, summary)
    return statistic.counts


def numbers(counts: RoleCounts, detail: str, head: int = 0) -> tuple[float, float, float]:
    """Hits, queries and the baseline's hits."""
    place = counts.details.index(detail)
    return (
        float(counts.hits[head, place]),
        float(counts.queries[place]),
        float(counts.expected[place]),
    )


def guess(counts: RoleCounts, detail: str) -> str:
    return counts.guesses[counts.details.index(detail)]


# The tree of "a new red car stops": 0 det 3, 1 amod 3, 2 amod 3, 3 nsubj 4.
CAR = parse([0, 1, 2, 3, 4], (0, 3, "det"), (1, 3, "amod"), (2, 3, "amod"), (3, 4, "nsubj"))


def test_a_head_that_looks_at_the_head_word() -> None:
    counts = fed([CAR], torch.eye(5)[[3, 3, 3, 4, 0]][None, None])
    assert numbers(counts, f"det {UP}") == (1, 1, 1)
    assert numbers(counts, f"amod {UP}") == (2, 2, 1)
    assert guess(counts, f"amod {UP}") == "+1"  # as frequent as +2, and nearer
    assert numbers(counts, f"nsubj {UP}") == (1, 1, 1)
    assert numbers(counts, f"nsubj {DOWN}") == (0, 1, 1)


def test_any_dependent_of_the_relation_is_a_hit_of_one_query() -> None:
    for target, hits in ((1, 1), (2, 1), (0, 0), (4, 0)):
        counts = fed([CAR], torch.eye(5)[[3, 3, 3, target, 3]][None, None])
        assert numbers(counts, f"amod {DOWN}") == (hits, 1, 1)
        assert guess(counts, f"amod {DOWN}") == "-1"


def test_attention_to_oneself_and_to_special_tokens_is_set_aside() -> None:
    tree = parse([-1, 0, 1, 2, -1], (0, 2, "nsubj"), (1, 2, "advmod"))
    weights = torch.tensor([[0, 0, 0, 0, 0], [0.5, 0.3, 0.0, 0.1, 0.1], [0, 0.1, 0.5, 0.2, 0.2]])
    maps = torch.cat([weights, torch.zeros(2, 5)])[None, None]
    counts = fed([tree], maps)
    assert numbers(counts, f"nsubj {UP}")[0] == 1
    assert numbers(counts, f"advmod {UP}")[0] == 1


def test_weights_to_a_words_tokens_add_up_and_those_from_them_are_averaged() -> None:
    # Two words of two tokens each around one of one token.
    tree = parse([0, 0, 1, 2, 2], (0, 2, "x"), (1, 0, "y"))
    first = [0.0, 0.0, 0.6, 0.0, 0.3], [0.0, 0.0, 0.1, 0.4, 0.2]
    middle = [0.2, 0.3, 0.0, 0.4, 0.05]
    maps = torch.tensor([*first, middle, [0.0] * 5, [0.0] * 5])[None, None]
    counts = fed([tree], maps)
    # From the first word: 0.35 to the middle one, 0.45 to the last; from the middle: 0.5 and 0.45.
    assert numbers(counts, f"x {UP}")[0] == 1
    assert numbers(counts, f"y {UP}")[0] == 1


def test_in_decoders_only_words_to_the_left_are_asked_for() -> None:
    counts = fed([CAR], torch.eye(5)[[0, 0, 1, 2, 3]][None, None], "dec-self")
    assert set(counts.details) == {f"det {DOWN}", f"amod {DOWN}", f"nsubj {DOWN}"}
    assert numbers(counts, f"amod {DOWN}") == (1, 1, 1)
    assert numbers(counts, f"nsubj {DOWN}") == (1, 1, 1)
    assert numbers(counts, f"det {DOWN}") == (0, 1, 1)


def test_words_without_a_choice_are_not_asked() -> None:
    pair = parse([0, 1], (0, 1, "x"))
    assert fed([pair], torch.ones(1, 1, 2, 2)).details == ()
    second = parse([0, 1, 2], (1, 0, "x"), (2, 1, "x"))
    counts = fed([second], torch.ones(1, 1, 3, 3), "dec-self")
    assert numbers(counts, f"x {UP}")[1] == 1


def test_the_baseline_guesses_the_most_frequent_offset_of_the_data() -> None:
    trees = [
        parse([0, 1, 2, 3], (0, 1, "x"), (2, 3, "x")),
        parse([0, 1, 2, 3], (0, 3, "x"), (1, 2, "x")),
    ]
    counts = fed(trees, torch.eye(4)[[2, 0, 0, 0]].expand(2, 1, 4, 4))
    assert guess(counts, f"x {UP}") == "+1"
    assert numbers(counts, f"x {UP}") == (0, 4, 3)
    place = counts.details.index(f"x {UP}")
    assert counts.excess_squared[0, place] == 2**2 + 1**2
    assert counts.queries_squared[place] == 8
    assert counts.sentences[place] == 2


# -- whole models -------------------------------------------------------------------------------

WORDS = ["gardeners", "water", "old", "roses", "quickly", "the", "cat", "saw", "them", "."]


def tokenizer(**options: str) -> transformers.PreTrainedTokenizerFast:
    """Words of up to four letters are one token, longer ones two."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    for word in WORDS:
        pieces += [word[:4], "##" + word[4:]] if len(word) > 4 else [word]
    table = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    built = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    built.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=built,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        eos_token="[SEP]",
    )


def spread(module: torch.nn.Module) -> None:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.7, generator=generator)


def bert() -> HuggingFaceModel:
    config = transformers.BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=16,
        max_position_embeddings=40,
    )
    module = transformers.BertForSequenceClassification(config)
    spread(module)
    return HuggingFaceModel("bert", "classification", module.double(), tokenizer())


def llama() -> HuggingFaceModel:
    config = transformers.LlamaConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=16,
        max_position_embeddings=40,
        eos_token_id=3,
    )
    module = transformers.LlamaForCausalLM(config)
    spread(module)
    return HuggingFaceModel("llama", "causal-lm", module.double(), tokenizer())


def bart() -> HuggingFaceModel:
    config = transformers.BartConfig(
        vocab_size=30,
        d_model=16,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=40,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=3,
        forced_eos_token_id=3,
    )
    module = transformers.BartForConditionalGeneration(config)
    spread(module)
    return HuggingFaceModel("bart", "seq2seq", module.double(), tokenizer())


MODELS: dict[str, Callable[[], HuggingFaceModel]] = {"bert": bert, "llama": llama, "bart": bart}


def grown(seed: int, count: int = 12) -> Treebank:
    """Sentences of random words under random trees."""
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(count):
        forms = rng.choice(WORDS, size=rng.integers(3, 9)).tolist()
        order = rng.permutation(len(forms))
        heads = np.full(len(forms), -1)
        for place, word in enumerate(order[1:], start=1):
            heads[word] = order[rng.integers(place)]
        words, text = [], ""
        for form, head in zip(forms, heads.tolist(), strict=True):
            text += " " if text else ""
            relation = str(rng.choice(["x", "y:z"]))
            words.append(Word(form, head, relation, len(text), len(text) + len(form)))
            text += form
        sentences.append(Sentence(text, tuple(words), 1))
    return Treebank("grown", tuple(sentences))


def attention_of(model: HuggingFaceModel, text: str) -> list[np.ndarray]:
    """Maps [H, T, T] of every self-attention layer that reads the text, as the library gives."""
    encoded = model.tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        reader = model.module.get_encoder() if model.task == "seq2seq" else model.module
        maps = reader(**encoded, output_attentions=True).attentions
    return [layer[0].numpy() for layer in maps]


@pytest.mark.parametrize("name", MODELS)
def test_counts_equal_literal_loops_over_the_librarys_own_attention(name: str) -> None:
    model, bank = MODELS[name](), grown(5)
    causal = name == "llama"
    parsed = encode_treebank(model.pieces(), bank, batch_tokens=60)
    counts, _ = count_roles(
        model.pieces(),
        parsed.examples,
        request_roles(model, bank, roles=["syntactic"]),
        parses=parsed.parses,
    )
    (syntactic,) = counts
    model.module.set_attn_implementation("eager")
    hits: dict[str, np.ndarray] = {}
    asked: dict[str, int] = {}
    for sentence in bank.sentences:
        spans = model.tokenizer(sentence.text, return_offsets_mapping=True)["offset_mapping"]
        tokens = [
            [t for t, (a, b) in enumerate(spans) if word.start <= a < b <= word.end]
            for word in sentence.words
        ]
        by_head = []
        for layer in attention_of(model, sentence.text):
            for weights in layer:
                words = np.array(
                    [[np.mean([weights[q, k].sum() for q in t]) for k in tokens] for t in tokens]
                )
                np.fill_diagonal(words, -1)
                if causal:
                    words[np.triu_indices(len(words))] = -1
                by_head.append(words.argmax(axis=1))
        pairs: dict[tuple[int, str], set[int]] = {}
        for i, word in enumerate(sentence.words):
            if word.head < 0:
                continue
            for q, k, way in ((i, word.head, UP), (word.head, i, DOWN)):
                if not causal or (k < q and q >= 2):
                    pairs.setdefault((q, f"{word.relation} {way}"), set()).add(k)
        for (q, detail), targets in pairs.items():
            asked[detail] = asked.get(detail, 0) + 1
            hits.setdefault(detail, np.zeros(len(by_head)))
            hits[detail] += [best[q] in targets for best in by_head]
    assert set(syntactic.details) == set(asked)
    for place, detail in enumerate(syntactic.details):
        assert syntactic.queries[place] == asked[detail]
        np.testing.assert_array_equal(syntactic.hits[:, place], hits[detail])
    assert 0 < syntactic.hits.sum() < syntactic.queries.sum() * len(syntactic.hits)


@pytest.mark.parametrize("name", MODELS)
def test_every_role_is_counted_whatever_the_batches(name: str) -> None:
    model, bank = MODELS[name](), grown(6)
    found = []
    for batch_tokens in (10_000, 12):
        parsed = encode_treebank(model.pieces(), bank, batch_tokens=batch_tokens)
        request = request_roles(model, bank, common=2)
        counts, notes = count_roles(model.pieces(), parsed.examples, request, parses=parsed.parses)
        found.append(counts)
        assert [one.role for one in counts if one.role != "induction"] == [
            *("positional", *(("previous-token",) if name == "llama" else ())),
            *("rare-token", "punctuation", "separator", "first-token", "syntactic"),
        ]
        assert any("induction" in line for line in notes) == (name == "llama")
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one.hits, other.hits)
        np.testing.assert_allclose(one.excess_squared, other.excess_squared)
        np.testing.assert_allclose(one.expected, other.expected)


def test_fairseq_encoders_and_decoders_have_roles(save_fairseq: Callable[..., Path]) -> None:
    from headtool.data import TextData
    from headtool.models.fairseq.model import FairseqModel

    model: ModelAdapter = FairseqModel.load(
        str(save_fairseq()), device=torch.device("cpu"), dtype=torch.float32
    )
    columns = {"source": ("a b c d", "e f g"), "target": ("l k j", "d e f g")}
    examples = model.encode(TextData("pairs", "translation", columns))
    request = request_roles(model, None, common=0)
    assert request.kinds == ("enc-self", "dec-self")
    counts, _ = count_roles(model.pieces(), examples, request)
    by_role = {(one.role, one.sites.kinds[0]): one for one in counts}
    # Source: 4 and 3 words, each seen from 4 and 3. Target: the first word has one key only.
    assert by_role["rare-token", "enc-self"].queries[0] == 7
    assert by_role["previous-token", "dec-self"].queries[0] == 2 + 3
    assert by_role["first-token", "dec-self"].queries[0] == 3 + 4
    assert ("previous-token", "enc-self") not in by_role
    letters = Treebank("letters", (grown_letters(),))
    parsed = encode_treebank(model.pieces(), letters)
    request = request_roles(model, letters)
    assert request.kinds == ("enc-self",)
    counts, _ = count_roles(model.pieces(), parsed.examples, request, parses=parsed.parses)
    assert counts[-1].role == "syntactic"
    assert counts[-1].queries.tolist() == [2, 1]


def grown_letters() -> Sentence:
    words = (Word("a", 1, "x", 0, 1), Word("b", -1, "root", 2, 3), Word("c", 1, "x", 4, 5))
    return Sentence("a b c", words, 1)


def test_masked_language_models_read_the_text_unmasked() -> None:
    from headtool.data import TextData

    fast = tokenizer()
    fast.add_special_tokens({"mask_token": "[MASK]"})
    config = transformers.BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=16,
        max_position_embeddings=40,
    )
    module = transformers.BertForMaskedLM(config)
    model = HuggingFaceModel("masked", "masked-lm", module, fast)
    examples = model.encode(TextData("book", "text", {"text": (" ".join(WORDS * 4),)}))
    mask = fast.mask_token_id
    assert any(mask in row["input_ids"] for row in examples.rows)
    request = request_roles(model, None, roles=["first-token"])
    (counts,), _ = count_roles(model.pieces(), examples, request)
    ordinary = len(fast(" ".join(WORDS * 4), add_special_tokens=False)["input_ids"])
    assert counts.queries[0] == ordinary


# -- what is not possible -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "treebank", "options", "message"),
    [
        ("bert", False, {"roles": ["syntactic"]}, "CoNLL-U file as `treebank`"),
        ("bert", True, {"roles": ["induction"]}, "only a decoder, and bert has enc-self"),
        ("bert", True, {"roles": ["previous-token"]}, "use positional"),
        ("llama", True, {"kinds": ["cross"]}, "the model has no cross attention; it has dec-self"),
        ("bart", False, {"kinds": ["cross"]}, "roles are those of self-attention"),
        ("bart", True, {"kinds": ["dec-self"]}, "read by the encoder of bart"),
        ("bart", False, {"roles": ["induction"]}, "only a decoder"),
        ("bart", False, {"frequencies": "x"}, "choose enc-self or dec-self as `kinds`"),
        (
            "bert",
            False,
            {"roles": ["positonal"]},
            "'positonal'; did you mean 'positional'.*known: ",
        ),
        ("bert", True, {"roles": ["positional"], "frequencies": "x"}, "for the role rare-token"),
    ],
)
def test_what_is_not_possible_is_refused(
    name: str, treebank: bool, options: dict[str, object], message: str
) -> None:
    with pytest.raises(HeadtoolError, match=message):
        request_roles(MODELS[name](), grown(1) if treebank else None, **options)  # type: ignore[arg-type]


def test_frequencies_of_no_known_token_are_refused(tmp_path: Path) -> None:
    (tmp_path / "counts").write_text("unheard 5\n")
    model, bank = bert(), grown(2)
    request = request_roles(model, bank, roles=["rare-token"], frequencies=str(tmp_path / "counts"))
    parsed = encode_treebank(model.pieces(), bank)
    with pytest.raises(HeadtoolError, match="no token of `frequencies` is in the vocabulary"):
        count_roles(model.pieces(), parsed.examples, request, parses=parsed.parses)


def test_frequencies_decide_what_is_rare(tmp_path: Path) -> None:
    lines = ["gard 1", "##eners 9", "wate 9", "##r 9", "old 9", "rose 9", "##s 9", "the 9"]
    (tmp_path / "counts").write_text("\n".join([*lines, "cat 9", "saw 9", "them 9", ". 9"]))
    model, bank = bert(), grown(2)
    parsed = encode_treebank(model.pieces(), bank)
    request = request_roles(
        model, bank, roles=["rare-token"], common=1, frequencies=str(tmp_path / "counts")
    )
    (counts,), notes = count_roles(model.pieces(), parsed.examples, request, parses=parsed.parses)
    # "quic" and "##kly" are not in the file, and so the rarest of all.
    with_rare = [
        sentence
        for sentence in bank.sentences
        if {"gardeners", "quickly"} & {word.form for word in sentence.words}
    ]
    assert counts.sentences[0] == len(with_rare) > 0
    assert notes == []
