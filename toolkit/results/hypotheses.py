"""Translations of a data set by the whole model and by masked ones, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headtool.heads import HeadMask
from headtool.metrics.translation import TranslationMetric
from headtool.results.outcomes import Outcomes

if TYPE_CHECKING:
    import pandas as pd

    from headtool.searching import Search

__all__ = ["Hypotheses"]


@dataclass(frozen=True)
class Hypotheses:
    """What the whole model and every masked one translate each source sentence to.

    Attributes
    ----------
    masks
        The masks, one entry of `masked` each.
    whole
        The unmasked model's translations, detokenised, one per example.
    masked
        The same of every mask.
    search
        How they were searched, every field filled in; None where they were read from a run.
    """

    masks: tuple[HeadMask, ...]
    whole: tuple[str, ...]
    masked: tuple[tuple[str, ...], ...]
    search: Search | None = None

    @cached_property
    def unchanged(self) -> NDArray[np.float64]:
        """Share of sentences that each mask translates as the whole model does, [masks]."""
        return np.array(
            [
                np.mean([text == same for text, same in zip(row, self.whole, strict=True)])
                for row in self.masked
            ]
        )

    def outcomes(self, references: Sequence[str], metric: TranslationMetric) -> Outcomes:
        """Compare every translation with its reference.

        Parameters
        ----------
        references
            One text per example.
        metric
            The metric whose statistics the outcomes hold.
        """
        seen: dict[tuple[int, str], int] = {}  # most masks change few sentences
        rows = np.array(
            [
                [seen.setdefault((example, text), len(seen)) for example, text in enumerate(texts)]
                for texts in (self.whole, *self.masked)
            ]
        )
        statistics = metric.compare(
            [text for _, text in seen], [references[example] for example, _ in seen]
        )[rows]
        columns = {name: statistics[..., i] for i, name in enumerate(metric.statistics)}
        whole = {name: values[0] for name, values in columns.items()}
        return Outcomes(self.masks, whole, {name: values[1:] for name, values in columns.items()})

    def to_frame(self) -> pd.DataFrame:
        """Tidy frame of ``mask``, ``example`` and ``text``.

        ``mask`` names the closed heads, separated by spaces; it is empty for the whole model, which
        has a row per example. A mask has rows only where its translation is another one.
        """
        import pandas as pd

        rows = [("", example, text) for example, text in enumerate(self.whole)]
        for mask, texts in zip(self.masks, self.masked, strict=True):
            name = " ".join(map(str, mask.closed))
            rows += [
                (name, example, text)
                for example, (text, same) in enumerate(zip(texts, self.whole, strict=True))
                if text != same
            ]
        frame = pd.DataFrame(rows, columns=["mask", "example", "text"])
        return frame.astype({"mask": "category"})

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, masks: Sequence[HeadMask], *, examples: int
    ) -> Hypotheses:
        """Read what `to_frame` wrote.

        Parameters
        ----------
        frame
            The frame.
        masks
            The masks whose translations are wanted, all of them in the frame or unchanged.
        examples
            How many examples were translated.

        Raises
        ------
        ValueError
            If it is not what `to_frame` wrote of so many examples.
        """
        labels = frame["mask"].astype(str)
        numbers = frame["example"].to_numpy()
        if not (
            np.array_equal(numbers[labels == ""], np.arange(examples))
            and ((numbers >= 0) & (numbers < examples)).all()
        ):
            raise ValueError("its rows are not translations of every example")
        whole = tuple(frame.loc[labels == "", "text"])
        changed = dict(iter(frame.groupby(labels)))
        masked = []
        for mask in masks:
            texts = list(whole)
            part = changed.get(" ".join(map(str, mask.closed)))
            if part is not None:
                for example, text in zip(part["example"], part["text"], strict=True):
                    texts[example] = text
            masked.append(tuple(texts))
        return cls(tuple(masks), whole, tuple(masked))
