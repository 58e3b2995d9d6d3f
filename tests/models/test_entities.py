"""Entities in rows of tags, against seqeval."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headtool.metrics import get_metric
from headtool.models.entities import entity_counts, read_tags

LABELS = (
    *("O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC", "E-LOC", "S-LOC"),
    *("I", "B", "B-a-b", "I-a-b"),
)


def test_counts_are_those_of_seqeval() -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    from seqeval.metrics.sequence_labeling import get_entities

    rng = np.random.default_rng(0)
    gold = torch.from_numpy(rng.integers(len(LABELS), size=(400, 9)))
    predicted = torch.where(
        torch.from_numpy(rng.random(gold.shape) < 0.7),
        gold,
        torch.from_numpy(rng.integers(len(LABELS), size=gold.shape)),
    )
    scored = torch.from_numpy(rng.random(gold.shape) < 0.7)
    scored[0] = False
    counts = entity_counts(predicted, gold, scored, read_tags(LABELS))
    texts = [
        [
            [LABELS[number] for number, kept in zip(row, mask, strict=True) if kept]
            for row, mask in zip(numbers.tolist(), scored.tolist(), strict=True)
        ]
        for numbers in (predicted, gold)
    ]
    for row, (ours, true) in enumerate(zip(*texts, strict=True)):
        found, wanted = set(get_entities(ours)), set(get_entities(true))
        assert counts["entities_right"][row] == len(found & wanted)
        assert counts["entities_predicted"][row] == len(found)
        assert counts["entities_gold"][row] == len(wanted)
    f1 = get_metric("f1", task="token-classification")
    columns = {name: values.numpy() for name, values in counts.items()}
    assert f1.compute(columns) == pytest.approx(metrics.f1_score(texts[1], texts[0]))


def test_places_that_are_not_scored_do_not_part_an_entity() -> None:
    tags = read_tags(("O", "B-X", "I-X"))
    gold = torch.tensor([[1, -100, 2, 0]])
    predicted = torch.tensor([[1, 0, 2, 0]])
    counts = entity_counts(predicted, gold, gold != -100, tags)
    assert {name: int(value) for name, value in counts.items()} == {
        "entities_right": 1,
        "entities_predicted": 1,
        "entities_gold": 1,
    }


def test_without_entities_f1_is_undefined() -> None:
    f1 = get_metric("f1", task="token-classification")
    none = {f"entities_{name}": np.zeros(3) for name in ("right", "predicted", "gold")}
    assert np.isnan(f1.compute(none))
