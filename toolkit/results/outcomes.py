"""Outcomes of masked models on every example: frozen, tidy and documented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask, Sites

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SHOWN_HEADS", "Outcomes", "replacements_of"]

SHOWN_HEADS = 8
"""Heads that a notebook shows of a result."""


@dataclass(frozen=True)
class Outcomes:
    """Per-example statistics of the whole model and of masked ones; every test starts here.

    Attributes
    ----------
    masks
        The masks, one row of `masked` each.
    whole
        Statistics of the unmasked model by name, each of shape [N]. Which names there are depends
        on the task; see `headtool.metrics.prediction`.
    masked
        The same of every mask, each of shape [masks, N].
    """

    masks: tuple[HeadMask, ...]
    whole: Mapping[str, NDArray[np.float64]]
    masked: Mapping[str, NDArray[np.float64]]

    def __repr__(self) -> str:
        return f"<Outcomes: {self._title}; per example: {', '.join(self.whole)}>"

    def _repr_html_(self) -> str:
        """Say what there is, in a notebook."""
        from headtool.results.display import html_result

        title = f"outcomes of {self._title}"
        return html_result(title, (), (), lines=[f"per example: {', '.join(self.whole)}"])

    @property
    def _title(self) -> str:
        count = len(next(iter(self.whole.values())))
        return f"{len(self.masks)} masks and the whole model on {count} examples"

    def row(self, index: int) -> dict[str, NDArray[np.float64]]:
        """Statistics of one mask, each of shape [N]."""
        return {name: values[index] for name, values in self.masked.items()}

    def take(self, index: Sequence[int]) -> Outcomes:
        """Outcomes of some of the masks, in the order of `index`."""
        masked = {name: values[list(index)] for name, values in self.masked.items()}
        return Outcomes(tuple(self.masks[i] for i in index), self.whole, masked)

    def on(self, index: NDArray[np.int64]) -> Outcomes:
        """Outcomes on some of the examples, in the order of `index`."""
        return Outcomes(
            self.masks,
            {name: values[index] for name, values in self.whole.items()},
            {name: values[:, index] for name, values in self.masked.items()},
        )

    def to_frame(self) -> pd.DataFrame:
        """Tidy frame with a row per mask and example: ``mask``, ``example``, then the statistics.

        ``mask`` names the closed heads, separated by spaces; it is empty for the whole model.
        """
        import pandas as pd

        names = ["", *(" ".join(map(str, mask.closed)) for mask in self.masks)]
        count = len(next(iter(self.whole.values())))
        columns = {
            name: np.concatenate([values, self.masked[name].ravel()])
            for name, values in self.whole.items()
        }
        # By codes: an array of all these long names would not fit into memory.
        codes, categories = pd.factorize(pd.Series(names))
        return pd.DataFrame(
            {
                "mask": pd.Categorical.from_codes(np.repeat(codes, count), categories),
                "example": np.tile(np.arange(count), len(names)),
                **columns,
            }
        )

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, sites: Sites) -> Outcomes:
        """Read what `to_frame` wrote.

        Parameters
        ----------
        frame
            The frame.
        sites
            The sites of the model that it is of.

        Raises
        ------
        ValueError
            If it is not what `to_frame` wrote of such a model.
        """
        import pandas as pd

        names = [name for name in frame.columns if name not in ("mask", "example")]
        codes, found = pd.factorize(frame["mask"])  # codes, as these names are long
        labels = [str(label) for label in found]
        if not names or labels[:1] != [""]:
            raise ValueError("it does not begin with outcomes of the whole model")
        count = len(frame) // len(labels)
        if not (
            np.array_equal(codes, np.repeat(np.arange(len(labels)), count))
            and np.array_equal(frame["example"], np.tile(np.arange(count), len(labels)))
        ):
            raise ValueError("its rows are not those of every mask on every example")
        columns = {name: frame[name].to_numpy(np.float64).reshape(-1, count) for name in names}
        if not all(np.isfinite(values).all() for values in columns.values()):
            raise ValueError("an outcome is no finite number")
        try:
            masks = tuple(
                HeadMask.without(sites, map(Head.parse, label.split())) for label in labels[1:]
            )
        except HeadtoolError as error:
            raise ValueError(str(error)) from error
        whole = {name: values[0] for name, values in columns.items()}
        return cls(masks, whole, {name: values[1:] for name, values in columns.items()})


def replacements_of(source: Mapping[str, Any]) -> tuple[str, ...]:
    """Name what closed heads put out, where one replacement or several were asked for.

    Parameters
    ----------
    source
        Provenance of outcomes; see `Run.source`.
    """
    options = source["options"]
    beside = options.get("beside") or source.get("beside") or ()
    return (options.get("replacement", "zero"), *beside)
