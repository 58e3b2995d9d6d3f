"""What translating under masks is made of, each against something plain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from headtool.data import TextData
from headtool.engine.decoding import Search, translate
from headtool.heads import HeadMask
from headtool.models.fairseq import greedy, masks
from headtool.models.fairseq.generation import FairseqGenerator
from headtool.models.fairseq.grids import Grid
from headtool.models.fairseq.model import FairseqModel
from headtool.models.fairseq.passes import Passes
from headtool.models.fairseq.scoring import ContinuationScorer, best_of
from headtool.models.fairseq.source import single_attention

LINES = ("a b c d e f", "b", "", "l k j i h g f e d c b a", "c c", "g h a", "a a a a", "f e d")
PAIRS = TextData("pairs", "translation", {"source": LINES, "target": LINES})
CPU = torch.device("cpu")


@pytest.fixture
def model(save_fairseq: Callable[..., Path]) -> FairseqModel:
    return FairseqModel.load(str(save_fairseq()), device=CPU, dtype=torch.float32)


@pytest.fixture
def numbers() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("size", [20, 512, 1_000, 1_024])
@pytest.mark.parametrize("count", [1, 7, 17])
def test_the_best_of_each_row_are_those_of_topk(
    size: int, count: int, numbers: torch.Generator
) -> None:
    scores = torch.randn(50, size, generator=numbers)
    scores[0, 5:] = -torch.inf
    values, places = best_of(scores, count)
    wanted = scores.topk(count, dim=1)
    assert torch.equal(values, wanted.values)
    assert torch.equal(places[1:], wanted.indices[1:])
    assert torch.equal(scores.gather(1, places), values)


def test_scores_that_are_not_normalised_rank_alike(numbers: torch.Generator) -> None:
    projection, features = (torch.randn(n, 8, generator=numbers) for n in (1_000, 60))
    depth = torch.arange(60) % 4

    def words(normalised: bool) -> ContinuationScorer:
        return ContinuationScorer(
            projection,
            pad=1,
            end=2,
            max_length=4,
            count=3,
            tolerance=1e-5,
            normalised=normalised,
        )

    logits = features @ projection.T
    logits[:, 1] = -torch.inf
    logits[depth == 0, 2] = -torch.inf
    plain = words(False).best(features, depth)
    sure = words(True).best(features, depth)
    early = depth < 3
    torch.testing.assert_close(plain[0][early], logits.topk(3, dim=1).values[early])
    assert torch.equal(plain[1][early], logits.topk(3, dim=1).indices[early])
    assert torch.equal(plain[1], sure[1])
    gaps = [values[early, 0] - values[early, 2] for values, _ in (plain, sure)]
    torch.testing.assert_close(*gaps)


@pytest.mark.parametrize("sizes", [[3, 1, 5], [4, 4, 4], [16, 16], [2]])
def test_rows_are_laid_out_mask_by_mask_and_sentence_by_sentence(sizes: list[int]) -> None:
    grid, times, most = Grid(sizes, CPU), 2, max(sizes)
    rows = torch.arange(1.0, 1 + times * sum(sizes))[:, None] * torch.ones(1, 3)
    wide = torch.zeros(times, len(sizes), 16, 3)
    number = 0
    for mask in range(times):
        for sentence, size in enumerate(sizes):
            wide[mask, sentence, :size] = rows[number : number + size]
            number += size
    assert grid.width == 16
    assert torch.equal(grid.spread(rows, times, 16), wide.flatten(0, 1))
    narrow = wide[:, :, :most]
    assert torch.equal(grid.spread(rows, times), narrow.flatten(0, 1))
    together = grid.spread_by_sequence(rows, times)
    assert torch.equal(together, narrow.transpose(0, 1).flatten(1, 2))
    for back in (
        grid.gathered(wide.flatten(0, 1), times),
        grid.gathered(narrow.flatten(0, 1), times),
        grid.gathered_by_sequence(together, times),
    ):
        assert torch.equal(back, rows)


def test_one_position_attends_as_any_other(numbers: torch.Generator) -> None:
    rows, heads, keys, width = 5, 4, 16, 8
    queries = torch.randn(rows, heads * width, generator=numbers)
    both = torch.randn(2, rows, keys, heads * width, generator=numbers)
    bias = torch.where(torch.arange(keys) < torch.arange(1, 6)[:, None], 0.0, -torch.inf)[:, None]
    found = single_attention(queries, both[0].transpose(1, 2), both[1], bias, heads)
    wanted = functional.scaled_dot_product_attention(
        queries.view(rows, heads, 1, width),
        *both.view(2, rows, keys, heads, width).transpose(2, 3).unbind(),
        attn_mask=bias[:, None],
        scale=1.0,
    )
    torch.testing.assert_close(found, wanted.flatten(1))


def test_some_encoded_sources_are_those_encoded_alone(model: FairseqModel) -> None:
    examples = model.encode(PAIRS)
    tokens = model.collate(examples, next(iter(examples.batches()))).inputs["src_tokens"]
    passes = Passes(model, 10)
    chosen = torch.tensor([3, 0, 5])
    with torch.inference_mode():
        some, alone = passes.encode(tokens).some(chosen), passes.encode(tokens[chosen])
    assert torch.equal(some.lengths, alone.lengths)
    for site, states in alone.trace.at.items():
        torch.testing.assert_close(some.trace.at[site], states)
    width = alone.source.bias.shape[3]
    assert torch.equal(some.source.trimmed(width).bias, alone.source.bias)
    for (keys, values), wanted in zip(
        some.source.trimmed(width).keys, alone.source.keys, strict=True
    ):
        real = (alone.source.bias == 0).transpose(2, 3)
        torch.testing.assert_close(keys * real, wanted[0] * real)
        torch.testing.assert_close(values * real, wanted[1] * real)


@pytest.mark.parametrize("beam", [1, 2])
def test_small_blocks_and_little_room_change_nothing(
    beam: int, model: FairseqModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is done in many pieces, and lines come and go in the places of others."""
    examples = model.encode(PAIRS)
    heads = [HeadMask.without(model.sites, [head]) for head in model.sites.heads[::2]]
    search = Search(beam=beam, max_length=45)  # longer than the first room
    plain = translate(model, examples, heads, search=search, fast=False)
    assert translate(model, examples, heads, search=search) == plain
    monkeypatch.setattr(greedy, "_LINES", 3)
    monkeypatch.setattr(greedy, "_ROWS", 60)
    monkeypatch.setattr(greedy, "_NODES", 40)
    monkeypatch.setattr(masks, "_ROWS", 60)
    monkeypatch.setattr(masks, "_MEMORY", 2**15)
    assert translate(model, examples, heads, search=search) == plain


def test_texts_are_those_of_the_dictionary(model: FairseqModel) -> None:
    dictionary = model.target_dictionary
    ids = [[4, 5, dictionary.unk(), 6], [], [dictionary.eos(), 7, dictionary.bos()], [4, 5]]
    wanted = [dictionary.string(torch.tensor(row, dtype=torch.long)) for row in ids]
    assert FairseqGenerator(model, Search()).texts(ids) == wanted
    assert wanted[0].split()[2] == "<unk>"
