"""``--workers`` and what goes with it: who runs the units of work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from headtool.cli.groups import CostOptions, PrintOptions
from headtool.cli.options import whole_number
from headtool.errors import HeadtoolError

__all__ = ["WorkerOptions"]

_PANEL = "Workers"

Count = Annotated[
    int | None,
    typer.Option(
        "--workers",
        parser=whole_number("--workers", least=1),
        metavar="N",
        help="Run on N processes, each with a copy of the model: one a GPU, or on the CPU. The "
        "numbers stay the same. What trains, and what reads weights alone, stays in this process.",
        rich_help_panel=_PANEL,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS|auto",
        help="With --workers: use a running Ray cluster; auto is the one of this machine.",
        rich_help_panel=_PANEL,
    ),
]
GpusPerWorker = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-worker",
        metavar="N",
        help="With --workers: GPUs of each, such as 2 with --device-map auto, or 0.5 to share one. "
        "Default: 1 if the model is on a GPU.",
        rich_help_panel=_PANEL,
    ),
]
ShipWeights = Annotated[
    bool,
    typer.Option(
        "--ship-weights",
        metavar="",
        help="With --workers: send them the weights, where they cannot load the model themselves.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class WorkerOptions:
    """Who runs the units of work."""

    workers: Count = None
    ray: Address = None
    gpus_per_worker: GpusPerWorker = None
    ship_weights: ShipWeights = False

    @contextlib.contextmanager
    def at_work(self, cost: CostOptions, show: PrintOptions) -> Iterator[dict[str, Any]]:
        """Show progress, and start workers where they are asked for.

        Parameters
        ----------
        cost
            Whether the plan alone is wanted.
        show
            What is printed, and how.

        Yields
        ------
        dict
            ``workers`` and ``progress``, keywords of the functions behind the commands.
        """
        if self.workers is None:
            if self != WorkerOptions():
                raise HeadtoolError(
                    "`ray`, `gpus_per_worker` and `ship_weights` are for `workers`; give how many"
                )
            with cost.progress(show) as progress:
                yield {"workers": None, "progress": progress}
            return
        from headtool.workers.pool import Workers

        started = Workers(
            self.workers,
            ray=self.ray,
            gpus_per_worker=self.gpus_per_worker,
            ship_weights=self.ship_weights,
        )
        with (
            started,
            cost.progress(show, workers=self.workers, status=started.status) as progress,
        ):
            yield {"workers": started, "progress": progress}
