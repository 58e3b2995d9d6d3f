"""Methods that read the same passes: the numbers of each alone, and each pass made once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from headtool.data import TextData
from headtool.engine.differentiation import differentiate
from headtool.engine.tallying import Tally, tally
from headtool.errors import HeadtoolError
from headtool.methods.base import Job, Method, Scored
from headtool.methods.sharing import SharedPasses
from headtool.methods.slices import head_outputs, head_slices
from headtool.metrics import metric_of_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.huggingface.model import HuggingFaceModel
from headtool.results.scores import HeadScores

from ..support.families import FAMILIES
from ..support.family_model import DATA, FamilyModel
from ..support.variants import VARIANTS, build

FORWARD = ("activation", "confidence", "flap", "wanda")
WITHOUT = ("DeBERTa-v2",)
BACKWARD = ("attribution", "fisher", "gradient", "taylor")


def together(
    methods: Sequence[Method], model: ModelAdapter, examples: Examples
) -> tuple[dict[str, HeadScores], Tally]:
    shared = SharedPasses(methods)
    with tally(model) as ran:
        found = {
            method.name: method.score(model, examples, seed=3, reader=shared) for method in methods
        }
    return found, ran


def passes(ran: Tally, model: ModelAdapter, examples: Examples) -> tuple[float, float]:
    """Forward and backward passes, in batches without padding or probes that matter."""
    whole = len(examples) * int(examples.lengths.max()) * len(model.sites)
    return ran.forward / whole, ran.backward / whole


def rounds() -> list[list[Method]]:
    """All variants of all methods, but for those that train or decode, no name twice in a round."""
    found: list[dict[str, Method]] = []
    for name, options in VARIANTS:
        if name in ("dsp", "gates", "shapley", "integrated", "ablation"):
            continue
        place = next((one for one in found if name not in one), None)
        if place is None:
            found.append(place := {})
        place[name] = build(name, options)
    return [list(one.values()) for one in found if len(one) > 1]


@pytest.mark.parametrize("methods", rounds(), ids=lambda methods: str(len(methods)))
def test_scores_are_those_of_each_method_alone(
    methods: list[Method], bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs, batch_tokens=60)
    found, _ = together(methods, bert, examples)
    for method in methods:
        alone = method.score(bert, examples, seed=3)
        assert found[method.name].frame.equals(alone.frame), method.name
        assert found[method.name].provenance == alone.provenance


def test_each_pass_is_made_once(bert: HuggingFaceModel, pairs: TextData) -> None:
    examples = bert.encode(pairs.take(np.zeros(8, dtype=np.int64)))  # no padding
    probed = 1.01  # taylor looks at a few tokens
    for names, forward, backward in (
        (FORWARD, 1.0, 0.0),
        (BACKWARD, 1.0, 1.0),
        ((*FORWARD, *BACKWARD), 2.0, 1.0),
    ):
        methods = [build(name, {}) for name in names]
        _, ran = together(methods, bert, examples)
        seen = passes(ran, bert, examples)
        assert forward <= seen[0] <= forward + probed
        assert backward <= seen[1] <= backward + probed * backward
        _, ran = together(methods[:1], bert, examples)
        assert passes(ran, bert, examples)[0] == 1.0


def test_other_examples_and_other_rules_have_their_own(
    bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs.take(np.zeros(8, dtype=np.int64)))
    methods = [
        build("gradient", {}),
        build("fisher", {"samples": "4"}),
        build("attribution", {"backward": "relp"}),
    ]
    _, ran = together(methods, bert, examples)
    assert passes(ran, bert, examples) == (2.5, 2.5)


def test_a_shared_pass_takes_time_of_all_who_read_it(
    bert: HuggingFaceModel, pairs: TextData
) -> None:
    methods = [build(name, {}) for name in ("confidence", "flap", "wanda")]
    shared = SharedPasses(methods)
    methods[0].score(bert, bert.encode(pairs), reader=shared)
    assert shared.owed["flap"] == shared.owed["wanda"] > 0
    assert sum(shared.owed.values()) == pytest.approx(0)


class Broken:
    """A statistic that does not work."""

    def summarise(self, *given: Any) -> dict[str, np.ndarray]:
        raise ValueError("out of order")

    def add(self, *given: Any) -> None:
        raise AssertionError


@dataclass(frozen=True)
class Wrong(Method):
    """Fails while a pass is under way, or before."""

    name: ClassVar[str] = "wrong"
    summary: ClassVar[str] = "fails"
    reference: ClassVar[str] = "none"

    early: bool = False

    @classmethod
    def options(cls) -> tuple[Any, ...]:
        return ()

    def settings(self) -> dict[str, Any]:
        return {}

    def reads(self, job: Job) -> Sequence[Any]:
        if self.early:
            raise LookupError("lost")
        return [Broken()]

    def compute(self, job: Job) -> Scored:
        raise AssertionError


@pytest.mark.parametrize("early", [True, False])
def test_what_fails_costs_no_other_method_its_scores(
    early: bool, bert: HuggingFaceModel, pairs: TextData
) -> None:
    wrong = Wrong(early)
    methods: list[Method] = [build("confidence", {}), wrong, build("flap", {})]
    examples, shared = bert.encode(pairs), SharedPasses(methods)
    for method in methods:
        if method is wrong:
            with pytest.raises(HeadtoolError, match=r"method 'wrong' .* raised"):
                method.score(bert, examples, reader=shared)
        else:
            alone = method.score(bert, examples).frame
            assert method.score(bert, examples, reader=shared).frame.equals(alone)


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_times_gradients_are_weights_times_gradients(family: str) -> None:
    model = FamilyModel(family, dtype=torch.float64)
    examples = model.encode(DATA)
    job = Job(model, examples, model.sites, metric_of_model(model, "loss"))
    by_site = head_outputs(job)
    if by_site is None:  # no vector for each token: taylor takes gradients of weights
        assert family in WITHOUT
        return
    assert family not in WITHOUT
    wanted = {name: heads for own in by_site.values() for name, heads in own.items()}
    found = differentiate(model, examples, layers=wanted)
    plain = differentiate(model, examples)
    np.testing.assert_allclose(found.per_example, plain.per_example, rtol=1e-12, atol=1e-15)
    slices = {part.name: part for own in head_slices(job, biases=True).values() for part in own}
    for row in (0, 5):
        loss = model.forward(model.collate(examples, np.array([row]))).losses.sum()
        for name, heads in wanted.items():
            expected = np.zeros(1 if heads is None else heads.shape[1])
            layer = model.module.get_submodule(name)
            for leaf, weight in layer.named_parameters(recurse=False):
                (gradient,) = torch.autograd.grad(loss, [weight], retain_graph=True)
                product = (weight * gradient).detach().numpy()
                part = slices[f"{name}.{leaf}"]
                expected = expected + (product.sum() if heads is None else part.sums(product))
            np.testing.assert_allclose(found.layers[name][row], expected, rtol=1e-7, atol=1e-12)


def test_jobs_of_methods_that_ask_for_nothing_stay_as_they_are(
    bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs)
    job = Job(bert, examples, bert.sites, metric_of_model(bert, None))
    shared = SharedPasses([build("magnitude", {}), build("random", {})])
    with tally(bert) as ran:
        assert list(shared(build("magnitude", {}), job)) == []
        assert list(shared(build("fisher", {"samples": "3"}), replace(job, seed=1))) == []
    assert (ran.forward, ran.backward) == (0, 0)
