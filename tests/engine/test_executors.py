"""Whoever runs the units, in whatever order: the results are the same to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headtool.data import load_data
from headtool.engine.decoding import translate
from headtool.engine.differentiation import differentiate
from headtool.engine.evaluation import evaluate
from headtool.engine.measurement import measure
from headtool.engine.observation import observe
from headtool.engine.units import Executor, Unit, UnitResult, cut, in_order, in_turn
from headtool.heads import AttentionSite, HeadMask
from headtool.methods import get_method, method_names
from headtool.metrics import get_metric
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples
from headtool.quiet import silence


class Counting:
    """Runs units in some order, and counts them."""

    def __init__(self, order: Callable[[Sequence[Unit]], Sequence[Unit]]) -> None:
        self.order = order
        self.seen: list[Unit] = []

    def __call__(
        self, units: Sequence[Unit], work: Callable[[Unit], UnitResult]
    ) -> Iterator[tuple[Unit, UnitResult]]:
        for unit in self.order(units):
            self.seen.append(unit)
            yield unit, work(unit)


def backwards(units: Sequence[Unit]) -> Sequence[Unit]:
    return units[::-1]


def shuffled(units: Sequence[Unit]) -> Sequence[Unit]:
    return [units[i] for i in np.random.default_rng(3).permutation(len(units))]


ORDERS = pytest.mark.parametrize("order", [backwards, shuffled])


class RunningSum:
    """A statistic whose last bits depend on the order in which it is added up."""

    def __init__(self) -> None:
        self.total = np.zeros(())
        self.examples: list[int] = []

    def summarise(
        self, site: AttentionSite, attention: torch.Tensor, contexts: torch.Tensor, batch: Batch
    ) -> dict[str, NDArray[Any]]:
        return {"sum": attention.double().square().sum().log().numpy()}

    def add(
        self, site: AttentionSite, examples: NDArray[np.int64], summary: dict[str, NDArray[Any]]
    ) -> None:
        self.total = self.total + summary["sum"]
        self.examples += examples.tolist()


@pytest.fixture(scope="module")
def nli() -> ModelAdapter:
    return load_model("builtin:nli", device="cpu")


@pytest.fixture(scope="module")
def examples(nli: ModelAdapter) -> Examples:
    return nli.encode(load_data("builtin:nli/matched", limit=60), batch_tokens=200)


def masks_of(model: ModelAdapter, count: int) -> list[HeadMask]:
    return [HeadMask.without(model.sites, [head]) for head in model.sites.heads[:count]]


def results(
    primitive: str, model: ModelAdapter, examples: Examples, execute: Executor
) -> dict[str, Any]:
    if primitive == "evaluate":
        found = evaluate(model, examples, masks_of(model, 5), execute=execute)
        return {f"masked {name}": v for name, v in found.masked.items()} | dict(found.whole)
    if primitive == "chained":
        found = evaluate(model, examples, masks_of(model, 5), chained=True, execute=execute)
        return dict(found.masked)
    if primitive == "measure":
        metric = get_metric("accuracy", task=model.task)
        return dict(
            measure(model, examples, masks_of(model, 2), metric, execute=execute).outcomes.masked
        )
    if primitive == "differentiate":
        gradients = differentiate(model, examples, execute=execute)
        return {f.name: getattr(gradients, f.name) for f in fields(gradients) if f.name != "sites"}
    statistic = RunningSum()
    observe(model, examples, [statistic], execute=execute)
    return {"total": statistic.total, "examples": np.array(statistic.examples)}


@ORDERS
@pytest.mark.parametrize(
    "primitive", ["evaluate", "chained", "measure", "differentiate", "observe"]
)
def test_the_order_of_units_changes_no_bit(
    primitive: str, order: Any, nli: ModelAdapter, examples: Examples
) -> None:
    units = cut(examples.batches())
    assert len(units) > 4
    assert [unit.number for unit in order(units)] != [unit.number for unit in units]
    execute = Counting(order)
    expected = results(primitive, nli, examples, in_turn)
    found = results(primitive, nli, examples, execute)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    seen = sorted(index for unit in execute.seen for index in unit.examples.tolist())
    assert seen == list(range(len(examples)))


@ORDERS
def test_the_order_of_units_changes_no_translation(order: Any) -> None:
    with silence():
        pytest.importorskip("fairseq")
    model = load_model("builtin:mt", device="cpu")
    data = load_data("builtin:mt/test", limit=8)
    examples = model.encode(data, batch_tokens=24)
    execute = Counting(order)
    expected = translate(model, examples, masks_of(model, 2))
    found = translate(model, examples, masks_of(model, 2), execute=execute)
    assert found == expected
    assert sum(len(unit.examples) for unit in execute.seen) == len(examples)
    assert len(execute.seen) > 1


def test_results_that_come_too_early_wait() -> None:
    units = cut([np.arange(2), np.arange(2, 4), np.arange(4, 5)])
    done = [(unit, {"n": np.array(unit.number)}) for unit in units]
    for order in ([2, 1, 0], [1, 0, 2], [0, 2, 1]):
        assert [unit.number for unit, _ in in_order(done[i] for i in order)] == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n for n in method_names() if n not in ("magnitude", "random", "retrieval")]
)
def test_every_method_passes_the_executor_on(name: str, nli: ModelAdapter) -> None:
    """Of the others, two run no forward pass, and retrieval is for language models."""
    examples = nli.encode(load_data("builtin:nli/matched", limit=12), batch_tokens=120)
    options: dict[str, dict[str, Any]] = {
        "shapley": {"permutations": 2},
        "gates": {"steps": 2},
        "dsp": {"steps": 2},
    }
    method = get_method(name)(**options.get(name, {}))
    execute = Counting(backwards)
    found = method.score(nli, examples, execute=execute)
    assert execute.seen
    expected = method.score(nli, examples)
    np.testing.assert_array_equal(found.frame["score"], expected.frame["score"])
