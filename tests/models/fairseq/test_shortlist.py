"""The best next tokens under a mask, against scoring and ranking the whole vocabulary."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.models.fairseq.scoring import ContinuationScorer
from headtool.models.fairseq.shortlist import Certificate, Favourites

PAD, END, TOKENS, WIDTH, POSITIONS, MASKS = 1, 2, 200, 8, 40, 5
DEPTH = torch.arange(POSITIONS) % 10


@pytest.fixture
def numbers() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def vocabulary(numbers: torch.Generator, count: int) -> ContinuationScorer:
    projection = torch.randn(TOKENS, WIDTH, generator=numbers)
    return ContinuationScorer(
        projection, pad=PAD, end=END, max_length=10, count=count, tolerance=1e-4
    )


def ranked(words: ContinuationScorer, features: Tensor, depth: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities after the rules for padding and end, sorted in full."""
    scores = (features @ words.projection[:, :TOKENS]).log_softmax(dim=1)
    scores[:, PAD] = -torch.inf
    scores[depth == 0, END] = -torch.inf
    for row in (depth == words.max_length - 1).nonzero().flatten().tolist():
        scores[row, torch.arange(TOKENS) != END] = -torch.inf
    values, tokens = scores.sort(dim=1, descending=True)
    return values[:, : words.count], tokens[:, : words.count]


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.5, 3.0])
def test_both_rank_as_the_whole_vocabulary_does(noise: float, numbers: torch.Generator) -> None:
    words = vocabulary(numbers, count=4)
    features = torch.randn(POSITIONS, WIDTH, generator=numbers)
    shape = (MASKS, POSITIONS, WIDTH)
    moved = (features + noise * torch.randn(shape, generator=numbers)).flatten(0, 1)
    depth = DEPTH.repeat(MASKS)
    wanted, order = ranked(words, moved, depth)
    values, tokens = Favourites.of(words, features).best(words, moved, DEPTH)
    finite = wanted.isfinite()
    torch.testing.assert_close(values, wanted)
    assert torch.equal(tokens[finite], order[finite])

    certificate = Certificate.of(words, features, DEPTH)
    values, tokens = certificate.best(words, moved, DEPTH)
    assert torch.equal(tokens[:, 0], order[:, 0])
    # What is left between the two best may be understated, never overstated.
    gaps = (wanted[:, 0] - wanted[:, 1], values[:, 0] - values[:, 1])
    assert (gaps[1] <= gaps[0] + 1e-5).all()


def test_most_of_the_vocabulary_is_not_scored_for_small_changes(numbers: torch.Generator) -> None:
    words = vocabulary(numbers, count=3)
    features = 2 * torch.randn(POSITIONS, WIDTH, generator=numbers)
    certificate = Certificate.of(words, features, DEPTH)
    asked: list[int] = []
    best = words.best
    words.best = lambda rows, depth: (asked.append(len(rows)), best(rows, depth))[1]  # type: ignore[method-assign,assignment,misc,return-value]
    certificate.best(words, features + 0.01, DEPTH)
    assert 0 < sum(asked) < POSITIONS / 2  # at the last position all of them


def test_scores_that_are_no_numbers_are_an_error(numbers: torch.Generator) -> None:
    words = vocabulary(numbers, count=3)
    features = torch.randn(POSITIONS, WIDTH, generator=numbers)
    broken = features.clone()
    broken[3] = torch.nan
    for shortlist in (Certificate.of(words, features, DEPTH), Favourites.of(words, features)):
        with pytest.raises(HeadtoolError, match="not finite"):
            shortlist.best(words, broken, DEPTH)
