"""Heads scored again after every step, by every method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headtool
from headtool import HeadtoolError
from headtool.attention.closing import _Gate, closing
from headtool.engine.units import in_turn
from headtool.experiments.rescoring import iterative_order
from headtool.experiments.selecting import Roster, ScoringRound, choose
from headtool.experiments.setup import set_up
from headtool.experiments.stages import Stages
from headtool.heads import HeadMask
from headtool.masks.order import families
from headtool.methods import BUILTIN, get_method
from headtool.models.base import ModelAdapter

QUICK: dict[str, dict[str, Any]] = {
    "gates": {"steps": 2, "batch_size": 4},
    "dsp": {"steps": 2, "batch_size": 4, "heads": 4},
    "shapley": {"permutations": 2},
}
CAUSAL = {"retrieval"}


@pytest.fixture(scope="module")
def nli() -> ModelAdapter:
    return headtool.load_model("builtin:nli", device="cpu")


def quick(name: str) -> Any:
    method = get_method(name)
    known = {one.name for one in method.options()}
    return method(**{key: value for key, value in QUICK.get(name, {}).items() if key in known})


@pytest.mark.parametrize("name", [name for name in BUILTIN if name not in CAUSAL])
def test_every_method_scores_again_what_is_left(nli: ModelAdapter, name: str) -> None:
    """Half of the heads leave by the first scores, the others by scores of the half that is left.

    A method that does not look at what heads put out keeps its order.
    """
    method = quick(name)
    found = headtool.score(nli, methods=[method], limit=8, iterative=True, steps="16")[name]
    frame = found.frame
    assert sorted(frame["score"]) == list(range(32))
    assert found.provenance["iterative"] == "16"
    first = frame["first_score"].to_numpy()
    left = frame["score"].to_numpy() < 16
    assert first[left].max() <= first[~left].min()
    gone = HeadMask.without(
        nli.sites, [head for head, out in zip(nli.sites.heads, left, strict=True) if out]
    )
    examples = nli.encode(headtool.load_data("builtin:nli/matched", limit=8))
    with closing(nli.handles, gone, spec=nli.spec):
        again = method.scores_only().score(nli, examples).frame
    order = np.argsort(-again["rank"].to_numpy())
    wanted = [place for place in order if not left[place]]
    assert np.argsort(frame["score"].to_numpy())[16:].tolist() == wanted
    assert not any(part._forward_pre_hooks for part in nli.module.modules())


@pytest.mark.parametrize("name", [name for name in BUILTIN if name in CAUSAL])
def test_methods_of_language_models_score_again_too(name: str) -> None:
    """On a model in which one head does their work, and leaves last."""
    found = headtool.score(
        "builtin:planted", methods=[name], limit=16, iterative=True, steps="50%"
    )[name].frame
    assert sorted(found["score"]) == list(range(len(found)))
    assert found.nlargest(1, "score")["first_score"].item() == found["first_score"].max()


def test_the_last_step_orders_what_is_left_behind(nli: ModelAdapter) -> None:
    (family,) = families(nli.sites, "8,24", keep_one=False, per_kind=False)
    asked = []

    def rescore(gone: int) -> Any:
        asked.append(gone)
        rng = np.random.default_rng(gone)
        scores = headtool.score(nli, methods=["random"], limit=2, seed=int(rng.integers(100)))
        return scores["random"]

    order = iterative_order(family, nli, rescore)
    assert sorted(order) == list(range(32))
    assert asked == [0, 8]
    first, second = rescore(0).frame, rescore(8).frame
    assert order[:8].tolist() == family.order(first)[:8].tolist()
    assert order[8:].tolist() == [head for head in family.order(second) if head not in order[:8]]


def test_closed_heads_stay_in_this_process() -> None:
    """Workers have copies of the model, in which no head is closed."""
    setup = set_up("builtin:nli", methods=["gradient"], limit=16, steps="50%", iterative=True)
    seen = []

    def elsewhere(*work: Any, **how: Any) -> Any:
        hooks = [
            hook
            for part in setup.model.module.modules()
            for hook in part._forward_pre_hooks.values()
        ]
        seen.append(any(isinstance(hook, _Gate) for hook in hooks))
        return in_turn(*work, **how)

    kept = Stages(None, execute=elsewhere)
    now = ScoringRound.on_selection(setup)
    choose(setup, kept, Roster(setup.methods), now, setup.families)
    assert seen
    assert not any(seen)


def test_steps_are_for_iterative_alone() -> None:
    with pytest.raises(HeadtoolError, match="`steps` is for `iterative`; add it"):
        headtool.score("builtin:nli", limit=8, steps="10%")


def test_what_is_left_in_the_end_can_be_pruned_by(nli: ModelAdapter) -> None:
    scoring = headtool.score(nli, methods=["gradient"], limit=8, iterative=True, steps="8")
    pruning = headtool.prune(nli, scores=scoring, remove="50%")
    frame = scoring.frame
    assert len(pruning.removed) == 16
    names = {
        f"{row['kind']}.{row['layer']}.{row['head']}"
        for row in frame.to_dict("records")
        if row["score"] < 16
    }
    assert set(pruning.removed) == names
