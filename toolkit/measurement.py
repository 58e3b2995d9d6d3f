"""Measure masked models by any metric: by what they predict, or by what they translate."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headtool.decoding import Search, translate
from headtool.evaluation import evaluate
from headtool.heads import HeadMask
from headtool.hypotheses import Hypotheses
from headtool.metric_base import Metric
from headtool.models.base import Examples, ModelAdapter
from headtool.models.fairseq import FairseqModel
from headtool.progress import Progress, silent
from headtool.replacement import Replacement
from headtool.results import Outcomes
from headtool.translation_metrics import TranslationMetric
from headtool.units import UnitStore

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Measured", "described", "measure", "references"]


_LOGGER = logging.getLogger("headtool.measurement")

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


def measure(
    model: ModelAdapter,
    examples: Examples,
    masks: Sequence[HeadMask],
    metric: Metric,
    *,
    search: Search | None = None,
    replacement: Replacement | None = None,
    rescale: bool = False,
    store: UnitStore | None = None,
    progress: Progress = silent,
) -> Measured:
    """Run the whole model and every masked one as a metric needs it.

    BLEU, chrF and TER decode every source sentence; all other metrics take one forward pass over
    the data set, in which a translation model is given the reference up to each token.

    Parameters
    ----------
    model, examples, masks
        As for `headtool.evaluation.evaluate`.
    metric
        What the outcomes are for.
    search
        How to decode; None decodes as the model's own settings say. For metrics that decode.
    replacement, rescale, store, progress
        As for `headtool.evaluation.evaluate`.

    Raises
    ------
    HeadtoolError
        If the model cannot be run, or decoded, as asked.
    """
    if not isinstance(metric, TranslationMetric):
        if search is not None:
            raise ValueError(f"{metric.name} does not decode")
        outcomes = evaluate(
            model,
            examples,
            masks,
            replacement=replacement,
            rescale=rescale,
            store=store,
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
        progress=progress,
    )
    texts = references(model, examples)
    return Measured(hypotheses.outcomes(texts, metric), hypotheses, texts)


def described(metric: Metric, search: Search | None) -> dict[str, Any]:
    """What provenance says of metrics that decode: sacreBLEU's signature and the search."""
    if not isinstance(metric, TranslationMetric) or search is None:
        return {}
    return {"signature": metric.signature, "search": asdict(search)}


def references(model: ModelAdapter, examples: Examples) -> tuple[str, ...]:
    """Return the reference translations as text.

    Lines of a file are taken as they are. Symbols of fairseq's binary data are put together again
    by the model's segmentation, and those that the dictionary lacked become ``<<unk>>``, so that no
    hypothesis can match them: as ``fairseq-generate`` does. What binarising lost stays lost, so the
    raw file gives the number to report.
    """
    targets = examples.data.columns["target"]
    if isinstance(model, FairseqModel) and model.bpe.name == "none":
        _report_subwords(examples.data.spec, targets)
    tokenised = sum(target.endswith(" .") for target in targets)
    if tokenised >= _MANY:
        _LOGGER.warning(
            "%s looks tokenised (%d references end in ' .'): BLEU of tokenised text does not "
            "compare with what others report",
            examples.data.spec,
            tokenised,
        )
    if not examples.data.pretokenized:
        return targets
    assert isinstance(model, FairseqModel)  # no other model takes symbols
    unknown = model.target_dictionary.unk_word
    symbols = [
        [f"<{unknown}>" if symbol == unknown else symbol for symbol in target.split(" ")]
        for target in targets
    ]
    return tuple(model.bpe.decode(" ".join(line)) for line in symbols)


def _report_subwords(spec: str, targets: Sequence[str]) -> None:
    """Tell the user if subwords are going to be compared."""
    symbols = {symbol for target in targets for symbol in target.split(" ")}
    subwords = sorted(symbol for symbol in symbols if symbol[:1] == "▁" or symbol[-2:] == "@@")
    if subwords:
        _LOGGER.warning(
            "%s holds subwords such as %s, and no --bpe says how to join them: they are compared "
            "as they are, which is not the BLEU that others report",
            spec,
            subwords[0],
        )
