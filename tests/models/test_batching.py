from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtool.errors import HeadtoolError
from headtool.models.batching import length_buckets, tight_buckets

LENGTHS = st.lists(st.integers(0, 60), max_size=60)


@given(LENGTHS, st.integers(1, 150), st.none() | st.integers(1, 8))
def test_every_index_once_and_within_the_budget(lengths, batch_tokens, max_examples):
    batches = length_buckets(lengths, batch_tokens=batch_tokens, max_examples=max_examples)
    assert sorted(np.concatenate([*batches, []]).tolist()) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= batch_tokens
        assert max_examples is None or len(batch) <= max_examples
    flat = [lengths[index] for batch in batches for index in batch]
    assert flat == sorted(lengths)


@given(LENGTHS, st.integers(1, 150))
def test_no_batch_could_take_the_next_example(lengths, batch_tokens):
    batches = length_buckets(lengths, batch_tokens=batch_tokens)
    for batch, following in itertools.pairwise(batches):
        assert (len(batch) + 1) * lengths[following[0]] > batch_tokens


@given(LENGTHS.flatmap(lambda x: st.tuples(st.just(x), st.permutations(x))), st.integers(1, 150))
def test_shapes_do_not_depend_on_the_order_of_the_data(pair, batch_tokens):
    shapes = [
        [
            [lengths[index] for index in batch]
            for batch in length_buckets(lengths, batch_tokens=batch_tokens)
        ]
        for lengths in pair
    ]
    assert shapes[0] == shapes[1]


def test_equal_lengths_keep_their_order_and_the_result_is_int64():
    batches = length_buckets([5, 5, 2, 5, 5], batch_tokens=15)
    assert [batch.tolist() for batch in batches] == [[2, 0, 1], [3, 4]]
    assert all(batch.dtype == np.int64 for batch in batches)


def test_a_longer_example_is_a_batch_of_its_own():
    assert [b.tolist() for b in length_buckets([100, 1, 200], batch_tokens=10)] == [[1], [0], [2]]


def test_no_examples_give_no_batches():
    assert length_buckets([], batch_tokens=10) == []


@pytest.mark.parametrize("batch_tokens", [0, -5])
def test_a_budget_below_one_is_refused(batch_tokens):
    with pytest.raises(
        HeadtoolError, match=f"`batch_tokens` must be at least 1, got {batch_tokens}"
    ):
        length_buckets([1], batch_tokens=batch_tokens)


def test_batches_below_one_example_are_refused():
    with pytest.raises(HeadtoolError, match="at least 1, got 0"):
        length_buckets([1], batch_tokens=1, max_examples=0)


def test_little_padding_makes_more_batches() -> None:
    lengths = [10, 12, 90, 92, 10]
    batches = tight_buckets(lengths, batch_tokens=1000)
    assert [[lengths[i] for i in batch] for batch in batches] == [[10, 10, 12], [90, 92]]
    assert len(length_buckets(lengths, batch_tokens=1000)) == 1


def cost(lengths: list[int]) -> int:
    return 64 + len(lengths) * max(lengths)


@given(st.lists(st.integers(1, 90), min_size=1, max_size=9))
def test_tight_batches_are_the_cheapest(lengths: list[int]) -> None:
    found = tight_buckets(lengths, batch_tokens=10_000)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(lengths)))
    ordered = sorted(lengths)
    ways = []
    for size in range(len(lengths)):
        for cuts in itertools.combinations(range(1, len(lengths)), size):
            edges = [0, *cuts, len(lengths)]
            ways.append(sum(cost(ordered[a:b]) for a, b in itertools.pairwise(edges)))
    assert sum(cost([lengths[i] for i in batch]) for batch in found) == min(ways)


@given(LENGTHS, st.integers(1, 150))
def test_tight_batches_are_within_the_budget(lengths: list[int], batch_tokens: int) -> None:
    batches = tight_buckets(lengths, batch_tokens=batch_tokens)
    flat = [lengths[index] for batch in batches for index in batch]
    assert flat == sorted(lengths)
    assert len({index for batch in batches for index in batch}) == len(lengths)
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= batch_tokens
