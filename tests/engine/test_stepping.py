"""Where the memory is not enough batches get smaller, and results stay what they are."""

from __future__ import annotations

import logging
import os
import resource
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import headtool
from headtool import HeadMask, HeadtoolError
from headtool.engine.fitting import fitting_tokens
from headtool.engine.stepping import batches_of
from headtool.engine.units import Unit, in_turn
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples, Forward
from headtool.models.memory import is_out_of_memory

ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 40000000000 bytes. Error code 12 (Cannot allocate memory)"
    ),
    MemoryError(),
]


@pytest.fixture
def model() -> ModelAdapter:
    return headtool.load_model("builtin:nli", device="cpu")


@pytest.fixture
def examples(model: ModelAdapter) -> Examples:
    return model.encode(headtool.load_data("builtin:nli/matched", limit=24), batch_tokens=256)


def limited(
    model: ModelAdapter, most: int, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    """Let passes of more than `most` tokens fail; returns the sizes of those that did not."""
    forward, sizes = model.forward, []

    def run(batch: Batch, **options: Any) -> Forward:
        tokens = batch.inputs["input_ids"].numel()
        if tokens > most:
            raise error
        sizes.append(tokens)
        return forward(batch, **options)

    monkeypatch.setattr(model, "forward", run)
    return sizes


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_gradients_in_smaller_batches(
    model: ModelAdapter,
    examples: Examples,
    error: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = headtool.differentiate(model, examples)
    sizes = limited(model, 100, error, monkeypatch)
    with caplog.at_level(logging.WARNING, "headtool"):
        parts = headtool.differentiate(model, examples)
    np.testing.assert_allclose(parts.per_example, whole.per_example, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(parts.losses, whole.losses, rtol=1e-5)
    assert max(sizes) <= 100
    first = batches_of(model, examples)[0]
    tokens = len(first) * examples.lengths[first].max()
    assert [record.getMessage() for record in caplog.records] == [
        f"batches of {tokens} tokens do not fit into the memory; smaller ones are used"
    ]
    again = len(sizes)
    headtool.differentiate(model, examples)  # what was learned is known
    assert len(caplog.records) == 1
    assert len(sizes) - again <= again


def test_masks_in_smaller_batches(
    model: ModelAdapter, examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads[::3]]
    whole = headtool.evaluate(model, examples, masks)
    seen: list[Unit] = []

    def execute(units: Any, work: Any) -> Any:
        seen.extend(units)
        return in_turn(units, work)

    sizes = limited(model, 100, MemoryError(), monkeypatch)
    parts = headtool.evaluate(model, examples, masks, execute=execute)
    assert max(sizes) <= 100
    for name, values in whole.masked.items():
        np.testing.assert_allclose(parts.masked[name], values, rtol=1e-4, atol=1e-5)
    # Units, by which work is kept and spread, do not depend on the memory.
    wanted = [unit.tolist() for unit in batches_of(model, examples)]
    assert [unit.examples.tolist() for unit in seen] == wanted


@pytest.mark.parametrize(
    "method", ["ablation", "activation", "confidence", "flap", "fisher", "lrp", "taylor"]
)
def test_methods_in_smaller_batches(
    model: ModelAdapter, examples: Examples, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scores() -> Any:
        return headtool.get_method(method)().score(model, examples).frame["score"].to_numpy()

    whole = scores()
    sizes = limited(model, 100, MemoryError(), monkeypatch)
    np.testing.assert_allclose(scores(), whole, rtol=1e-3, atol=1e-6)
    assert max(sizes) <= 100


@pytest.mark.parametrize("baseline", ["mean", "resample"])
def test_replacements_in_smaller_batches(
    model: ModelAdapter, examples: Examples, baseline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = headtool.get_method("attribution")(baseline=baseline)
    whole = method.score(model, examples).frame["score"].to_numpy()
    limited(model, 100, MemoryError(), monkeypatch)
    parts = method.score(model, examples).frame["score"].to_numpy()
    np.testing.assert_allclose(parts, whole, rtol=1e-3, atol=1e-5)


def test_translations_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = headtool.load_model("builtin:mt", device="cpu")
    examples = model.encode(headtool.load_data("builtin:mt/test", limit=6), batch_tokens=200)
    from headtool.engine.decoding import translate

    whole = translate(model, examples, [])
    collate = model.collate

    def small(examples: Examples, index: Any) -> Batch:
        if len(index) > 2:
            raise MemoryError
        return collate(examples, index)

    monkeypatch.setattr(model, "collate", small)
    assert translate(model, examples, []).whole == whole.whole


def test_one_example_that_does_not_fit_is_one_line(
    model: ModelAdapter, examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(model, 5, MemoryError(), monkeypatch)
    with pytest.raises(HeadtoolError, match="not even one example of") as error:
        headtool.differentiate(model, examples)
    assert "\n" not in str(error.value)


def test_bugs_keep_their_traceback(
    model: ModelAdapter, examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(model, 5, RuntimeError("shapes do not match"), monkeypatch)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        headtool.differentiate(model, examples)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_what_is_out_of_memory(error: BaseException) -> None:
    assert is_out_of_memory(error)
    assert not is_out_of_memory(ValueError("out of memory"))


def test_auto_takes_what_fits(
    model: ModelAdapter, examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headtool.engine import fitting

    monkeypatch.setattr(fitting, "_room", lambda device: 1 << 40)
    most = fitting_tokens(model, examples)
    monkeypatch.setattr(fitting, "_room", lambda device: 60 << 20)
    less = fitting_tokens(model, examples)
    monkeypatch.setattr(fitting, "_room", lambda device: 0)
    least = fitting_tokens(model, examples)
    assert most > less > least >= 1
    assert all(number & (number - 1) == 0 for number in (most, less, least))  # powers of two


def test_auto_is_recorded_as_the_number_it_came_to(tmp_path: Any) -> None:
    scoring = headtool.score("builtin:nli", methods=["gradient"], limit=8, batch_tokens=None)
    (source,) = scoring.document()["provenance"].values()
    assert source["data"]["batch_tokens"] >= 256


_UNDER_A_LIMIT = """
import resource, sys, headtool, numpy as np
model = headtool.load_model("builtin:nli", device="cpu")
examples = model.encode(headtool.load_data("builtin:nli/matched", limit=300), batch_tokens=10**6)
examples = examples.take(np.tile(np.flatnonzero(examples.lengths == 20), 200))  # one batch
headtool.differentiate(model, examples.head(4))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
if sys.argv[1] == "limited":
    resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
print(abs(headtool.differentiate(model, examples).per_example).sum(), model.most_tokens)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="address spaces are limited on Linux")
def test_a_limit_of_the_address_space() -> None:
    assert hasattr(resource, "RLIMIT_AS")
    found = [
        subprocess.run(
            [sys.executable, "-c", _UNDER_A_LIMIT, which],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        ).stdout.split(maxsplit=1)
        for which in ("free", "limited")
    ]
    assert found[0][1].strip() == "{}"
    assert "gradients" in found[1][1]
    assert float(found[1][0]) == pytest.approx(float(found[0][0]), rel=1e-4)
