"""With 1, 2 and 4 workers and with none: the same bytes, for every method and command."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import headtool as door
from headtool.engine.decoding import translate
from headtool.engine.differentiation import differentiate
from headtool.engine.evaluation import evaluate
from headtool.engine.replacement import replacement
from headtool.heads import HeadMask
from headtool.methods.base import Method
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.results.scores import HeadScores
from headtool.workers.pool import Workers

from ..faults.commands import tree
from ..support.variants import VARIANTS, build

pytestmark = pytest.mark.slow


class Once:
    """Computes each result without workers once, and keeps it for the next number of workers."""

    def __init__(self) -> None:
        self.found: dict[object, Any] = {}

    def __call__(self, key: object, compute: Callable[[], Any]) -> Any:
        if key not in self.found:
            self.found[key] = compute()
        return self.found[key]


@pytest.fixture(scope="module")
def once() -> Once:
    return Once()


def masks_of(model: ModelAdapter) -> list[HeadMask]:
    return [HeadMask.without(model.sites, [head]) for head in model.sites.heads]


def same(one: HeadScores, other: HeadScores) -> bool:
    tables = one.tables.keys() == other.tables.keys() and all(
        table.equals(other.tables[name]) for name, table in one.tables.items()
    )
    weights = one.weights.keys() == other.weights.keys() and all(
        torch.equal(weight, other.weights[name]) for name, weight in one.weights.items()
    )
    provenance = one.provenance == other.provenance
    return one.frame.equals(other.frame) and tables and weights and provenance


def test_every_method(
    workers: Workers, model: ModelAdapter, examples: Examples, once: Once
) -> None:
    """All variants on two workers; on one and on four, each method once."""
    variants = VARIANTS if workers.count == 2 else dict(reversed(VARIANTS)).items()
    methods: list[Method] = [build(name, options) for name, options in variants]
    wrong = [
        method
        for method in methods
        if not same(
            method.score(model, examples, seed=3, execute=workers),
            once(method, lambda m=method: m.score(model, examples, seed=3)),
        )
    ]
    assert wrong == []
    assert workers.alive > 0


@pytest.mark.parametrize("name", ["zero", "mean", "resample"])
@pytest.mark.parametrize("chained", [False, True, None])
def test_masked_models(
    workers: Workers,
    model: ModelAdapter,
    examples: Examples,
    once: Once,
    name: str,
    chained: bool | None,
) -> None:
    def run(**more: Any) -> dict[str, Any]:
        filling = replacement(name)
        given = model, examples, masks_of(model)
        found = evaluate(*given, replacement=filling, chained=chained, **more)
        return {**found.masked, **{f"whole {name}": v for name, v in found.whole.items()}}

    expected = once((name, chained), run)
    found = run(execute=workers)
    assert found.keys() == expected.keys()
    for column, values in expected.items():
        np.testing.assert_array_equal(found[column], values)


def test_more_masks_than_a_unit_holds(
    workers: Workers, model: ModelAdapter, examples: Examples, once: Once
) -> None:
    """Units of one batch may go to different workers, each of which runs the whole model too."""
    heads = model.sites.heads
    masks = [HeadMask.without(model.sites, {a, b}) for a in heads for b in heads] * 2
    assert len(masks) == 128
    expected = once("many", lambda: evaluate(model, examples, masks))
    found = evaluate(model, examples, masks, execute=workers)
    np.testing.assert_array_equal(found.masked["loss"], expected.masked["loss"])


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")
def test_translations(
    workers: Workers, bart: Path, folder: Path, once: Once, tmp_path: Path
) -> None:
    lines = ["a good film .", "bad plot", "dull", "a b c d e f g h", "fine", "the plot"]
    for side in ("source", "target"):
        (tmp_path / side).write_text("\n".join(lines) + "\n")
    model = once("bart", lambda: door.load_model(str(bart), device="cpu"))
    data = door.load_data(f"{tmp_path / 'source'},{tmp_path / 'target'}")
    examples = once("sentences", lambda: model.encode(data, batch_tokens=12))
    masks = masks_of(model)[:3]
    expected = once("translations", lambda: translate(model, examples, masks))
    assert translate(model, examples, masks, execute=workers) == expected
    gradients = once("bart gradients", lambda: differentiate(model, examples))
    found = differentiate(model, examples, execute=workers)
    np.testing.assert_array_equal(found.per_example, gradients.per_example)


def test_a_fairseq_model(workers: Workers, once: Once) -> None:
    from headtool.quiet import silence

    with silence():
        pytest.importorskip("fairseq")
    model = once("mt", lambda: door.load_model("builtin:mt", device="cpu"))
    data = door.load_data("builtin:mt/test", limit=6)
    examples = once("mt data", lambda: model.encode(data, batch_tokens=24))
    masks = masks_of(model)[:2]
    expected = once("mt translations", lambda: translate(model, examples, masks))
    assert translate(model, examples, masks, execute=workers) == expected
    outcomes = once("mt outcomes", lambda: evaluate(model, examples, masks))
    found = evaluate(model, examples, masks, execute=workers)
    np.testing.assert_array_equal(found.masked["loss"], outcomes.masked["loss"])


QUICK = {"steps": "50%", "draws": 1, "resamples": 20, "batch_tokens": 24}

COMMANDS: dict[str, Callable[..., Any]] = {
    "score": lambda at, **more: door.score(
        at.bert, at.data, methods=["gradient", "ablation"], batch_tokens=24, **more
    ),
    "score, shared passes": lambda at, **more: door.score(
        at.bert, at.data, methods=["taylor", "fisher", "wanda", "flap"], batch_tokens=24, **more
    ),
    "ablate": lambda at, **more: door.ablate(at.bert, at.data, batch_tokens=24, **more),
    "ablate --all-but-one": lambda at, **more: door.ablate(
        at.bert, at.data, all_but_one=True, rescale=True, batch_tokens=24, **more
    ),
    "ablate --sequential": lambda at, **more: door.ablate_sequentially(
        at.bert, at.data, batch_tokens=24, **more
    ),
    "compare": lambda at, **more: door.compare(
        at.bert, [at.data, at.other], methods=["gradient", "shapley"], **QUICK, **more
    ),
    "curve": lambda at, **more: door.curve(
        at.bert, at.data, methods=["lrp", "taylor"], **QUICK, **more
    ),
    "dynamics": lambda at, **more: door.dynamics(
        str(at.trained), at.data, method="gradient", steps="50%", batch_tokens=24, **more
    ),
    "roles": lambda at, **more: door.roles(at.bert, at.data, batch_tokens=24, **more),
}


class Place:
    """A model, data, and checkpoints of the model."""

    def __init__(self, bert: Path, data: Path, root: Path) -> None:
        self.bert, self.data, self.trained = str(bert), str(data), root / "trained"
        head, *lines = data.read_text(encoding="utf-8").splitlines()
        other = root / "other.tsv"
        other.write_text("\n".join([head, *lines[:1:-1]]) + "\n", encoding="utf-8")
        self.other = str(other)
        for step in (1, 2):
            shutil.copytree(bert, self.trained / f"checkpoint-{step}")


@pytest.fixture(scope="module")
def place(bert: Path, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(bert, reviews, tmp_path_factory.mktemp("workers"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command(
    workers: Workers, place: Place, once: Once, name: str, tmp_path: Path
) -> None:
    def run(**more: Any) -> dict[str, bytes | None]:
        out = tmp_path / "run"
        COMMANDS[name](place, out=out, **more)
        found = tree(out)
        shutil.rmtree(out)
        return found

    expected = once(name, run)
    assert len(expected) > 1
    assert run(workers=workers) == expected


def test_correlate_and_prune(workers: Workers, place: Place, once: Once) -> None:
    """These two write no run."""

    def correlated(**more: Any) -> pd.DataFrame:
        data = [place.data, place.other]
        given: dict[str, Any] = {"metric": "loss", "resamples": 20, "permutations": 20}
        return door.correlate(place.bert, data, batch_tokens=24, **given, **more).frame

    def pruned(**more: Any) -> dict[str, Any]:
        mask = place.trained / "mask.txt"
        mask.write_text("E:1:1 E:2:2")
        found = door.prune(place.bert, mask=mask, data=place.data, batch_tokens=24, **more)
        return dict(found.quality)

    assert correlated(workers=workers).equals(once("correlate", correlated))
    assert pruned(workers=workers) == once("prune", pruned)
