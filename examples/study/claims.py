"""Print the figures of docs/study.md that the study's report does not hold.

Run it with ``python examples/study/claims.py runs/study``, once the study has run. It reads the
saved tables of the cells and computes nothing anew.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

import headtool

HEAD = ["kind", "layer", "head"]
COSTLY = ("ablation", "integrated", "shapley", "gates", "dsp")


@dataclass(frozen=True)
class Cell:
    """A comparison: its names, what was asked of it, and its run."""

    model: str
    seed: str
    task: str
    settings: Mapping[str, Any]
    run: headtool.Run


Cells = Mapping[str, Cell]


def curve(cell: Cell, method: str, share: float) -> float:
    """The metric with the share of the heads gone; of random masks the mean."""
    rows = cell.run.table("curves")
    rows = rows[(rows["kind"] == "all") & (rows["method"] == method)]
    return float(rows.loc[(rows["share"] - share).abs().idxmin(), "value"])


def effects(cell: Cell) -> pd.Series:
    """What closing each head costs: a rise of the loss, or a fall of the accuracy."""
    rows = cell.run.table("tests").set_index(HEAD)["delta"]
    return -rows if cell.settings["higher_is_better"] else rows


def heads(cells: Cells) -> Iterator[str]:
    """Heads that tests find to be needed or harmful, cell by cell."""
    for name, cell in cells.items():
        found = cell.run.table("tests")["verdict"].value_counts()
        told = ", ".join(f"{found[v]} {v}" for v in ("needed", "harmful") if v in found)
        yield f"{name}: {told or 'none needed or harmful'} of {found.sum()} heads"


def plateaus(cells: Cells) -> Iterator[str]:
    """The best method and random masks with 20% and 40% of the heads gone."""
    for name, cell in cells.items():
        chosen = max if cell.settings["higher_is_better"] else min
        told = [f"whole {curve(cell, 'random', 0.0):.3g}"]
        for share in (0.2, 0.4):
            values = {method: curve(cell, method, share) for method in cell.settings["methods"]}
            best = chosen(values, key=values.__getitem__)
            kept = f"{best} {values[best]:.3g}, random {curve(cell, 'random', share):.3g}"
            told.append(f"{share:.0%} gone {kept}")
        yield f"{name} ({cell.settings['metric']}): " + "; ".join(told)


def gradient(cells: Cells) -> str:
    """How often the order by gradients is better than that by single ablations, beyond chance."""
    count = {"better": 0, "worse": 0, "neither": 0}
    for cell in cells.values():
        rows = cell.run.table("curve_tests")
        row = rows[rows["method_x"].eq("ablation") & rows["method_y"].eq("gradient")]
        low, high = row.loc[row["kind"] == "all", ["low", "high"]].iloc[0]
        count["better" if high < 0 else "worse" if low > 0 else "neither"] += 1
    return f"gradient against ablation, by area: {count}"


def kinds(cells: Cells) -> Iterator[str]:
    """Mean effect of closing a head of each kind, of encoder-decoder models."""
    for name, cell in cells.items():
        means = effects(cell).groupby("kind").mean()
        if len(means) > 1:
            yield f"{name}: " + ", ".join(f"{kind} {mean:.3g}" for kind, mean in means.items())


def correlations(cells: Cells) -> Iterator[str]:
    """Of effects in the same places, between tasks of a model and between seeds on a task."""
    for (one, x), (other, y) in itertools.combinations(cells.items(), 2):
        if x.model != y.model or (x.seed != y.seed and x.task != y.task):
            continue
        both = pd.concat({"x": effects(x), "y": effects(y)}, axis=1)
        inside = both - both.groupby(["kind", "layer"]).transform("mean")
        found = {
            "Pearson": both.corr().iloc[0, 1],
            "Spearman": both.corr("spearman").iloc[0, 1],
            "within layers": inside.corr().iloc[0, 1],
        }
        told = ", ".join(f"{what} {value:.2f}" for what, value in found.items())
        yield f"{one} and {other}: {told}"


def halves(cells: Cells) -> Iterator[str]:
    """What is left with 40% and 60% of the heads gone, for methods that take many passes."""
    for name, cell in cells.items():
        told = [
            f"{method} {curve(cell, method, 0.4):.3g}, {curve(cell, method, 0.6):.3g}"
            for method in (*COSTLY, "random")
        ]
        yield f"{name}: " + "; ".join(told)


def retrieval(cells: Cells) -> Iterator[str]:
    """How the heads that retrieve rank by single ablations."""
    for name, cell in cells.items():
        scores = cell.run.table("scores").set_index(HEAD)
        if "retrieval" not in set(scores["method"]):
            continue
        own = scores[scores["method"] == "retrieval"]["score"]
        first = own.nlargest(3)
        effect = effects(cell)
        ranks = effect.rank(ascending=False).loc[first.index].astype(int).tolist()
        yield (
            f"{name}: {(own > 0.1).sum()} of {len(own)} heads retrieve a tenth of what is copied; "
            f"the first three ({first.round(2).tolist()}) rank {ranks} by what closing them costs; "
            f"Spearman with it {own.corr(effect, 'spearman'):.2f}"
        )


def circuits(cells: Cells) -> str:
    """In how many planted models a method keeps what is needed, with 60% of the heads gone."""
    planted = [cell for cell in cells.values() if cell.model == "planted"]
    found = {
        method: sum(curve(c, method, 0.6) < curve(c, "random", 0.0) + 0.05 for c in planted)
        for method in (planted[0].settings["methods"] if planted else ())
    }
    return f"planted models of {len(planted)} that are as good with 60% gone: {found}"


def main(place: str) -> None:
    """Print all of it."""
    done = [cell for cell in headtool.study_status(place).study.cells if cell.state == "done"]
    cells = {}
    for one in done:
        run = headtool.read_run(one.run)
        settings = run.manifest["provenance"]["compare"]
        cells[one.id] = Cell(one.model, one.replicate, one.task, settings, run)
    parts = {
        "Needed and harmful heads": heads(cells),
        "Plateaus": plateaus(cells),
        "Gradients and ablations": [gradient(cells)],
        "Kinds of attention": kinds(cells),
        "What takes many passes": halves(cells),
        "Correlations of effects": correlations(cells),
        "Retrieval": retrieval(cells),
        "Planted circuits": [circuits(cells)],
    }
    for title, lines in parts.items():
        print(f"\n{title}\n")
        for line in lines:
            print(f"- {line}")


if __name__ == "__main__":
    main(sys.argv[1])
