"""Shapley values to a stated standard error: headtool against plain sampling of orders.

Plain sampling draws orders one by one and runs the whole model for every set in them. Both sides
need as many orders as their variance asks for: seconds per order (or pair of orders) times its
variance over the squared standard error. Sets are the same on both sides; what differs is pairing,
truncation and where forward passes start.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from numpy.typing import NDArray

from headtool.attention.gating import Gating
from headtool.data import load_data
from headtool.engine.evaluation import evaluate
from headtool.engine.passes import mask_gates
from headtool.heads import HeadMask
from headtool.methods.shapley import Shapley
from headtool.metrics import default_metric, get_metric
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples


def masks_of(model: ModelAdapter, order: NDArray[np.int64]) -> list[HeadMask]:
    """Close the heads of an order one after the other."""
    heads = model.sites.heads
    return [
        HeadMask.without(model.sites, [heads[i] for i in order[:steps]])
        for steps in range(len(order) + 1)
    ]


def plain_seconds(model: ModelAdapter, examples: Examples, order: NDArray[np.int64]) -> float:
    """Seconds of one order when each set runs on its own over the same batches."""
    started = time.perf_counter()
    with torch.inference_mode():
        for mask in masks_of(model, order):
            for index in examples.batches():
                batch = model.collate(examples, index)
                with model.intercept(Gating(mask_gates(mask, model)), batch):
                    model.forward(batch)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:nli")
    parser.add_argument("--data", default="builtin:nli/matched")
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--orders", type=int, default=40, help="even; more steady the variances")
    parser.add_argument("--stderr", type=float, default=0.005, help="of a head, on average")
    parser.add_argument("--signal", default="metric", choices=("metric", "loss"))
    arguments = parser.parse_args()

    model = load_model(arguments.model)
    examples = model.encode(load_data(arguments.data, limit=arguments.examples))
    name = "loss" if arguments.signal == "loss" else default_metric(model.task)
    metric = get_metric(name, task=model.task)
    evaluate(model, examples.head(32), [])  # warm-up

    rng = np.random.default_rng(1)
    gains, seconds = [], []
    for number in range(arguments.orders):
        order = rng.permutation(model.sites.n_heads)
        outcomes = evaluate(model, examples, masks_of(model, order), chained=True)
        values = [metric.compute(outcomes.row(i)) for i in range(len(order) + 1)]
        gain = np.zeros(len(order))
        gain[order] = -np.diff(values)
        gains.append(gain)
        if number < 3:
            seconds.append(plain_seconds(model, examples, order))
    plain_orders = np.var(gains, axis=0, ddof=1).mean() / arguments.stderr**2
    plain = plain_orders * float(np.median(seconds))

    started = time.perf_counter()
    method = Shapley(permutations=arguments.orders, signal=arguments.signal)
    found = method.score(model, examples)
    elapsed = time.perf_counter() - started
    variance = (found.frame["stderr"] ** 2).mean()
    ours = elapsed * variance / arguments.stderr**2
    estimate = found.tables["estimate"].iloc[0]
    print(
        f"Shapley values by {name} of {model.sites.n_heads} heads to a standard error of "
        f"{arguments.stderr:g} on {len(examples)} examples, {model.spec}: {ours:.0f} s "
        f"({arguments.orders * variance / arguments.stderr**2:.0f} orders), plain sampling "
        f"{plain:.0f} s ({plain_orders:.0f} orders): {plain / ours:.1f}x (wanted: 3); "
        f"{estimate['masks'] / (arguments.orders * model.sites.n_heads):.0%} of the sets "
        f"evaluated, {estimate['left out']:.1e} left out by truncation"
    )


if __name__ == "__main__":
    main()
