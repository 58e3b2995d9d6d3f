"""``headtool prune``: write a smaller model."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.cli.console import note, progress_bar
from headtool.cli.groups import DataOptions, LoadOptions, PrintOptions, command
from headtool.cli.options import Data, Force, Metric, Model
from headtool.cli.prune_options import (
    Bake,
    KeepHeads,
    KeepOne,
    Mask,
    Method,
    Onnx,
    Out,
    Remove,
    Rescale,
    Scores,
    Unit,
    Verdict,
)
from headtool.errors import HeadtoolError, unknown

if TYPE_CHECKING:
    from headtool.heads import HeadMask
    from headtool.models.base import Examples, ModelAdapter
    from headtool.pruning.smaller import Pruned
    from headtool.results.runs import Run

__all__ = ["prune"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool score --method gradient --out runs/scores\n\n"
    "headtool prune --scores runs/scores --remove 40% --out smaller\n\n"
    "headtool prune --model path/to/model --mask mask.json --bake --out baked\n\n"
    "headtool prune --model path/to/model --scores runs/ablation --verdict removable --out smaller"
)


@command
def prune(
    *,
    model: Model = "builtin:nli",
    scores: Scores = None,
    method: Method = None,
    remove: Remove = None,
    keep_heads: KeepHeads = None,
    verdict: Verdict = None,
    mask: Mask = None,
    keep_one_per_layer: KeepOne = False,
    unit: Unit = "head",
    rescale: Rescale = None,
    bake: Bake = False,
    onnx: Onnx = False,
    data: Data = None,
    metric: Metric = None,
    reading: DataOptions,
    loading: LoadOptions,
    output_dir: Out = None,
    force: Force = False,
    show: PrintOptions,
) -> None:
    """Remove heads from a model for good, and write what is left.

    The smaller model is compared with the masked one before it is written. Every command takes its
    folder as --model, and `headtool.load_pruned` loads it for training and generation. With
    --data, the metric before and after is shown.
    """
    show.prepare()
    from headtool.masks.selection import UNITS
    from headtool.reports.terminal.pruning import pruning_tables
    from headtool.results.folders import check_output
    from headtool.results.runs import read_run
    from headtool.schema import TABLES

    _check_choice(scores, method, remove, keep_heads, verdict, mask, keep_one_per_layer, unit)
    if unit not in UNITS:
        raise unknown("unit", unit, UNITS)
    if rescale not in (None, "least-squares"):
        raise unknown("rescaling", str(rescale), ["least-squares"])
    if metric is not None and data is None:
        raise HeadtoolError(f"--metric {metric} is measured on --data, which is missing")
    if output_dir is not None:
        check_output(output_dir, force=force)
    for name, is_given in {"--force": force, "--bake": bake, "--onnx": onnx}.items():
        if is_given and output_dir is None:
            raise HeadtoolError(f"{name} is for a model that is written; add --out DIR")
    if bake and onnx:
        raise HeadtoolError("--onnx exports the smaller model; leave --bake out")
    run = read_run(scores) if scores is not None else None
    text = None
    if data is not None or rescale is not None:
        text = reading.read(data, model)
    adapter = loading.load(model)
    if onnx:
        from headtool.pruning.onnx import check_exportable

        check_exportable(adapter)
    examples = None
    if text is not None:
        examples = reading.encode(adapter, text, quiet=show.quiet)

    def choose(by: str) -> HeadMask:
        if mask is not None:
            from headtool.masks.selection import from_file

            return from_file(mask, adapter.sites)
        assert run is not None
        if verdict is not None:
            return _by_verdicts(run, adapter, verdict, by, keep_one_per_layer, reading.seed)
        return _by_scores(run, adapter, method, remove, keep_heads, by, keep_one_per_layer)

    chosen = choose(unit)
    if unit == "group" and verdict is None:
        note(f"{len(chosen.closed)} heads go: as many as make whole groups", quiet=show.quiet)
    source = {
        "run": None if scores is None else str(scores),
        "method": method,
        "remove": remove,
        "keep_heads": keep_heads,
        "verdict": verdict,
        "mask": None if mask is None else str(mask),
        "keep_one_per_layer": keep_one_per_layer,
        "unit": unit,
        "rescale": rescale,
    }
    scales = None
    if rescale is not None:
        import torch

        from headtool.pruning.rescaling import least_squares_scales

        assert examples is not None
        with progress_bar(quiet=show.quiet) as progress:
            scales = least_squares_scales(adapter, examples, chosen, progress=progress)
        open_scales = torch.cat([scale[scale != 0] for scale in scales.values()])
        if len(open_scales):
            note(
                f"heads that stay were rescaled on {len(examples)} examples, by "
                f"{open_scales.min():.3g} to {open_scales.max():.3g}",
                quiet=show.quiet,
            )
    rows: list[dict[str, Any]] = []
    if bake:
        from headtool.pruning.smaller import bake as bake_model

        smaller = bake_model(adapter, chosen, scales)
        pruned = None
    else:
        from headtool.pruning.smaller import prune as prune_model

        pruned = prune_model(adapter, chosen, scales)
        smaller = pruned.model
        rows.append(_savings(unit, chosen, pruned))
        grouped = any(site.n_kv_heads != site.n_heads for site in adapter.sites)
        if grouped and mask is None:
            other = next(name for name in UNITS if name != unit)
            rows += _other_savings(adapter, choose, other)
    quality = {}
    if data is not None and examples is not None:
        quality = _quality(adapter, smaller, examples, metric)
    removed = [str(head) for head in chosen.closed]
    frame = TABLES["savings"].frame(rows)
    show.print(
        document=lambda: {
            "schema": "headtool/prune/1",
            "provenance": {"model": model, "library": adapter.library, **source},
            "removed": removed,
            "savings": rows,
            "quality": quality,
        },
        frame=lambda: frame,
        tables=lambda: pruning_tables(model, chosen, smaller.sites, frame, quality, bake=bake),
    )
    if output_dir is None:
        note("nothing is written; add --out DIR", quiet=show.quiet)
        return
    from headtool.pruning.saving import save_baked, save_pruned

    if pruned is None:
        save_baked(smaller, removed, output_dir, source=source, force=force)
    else:
        save_pruned(pruned, output_dir, source=source, force=force, onnx=onnx)
    note(f"written to {output_dir}", quiet=show.quiet)


def _check_choice(
    scores: Path | None,
    method: str | None,
    remove: str | None,
    keep_heads: int | None,
    verdict: str | None,
    mask: Path | None,
    keep_one_per_layer: bool,
    unit: str,
) -> None:
    """Refuse what does not say which heads to remove, or says it twice."""
    ways = {
        "--remove": remove,
        "--keep-heads": keep_heads,
        "--verdict": verdict,
        "--mask": mask,
    }
    given = [name for name, value in ways.items() if value is not None]
    if len(given) != 1:
        raise HeadtoolError(
            "say which heads to remove by one of --remove, --keep-heads, --verdict and --mask; "
            f"{' and '.join(given) or 'none of them'} {'are' if len(given) > 1 else 'is'} given"
        )
    if mask is not None:
        others = {
            "--scores": scores is not None,
            "--method": method is not None,
            "--keep-one-per-layer": keep_one_per_layer,
            "--unit": unit != "head",
        }
        for name, is_given in others.items():
            if is_given:
                raise HeadtoolError(f"--mask names the heads itself; leave {name} out")
    elif scores is None:
        raise HeadtoolError(
            f"{given[0]} needs --scores RUN; make a run with headtool "
            f"{'ablate' if verdict is not None else 'score'} --out RUN"
        )
    if verdict is not None:
        if verdict not in ("removable", "harmful"):
            raise unknown("verdict to remove", verdict, ["removable", "harmful"])
        if method is not None:
            raise HeadtoolError("--verdict comes from outcomes, not from a method; drop --method")


def _by_scores(
    run: Run,
    model: ModelAdapter,
    method: str | None,
    remove: str | None,
    keep_heads: int | None,
    unit: str,
    keep_one: bool,
) -> HeadMask:
    from headtool.masks.selection import budget, by_scores, scores_of

    table = scores_of(run)
    methods = list(table["method"].unique())
    if method is None and len(methods) > 1:
        raise HeadtoolError(f"{run.folder} has scores of {', '.join(methods)}; add --method")
    if method is not None and method not in methods:
        raise unknown(f"method in {run.folder}:", method, methods)
    name = method or methods[0]
    made = run.manifest.get("provenance", {})
    _check_model(run, model, made.get(name) or made.get("ablate"))
    count = budget(remove, keep_heads, model.sites.n_heads)
    return by_scores(
        table[table["method"] == name], model.sites, count, unit=unit, keep_one=keep_one
    )


def _by_verdicts(
    run: Run, model: ModelAdapter, verdict: str, unit: str, keep_one: bool, seed: int
) -> HeadMask:
    from headtool.analysis.assessment import assess_outcomes
    from headtool.masks.selection import by_verdicts
    from headtool.metrics import get_metric

    source = run.source
    _check_model(run, model, source)
    metric = get_metric(
        source["metric"], task=source["model"]["task"], n_labels=source["model"]["labels"]
    )
    tests = assess_outcomes(run.outcomes(metric), metric, rng=seed)
    return by_verdicts(tests.frame, model.sites, verdict, unit=unit, keep_one=keep_one)


def _check_model(run: Run, model: ModelAdapter, source: Any) -> None:
    """Refuse scores of another model."""
    recorded = (source or {}).get("model", {})
    if recorded.get("sha256") not in (None, model.fingerprint):
        raise HeadtoolError(
            f"{run.folder} is about other weights ({recorded.get('spec')}, {recorded.get('dtype')})"
            f" than {model.spec}; score this model, or write the heads into a --mask"
        )


def _savings(unit: str, mask: HeadMask, pruned: Pruned) -> dict[str, Any]:
    before, after = dataclasses.asdict(pruned.before), dataclasses.asdict(pruned.after)
    row: dict[str, Any] = {"unit": unit, "heads_removed": len(mask.closed)}
    for name, value in before.items():
        row |= {name: value, f"{name}_after": after[name]}
    return row | {"sequence_length": pruned.length, "difference": pruned.difference}


def _other_savings(model: ModelAdapter, choose: Any, unit: str) -> list[dict[str, Any]]:
    """What the other unit would save; nothing where it cannot remove so many heads."""
    from headtool.pruning.smaller import prune as prune_model

    try:
        mask = choose(unit)
        return [_savings(unit, mask, prune_model(model, mask))]
    except HeadtoolError:
        return []


def _quality(
    whole: ModelAdapter, smaller: ModelAdapter, examples: Examples, name: str | None
) -> dict[str, dict[str, float]]:
    """The metric (and the loss) of both models."""
    from headtool.engine.measurement import measure
    from headtool.experiments.ablation import whole_values
    from headtool.metrics import default_metric, get_metric

    names = dict.fromkeys([name or default_metric(whole.task), "loss"])
    labels = len(whole.labels) or None
    values: dict[str, dict[str, float]] = {}
    for each in names:
        metric = get_metric(each, task=whole.task, n_labels=labels)
        values[each] = {
            part: whole_values(measure(model, examples, [], metric).outcomes, [metric])[each]
            for part, model in (("whole", whole), ("pruned", smaller))
        }
    return values
