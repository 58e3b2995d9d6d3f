"""``headtool prune``: write a smaller model."""

from __future__ import annotations

from headtool.cli.console import note, this_command
from headtool.cli.groups import (
    CostOptions,
    DataOptions,
    LoadOptions,
    PrintOptions,
    SearchOptions,
    command,
)
from headtool.cli.options import Data, Force, Metric, Model
from headtool.cli.prune_options import (
    Bake,
    BatchSize,
    Curve,
    Finetune,
    KeepHeads,
    KeepOne,
    Lora,
    Mask,
    Method,
    Onnx,
    Out,
    Private,
    Push,
    Rate,
    Remove,
    Replace,
    Rescale,
    Scores,
    Steps,
    Unit,
    Verdict,
)
from headtool.cli.worker_options import WorkerOptions
from headtool.errors import HeadtoolError
from headtool.experiments.recovery import Recovery

__all__ = ["prune"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool score --method gradient --out runs/scores\n\n"
    "headtool prune --scores runs/scores --remove 40% --out smaller\n\n"
    "headtool prune --scores runs/scores --remove 40% --replace mean --out smaller\n\n"
    "headtool prune --model path/to/model --scores runs/scores --remove 50% --data dev.tsv "
    "--finetune train.tsv --out smaller\n\n"
    "headtool prune --model path/to/model --mask mask.json --bake --out baked\n\n"
    "headtool prune --scores runs/scores --remove 40% --out smaller --push org/name\n\n"
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
    replace: Replace = None,
    curve: Curve = True,
    finetune: Finetune = None,
    steps: Steps = Recovery.steps,
    lr: Rate = Recovery.lr,
    batch_size: BatchSize = Recovery.batch_size,
    lora: Lora = Recovery.lora,
    bake: Bake = False,
    onnx: Onnx = False,
    data: Data = None,
    metric: Metric = None,
    decoding: SearchOptions,
    reading: DataOptions,
    loading: LoadOptions,
    spread: WorkerOptions,
    output_dir: Out = None,
    force: Force = False,
    push: Push = None,
    private: Private = False,
    cost: CostOptions,
    show: PrintOptions,
) -> None:
    """Remove heads from a model for good, and write what is left.

    The smaller model is compared with the masked one before it is written. Every command takes its
    folder as --model, and `headtool.load_pruned` loads it for training and generation. With
    --data, the metric before and after is shown, also in a report beside the weights. Heads that
    are gone may leave constants in the biases (--replace), and the rest may be trained to make up
    for them (--finetune), neither fitted to the examples that measure.
    """
    show.prepare()
    from headtool.experiments.pruning import prune as prune_model
    from headtool.reports.terminal.pruning import pruning_tables

    if bake and output_dir is None:
        raise HeadtoolError("--bake is for a model that is written; add --out DIR")
    with spread.at_work(cost, show) as at_work:
        pruning = prune_model(
            loading.source(model),
            scores=scores,
            method=method,
            remove=remove,
            keep_heads=keep_heads,
            verdict=verdict,
            mask=mask,
            keep_one_per_layer=keep_one_per_layer,
            unit=unit,
            rescale=rescale,
            replace=replace,
            curve=curve,
            finetune=None if finetune is None else reading.source(finetune),
            steps=steps,
            lr=lr,
            batch_size=batch_size,
            lora=lora,
            bake=bake,
            onnx=onnx,
            data=reading.source(data),
            metric=metric,
            search=decoding.asked(metric) if decoding.given else None,
            **reading.amounts,
            out=output_dir,
            force=force,
            push=push,
            private=private,
            command=this_command(),
            **at_work,
        )
    show.notes(pruning.notes)
    show.print(
        document=pruning.document,
        frame=lambda: pruning.frame,
        tables=lambda: pruning_tables(
            model, pruning.mask, pruning.model.sites, pruning.frame, pruning.recovery, bake=bake
        ),
    )
    if output_dir is None:
        note("nothing is written; add --out DIR", quiet=show.quiet)
    else:
        note(f"written to {output_dir}", quiet=show.quiet)
    if pruning.place:
        note(f"pushed to {pruning.place}", quiet=show.quiet)
