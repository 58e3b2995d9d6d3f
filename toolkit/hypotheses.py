"""Translations of a data set by the whole model and by masked ones, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headtool.heads import HeadMask

if TYPE_CHECKING:
    import pandas as pd

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
    """

    masks: tuple[HeadMask, ...]
    whole: tuple[str, ...]
    masked: tuple[tuple[str, ...], ...]

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
    def from_frame(cls, frame: pd.DataFrame, masks: Sequence[HeadMask]) -> Hypotheses:
        """Read what `to_frame` wrote for these masks."""
        labels = frame["mask"].astype(str)
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
