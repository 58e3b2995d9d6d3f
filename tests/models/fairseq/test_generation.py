"""Translations of fairseq models under masks, against fairseq's own SequenceGenerator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headtool.data import TextData, load_data
from headtool.engine.decoding import Search, translate
from headtool.engine.replacement import Mean, Resample
from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask
from headtool.models import load_model
from headtool.models.examples import Examples
from headtool.models.fairseq.generation import FairseqGenerator
from headtool.models.fairseq.model import FairseqModel

SOURCES = (
    "a b c d e f",
    "b",
    "",
    "l k j i h g f e d c b a",
    "c c",
    "g h a",
    "a a a a a a a a a",
    "f e d",
)
PAIRS = TextData("pairs", "translation", {"source": SOURCES, "target": SOURCES})

SHAPES: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "learned positions": {
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "max_source_positions": 40,
        "max_target_positions": 20,
        "layernorm_embedding": True,
    },
    "tied, other widths": {
        "share_decoder_input_output_embed": True,
        "decoder_output_dim": 16,
        "encoder_attention_heads": 2,
        "activation_fn": "gelu",
    },
}


def load(path: Path) -> FairseqModel:
    return FairseqModel.load(str(path), device=torch.device("cpu"), dtype=torch.float32)


def some_masks(model: FairseqModel) -> list[HeadMask]:
    """Every third head; all but one head of a site; random halves, which span all kinds."""
    rng = np.random.default_rng(0)
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads[::3]]
    masks += [HeadMask.without(model.sites, site.heads[1:]) for site in model.sites[::2]]
    masks += [HeadMask(model.sites, rng.random(model.sites.n_heads) < 0.5) for _ in range(2)]
    return [HeadMask.full(model.sites), *masks]


def by_fairseq(
    model: FairseqModel, examples: Examples, *, beam: int, penalty: float = 1.0, longest: int = 200
) -> tuple[str, ...]:
    """SequenceGenerator on a batch from fairseq's own collater, which pads on the left."""
    from fairseq.data import LanguagePairDataset
    from fairseq.sequence_generator import SequenceGenerator

    sources = [torch.tensor(row["source"]) for row in examples.rows]
    dataset = LanguagePairDataset(
        sources, np.array(list(map(len, sources))), model.source_dictionary
    )
    sample = dataset.collater([dataset[i] for i in range(len(sources))])
    generator = SequenceGenerator(
        [model.module],
        model.target_dictionary,
        beam_size=beam,
        len_penalty=penalty,
        max_len_b=longest,
    )
    texts = [""] * len(sources)
    for place, found in zip(
        sample["id"].tolist(), generator.generate([model.module], sample), strict=True
    ):
        texts[place] = model.target_dictionary.string(found[0]["tokens"])
    return tuple(texts)


def decoded_again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sentences each call of fairseq's own search gets from now on."""
    sizes: list[int] = []
    decode = FairseqGenerator._generated

    def counted(self: FairseqGenerator, generator: Any, batch: Any) -> list[list[int]]:
        sizes.append(len(batch))
        return decode(self, generator, batch)

    monkeypatch.setattr(FairseqGenerator, "_generated", counted)
    return sizes


# -- exactness ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 4])
def test_every_head_of_the_built_in_model_decodes_as_from_scratch(
    beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fairseq")
    model = load_model("builtin:mt")
    examples = model.encode(load_data("builtin:mt/test", limit=5))
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads]
    plain = translate(model, examples, masks, search=Search(beam=beam), fast=False)
    again = decoded_again(monkeypatch)
    fast = translate(model, examples, masks, search=Search(beam=beam))
    assert fast == plain
    assert sum(again) <= 4  # near ties are all that is left to fairseq
    assert 0.2 < fast.unchanged.mean() < 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_masks_of_all_kinds_decode_as_from_scratch(
    shape: str, save_fairseq: Callable[..., Path]
) -> None:
    model = load(save_fairseq(**SHAPES[shape]))
    examples = model.encode(PAIRS, batch_tokens=30)
    assert FairseqGenerator(model, Search()).masked is not None
    masks = some_masks(model)
    for search in (
        Search(beam=1, max_length=12),
        Search(beam=2, length_penalty=0.0, max_length=19),
        Search(beam=4, length_penalty=2.0, max_length=9),
    ):
        fast = translate(model, examples, masks, search=search)
        assert fast == translate(model, examples, masks, search=search, fast=False)
        assert fast.masked[0] == fast.whole
        assert fast.unchanged.min() < 1


@pytest.mark.parametrize(("beam", "penalty"), [(1, 1.0), (2, 1.0), (5, 1.0), (3, 0.3)])
def test_the_whole_model_writes_what_fairseq_generate_would(
    beam: int, penalty: float, save_fairseq: Callable[..., Path]
) -> None:
    model = load(save_fairseq())
    examples = model.encode(PAIRS)
    wanted = by_fairseq(model, examples, beam=beam, penalty=penalty, longest=14)
    search = Search(beam=beam, length_penalty=penalty, max_length=15)
    assert translate(model, examples, [], search=search).whole == wanted
    assert any(len(text.split()) == 14 for text in wanted)  # the longest there can be
    assert len(set(wanted)) > 4


def test_the_settings_of_fairseq_generate_are_the_default(
    save_fairseq: Callable[..., Path],
) -> None:
    model = load(save_fairseq())
    examples = model.encode(PAIRS.head(3))
    found = translate(model, examples, [])
    assert found.search == Search(beam=5, length_penalty=1.0, max_length=201)
    assert found.whole == by_fairseq(model, examples, beam=5)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_mask_is_the_head_s_zeroed_columns(beam: int, save_fairseq: Callable[..., Path]) -> None:
    model = load(save_fairseq())
    examples = model.encode(PAIRS)
    search = Search(beam=beam, max_length=12)
    heads = [Head("enc-self", 1, 2), Head("dec-self", 0, 1), Head("cross", 1, 3)]
    masks = [HeadMask.without(model.sites, [head]) for head in heads]
    found = translate(model, examples, masks, search=search)
    for head, texts in zip(heads, found.masked, strict=True):
        handle = next(h for h in model.handles if head in h.site.heads)
        weight = handle.module.weight
        kept = weight.detach().clone()
        with torch.no_grad():
            weight[:, head.index * 4 : head.index * 4 + 4] = 0
            zeroed = by_fairseq(model, examples, beam=beam, longest=11)
            weight.copy_(kept)
        assert texts == zeroed
    assert found.unchanged.max() < 1


def test_ties_are_left_to_fairseq(
    save_fairseq: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(save_fairseq())
    with torch.no_grad():  # all but a few symbols have a double of exactly the same score
        for part in ("output_projection", "embed_tokens"):
            weight = getattr(model.module.decoder, part).weight  # type: ignore[union-attr]
            weight[5:14:2] = weight[4:13:2]
    examples = model.encode(PAIRS)
    masks = some_masks(model)[:4]
    search = Search(beam=3, max_length=10)
    plain = translate(model, examples, masks, search=search, fast=False)
    again = decoded_again(monkeypatch)
    assert translate(model, examples, masks, search=search) == plain
    assert sum(again) > len(examples)
    assert len(again) < len(masks)  # many masks at a time


def test_replacements_and_rescaling_decode_as_from_scratch(
    save_fairseq: Callable[..., Path],
) -> None:
    model = load(save_fairseq())
    examples = model.encode(PAIRS)
    masks = some_masks(model)
    zero = translate(model, examples, masks, search=Search(beam=2, max_length=9))
    for options in ({"replacement": Mean()}, {"rescale": True}):
        fast, plain = (
            translate(
                model,
                examples,
                masks,
                search=Search(beam=2, max_length=9),
                fast=fast,
                **options,  # type: ignore[arg-type]
            )
            for fast in (True, False)
        )
        assert fast == plain
        assert fast.masked != zero.masked
    with pytest.raises(HeadtoolError, match="'resample' is aligned by position"):
        translate(model, examples, masks, replacement=Resample())


def test_a_decoder_with_parts_of_its_own_is_left_to_fairseq(
    save_fairseq: Callable[..., Path],
) -> None:
    model = load(save_fairseq(scale_heads=True, scale_fc=True))
    assert FairseqGenerator(model, Search()).masked is None
    examples = model.encode(PAIRS)
    search = Search(beam=2, max_length=9)
    found = translate(model, examples, some_masks(model)[:3], search=search)
    assert found.whole == by_fairseq(model, examples, beam=2, longest=8)


def test_so_small_a_vocabulary_is_left_to_fairseq(save_fairseq: Callable[..., Path]) -> None:
    model = load(save_fairseq())
    assert FairseqGenerator(model, Search(beam=7)).masked is None
    examples = model.encode(PAIRS)
    found = translate(model, examples, [], search=Search(beam=7, max_length=6))
    assert found.whole == by_fairseq(model, examples, beam=7, longest=5)


# -- lines that are out of the ordinary ---------------------------------------------------------


def longest_line() -> str:
    rng = np.random.default_rng(1)
    return " ".join(rng.choice(list("abcdefghijkl"), size=500).tolist())


ODD: dict[str, Sequence[str]] = {
    "empty": ("", "", "a b"),
    "500 tokens": (longest_line(), "a b", "c"),
    "unknown characters": ("☃ ☃☃ ☃", "a b c d e f g h", "☃"),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_lines_decode_as_from_scratch(case: str, save_fairseq: Callable[..., Path]) -> None:
    model = load(save_fairseq())
    lines = tuple(ODD[case])
    pad = ("a b c d e f g h i j k l",) * len(lines)
    examples = model.encode(TextData("odd", "translation", {"source": lines, "target": pad}))
    masks = some_masks(model)[1::4]
    search = Search(beam=2, max_length=10)
    fast = translate(model, examples, masks, search=search)
    assert fast == translate(model, examples, masks, search=search, fast=False)
    assert fast.whole == by_fairseq(model, examples, beam=2, longest=9)


def test_hypotheses_do_not_depend_on_batches(save_fairseq: Callable[..., Path]) -> None:
    model = load(save_fairseq())
    masks = some_masks(model)[1:4]
    search = Search(beam=3, max_length=10)
    results = [
        translate(model, model.encode(data, batch_tokens=budget), masks, search=search, fast=fast)
        for data, budget, fast in ((PAIRS, 8, True), (PAIRS, 1_000, True), (PAIRS, 25, False))
    ]
    assert results[0] == results[1] == results[2]
    backwards = PAIRS.take(range(len(PAIRS) - 1, -1, -1))
    turned = translate(model, model.encode(backwards), masks, search=search)
    assert turned.whole[::-1] == results[0].whole
    assert tuple(row[::-1] for row in turned.masked) == results[0].masked
