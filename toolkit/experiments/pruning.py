"""Make a smaller model: what ``headtool prune`` does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.data.drawing import LimitOrder
from headtool.engine.divergence import compared
from headtool.engine.measurement import measure, resolve
from headtool.engine.units import Executor
from headtool.errors import HeadtoolError, unknown
from headtool.experiments.choosing import Choice, ScoresLike, open_scores
from headtool.experiments.inputs import (
    DataLike,
    DataSource,
    ModelSource,
    encode,
    open_model,
    read_data,
)
from headtool.experiments.planning import Sketch, begin
from headtool.heads import AttentionSite, HeadMask
from headtool.masks.selection import UNITS
from headtool.metrics import metric_of_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import Progress, silent
from headtool.pruning.onnx import check_exportable
from headtool.pruning.rescaling import least_squares_scales
from headtool.pruning.saving import save_baked, save_pruned
from headtool.pruning.smaller import Pruned
from headtool.pruning.smaller import bake as bake_model
from headtool.pruning.smaller import prune as prune_model
from headtool.results.folders import check_output
from headtool.schema import TABLES
from headtool.work import Passes
from headtool.workers.pool import WorkersLike, open_workers

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

__all__ = ["Pruning", "prune"]


@dataclass(frozen=True, eq=False)
class Pruning:
    """A smaller model, and what it saves and costs.

    Attributes
    ----------
    model
        The smaller model, ready for all that headtool does.
    mask
        The mask of the whole model that closes the heads that are gone.
    frame
        What is saved: parameters and operations before and after. A row for the unit that was
        asked for, and one for the other, where a model has key/value groups. Empty for a baked
        model.
    quality
        By metric, the values of the ``whole`` and the ``pruned`` model; empty without data.
    provenance
        What the heads were chosen by.
    notes
        What a reader must know, one line each.
    folder
        Where the model was written; None where that was not asked for.
    """

    model: ModelAdapter
    mask: HeadMask
    frame: pd.DataFrame
    quality: Mapping[str, Mapping[str, float]]
    provenance: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    folder: Path | None = None

    @property
    def removed(self) -> list[str]:
        """Names of the heads that are gone."""
        return [str(head) for head in self.mask.closed]

    def document(self) -> dict[str, Any]:
        """Return the result as JSON can hold it, in the format ``headtool/prune/1``."""
        return {
            "schema": "headtool/prune/1",
            "provenance": dict(self.provenance),
            "removed": self.removed,
            "savings": self.frame.to_dict("records"),
            "quality": {name: dict(values) for name, values in self.quality.items()},
        }


def prune(
    model: ModelAdapter | ModelSource | str = "builtin:nli",
    *,
    scores: ScoresLike | None = None,
    method: str | None = None,
    remove: str | None = None,
    keep_heads: int | None = None,
    verdict: str | None = None,
    mask: HeadMask | Path | str | None = None,
    keep_one_per_layer: bool = False,
    unit: str = "head",
    rescale: str | None = None,
    bake: bool = False,
    onnx: bool = False,
    data: DataLike | None = None,
    metric: str | None = None,
    limit: int | None = None,
    limit_order: LimitOrder = "seeded",
    batch_tokens: int = 4096,
    seed: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    workers: WorkersLike = None,
    progress: Progress = silent,
) -> Pruning:
    """Remove heads from a model for good; the given model stays as it is.

    The smaller model is compared with the masked one before it is returned. Say which heads to
    remove by one of `remove`, `keep_heads`, `verdict` and `mask`.

    Parameters
    ----------
    model
        A model, or its SPEC.
    scores
        What `headtool.score` or `headtool.ablate` returned, or the run directory that it wrote.
    method
        The method, where `scores` has several.
    remove
        Share of the heads to remove, such as ``"40%"``: those with the lowest scores.
    keep_heads
        Heads to keep, instead of `remove`.
    verdict
        Instead, the heads that `headtool.test` finds ``removable`` (or ``harmful``); `scores` must
        be of `headtool.ablate`.
    mask
        Instead, a mask, or a file that closes heads: headtool's JSON, heads by layer, or
        ``E:1:3 A:6:2``.
    keep_one_per_layer
        Never remove the last head of a layer.
    unit
        ``head``: keys and values stay while any head shares them; ``group``: remove whole
        key/value groups.
    rescale
        ``least-squares``: refit the scales of the heads that stay, layer by layer, to what the
        whole model computes on `data` (Kwon et al. 2022, mask tuning). Labels are not used.
    bake
        Make a model of full size that any software loads, in which the heads put out nothing.
    onnx
        Export the smaller model as ``model.onnx`` as well, for which `out` is needed.
    data
        A data set, or its SPEC, on which both models are measured and scales are refitted.
    metric
        The metric; None for the task's own. It comes with the loss.
    limit
        Examples to use; None for all.
    limit_order
        ``seeded`` draws them by `seed`, each class in its share; ``first`` takes the first ones.
    batch_tokens
        Tokens in a batch, padding included.
    seed
        Seed of everything random.
    out
        Where to write the model; None writes nothing. `headtool.load_pruned` loads it for training
        and generation.
    force
        Replace what headtool wrote there before.
    workers
        How many processes run the units of work, or a `headtool.Workers`; None: this one alone.
    progress
        Reports progress.

    Raises
    ------
    HeadtoolError
        If something does not fit, or heads cannot be removed from this model.

    Examples
    --------
    >>> import headtool
    >>> scoring = headtool.score("builtin:nli", limit=8)
    >>> pruning = headtool.prune("builtin:nli", scores=scoring, remove="25%")
    >>> len(pruning.removed), pruning.model.sites.n_heads
    (8, 24)
    """
    choice = Choice(
        scores=scores,
        method=method,
        remove=remove,
        keep_heads=keep_heads,
        verdict=verdict,
        mask=mask,
        keep_one_per_layer=keep_one_per_layer,
    )
    _check_unit(unit, mask)
    if rescale not in (None, "least-squares"):
        raise unknown("rescaling", str(rescale), ["least-squares"])
    on_data = data is not None and not (isinstance(data, DataSource) and data.spec is None)
    if metric is not None and not on_data:
        raise HeadtoolError(f"`metric` {metric} is measured on `data`, which is missing")
    folder = None if out is None else Path(out)
    check_output(folder, force=force)
    if onnx and folder is None:
        raise HeadtoolError("`onnx` is for a model that is written; give `out`")
    if bake and onnx:
        raise HeadtoolError("`onnx` exports the smaller model; leave `bake` out")
    opened = None if scores is None else open_scores(scores)
    text = None
    if on_data or rescale is not None:
        text = read_data(data, model, limit=limit, limit_order=limit_order, seed=seed)
    adapter = open_model(model)
    share = adapter is not model  # nobody else has it
    if onnx:
        check_exportable(adapter)
    examples = None
    if text is not None:
        examples = encode(adapter, text, batch_tokens=batch_tokens, seed=seed)

    def choose(by: str) -> HeadMask:
        return choice.of(adapter, opened, unit=by, seed=seed)

    chosen = choose(unit)
    notes: list[str] = []
    if unit == "group" and verdict is None:
        notes.append(f"{len(chosen.closed)} heads go: as many as make whole groups")
    tied = choice.tied(adapter, opened, chosen, unit=unit)
    if tied is not None:
        notes.append(
            f"the cut falls among {tied['heads']} heads with equal scores, of which "
            f"{tied['removed']} go: by the loss where ablation measured it, else by the seed"
        )
    sketch = Sketch("prune", adapter)
    if examples is not None and rescale is not None:
        sketch.add("rescale", Passes(forward=2 * len(adapter.sites)), examples)
    if examples is not None and on_data:
        sketch.masks("quality", 1, examples, resolve(adapter, metric))
    meter = begin(progress, sketch.plan(), adapter, examples)
    scales = None
    if rescale is not None:
        assert examples is not None
        with meter.phase("rescale"):
            scales = least_squares_scales(adapter, examples, chosen, progress=meter)
        notes += _note_of_scales(scales, len(examples))
    source = {**choice.described(), "unit": unit, "rescale": rescale, "tied": tied}
    rows: list[dict[str, Any]] = []
    if bake:
        pruned = None
        smaller = bake_model(adapter, chosen, scales, share=share)
    else:
        pruned = prune_model(adapter, chosen, scales, share=share)
        smaller = pruned.model
        rows.append(_savings(unit, chosen, pruned))
        if mask is None and any(site.n_kv_heads != site.n_heads for site in adapter.sites):
            rows += _other_savings(adapter, choose, unit)
    quality = {}
    if on_data and examples is not None:
        with open_workers(workers) as execute, meter.phase("quality"):
            quality = _quality(adapter, smaller, examples, metric, execute, meter)
    if folder is not None:
        if pruned is None:
            removed = [str(head) for head in chosen.closed]
            save_baked(smaller, removed, folder, source=source, force=force)
        else:
            save_pruned(pruned, folder, source=source, force=force, onnx=onnx)
    return Pruning(
        smaller,
        chosen,
        TABLES["savings"].frame(rows),
        quality,
        {"model": adapter.spec, "library": adapter.library, **source},
        tuple(notes),
        folder,
    )


def _check_unit(unit: str, mask: object) -> None:
    if mask is not None and unit != "head":
        raise HeadtoolError("`mask` names the heads itself; leave `unit` out")
    if unit not in UNITS:
        raise unknown("unit", unit, UNITS)


def _note_of_scales(scales: Mapping[AttentionSite, Tensor], examples: int) -> list[str]:
    """Say by how much the heads that stay were rescaled."""
    import torch

    of_open = torch.cat([scale[scale != 0] for scale in scales.values()])
    if not len(of_open):
        return []
    return [
        f"heads that stay were rescaled on {examples} examples, by "
        f"{of_open.min():.3g} to {of_open.max():.3g}"
    ]


def _savings(unit: str, mask: HeadMask, pruned: Pruned) -> dict[str, Any]:
    before, after = dataclasses.asdict(pruned.before), dataclasses.asdict(pruned.after)
    row: dict[str, Any] = {"unit": unit, "heads_removed": len(mask.closed)}
    for name, value in before.items():
        row |= {name: value, f"{name}_after": after[name]}
    return row | {"sequence_length": pruned.length, "difference": pruned.difference}


def _other_savings(
    model: ModelAdapter, choose: Callable[[str], HeadMask], unit: str
) -> list[dict[str, Any]]:
    """What the other unit would save; nothing where it cannot remove so many heads."""
    other = next(name for name in UNITS if name != unit)
    try:
        mask = choose(other)
        return [_savings(other, mask, prune_model(model, mask, share=True))]
    except HeadtoolError:
        return []


def _quality(
    whole: ModelAdapter,
    smaller: ModelAdapter,
    examples: Examples,
    metric: str | None,
    execute: Executor,
    progress: Progress,
) -> dict[str, dict[str, float]]:
    """The metric (and the loss) of both models."""
    names = dict.fromkeys([metric_of_model(whole, metric).name, "loss"])
    values: dict[str, dict[str, float]] = {}
    for name in names:
        measured_by = metric_of_model(whole, name)
        if measured_by.compares:
            pairs = (("whole", whole), ("pruned", smaller))
            values[name] = {
                part: measured_by.compute(compared(whole, model, examples)) for part, model in pairs
            }
            continue
        values[name] = {
            part: measured_by.compute(
                measure(
                    model, examples, [], measured_by, execute=execute, progress=progress
                ).outcomes.whole
            )
            for part, model in (("whole", whole), ("pruned", smaller))
        }
    return values
