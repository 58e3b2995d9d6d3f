"""Find the attention heads that a classifier needs, and the method that finds them.

Run it with ``python examples/compare_classifier.py``; it takes about a minute on one core. Put your
own model and data into MODEL and DATA: a folder or hub id, and files with ``text`` (or ``text_a``
and ``text_b``) and ``label``.
"""

from __future__ import annotations

import headtool

MODEL = "builtin:nli"
DATA = ["builtin:nli/matched", "builtin:nli/mismatched"]


def main(limit: int = 200, draws: int | None = None) -> headtool.Comparison:
    """Compare three methods and print what they found."""
    # Half of the first data set scores the heads. Everything below is measured on the other half,
    # and on the second data set, which comes from another domain.
    found = headtool.compare(
        MODEL, DATA, methods=["gradient", "ablation", "confidence"], limit=limit, draws=draws
    )
    first, second = found.settings["data"]

    # 1. What single heads are worth. `undecided` is no finding: there are too few examples.
    verdicts = found.tests[found.tests["data"] == first]["verdict"].value_counts()
    print("heads one at a time:", verdicts.to_dict())

    # 2. Are the same heads important in the other domain? The p-value permutes heads within
    # layers, so that it does not take "the same layers" for "the same heads".
    (across,) = found.correlations.to_dict("records")
    print(
        f"{first} and {second}: rho {across['spearman']:.2f}, "
        f"p within layers {across['spearman_p_within_layers']:.2g}"
    )

    # 3. Do the methods rank the heads alike, and each itself on other examples?
    print(found.agreement[["method_x", "method_y", "tau_b", "tau_b_p_within_layers"]])
    print(found.stability[["method", "tau_b"]])

    # 4. Does a method beat random heads, and those that do, random heads of the same layers?
    # `area` is the mean advantage in accuracy over the pruning curve, with its interval; the claim
    # rests on how few draws do as well, corrected over the methods.
    against = found.curve_tests[found.curve_tests["method_y"].str.startswith("random")]
    print(against[["method_x", "area", "low", "high", "draws_beaten", "draws", "p_draws_adjusted"]])

    # 5. What is left of the accuracy, and which heads every method keeps, with half of them gone.
    half = found.settings["heads"] // 2
    budget = min(found.settings["budgets"], key=lambda heads: abs(heads - half))
    points = found.curves[found.curves["budget"] == budget]
    print(points[["method", "value", "delta", "low", "high"]])
    votes = found.consensus[found.consensus["budget"] == budget]
    print(votes["status"].value_counts().to_dict())

    # 6. Remove the half that matters least to the loss for good, and see what is left elsewhere.
    scoring = headtool.score(MODEL, DATA[0], methods=["gradient"], limit=limit)
    pruning = headtool.prune(MODEL, scores=scoring, remove="50%", data=DATA[1], limit=limit)
    print(f"{len(pruning.removed)} heads removed:", dict(pruning.quality["accuracy"]))
    return found


if __name__ == "__main__":
    main()
