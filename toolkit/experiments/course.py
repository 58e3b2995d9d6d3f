"""Checkpoint by checkpoint: heads scored, and the curve of removing them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headtool.analysis.curve_lines import MaskNumbers
from headtool.analysis.dynamics import relative
from headtool.data import TextData
from headtool.data.drawing import LimitOrder
from headtool.engine.measurement import resolve
from headtool.errors import HeadtoolError
from headtool.experiments.inputs import ModelSource, open_model
from headtool.experiments.planning import Plan, Sketch
from headtool.experiments.splitting import Split, split_data
from headtool.experiments.stages import Stages
from headtool.heads import HeadMask, Kind
from headtool.masks.order import families, one_shot_closed, tied_closed
from headtool.methods.base import Method
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import labelled, phase
from headtool.searching import Search

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Course"]

_LOG = logging.getLogger("headtool")

_ORDERS = 20  # of heads that only chance ranks; a curve is the mean over them


@dataclass(frozen=True, kw_only=True)
class Course:
    """Scores one checkpoint after the other, and draws its curve.

    Attributes
    ----------
    method, data, select_data, kinds, metric, search, steps, keep_one_per_layer, limit, limit_order
        As `headtool.dynamics` was asked for them; the data sets are read.
    batch_tokens, seed, loading
        Tokens in a batch, seed of everything random, and how to load the checkpoints.
    """

    method: Method
    data: TextData
    select_data: TextData | None
    kinds: tuple[Kind, ...] | None
    metric: str | None
    search: Search
    steps: str
    keep_one_per_layer: bool
    limit: int | None
    limit_order: LimitOrder
    batch_tokens: int | None
    seed: int
    loading: ModelSource

    def described(self) -> dict[str, Any]:
        """What makes it the same job; as JSON."""
        loading = dataclasses.asdict(self.loading)
        del loading["spec"]
        return {
            "method": self.method.name,
            "method_options": self.method.settings(),
            "data": self.data.spec,
            "data_sha256": self.data.fingerprint,
            "select_data": None if self.select_data is None else self.select_data.spec,
            "kinds": list(self.kinds) if self.kinds else None,
            "metric": self.metric,
            "search": vars(self.search),
            "steps": self.steps,
            "keep_one_per_layer": self.keep_one_per_layer,
            "limit": self.limit,
            "limit_order": self.limit_order,
            "batch_tokens": self.batch_tokens,
            "seed": self.seed,
            **loading,
        }

    def run(
        self, checkpoints: Sequence[tuple[str, str]], kept: Stages
    ) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, dict[str, Any]]]:
        """Return the scores and the curves of all checkpoints, and where the scores come from.

        Parameters
        ----------
        checkpoints
            Names and SPECs.
        kept
            Keeps what was computed, and takes it up again.

        Raises
        ------
        HeadtoolError
            If a checkpoint has other heads than the first.
        """
        import pandas as pd

        scores, curves = [], []
        sources: dict[str, dict[str, Any]] = {}
        if not kept.holds_any:
            self._check(checkpoints)
        for name, spec in checkpoints:
            model = self._open(spec)
            split = split_data(
                model,
                [self.data],
                self.select_data,
                batch_tokens=self.batch_tokens,
                seed=self.seed,
            )
            for note in split.notes if not sources else ():
                _LOG.warning("%s", note)
            score, curve, sources[name] = self.one(name, model, split, kept)
            scores.append(score.assign(checkpoint=name))
            curves.append(curve)
        return pd.concat(scores, ignore_index=True), pd.concat(curves, ignore_index=True), sources

    def plan(self, checkpoints: Sequence[tuple[str, str]]) -> tuple[Plan, ModelAdapter, Examples]:
        """Plan the work from the first checkpoint; the others have the same heads.

        Parameters
        ----------
        checkpoints
            Names and SPECs.

        Returns
        -------
        tuple
            The plan, and what its speed can be timed on.
        """
        model = self._open(checkpoints[0][1])
        given = [self.data], self.select_data
        split = split_data(model, *given, batch_tokens=self.batch_tokens, seed=self.seed)
        measures = resolve(model, self.metric, self.search)
        sites = model.sites.restrict(self.kinds)
        (family,) = families(sites, self.steps, keep_one=self.keep_one_per_layer, per_kind=False)
        sketch = Sketch("dynamics", model)
        for name, _ in checkpoints:
            sketch.method(f"{name}.scores", self.method, split.selection, sites, measures)
            sketch.masks(f"{name}.curve", len(family.budgets) - 1, split.first, measures)
        return sketch.plan(), model, split.selection

    def _open(self, spec: str) -> ModelAdapter:
        return open_model(dataclasses.replace(self.loading, spec=spec))

    def _check(self, checkpoints: Sequence[tuple[str, str]]) -> None:
        """Refuse, before any work is done, checkpoints that do not load or have other heads."""
        (first, spec), *others = checkpoints
        sites = self._open(spec).sites
        for name, spec in others:
            found = self._open(spec).sites
            if found != sites:
                raise HeadtoolError(
                    f"{name} has other heads ({found.summary}) than {first} ({sites.summary}); "
                    "name checkpoints of one run"
                )

    def one(
        self, name: str, model: ModelAdapter, split: Split, kept: Stages
    ) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
        """Return the scores and the curve of one checkpoint, and where the scores come from.

        Parameters
        ----------
        name
            Its name.
        model
            The model as it was then.
        split
            The examples that score, and those that show what is left.
        kept
            Keeps what was computed, and takes it up again.
        """
        import pandas as pd

        measures = resolve(model, self.metric, self.search)
        metric = measures.metric
        sites = model.sites.restrict(self.kinds)
        (family,) = families(sites, self.steps, keep_one=self.keep_one_per_layer, per_kind=False)
        with phase(kept.progress, f"{name}.scores"):
            result = kept.scores(
                f"{name}.scores",
                lambda: self.method.score(
                    model,
                    split.selection,
                    kinds=self.kinds,
                    metric=metric.name if self.method.uses_metric else None,
                    seed=self.seed,
                    execute=kept.execute,
                    progress=labelled(kept.progress, f"{name}.scores"),
                ),
            )
        keys = np.random.default_rng([self.seed, 7]).random((_ORDERS, sites.n_heads))
        orders = tied_closed(family, {"": result.frame}, keys).get(
            "", one_shot_closed(family, result.frame)[None]
        )
        numbers = MaskNumbers()
        places = [
            [
                numbers.add(
                    HeadMask.without(
                        model.sites, [h for h, shut in zip(sites.heads, row, strict=True) if shut]
                    )
                )
                for row in closed
            ]
            for closed in orders
        ]
        with phase(kept.progress, f"{name}.curve"):
            outcomes = kept.measure(
                f"{name}.curve",
                model,
                split.first,
                numbers.masks,
                metric,
                search=measures.search,
                progress=labelled(kept.progress, f"{name}.curve"),
            ).outcomes
        whole = metric.compute(outcomes.whole)
        masked = [metric.compute(outcomes.row(i)) for i in range(len(numbers.masks))]
        values = np.array([*masked, whole])[places].mean(axis=0)  # -1 is the whole model
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
        return result.frame, curve, dict(result.provenance)
