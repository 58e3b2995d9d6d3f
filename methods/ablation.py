"""Single-head ablation (Michel, Levy & Neubig 2019, sec. 3.2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.screening import SCREENS, Screen
from headtool.engine.measurement import described
from headtool.engine.replacement import REPLACEMENTS, replacement
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.methods.base import Job, Method, Scored, option
from headtool.methods.screening import Screened, screen_heads, screening_method
from headtool.metrics import get_metric
from headtool.metrics.base import Metric
from headtool.metrics.translation import BLEU, TOKENIZERS, TranslationMetric
from headtool.searching import Search
from headtool.work import Passes, Size

__all__ = ["Ablation"]


@dataclass(frozen=True)
class Ablation(Method):
    """What the metric loses when the head alone is closed.

    ``score_h = metric(whole) - metric(head h closed)`` on the same examples, with the sign turned
    for metrics where lower is better: positive means that the head helps. The standard error is
    that of the paired difference (delete-one jackknife over examples). The per-example outcomes
    of every mask stay with the result, so that tests need no further run. BLEU, chrF and TER are of
    translations that the model searches with the head closed; every other metric is of its
    predictions on the data set.

    A closed head may put out zero, its mean, its output on another example, its output on the
    example's own corrupted text (`counterfactual`, for data that has one), or (`optimal`) the
    constant that gives the least loss with that head closed, trained on the same examples. The last
    takes `optimal_steps` passes forwards and backwards of 16 examples for each head.

    With `screen`, a cheap method ranks all heads on one half of the examples, drawn at random, and
    only the heads whose ranks lie nearest to the cut are ablated, on the other half. The others
    have no score (NaN); the table `screening` says which.

    References
    ----------
    Michel, Levy & Neubig 2019, "Are Sixteen Heads Really Better than One?", sec. 3.2;
    McGrath et al. 2023, "The Hydra Effect", for why zero is not the only replacement;
    Li & Janson 2024, "Optimal Ablation for Interpretability".

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> scores = headtool.get_method("ablation")(signal="loss").score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score", "stderr", "loss"]].round(2)
        layer  head  score  stderr  loss
    7       0     7   4.05    1.51  4.06
    15      1     7   2.31    1.19  2.31
    13      1     5   0.98    0.98  0.98

    The outcomes hold the loss of each example under each mask, with the whole model apart:

    >>> scores.outcomes.masked["loss"].shape
    (32, 8)
    """

    name: ClassVar[str] = "ablation"
    summary: ClassVar[str] = "what the metric loses when the head alone is closed"
    reference: ClassVar[str] = "Michel, Levy & Neubig 2019, sec. 3.2"
    replaced_by: ClassVar[str] = "replacement"

    signal: str = option(
        "metric",
        "the metric (the run's, or the task's own), or the mean loss",
        choices=("metric", "loss"),
    )
    replacement: str = option(
        "zero",
        "what a closed head puts out: zero, its mean over the data set, its output on another "
        "example or on the corrupted text, or the constant with the least loss",
        choices=REPLACEMENTS,
    )
    optimal_steps: int = option(50, "steps of training for each head's constant")
    beam: int | None = option(
        None, "width of the beam, for metrics that decode; 1 is greedy; none: the model's own"
    )
    length_penalty: float | None = option(
        None, "scores of a beam are divided by the length to this power; none: the model's own"
    )
    max_length: int | None = option(
        None, "most tokens that are written, for metrics that decode; none: the model's own"
    )

    tokenize: str = option(
        "13a", "sacreBLEU's tokens for bleu; char for languages without spaces", choices=TOKENIZERS
    )

    screen: int | None = option(
        None, "ablate only so many heads, those that a cheap method ranks nearest to the cut"
    )
    screen_by: str = option("attribution", "the method that ranks them", choices=SCREENS)
    screen_cut: float = option(0.5, "the cut, as a share of the heads from the least important")

    def check(self) -> None:
        """Check the search as far as that needs no model."""
        if self.screen is not None:
            Screen(self.screen, self.screen_by, self.screen_cut)
        if self.beam is not None and self.beam < 1:
            raise HeadtoolError(f"ablation.beam must be at least 1, got {self.beam}")
        if self.max_length is not None and self.max_length < 1:
            raise HeadtoolError(f"ablation.max_length must be at least 1, got {self.max_length}")
        if self.optimal_steps < 1:
            raise HeadtoolError(
                f"ablation.optimal_steps must be at least 1, got {self.optimal_steps}"
            )

    def idle(self, metric: Metric | None = None) -> Mapping[str, str]:
        """The search is for metrics of translations, sacreBLEU's tokens for one of them."""
        found = {"length_penalty": "on a beam of 1"} if self.beam == 1 else {}
        if self.replacement != "optimal":
            found["optimal_steps"] = f"on replacement {self.replacement}"
        if self.screen is None:
            found |= dict.fromkeys(("screen_by", "screen_cut"), "without ablation.screen")
        decodes = isinstance(metric, TranslationMetric) and self.uses_metric
        if metric is not None and not decodes:
            names = ("beam", "length_penalty", "max_length")
            found |= dict.fromkeys(names, "on a metric that does not decode")
        if metric is not None and (self.signal == "loss" or metric.name != "bleu"):
            found["tokenize"] = "on a metric other than bleu"
        return found

    @property
    def uses_metric(self) -> bool:
        """Whether it is not the loss that is compared."""
        return self.signal == "metric"

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Run or decode the whole model once, and once for each head."""
        if self.screen is not None:
            method = screening_method(
                Screen(self.screen, self.screen_by, self.screen_cut), self.replacement
            )
            half = dataclasses.replace(size, heads=min(self.screen, size.heads))
            exact = dataclasses.replace(self, screen=None, screen_by="attribution", screen_cut=0.5)
            parts = [(part, "screening") for part in method.cost(size) or ()]
            parts += [(part, part.what) for part in exact.cost(half)]
            return tuple(dataclasses.replace(part.times(0.5), what=what) for part, what in parts)
        filling = replacement(self.replacement, steps=self.optimal_steps).cost(size)
        if size.beam and self.signal == "metric":
            beam = self.beam or size.beam
            return (*filling, Passes(decoded=1 + size.heads, beam=beam))
        return (
            *filling,
            Passes(forward=1, what="whole model"),
            Passes(forward=size.heads, share=size.share, what="single heads"),
        )

    def compute(self, job: Job) -> Scored:
        """Run one mask per head."""
        metric = get_metric("loss", task=job.model.task) if self.signal == "loss" else job.metric
        if isinstance(metric, BLEU):
            metric = BLEU(self.tokenize)
        elif self.tokenize != "13a":
            raise HeadtoolError(
                f"ablation.tokenize is for bleu, not for {metric.name}; leave it out"
            )
        search = None
        asked = Search(self.beam, self.length_penalty, self.max_length)
        if isinstance(metric, TranslationMetric):
            search = job.model.generator(asked).search
        elif asked != Search():
            raise HeadtoolError(
                "ablation.beam, ablation.length_penalty and ablation.max_length are for metrics "
                f"that decode, not for {metric.name}; choose `metric` bleu, chrf or ter, or leave "
                "them out"
            )
        examples, heads = job.examples, list(job.sites.heads)
        tested = np.ones(job.sites.n_heads, dtype=np.bool_)
        screened = None if self.screen is None else self._screened(job, self.screen)
        if screened is not None:
            examples, heads = screened.evaluation, list(screened.heads)
            tested = screened.frame["tested"].to_numpy(np.bool_)
        masks = [HeadMask.without(job.model.sites, [head]) for head in heads]
        measured = job.measure(
            job.model,
            examples,
            masks,
            metric,
            search=search,
            replacement=replacement(self.replacement, seed=job.seed, steps=self.optimal_steps),
            execute=job.execute,
            progress=job.progress,
        )
        outcomes = measured.outcomes
        whole = metric.compute(outcomes.whole)
        masked = np.array([metric.compute(outcomes.row(i)) for i in range(len(masks))])
        stderr = np.array(
            [metric.jackknife_stderr(outcomes.whole, outcomes.row(i)) for i in range(len(masks))]
        )
        sign = 1.0 if metric.higher_is_better else -1.0
        finer = None
        if metric.name != "loss" and {"loss", "tokens"} <= set(outcomes.whole):
            loss = get_metric("loss", task=job.model.task)
            finer = np.array([loss.compute(outcomes.row(i)) for i in range(len(masks))])

        def everywhere(values: NDArray[np.float64]) -> NDArray[np.float64]:
            found = np.full(job.sites.n_heads, np.nan)
            found[tested] = values
            return found

        further = {}
        if screened is not None:
            further["screen"] = screened.described
        return Scored(
            everywhere(sign * (whole - masked)),
            everywhere(stderr),
            columns={metric.name: everywhere(masked)},
            tables={} if screened is None else {"screening": screened.frame},
            outcomes=outcomes,
            texts=measured.texts(),
            provenance={**described(metric, search), **further},
            tie_break=None if finer is None else everywhere(finer),
        )

    def _screened(self, job: Job, heads: int) -> Screened:
        """Choose the heads to ablate."""
        return screen_heads(
            job.model,
            job.examples,
            job.sites,
            Screen(heads, self.screen_by, self.screen_cut),
            replacement=self.replacement,
            seed=job.seed,
            execute=job.execute,
            progress=job.progress,
        )
