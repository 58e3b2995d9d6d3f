"""``headtool dynamics``: head importance and prunability over the checkpoints of a training run."""

from __future__ import annotations

import dataclasses
import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headtool.cli.console import note, progress_bar
from headtool.cli.curve_options import KeepOne, SelectData, Steps
from headtool.cli.groups import (
    DataOptions,
    LoadOptions,
    PrintOptions,
    RunOptions,
    SearchOptions,
    command,
)
from headtool.cli.options import Data, Kinds, Metric, Settings, parse_settings
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd

    from headtool.data import TextData
    from headtool.experiments.stages import Stages
    from headtool.methods.base import Method
    from headtool.models.base import ModelAdapter
    from headtool.progress import Progress
    from headtool.searching import Search

__all__ = ["dynamics"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool dynamics --checkpoints 'run/checkpoint*.pt' --data dev.de,dev.en --out runs/dyn\n\n"
    "headtool dynamics --checkpoints path/to/trainer-output --data dev.tsv --method ablation\n\n"
    "headtool dynamics --checkpoints 'run/checkpoint[0-9].pt' --data dev.de,dev.en --metric bleu"
)

Checkpoints = Annotated[
    str,
    typer.Option(
        metavar="PATTERN",
        help="Quoted: fairseq checkpoints such as 'run/checkpoint*.pt', folders of transformers "
        "models such as 'run/checkpoint-*', or the output folder of a Trainer.",
        rich_help_panel="Model",
    ),
]
FigureFile = Annotated[
    Path | None,
    typer.Option(
        "--figure",
        metavar="FILE",
        help="Draw it as well: a .pdf, .png or .svg file.",
        rich_help_panel="Output",
    ),
]
OneMethod = Annotated[
    str, typer.Option("--method", metavar="NAME", help="Scoring method; see `headtool methods`.")
]


@command
def dynamics(
    *,
    checkpoints: Checkpoints,
    method: OneMethod = "gradient",
    data: Data = None,
    select_data: SelectData = None,
    settings: Settings = None,
    kind: Kinds = None,
    metric: Metric = None,
    decoding: SearchOptions,
    steps: Steps = "20%",
    keep_one_per_layer: KeepOne = False,
    reading: DataOptions,
    loading: LoadOptions,
    figure: FigureFile = None,
    run: RunOptions,
    show: PrintOptions,
) -> None:
    """Follow heads over training: their scores, what pruning costs, and how stable their ranks are.

    At each checkpoint, heads are scored on one half of the data and removed in ascending order; the
    other half shows what is left, relative to the whole model of that checkpoint. With --out, an
    interrupted run continues.
    """
    show.prepare()
    from headtool.analysis.dynamics import prunability, rank_stability
    from headtool.experiments.stages import stages
    from headtool.heads import parse_kinds
    from headtool.methods import get_method
    from headtool.reports.terminal.dynamics import dynamics_tables
    from headtool.results.scores import json_rows

    found = find_checkpoints(checkpoints)
    scorer = get_method(method).configured(parse_settings(settings or [], [method])[method])
    kinds = parse_kinds(kind) if kind is not None else None
    asked = decoding.asked(metric)
    if run.output_dir is not None or figure is None:  # --force may be about the figure alone
        run.check()
    if figure is not None:
        from headtool.reports.formats.dynamics_figure import check_figure

        check_figure(figure, force=run.force)
    if data is None:
        raise HeadtoolError("--data is missing: name the data that the checkpoints are tried on")
    text = reading.read(data, checkpoints)
    chooser = None
    if select_data is not None:
        chooser = reading.read(select_data, checkpoints)
    job = _Job(scorer, text, chooser, kinds, metric, asked, steps, keep_one_per_layer, reading)
    source: dict[str, Any] = {
        "command": "dynamics",
        "checkpoints": [_stamp(spec) for _, spec in found],
        "options": {**job.described, **dataclasses.asdict(loading)},
    }
    unfinished = stages(run.output_dir, source, force=run.force)
    with progress_bar(quiet=show.quiet) as progress, unfinished as kept:
        tables = job.run(found, loading, kept, progress)
        tables["prunability"] = prunability(tables["checkpoint_curves"])
        tables["rank_stability"] = rank_stability(tables["checkpoint_scores"])
        run.write({"dynamics": source, **job.sources}, tables, quiet=show.quiet)
    if figure is not None:
        from headtool.reports.formats.dynamics_figure import write_dynamics_figure

        write_dynamics_figure(tables, str(job.metric_name), figure)
        note(f"drawn in {figure}", quiet=show.quiet)
    show.print(
        document=lambda: {
            "schema": "headtool/dynamics/1",
            "provenance": {**source, "by_checkpoint": job.sources},
            **{
                name.removeprefix("checkpoint_"): json_rows(frame) for name, frame in tables.items()
            },
        },
        frame=lambda: tables["checkpoint_curves"],
        tables=lambda: dynamics_tables(tables, method, str(job.metric_name)),
    )


def find_checkpoints(pattern: str) -> list[tuple[str, str]]:
    """Find the checkpoints that a pattern names, in the order of training.

    Returns
    -------
    list of (name, SPEC)
        Ordered by the last number in their names. Where some have none (``checkpoint_best.pt``),
        these are copies of others and left out.

    Raises
    ------
    HeadtoolError
        If there are fewer than two.
    """
    place = os.path.expanduser(pattern)
    if os.path.isdir(place):
        place = os.path.join(glob.escape(place), "checkpoint*")
    paths = [Path(path) for path in glob.glob(place)]
    paths = [path for path in paths if path.suffix == ".pt" or (path / "config.json").is_file()]
    numbered = [path for path in paths if re.search(r"\d", path.stem)]
    paths = sorted(numbered or paths, key=lambda path: (_number(path), path.name))
    if len(paths) < 2:
        raise HeadtoolError(
            f"--checkpoints '{pattern}' names {len(paths)} checkpoints, and two make a course; "
            "quote a pattern such as 'run/checkpoint*.pt', or name the output folder of a Trainer"
        )
    return [(path.stem, f"fairseq:{path}" if path.suffix == ".pt" else str(path)) for path in paths]


def _number(path: Path) -> int:
    numbers = re.findall(r"\d+", path.stem)
    return int(numbers[-1]) if numbers else 0


def _stamp(spec: str) -> dict[str, Any]:
    """What tells a checkpoint from a later one of the same name, without reading it."""
    path = Path(spec.removeprefix("fairseq:"))
    file = path if path.is_file() else path / "config.json"
    return {"spec": spec, "bytes": file.stat().st_size, "modified": file.stat().st_mtime_ns}


class _Job:
    """Scores one checkpoint after the other, and draws its curve."""

    def __init__(
        self,
        method: Method,
        data: TextData,
        select_data: TextData | None,
        kinds: Any,
        metric: str | None,
        search: Search,
        steps: str,
        keep_one: bool,
        reading: DataOptions,
    ) -> None:
        self.method, self.data, self.select_data, self.kinds = method, data, select_data, kinds
        self.metric_name, self.search, self.steps, self.keep_one = metric, search, steps, keep_one
        self.reading = reading
        self.sources: dict[str, dict[str, Any]] = {}
        self.described = {
            "method": method.name,
            "method_options": method.settings(),
            "data": data.spec,
            "data_sha256": data.fingerprint,
            "select_data": None if select_data is None else select_data.spec,
            "kinds": list(kinds) if kinds else None,
            "metric": metric,
            "search": vars(search),
            "steps": steps,
            "keep_one_per_layer": keep_one,
            "limit": reading.limit,
            "batch_tokens": reading.batch_tokens,
            "seed": reading.seed,
        }

    def run(
        self,
        checkpoints: Sequence[tuple[str, str]],
        loading: LoadOptions,
        kept: Stages,
        progress: Progress,
    ) -> dict[str, pd.DataFrame]:
        """Return the scores and the curves of all checkpoints."""
        import pandas as pd

        scores, curves = [], []
        first = None
        for name, spec in checkpoints:
            model = loading.load(spec)
            if first is None:
                first = (name, model.sites)
            elif model.sites != first[1]:
                raise HeadtoolError(
                    f"{name} has other heads ({model.sites.summary}) than {first[0]} "
                    f"({first[1].summary}); name checkpoints of one run"
                )
            score, curve = self._one(name, model, kept, progress)
            scores.append(score.assign(checkpoint=name))
            curves.append(curve.assign(checkpoint=name))
        return {
            "checkpoint_scores": pd.concat(scores, ignore_index=True),
            "checkpoint_curves": pd.concat(curves, ignore_index=True),
        }

    def _one(
        self, name: str, model: ModelAdapter, kept: Stages, progress: Progress
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        import numpy as np
        import pandas as pd

        from headtool.analysis.dynamics import relative
        from headtool.engine.measurement import resolved_search
        from headtool.experiments.splitting import split_data
        from headtool.heads import HeadMask
        from headtool.masks.order import families, one_shot_closed
        from headtool.metrics import default_metric, get_metric

        self.metric_name = self.metric_name or default_metric(model.task)
        labels = len(model.labels) or None
        metric = get_metric(self.metric_name, task=model.task, n_labels=labels)
        search = resolved_search(model, metric, self.search)
        sites = model.sites.restrict(self.kinds)
        (family,) = families(sites, self.steps, keep_one=self.keep_one, per_kind=False)
        split = split_data(
            model,
            [self.data],
            self.select_data,
            limit=self.reading.limit,
            batch_tokens=self.reading.batch_tokens,
            seed=self.reading.seed,
        )
        scored_by = self.metric_name if self.method.uses_metric else None
        result = kept.scores(
            f"{name}.scores",
            lambda: self.method.score(
                model,
                split.selection,
                kinds=self.kinds,
                metric=scored_by,
                seed=self.reading.seed,
                progress=progress,
            ),
        )
        closed = one_shot_closed(family, result.frame)
        masks = [
            HeadMask.without(
                model.sites, [h for h, shut in zip(sites.heads, row, strict=True) if shut]
            )
            for row in closed
        ]
        outcomes = kept.measure(
            f"{name}.curve", model, split.first, masks[1:], metric, search=search, progress=progress
        ).outcomes
        whole = metric.compute(outcomes.whole)
        values = np.array(
            [whole, *(metric.compute(outcomes.row(i)) for i in range(len(masks) - 1))]
        )
        self.sources[name] = dict(result.provenance)
        budgets = np.array(family.budgets)
        curve = pd.DataFrame(
            {
                "checkpoint": name,
                "removed": budgets,
                "share": budgets / sites.n_heads,
                "metric": metric.name,
                "value": values,
                "relative": relative(values, whole, metric),
            }
        )
        return result.frame, curve
