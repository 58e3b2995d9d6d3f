"""First primitive: what a model does to every example when some of its heads are closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from headtool.engine.counting import mask_shares, unit_tokens
from headtool.engine.passes import mask_gates
from headtool.engine.replacement import Replacement, Zero
from headtool.engine.running import Runner
from headtool.engine.stepping import Stepping, batches_of, joined
from headtool.engine.store import UnitStore
from headtool.engine.units import Executor, Unit, UnitResult, cut, in_turn, run_units
from headtool.heads import HeadMask
from headtool.models.answers import gathered, spread
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.source import check_wrapped
from headtool.progress import ProgressLike, silent
from headtool.results.outcomes import Outcomes
from headtool.results.progress_bar import shown

__all__ = ["evaluate"]

_LABEL = "evaluate"


def evaluate(
    model: ModelAdapter,
    examples: Examples,
    masks: Sequence[HeadMask],
    *,
    replacement: Replacement | None = None,
    rescale: bool = False,
    chained: bool | None = False,
    divergence: bool = False,
    store: UnitStore | None = None,
    execute: Executor = in_turn,
    progress: ProgressLike = silent,
) -> Outcomes:
    """Run the whole model and every masked model over a data set.

    What a mask cannot change is computed once a batch (`headtool.engine.replay`), and masks share a
    forward pass while a batch has room for them. On a CPU, batches are cut where
    that saves padding. The numbers are those of one run a mask, up to rounding.

    Parameters
    ----------
    model
        The model; its weights stay as they are.
    examples
        The data set, as ``model.encode`` returned it.
    masks
        Which heads are open, one run each. None of them: the whole model alone.
    replacement
        What a closed head puts out; zero by default.
    rescale
        Whether the open heads of a site are multiplied by heads / open heads.
    chained
        Whether each mask starts from the mask before it instead of from the whole model: where they
        first differ. It pays where many heads are closed and few change from mask to mask. None:
        in batches that few masks would share. It pays where most masks close heads of the first
        layer.
    divergence
        Whether the outcomes also have ``kl``: how far the masked model's predictions are from the
        whole one's, summed over the scored tokens. It takes memory for all of a batch's logits.
    store
        Keeps finished units; those that it has already are not computed again.
    execute
        Who runs the units.
    progress
        Reports progress; True shows a bar.

    Returns
    -------
    Outcomes
        Per-example statistics [masks, examples], with the whole model's.

    Raises
    ------
    HeadtoolError
        If a loss is not a finite number.

    Examples
    --------
    >>> from headtool import evaluate
    >>> from headtool import HeadMask, load_data, load_model
    >>> model = load_model("builtin:nli", device="cpu")
    >>> examples = model.encode(load_data("builtin:nli/matched", limit=4))
    >>> masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads[:2]]
    >>> evaluate(model, examples, masks).masked["loss"].shape
    (2, 4)
    """
    check_wrapped(model)
    columns: dict[str, NDArray[np.float64]] = {}
    rows = spread(examples)  # where an example has several answers, a row for each

    def prepare() -> Callable[[Unit], UnitResult]:
        filled = replacement or Zero()
        runner = Runner(
            model,
            rows,
            [mask_gates(mask, model, rescale=rescale) for mask in masks],
            filled.fit(model, rows, shown(progress)),
            first_position=not filled.aligned,
            chained=chained,
            divergence=divergence,
            label=_LABEL,
        )
        return Stepping(runner.run, joined(1), model, rows, _LABEL, repeats=True)

    units = cut(batches_of(model, rows), len(masks))
    shares = mask_shares(model, masks, chained=bool(chained))
    once = 2.0 if replacement is not None and replacement.aligned else 1.0  # donors run as well

    def work(unit: Unit) -> float:
        own = sum(shares[mask] for mask in unit.masks)
        return unit_tokens(rows, unit) * (own + (once if unit.masks.start == 0 else 0.0))

    for unit, result in run_units(
        units,
        prepare,
        label=_LABEL,
        execute=execute,
        store=store,
        progress=progress,
        work=work,
    ):
        for name, values in result.items():
            if name not in columns:
                columns[name] = np.full((1 + len(masks), len(rows)), np.nan)
            columns[name][0, unit.examples] = values[0]
            for mask, row in zip(unit.masks, values[1:], strict=True):
                columns[name][1 + mask, unit.examples] = row
    columns = gathered(examples, columns)
    whole = {name: values[0] for name, values in columns.items()}
    return Outcomes(tuple(masks), whole, {name: values[1:] for name, values in columns.items()})
