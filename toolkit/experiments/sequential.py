"""Ablate each head only until its verdict is clear: ``headtool ablate --sequential``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.sequential import SequentialTest
from headtool.data.drawing import LimitOrder
from headtool.engine.counting import mask_shares
from headtool.engine.evaluation import evaluate
from headtool.engine.measurement import resolve
from headtool.engine.provenance import provenance
from headtool.engine.units import Executor, in_turn
from headtool.errors import HeadtoolError
from headtool.experiments.ablating import ablated_heads, heads_to_ablate
from headtool.experiments.inputs import DataLike, ModelSource, encode, open_model, read_data
from headtool.experiments.planning import Sketch, begin
from headtool.heads import Head, Kind
from headtool.masks.singles import Ablated
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import Progress, ProgressLike, counted, silent
from headtool.reports.contents.held import Held
from headtool.reports.results import EffectPlots
from headtool.results.folders import check_output
from headtool.results.runs import write_run
from headtool.results.scores import json_rows
from headtool.workers.pool import WorkersLike, open_workers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Decider", "SequentialAblation", "ablate_sequentially", "ablate_until_decided"]

_BLOCK = 64  # examples between two looks


@dataclass(frozen=True, eq=False, repr=False)
class SequentialAblation(EffectPlots):
    """Verdicts on heads, each from as many examples as it took.

    Attributes
    ----------
    frame
        A row per head: the table ``sequential`` of `headtool.schema`.
    share
        Runs of masked models on examples, as a share of those of a full ablation.
    provenance
        What reproduces it: options, model and data fingerprints, seed, versions.
    folder
        The run directory; None where none was asked for.
    """

    frame: pd.DataFrame
    share: float
    provenance: Mapping[str, Any]
    folder: Path | None = None

    def held(self) -> Held:
        """Return what its run directory holds, for its report."""
        return Held({"sequential": dict(self.provenance)}, {"sequential": self.frame})

    def document(self) -> dict[str, Any]:
        """Return the verdicts as JSON can hold them, in the format ``headtool/tests/1``."""
        return {
            "schema": "headtool/tests/1",
            "provenance": dict(self.provenance),
            "tests": json_rows(self.frame),
        }


def ablate_sequentially(
    model: ModelAdapter | ModelSource | str = "builtin:nli",
    data: DataLike | None = None,
    *,
    heads: Sequence[Head | str] | None = None,
    kinds: Iterable[Kind] | None = None,
    margin: float = 0.01,
    limit: int | None = None,
    limit_order: LimitOrder = "seeded",
    batch_tokens: int | None = 4096,
    seed: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    command: str = "",
    workers: WorkersLike = None,
    progress: ProgressLike = silent,
) -> SequentialAblation:
    """Stop each head of a classifier as soon as its verdict is clear, by anytime-valid tests.

    Heads are closed one at a time, to zero, and judged by accuracy.

    Parameters
    ----------
    model
        A classifier, or its SPEC.
    data
        A data set, or its SPEC; None for the built-in set of a built-in model.
    heads
        Heads to close, such as ``["enc-self.3.7"]``; None for all of `kinds`.
    kinds
        Attention kinds whose heads are closed; None for all.
    margin
        Accuracy that a removable head may cost.
    limit
        Examples to use; None for all.
    limit_order
        ``seeded`` draws them by `seed`, each class in its share; ``first`` takes the first ones.
    batch_tokens
        Tokens in a batch, padding included; None: as many as fit into the memory.
    seed
        Draws the order of the examples.
    out
        Run directory to write.
    force
        Replace a run that is there.
    command
        The command line that makes the run again, for its manifest.
    workers
        How many processes run the units of work, or a `headtool.Workers`; None: this one alone.
    progress
        Reports progress; True shows a bar.

    Raises
    ------
    HeadtoolError
        If something does not fit, or the model is no classifier.

    Examples
    --------
    >>> import headtool
    >>> decided = headtool.ablate_sequentially("builtin:nli", limit=64, heads=["enc-self.0.1"])
    >>> decided.frame[["kind", "layer", "head", "verdict"]]
           kind  layer  head    verdict
    0  enc-self      0     1  removable
    """
    kinds = None if kinds is None else tuple(kinds)
    chosen = heads_to_ablate(heads, kinds)
    folder = None if out is None else Path(out)
    check_output(folder, force=force)
    text = read_data(data, model, limit=limit, limit_order=limit_order, seed=seed)
    adapter = open_model(model)
    ablated = ablated_heads(adapter, chosen, kinds)
    if adapter.task != "classification":
        raise HeadtoolError(
            "sequential tests need outcomes within bounds, such as right or wrong; "
            f"{adapter.spec} is a {adapter.task} model, whose loss has none"
        )
    examples = encode(adapter, text, batch_tokens=batch_tokens, seed=seed)
    settings = {
        "all_but_one": False,
        "rescale": False,
        "replacement": "zero",
        "sequential": True,
        "margin": margin,
    }
    source = provenance(adapter, examples, "ablate", settings, "accuracy", seed)
    test = SequentialTest([item.head for item in ablated], margin=margin, total=len(examples))
    sketch = Sketch("ablate", adapter)
    share = sum(mask_shares(adapter, [item.mask for item in ablated])) / len(ablated)
    sketch.masks(
        *("ablate", len(ablated), examples, resolve(adapter, "accuracy")),
        share=share,
        least=min(1.0, _BLOCK / len(examples)),
        what="until decided",
    )
    meter = begin(progress, sketch.plan(), adapter, examples)
    with open_workers(workers) as execute:
        runs = ablate_until_decided(
            adapter, examples, ablated, test, seed=seed, execute=execute, progress=meter
        )
    frame = test.frame()
    share = runs / (len(ablated) * len(examples))
    source["share_of_runs"] = share
    if folder is not None:
        write_run(
            folder,
            command=command,
            provenance={"sequential": source},
            tables={"sequential": frame},
            cost=meter.record(),
            force=force,
        )
    return SequentialAblation(frame, share, source, folder)


class Decider(Protocol):
    """Takes paired outcomes block by block and says for which masks it wants more."""

    @property
    def active(self) -> NDArray[np.int64]:
        """Numbers of the masks that are not decided."""
        ...

    def update(self, outcomes: NDArray[np.float64]) -> None:
        """Take the next examples' outcomes of the active masks, [active, examples]."""
        ...


def ablate_until_decided(
    model: ModelAdapter,
    examples: Examples,
    ablated: Sequence[Ablated],
    decider: Decider,
    *,
    seed: int,
    block: int = _BLOCK,
    execute: Executor = in_turn,
    progress: Progress = silent,
) -> int:
    """Ablate heads of a classifier until each is decided, or the examples are used up.

    Examples come in one random order. A head's outcome on an example is whether it is classified
    rightly without the head, minus whether it is with it: 1, 0 or -1.

    Parameters
    ----------
    model
        The model.
    examples
        Its data.
    ablated
        The heads.
    decider
        Decides; see `headtool.analysis.sequential`.
    seed
        Draws the order of the examples.
    block
        Examples between two looks.
    execute
        Runs the units of work.
    progress
        Reports progress; True shows a bar.

    Returns
    -------
    int
        How many times a masked model was run on an example; a full ablation does so
        ``heads x examples`` times.
    """
    order = np.random.default_rng(seed).permutation(len(examples))
    starts = range(0, len(order), block)
    runs = 0
    shares = mask_shares(model, [item.mask for item in ablated])
    latest = 0.0

    def work(start: int) -> float:
        return latest

    for start in counted(progress, starts, total=len(starts), label="ablate", work=work):
        active = decider.active
        if not len(active):
            break
        part = examples.take(order[start : start + block])
        masks = [ablated[i].mask for i in active]
        outcomes = evaluate(model, part, masks, execute=execute)
        latest = float(part.lengths.sum()) * (1 + sum(shares[i] for i in active))
        gold = outcomes.whole["gold"]
        whole = outcomes.whole["prediction"] == gold
        masked = outcomes.masked["prediction"] == gold
        decider.update(masked.astype(np.float64) - whole)
        runs += masked.size
    return runs
