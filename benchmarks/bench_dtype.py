"""bfloat16 against float32: the time of scoring and ablation, and what becomes of the numbers.

Both sides run in this process and take turns. Printed are, for scores by ``gradient`` and
``confidence`` and for all single-head ablations, the ratio of the times (float32 / bfloat16), the
rank correlations of the scores or effects (Spearman's rho, Kendall's tau-b) and how many heads both
keep of the more important half; of the effects on the loss also the largest and the median
difference, how many of the verdicts of ``headtool test`` change, and the rounding noise that
headtool estimates beside what it was: how far the effects are from those in float32 with the same
rounded weights, over the half of the heads whose effects are smallest. ``--random bert:12x12x768``
or ``gpt2:12x12x768`` takes a model of this shape with random weights, whose times mean something
and whose scores do not.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

import headtool
from headtool.analysis.assessment import assess_outcomes
from headtool.analysis.rank_correlation import kendall, spearman
from headtool.engine.rounding import measure_rounding
from headtool.heads import HeadMask
from headtool.models.base import ModelAdapter
from headtool.results.outcomes import Outcomes
from headtool.results.scores import ranks

SIDES = ("float32", "bfloat16")
METHODS = ("gradient", "confidence")


class Race:
    """Lets both sides take turns, and adds up their times."""

    def __init__(self, models: dict[str, ModelAdapter]) -> None:
        self.models = models
        self.seconds: dict[str, dict[str, float]] = {}

    def run(self, what: str, work: Callable[[str], Any]) -> dict[str, Any]:
        """Do something with each model, and return what it gave."""
        found = {}
        for side in SIDES:
            started = time.perf_counter()
            found[side] = work(side)
            spent = self.seconds.setdefault(what, dict.fromkeys(SIDES, 0.0))
            spent[side] += time.perf_counter() - started
        return found

    def ratio(self, what: str) -> str:
        """Float32's time over bfloat16's."""
        spent = self.seconds[what]
        return f"{spent[SIDES[0]] / spent[SIDES[1]]:.2f}x ({spent[SIDES[0]]:.1f} s in float32)"


def random_model(shape: str, dtype: str) -> ModelAdapter:
    """A BERT classifier or a GPT-2 with random weights, the same in every format."""
    family, _, sizes = shape.partition(":")
    layers, heads, width = map(int, sizes.split("x"))
    given: dict[str, Any] = {
        "bert": {"num_hidden_layers": layers, "num_attention_heads": heads, "hidden_size": width},
        "gpt2": {"n_layer": layers, "n_head": heads, "n_embd": width},
    }[family]
    if family == "bert":
        given["intermediate_size"] = 4 * width
    library = AutoModelForCausalLM if family == "gpt2" else AutoModelForSequenceClassification
    made = library.from_config(AutoConfig.for_model(family, **given))
    rng = np.random.default_rng(0)
    for weight in made.parameters():
        if weight.ndim > 1:  # norms and biases stay
            drawn = rng.normal(scale=0.02, size=tuple(weight.shape)).astype(np.float32)
            weight.data.copy_(weight.new_tensor(drawn))
    return headtool.wrap(made.to(getattr(torch, dtype)))


def table(family: str, examples: int, tokens: int) -> list[dict[str, Any]]:
    """Random token numbers."""
    rng = np.random.default_rng(1)
    rows = [rng.integers(1000, 20000, tokens).tolist() for _ in range(examples)]
    labels = [row if family == "gpt2" else number % 2 for number, row in enumerate(rows)]
    return [{"input_ids": r, "labels": label} for r, label in zip(rows, labels, strict=True)]


def half(score: NDArray[np.float64]) -> set[int]:
    """The more important half of the heads."""
    return set(np.flatnonzero(ranks(score, seed=0)[0] <= len(score) // 2).tolist())


def alike(a: NDArray[np.float64], b: NDArray[np.float64]) -> str:
    """How alike two rankings are."""
    kept = len(half(a) & half(b))
    return (
        f"rho {spearman(a[None], b[None])[0]:.4f}, tau-b {kendall(a[None], b[None])[0]:.4f}, "
        f"{kept} of {len(a) // 2} kept heads the same"
    )


def joined(parts: list[Outcomes]) -> Outcomes:
    """Outcomes on one batch of examples after the other."""
    names = parts[0].whole
    return Outcomes(
        parts[0].masks,
        {name: np.concatenate([part.whole[name] for part in parts]) for name in names},
        {name: np.concatenate([part.masked[name] for part in parts], axis=1) for name in names},
    )


def main() -> None:
    """Measure one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:nli")
    parser.add_argument("--data", default="builtin:nli/matched")
    parser.add_argument("--random", metavar="FAMILY:LAYERSxHEADSxWIDTH")
    parser.add_argument("--examples", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=128, help="of an example, with --random")
    parser.add_argument("--heads", type=int, default=None, help="ablate so many; default: all")
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()

    if given.random:
        models = {side: random_model(given.random, side) for side in SIDES}
        data: Any = table(given.random.partition(":")[0], given.examples, given.tokens)
    else:
        models = {
            side: headtool.load_model(given.model, device="cpu", dtype=side) for side in SIDES
        }
        data = headtool.load_data(given.data, limit=given.examples)
    data = headtool.load_data(data) if given.random else data
    examples = {side: model.encode(data) for side, model in models.items()}
    size = min(given.examples, len(examples["float32"]))
    examples = {side: found.head(size) for side, found in examples.items()}
    sites = models["float32"].sites
    heads = sites.heads[:: max(1, sites.n_heads // (given.heads or sites.n_heads))]
    masks = [HeadMask.without(sites, [head]) for head in heads]
    race, rounds = Race(models), np.array_split(np.arange(size), given.rounds)
    for side in SIDES:  # warm
        headtool.evaluate(models[side], examples[side].head(4), masks[:1])
    found: dict[str, list[Outcomes]] = {side: [] for side in SIDES}
    for some in rounds:
        for method in METHODS:
            chosen = headtool.get_method(method)()
            race.run(
                method, lambda side, m=chosen, e=some: m.score(models[side], examples[side].take(e))
            )
        ablated = race.run(
            "ablation",
            lambda side, e=some: headtool.evaluate(models[side], examples[side].take(e), masks),
        )
        for side in SIDES:
            found[side].append(ablated[side])
    print(
        f"\n{models['float32'].spec}: {sites.n_heads} heads, {size} examples, {len(masks)} ablated"
    )
    for method in METHODS:
        whole = {s: headtool.get_method(method)().score(models[s], examples[s]) for s in SIDES}
        scores = [whole[side].frame["score"].to_numpy() for side in SIDES]
        print(f"  {method:11}{race.ratio(method)}; {alike(*scores)}")
    outcomes = {side: joined(parts) for side, parts in found.items()}
    loss = headtool.get_metric("loss", task=models["float32"].task)
    effects = {side: effect(one, loss) for side, one in outcomes.items()}
    print(f"  {'ablation':11}{race.ratio('ablation')}; {alike(*effects.values())}")
    if given.random:
        return
    changed = np.abs(effects["bfloat16"] - effects["float32"])
    verdicts = [assess_outcomes(outcomes[s], loss).frame["verdict"].to_numpy() for s in SIDES]
    size_of = np.abs(effects["float32"])
    print(
        f"  effects on the loss: median {np.median(size_of):.2g}, largest {size_of.max():.2g}; "
        f"difference: median {np.median(changed):.2g}, largest {changed.max():.2g}; "
        f"{(verdicts[0] != verdicts[1]).sum()} of {len(masks)} verdicts differ"
    )
    rounding = measure_rounding(models["bfloat16"], examples["bfloat16"], [loss])
    assert rounding is not None
    noise = rounding["noise"]["loss"] * np.sqrt(rounding["examples"] / size)
    same = models["bfloat16"].with_module(copy.deepcopy(models["bfloat16"].module).float())
    exact = effect(headtool.evaluate(same, examples["float32"], masks), loss)
    small = size_of <= np.median(size_of)  # errors of large effects grow with these
    was = np.sqrt(np.mean((effects["bfloat16"] - exact)[small] ** 2))
    below = (np.abs(effects["bfloat16"]) < 2 * noise).sum()
    print(
        f"  rounding noise: estimated {noise:.2g}, measured {was:.2g} (root mean square); "
        f"{below} of {len(masks)} effects below twice the estimate"
    )


def effect(outcomes: Outcomes, loss: Any) -> NDArray[np.float64]:
    """What closing each head adds to the loss."""
    whole = loss.compute(outcomes.whole)
    rows = range(len(outcomes.masks))
    return np.array([loss.compute(outcomes.row(row)) - whole for row in rows])


if __name__ == "__main__":
    main()
