"""Make a smaller model: what ``headtool prune`` does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.data.drawing import LimitOrder
from headtool.engine.constants import constants_of
from headtool.engine.measurement import resolve
from headtool.errors import HeadtoolError, unknown
from headtool.experiments.choosing import Choice, ScoresLike, open_scores
from headtool.experiments.compensation import (
    check_fitting,
    curve_candidates,
    curve_masks,
    sketch,
    stages_of,
)
from headtool.experiments.finetuning import recover
from headtool.experiments.fitting import Parts, parts_of
from headtool.experiments.inputs import (
    DataLike,
    DataSource,
    ModelSource,
    encode,
    held,
    open_model,
    read_data,
)
from headtool.experiments.planning import begin
from headtool.experiments.pruned_folders import Destination, PrunedFolder
from headtool.experiments.recovery import Recovery
from headtool.experiments.savings import note_of_scales, other_savings, savings
from headtool.experiments.worth import Candidate, curve_frame, worth_frame
from headtool.heads import HeadMask
from headtool.masks.selection import UNITS
from headtool.models.base import ModelAdapter
from headtool.progress import ProgressLike, silent
from headtool.pruning.onnx import check_exportable
from headtool.pruning.rescaling import least_squares_scales
from headtool.pruning.smaller import bake as bake_model
from headtool.pruning.smaller import prune as prune_model
from headtool.results.display import Tabled
from headtool.results.folders import check_output
from headtool.results.scores import json_rows
from headtool.schema import TABLES
from headtool.searching import Search
from headtool.workers.pool import WorkersLike, open_workers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Pruning", "prune"]


@dataclass(frozen=True, eq=False, repr=False)
class Pruning(Tabled):
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
    recovery
        What the model is worth whole, with the heads closed, and pruned, by the metric and the
        loss, with intervals; no rows without data.
    curve
        What is left as heads go by the same scores, where they put out nothing and where they put
        out constants; no rows where there are none.
    provenance
        What the heads were chosen by.
    notes
        What a reader must know, one line each.
    folder
        Where the model was written; None where that was not asked for.
    place
        Where it can be seen on the hub; empty where it was not pushed.
    """

    model: ModelAdapter
    mask: HeadMask
    frame: pd.DataFrame
    recovery: pd.DataFrame
    curve: pd.DataFrame
    provenance: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    folder: Path | None = None
    place: str = ""

    @property
    def removed(self) -> list[str]:
        """Names of the heads that are gone."""
        return [str(head) for head in self.mask.closed]

    @property
    def quality(self) -> dict[str, dict[str, float]]:
        """By metric, the values of the ``whole`` and the ``pruned`` model; empty without data."""
        return {
            str(name): {
                "whole": float(rows["value"].iloc[0]),
                "pruned": float(rows["value"].iloc[-1]),
            }
            for name, rows in self.recovery.groupby("metric", sort=False)
        }

    def document(self) -> dict[str, Any]:
        """Return the result as JSON can hold it, in the format ``headtool/prune/1``."""
        return {
            "schema": "headtool/prune/1",
            "provenance": dict(self.provenance),
            "removed": self.removed,
            "savings": self.frame.to_dict("records"),
            "quality": self.quality,
            "recovery": json_rows(self.recovery),
            "curve": json_rows(self.curve),
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
    replace: str | None = None,
    curve: bool = True,
    finetune: DataLike | None = None,
    steps: int = Recovery.steps,
    lr: float | None = Recovery.lr,
    batch_size: int = Recovery.batch_size,
    lora: bool = Recovery.lora,
    bake: bool = False,
    onnx: bool = False,
    data: DataLike | None = None,
    metric: str | None = None,
    search: Search | None = None,
    limit: int | None = None,
    limit_order: LimitOrder = "seeded",
    batch_tokens: int | None = 4096,
    seed: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    push: str | None = None,
    private: bool = False,
    command: str = "",
    workers: WorkersLike = None,
    progress: ProgressLike = silent,
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
    replace
        What the heads that are gone put out, which becomes part of the output projections' biases:
        ``mean``, their means, or ``optimal``, the constants with the least loss; see
        `headtool.engine.constants.constants_of`. Nothing by default.
    curve
        With `replace` and heads chosen by scores, also measure what is left when other shares go.
    finetune
        A data set, or its SPEC, on which the pruned model is trained.
    steps, lr, batch_size, lora
        How it is trained; see `headtool.experiments.recovery.Recovery`.
    bake
        Make a model of full size that any software loads, in which the heads put out nothing.
    onnx
        Export the smaller model as ``model.onnx`` as well, for which `out` is needed.
    data
        A data set, or its SPEC, on which both models are measured and scales are refitted. With
        `replace` or `finetune`, nothing is fitted to what measures: a data set that stands alone is
        halved, and examples of `finetune` that are in `data` are left out.
    metric, search
        The metric, and how it decodes; None for the task's and the model's own. The loss is beside.
    limit
        Examples of `data` to use; None for all. Of another `finetune`, as many are drawn as the
        steps can see.
    limit_order
        ``seeded`` draws them by `seed`, each class in its share; ``first`` takes the first ones.
    batch_tokens
        Tokens in a batch, padding included; None: as many as fit into the memory.
    seed
        Seed of everything random.
    out
        Where to write the model; None writes nothing. `headtool.load_pruned` loads it for training
        and generation.
    force
        Replace what headtool wrote there before.
    push
        Also upload the folder to the Hugging Face hub, as this repository, such as ``org/name``.
    private
        With `push`, make the repository private if it is new.
    command
        The command line that makes the model again, for its report.
    workers
        How many processes run the units of work, or a `headtool.Workers`; None: this one alone.
    progress
        Reports progress; True shows a bar.

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
    recovery = Recovery(steps=steps, lr=lr, batch_size=batch_size, lora=lora)
    data, finetune = held(data), held(finetune)
    on_data = data is not None and not (isinstance(data, DataSource) and data.spec is None)
    fits = replace is not None or finetune is not None
    check_fitting(replace, recovery, finetune=finetune is not None, rescale=rescale, bake=bake)
    if (metric or search) and not (on_data or fits):
        name = metric or "of `search`"
        raise HeadtoolError(f"`metric` {name} is measured on `data`, which is missing")
    folder = None if out is None else Path(out)
    check_output(folder, force=force)
    to = Destination(out=folder, force=force, bake=bake, onnx=onnx, push=push, private=private)
    opened = None if scores is None else open_scores(scores)
    read = partial(read_data, model=model, limit=limit, limit_order=limit_order, seed=seed)
    tuned = None
    if finetune is not None:
        # One data set is halved; of another one, as much as the steps can see is enough.
        specs = {getattr(given, "spec", given) for given in (finetune, data)}
        alone = not on_data or len(specs) == 1
        tuned = read(finetune) if alone else read(finetune, limit=steps * batch_size)
    text = None
    if on_data or rescale is not None or (fits and tuned is None):
        text = read(data)
    adapter = open_model(model)
    share = adapter is not model and finetune is None  # nobody else has it, or changes it
    if onnx:
        check_exportable(adapter)
    parts = None
    if fits:
        parts = parts_of(adapter, text, tuned, batch_tokens=batch_tokens, seed=seed)
    elif text is not None:
        examples = encode(adapter, text, batch_tokens=batch_tokens, seed=seed)
        parts = Parts(examples, examples, "")

    def choose(by: str) -> HeadMask:
        return choice.of(adapter, opened, unit=by, seed=seed)

    chosen = choose(unit)
    notes: list[str] = []
    if parts is not None and parts.note:
        notes.append(parts.note)
    if unit == "group" and verdict is None:
        notes.append(f"{len(chosen.closed)} heads go: as many as make whole groups")
    tied = choice.tied(adapter, opened, chosen, unit=unit)
    if tied is not None:
        notes.append(
            f"the cut falls among {tied['heads']} heads with equal scores, of which "
            f"{tied['removed']} go: by the loss where ablation measured it, else by the seed"
        )
    if on_data and parts is not None and choice.saw(opened, parts.test.data):
        notes.append(
            "the heads were scored on this data set, which flatters what is left; measure on other "
            "data with `data`"
        )
    measures = resolve(adapter, metric, search) if parts and (on_data or fits) else None
    tuning = None if finetune is None else recovery
    plan = sketch(adapter, parts, measures, rescale=rescale, replace=replace, recovery=tuning)
    meter = begin(progress, plan, adapter, None if parts is None else parts.test)
    scales = constants = None
    if rescale is not None:
        assert parts is not None
        with meter.phase("rescale"):
            scales = least_squares_scales(adapter, parts.fit, chosen, progress=meter)
        notes += note_of_scales(scales, len(parts.fit))
    if replace is not None:
        assert parts is not None
        with meter.phase("constants"):
            constants = constants_of(replace, adapter, parts.fit, chosen, seed=seed, progress=meter)
    source = {**choice.described(), "unit": unit, "rescale": rescale, "tied": tied}
    source |= {"replace": replace, "finetune": None, "parts": parts.note if parts else None}
    rows: list[dict[str, Any]] = []
    stages = stages_of(adapter, chosen, rescale, replace, constants)
    if bake:
        pruned = None
        smaller = bake_model(adapter, chosen, scales, share=share, constants=constants)
    else:
        pruned = prune_model(adapter, chosen, scales, share=share, constants=constants)
        smaller = pruned.model
        rows.append(savings(unit, chosen, pruned))
        if mask is None and any(site.n_kv_heads != site.n_heads for site in adapter.sites):
            rows += other_savings(adapter, choose, unit)
        if finetune is not None:
            assert parts is not None
            with meter.phase("fine-tune"):
                smaller = recover(smaller, parts.fit, recovery, seed=seed, progress=meter)
            pruned = dataclasses.replace(pruned, model=smaller)
            source["finetune"] = {**recovery.described(), "data": parts.fit.data.spec}
            stages.append(Candidate("finetuned", smaller))
    stages[-1] = Candidate(stages[-1].stage, smaller)
    worth, points = TABLES["recovery"].empty(), TABLES["pruning_curve"].empty()
    if parts is not None and measures is not None:
        candidates: list[Candidate] = []
        if replace is not None and curve and (remove is not None or keep_heads is not None):
            masks = curve_masks(choice, adapter, opened, unit=unit, seed=seed)
            candidates = curve_candidates(
                replace, adapter, parts.fit, masks, constants or {}, seed=seed
            )
        with open_workers(workers) as execute, meter.phase("quality"):
            how: dict[str, Any] = {"seed": seed, "execute": execute, "progress": meter}
            worth = worth_frame(adapter, stages, parts.test, measures, **how)
            if candidates:
                points = curve_frame(adapter, candidates, parts.test, measures, **how)
    result = Pruning(
        smaller,
        chosen,
        TABLES["savings"].frame(rows),
        worth,
        points,
        {"model": adapter.spec, "library": adapter.library, **source},
        tuple(notes),
        folder,
    )
    made = PrunedFolder(
        whole=adapter,
        model=smaller,
        pruned=pruned,
        mask=chosen,
        method=choice.scored_by(opened),
        source=source,
        savings=result.frame,
        recovery=worth,
        curve=points,
        measured_on="" if parts is None else parts.test.data.spec,
        examples=0 if parts is None else len(parts.test),
        notes=result.notes,
        command=command,
    )
    return dataclasses.replace(result, place=made.write(to))


def _check_unit(unit: str, mask: object) -> None:
    if mask is not None and unit != "head":
        raise HeadtoolError("`mask` names the heads itself; leave `unit` out")
    if unit not in UNITS:
        raise unknown("unit", unit, UNITS)
