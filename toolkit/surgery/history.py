"""The record of what was removed from a model, which travels with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from headtool.heads import Head, HeadMask, Kind, Sites

__all__ = ["History", "record_history"]


@dataclass(frozen=True)
class History:
    """What was removed from a model, in one or more steps.

    Attributes
    ----------
    sites
        The heads of each attention of the whole model: kind, layer, number.
    kept
        By attention (``enc-self.0``), which of those are left.
    steps
        The plans that were carried out, one after the other.
    """

    sites: Sequence[tuple[Kind, int, int]]
    kept: Mapping[str, Sequence[int]]
    steps: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, module: nn.Module, sites: Sites) -> History:
        """Return what was removed from a module so far; often nothing.

        Parameters
        ----------
        module
            The module of a model, whole or pruned.
        sites
            The sites that it has now.
        """
        recorded = _recorded(module)
        if recorded is not None:
            return cls(**recorded)
        whole = [(site.kind, site.layer, site.n_heads) for site in sites]
        return cls(whole, {str(site): list(range(site.n_heads)) for site in sites}, ())

    @property
    def removed(self) -> list[str]:
        """The heads that are gone, as the whole model numbers them."""
        return [
            str(Head(kind, layer, head))
            for kind, layer, heads in self.sites
            for head in range(heads)
            if head not in self.kept.get(f"{kind}.{layer}", ())
        ]

    def after(self, mask: HeadMask, step: Mapping[str, Any]) -> History:
        """Return the history with one more step.

        Parameters
        ----------
        mask
            A mask of the model as it is now.
        step
            The plan that removes what it closes.
        """
        closed = {str(head) for head in mask.closed}
        kept = {
            site: [
                original
                for present, original in enumerate(heads)
                if f"{site}.{present}" not in closed
            ]
            for site, heads in self.kept.items()
        }
        return History(self.sites, kept, [*self.steps, step])

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"sites": list(self.sites), "kept": dict(self.kept), "steps": list(self.steps)}


def _recorded(module: nn.Module) -> dict[str, Any] | None:
    """The history that travels with a module: in its configuration, where it has one."""
    place = getattr(module, "config", module)
    found = getattr(place, "headtool_pruned", None)
    return None if found is None else dict(found)


def record_history(module: nn.Module, history: History) -> None:
    """Attach a history to a module; a transformers model saves it with its configuration.

    Parameters
    ----------
    module
        The module of the pruned model; it is changed.
    history
        What was removed.
    """
    place: Any = getattr(module, "config", module)
    place.headtool_pruned = history.to_json()
