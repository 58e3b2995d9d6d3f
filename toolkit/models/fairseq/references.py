"""References that translations of fairseq models are compared with, as text."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headtool.models.examples import Examples
from headtool.models.fairseq.network import FairseqNetwork

__all__ = ["references"]

_LOGGER = logging.getLogger(__name__)


def references(model: FairseqNetwork, examples: Examples) -> tuple[str, ...]:
    """Return the reference translations as text.

    Lines of a file are taken as they are. Symbols of fairseq's binary data are put together again
    by the model's segmentation, and those that the dictionary lacked become ``<<unk>>``, so that no
    hypothesis can match them: as ``fairseq-generate`` does. What binarising lost stays lost, so the
    raw file gives the number to report.

    Parameters
    ----------
    model
        The model, whose segmentation puts symbols together.
    examples
        The data set.
    """
    targets = examples.data.columns["target"]
    if model.bpe.name == "none":
        _report_subwords(examples.data.spec, targets)
    if not examples.data.pretokenized:
        return targets
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
            "%s holds subwords such as %s, and no `bpe` says how to join them: they are compared "
            "as they are, which is not the BLEU that others report",
            spec,
            subwords[0],
        )
