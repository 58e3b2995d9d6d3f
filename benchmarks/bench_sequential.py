"""Stopping early against full ablation: the share of forward passes, and whether verdicts agree.

The sequential test makes its claims about the evaluation set's mean, so a verdict agrees with the
full ablation if the head's accuracy delta on all examples bears it out: below 0 for needed, above 0
for harmful, above minus the margin for removable.
"""

from __future__ import annotations

import argparse

from headtool.analysis.sequential import SequentialTest
from headtool.data import load_data
from headtool.engine.evaluation import evaluate
from headtool.experiments.sequential import ablate_until_decided
from headtool.masks.singles import single_masks
from headtool.metrics import get_metric
from headtool.models import load_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:nli")
    parser.add_argument("--data", default="builtin:nli/matched")
    parser.add_argument("--margin", type=float, default=0.03)
    parser.add_argument("--correction", default="bonferroni")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    model = load_model(arguments.model)
    examples = model.encode(load_data(arguments.data))
    ablated = single_masks(model.sites, model.sites.heads)
    test = SequentialTest(
        model.sites.heads,
        margin=arguments.margin,
        total=len(examples),
        correction=arguments.correction,
    )
    runs = ablate_until_decided(model, examples, ablated, test, seed=arguments.seed)
    outcomes = evaluate(model, examples, [item.mask for item in ablated])
    accuracy = get_metric("accuracy", task=model.task)
    whole = accuracy.compute(outcomes.whole)
    wrong = []
    for number, (head, verdict) in enumerate(zip(model.sites.heads, test.verdicts, strict=True)):
        delta = accuracy.compute(outcomes.row(number)) - whole
        borne_out = {
            "needed": delta < 0,
            "harmful": delta > 0,
            "removable": delta > -arguments.margin,
            "undecided": True,
        }
        if not borne_out[verdict]:
            wrong.append(str(head))
    decided = int((test.verdicts != "undecided").sum())
    full = len(ablated) * len(examples)
    print(
        f"{len(ablated)} heads x {len(examples)} examples, {model.spec}, margin "
        f"{arguments.margin:g}: {runs / full:.1%} of the runs of a full ablation decide {decided} "
        f"heads; verdicts that the full ablation does not bear out: {', '.join(wrong) or 'none'}"
    )


if __name__ == "__main__":
    main()
