"""Measure masked models by any metric: by what they predict, or by what they write."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from headtool.data import TextData
from headtool.engine.decoding import Search, translate
from headtool.engine.evaluation import evaluate
from headtool.engine.replacement import Replacement
from headtool.engine.store import UnitStore
from headtool.engine.units import Executor, in_turn
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.metrics import metric_of_model
from headtool.metrics.base import Metric
from headtool.metrics.translation import BLEU, TranslationMetric
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import ProgressLike, silent
from headtool.results.hypotheses import Hypotheses
from headtool.results.outcomes import Outcomes

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Measure",
    "Measured",
    "Measures",
    "check_data",
    "described",
    "measure",
    "reference_texts",
    "resolve",
]

_LOGGER = logging.getLogger(__name__)
_MANY = 100  # lines; sacreBLEU warns from here on


@dataclass(frozen=True)
class Measured:
    """Outcomes of masks, with the translations that they were computed from, if any.

    Attributes
    ----------
    outcomes
        Per-example statistics of the metric.
    hypotheses
        The translations; None for metrics that do not need any.
    references
        What they were compared with, one text per example.
    """

    outcomes: Outcomes
    hypotheses: Hypotheses | None = None
    references: tuple[str, ...] = ()

    def texts(self) -> dict[str, pd.DataFrame]:
        """Tables by which a run can compute another metric of the same translations."""
        import pandas as pd

        if self.hypotheses is None:
            return {}
        rows = enumerate(self.references)
        return {
            "hypotheses": self.hypotheses.to_frame(),
            "references": pd.DataFrame(rows, columns=["example", "text"]),
        }


class Measure(Protocol):
    """Runs masks and measures them: `measure`, or what does the same and keeps what is finished."""

    def __call__(
        self,
        model: ModelAdapter,
        examples: Examples,
        masks: Sequence[HeadMask],
        metric: Metric,
        *,
        search: Search | None = None,
        replacement: Replacement | None = None,
        rescale: bool = False,
        execute: Executor = in_turn,
        progress: ProgressLike = silent,
    ) -> Measured:
        """Run the whole model and every masked one as a metric needs it; see `measure`."""
        ...


def measure(
    model: ModelAdapter,
    examples: Examples,
    masks: Sequence[HeadMask],
    metric: Metric,
    *,
    search: Search | None = None,
    replacement: Replacement | None = None,
    rescale: bool = False,
    chained: bool | None = False,
    store: UnitStore | None = None,
    execute: Executor = in_turn,
    progress: ProgressLike = silent,
) -> Measured:
    """Run the whole model and every masked one as a metric needs it.

    BLEU and other metrics of text decode every source sentence or prompt; all other metrics take
    one forward pass over the data set, in which a model is given the reference up to each token.

    Parameters
    ----------
    model, examples, masks
        As for `headtool.engine.evaluation.evaluate`.
    metric
        What the outcomes are for.
    search
        How to decode; None decodes as the model's own settings say. For metrics that decode.
    replacement, rescale, store, execute, progress
        As for `headtool.engine.evaluation.evaluate`.
    chained
        The same; of no consequence where masks are decoded.

    Raises
    ------
    HeadtoolError
        If the model cannot be run, or decoded, as asked.

    Examples
    --------
    >>> from headtool.engine.measurement import measure
    >>> from headtool import HeadMask, get_metric, load_data, load_model
    >>> model = load_model("builtin:nli", device="cpu")
    >>> examples = model.encode(load_data("builtin:nli/matched", limit=4))
    >>> accuracy = get_metric("accuracy", task=model.task)
    >>> one = HeadMask.without(model.sites, model.sites.heads[:1])
    >>> measured = measure(model, examples, [one], accuracy)
    >>> 0 <= accuracy.compute(measured.outcomes.row(0)) <= 1
    True
    """
    check_data(metric, examples.data)
    if not isinstance(metric, TranslationMetric):
        if search is not None:
            raise ValueError(f"{metric.name} does not decode")
        outcomes = evaluate(
            model,
            examples,
            masks,
            replacement=replacement,
            rescale=rescale,
            chained=chained,
            divergence=metric.compares,
            store=store,
            execute=execute,
            progress=progress,
        )
        return Measured(outcomes)
    hypotheses = translate(
        model,
        examples,
        masks,
        search=search,
        replacement=replacement,
        rescale=rescale,
        store=store,
        execute=execute,
        progress=progress,
    )
    texts = reference_texts(model, examples)
    return Measured(hypotheses.outcomes(texts, metric), hypotheses, texts)


def check_data(metric: Metric, data: TextData) -> None:
    """Refuse a metric for data that lacks what it is computed from.

    Parameters
    ----------
    metric
        The metric.
    data
        The data.

    Raises
    ------
    HeadtoolError
        Naming the column.
    """
    if isinstance(metric, TranslationMetric) and data.kind not in ("translation", "prompt", "ids"):
        raise HeadtoolError(
            f"`metric` {metric.name} compares what the model writes with references, and "
            f"{data.spec} has none; give source and target to a translation model, prompt and "
            "answer to a language model, or choose another metric"
        )
    if metric.needs and metric.needs not in data.columns:
        raise HeadtoolError(
            f"`metric` {metric.name} is computed from a column '{metric.needs}', which {data.spec} "
            "does not have; add it, or choose another metric"
        )


def reference_texts(model: ModelAdapter, examples: Examples) -> tuple[str, ...]:
    """Return the references, one text per example; warn if they look tokenised.

    Parameters
    ----------
    model
        The model, which knows how to put symbols together again.
    examples
        The data set.
    """
    texts = model.references(examples)
    tokenised = sum(text.endswith(" .") for text in texts)
    if tokenised >= _MANY:
        _LOGGER.warning(
            "%s looks tokenised (%d references end in ' .'): BLEU of tokenised text does not "
            "compare with what others report",
            examples.data.spec,
            tokenised,
        )
    return texts


@dataclass(frozen=True)
class Measures:
    """What a model is measured by.

    Attributes
    ----------
    metrics
        The metric that was asked for, and the loss, which every forward pass yields as well;
        decoding yields none.
    search
        How to decode, with nothing left open; None for metrics that do not decode.
    """

    metrics: tuple[Metric, ...]
    search: Search | None = None

    @property
    def metric(self) -> Metric:
        """The metric that was asked for."""
        return self.metrics[0]

    def described(self) -> dict[str, Any]:
        """What provenance says of metrics that decode: sacreBLEU's signature and the search."""
        return described(self.metric, self.search)


def resolve(
    model: ModelAdapter,
    metric: str | None = None,
    search: Search | None = None,
    *,
    tokenize: str | None = None,
) -> Measures:
    """Find what to measure a model by: the metric, the loss beside it, and how to decode.

    Parameters
    ----------
    model
        The model.
    metric
        Name of the metric; None for the task's own.
    search
        How to decode, for metrics that do. What it leaves open is filled in from the model's own
        settings.
    tokenize
        sacreBLEU's tokens, for bleu; None for its default.

    Raises
    ------
    HeadtoolError
        If the metric is not defined for the model, or `search` or `tokenize` is given for a metric
        that it does not change.

    Examples
    --------
    >>> from headtool.engine.measurement import resolve
    >>> import headtool
    >>> found = resolve(headtool.load_model("builtin:nli"))
    >>> [metric.name for metric in found.metrics], found.search
    (['accuracy', 'loss'], None)
    """
    chosen = _counting(metric_of_model(model, metric), tokenize)
    if isinstance(chosen, TranslationMetric):
        return Measures((chosen,), _settled(model, search or Search()))
    if search is not None and search != Search():
        raise HeadtoolError(
            "`search` is for metrics that decode (bleu, chrf, ter, rouge, em), and "
            f"`metric` is {chosen.name}; leave `search` out"
        )
    loss = metric_of_model(model, "loss")
    return Measures((chosen,) if chosen.name == loss.name else (chosen, loss))


def described(metric: Metric, search: Search | None) -> dict[str, Any]:
    """Return the provenance of metrics that decode: sacreBLEU's signature and the search.

    Parameters
    ----------
    metric
        The metric.
    search
        How it decodes; None for metrics that do not.
    """
    if not isinstance(metric, TranslationMetric) or search is None:
        return {}
    return {"signature": metric.signature, "search": asdict(search)}


def _counting(metric: Metric, tokenize: str | None) -> Metric:
    """BLEU over other tokens, or the metric itself."""
    if tokenize is None:
        return metric
    if not isinstance(metric, BLEU):
        raise HeadtoolError(f"`tokenize` is for bleu, not for {metric.name}; leave it out")
    return BLEU(tokenize)


def _settled(model: ModelAdapter, asked: Search) -> Search:
    """A search with nothing left open, by the model's own settings."""
    search = model.generator(asked).search
    if search.beam == 1 and asked.length_penalty is not None:
        raise HeadtoolError("`length_penalty` has no effect on greedy decoding; leave it out")
    return search
