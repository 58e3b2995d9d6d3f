"""Prune the heads of a translation model, and see which kind of attention it costs most to lose.

Run it with ``python examples/prune_translation.py``; it takes about a minute on one core and needs
fairseq. For your own model, MODEL is a transformers folder or ``fairseq:CHECKPOINT.pt``, and DATA
two line-aligned files, ``SOURCE.de,REFERENCE.en``.
"""

from __future__ import annotations

import headtool

MODEL = "builtin:mt"
DATA = "builtin:mt/test"


def main(limit: int = 60, draws: int = 5) -> headtool.Comparison:
    """Prune by two methods and print the loss in BLEU, kind by kind."""
    # BLEU is of translations that the masked models search for themselves. `per_kind` adds curves
    # in which only encoder self-attention, decoder self-attention or cross-attention loses heads
    # (Michel, Levy & Neubig 2019, figure 4). A layer never loses its last head.
    found = headtool.compare(
        MODEL,
        DATA,
        methods=["gradient", "ablation"],
        metric="bleu",
        steps="25%",
        per_kind=True,
        keep_one_per_layer=True,
        limit=limit,
        draws=draws,
    )
    spec = found.settings["data"][0]
    print(f"the whole model: {found.settings['whole'][spec]['bleu']:.1f} BLEU")

    # Rows: which heads were up for removal; columns: how many of them are gone.
    means = found.curves[found.curves["method"] == "ablation"]
    for kind, points in means.groupby("kind", sort=False):
        steps = zip(points["share"], points["value"], strict=True)
        print(f"{kind:9}", "  ".join(f"{share:.0%}: {value:.1f}" for share, value in steps))

    # Ablations of single heads do not add up. A negative gap means that the heads removed together
    # cost more than the sum of what each costs alone.
    gaps = found.additivity[found.additivity["method"] == "ablation"]
    print(gaps[["budget", "joint", "sum_of_singles", "gap", "low", "high"]])

    # Selecting and evaluating on the same sentences flatters a method by this much.
    print(found.optimism[["method", "budget", "optimism", "low", "high"]])
    return found


if __name__ == "__main__":
    main()
