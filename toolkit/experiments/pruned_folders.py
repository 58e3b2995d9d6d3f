"""Folders of pruned models: weights, record, report and card, on the disk and on the hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.models.base import ModelAdapter
from headtool.pruning.pushing import check_repository, push_folder
from headtool.pruning.saving import save_baked, save_pruned
from headtool.pruning.smaller import Pruned
from headtool.reports.formats.card import Card
from headtool.reports.formats.pruning import add_pruning_report
from headtool.results.scores import json_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Destination", "PrunedFolder"]


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where a pruned model goes.

    Attributes
    ----------
    out
        The folder; None: nowhere.
    force
        Replace what headtool wrote there before.
    bake, onnx
        As for `headtool.prune`.
    push
        Name on the hub; None: it stays here.
    private
        Whether a new repository there is private.

    Raises
    ------
    HeadtoolError
        If one of them does not go with the others.
    """

    out: Path | None
    force: bool = False
    bake: bool = False
    onnx: bool = False
    push: str | None = None
    private: bool = False

    def __post_init__(self) -> None:
        for name, given in (("onnx", self.onnx), ("push", self.push is not None)):
            if given and self.out is None:
                raise HeadtoolError(f"`{name}` is for a model that is written; give `out`")
        if self.bake and self.onnx:
            raise HeadtoolError("`onnx` exports the smaller model; leave `bake` out")
        if self.private and self.push is None:
            raise HeadtoolError("`private` is for `push`; add it, or leave `private` out")
        if self.push is not None:
            check_repository(self.push)


@dataclass(frozen=True, kw_only=True)
class PrunedFolder:
    """All that the folder of a pruned model holds.

    Attributes
    ----------
    whole, model
        The model before and after.
    pruned
        What became of it; None for a baked model.
    mask
        Closes the heads that are gone.
    method
        What scored them; empty where no scores chose them.
    source
        What the heads were chosen by, for the record.
    savings, recovery, curve
        The tables of those names of `headtool.experiments.pruning.Pruning`.
    measured_on, examples
        SPEC of the data of these, and how many examples that are.
    notes
        What a reader must know.
    command
        The command that makes it again.
    """

    whole: ModelAdapter
    model: ModelAdapter
    pruned: Pruned | None
    mask: HeadMask
    method: str
    source: Mapping[str, Any]
    savings: pd.DataFrame
    recovery: pd.DataFrame
    curve: pd.DataFrame
    measured_on: str
    examples: int
    notes: tuple[str, ...]
    command: str

    def write(self, to: Destination) -> str:
        """Write it, and upload it where that is asked for.

        Parameters
        ----------
        to
            Where to.

        Returns
        -------
        str
            Where it can be seen on the hub; empty where it is not there.
        """
        folder = to.out
        if folder is None:
            return ""
        tables = {"recovery": json_rows(self.recovery), "curve": json_rows(self.curve)}
        source = {**self.source, **tables}
        card = Card(
            model=self.whole.spec,
            library=self.whole.library,
            kind=type(self.whole.module).__name__,
            task=self.whole.task,
            reads=self.whole.reads,
            mask=self.mask,
            baked=self.pruned is None,
            method=self.method,
            source=self.source,
            savings=self.savings,
            recovery=self.recovery,
            measured_on=self.measured_on,
            examples=self.examples,
            notes=self.notes,
        )

        def complete(made: Path) -> None:
            self._report(made)
            card.write(made, place=to.push or folder.name, on_hub=to.push is not None)

        if self.pruned is None:
            removed = [str(head) for head in self.mask.closed]
            save_baked(self.model, removed, folder, source=source, force=to.force, finish=complete)
        else:
            save_pruned(
                self.pruned, folder, source=source, force=to.force, onnx=to.onnx, finish=complete
            )
        return "" if to.push is None else push_folder(folder, to.push, private=to.private)

    def _report(self, made: Path) -> None:
        """Add the report, where something was measured."""
        if len(self.recovery):
            how = (self.recovery, self.curve, self.notes, self.command)
            add_pruning_report(made, self.whole.spec, self.mask, *how)
