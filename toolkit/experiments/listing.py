"""What there is: scoring methods, and the heads of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headtool.methods import describe_method, method_names
from headtool.results.versions import versions
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

    from headtool.experiments.inputs import ModelSource
    from headtool.heads import Kind, Sites
    from headtool.methods.options import Description
    from headtool.models.base import ModelAdapter

__all__ = ["HeadList", "MethodList", "list_heads", "list_methods"]


@dataclass(frozen=True)
class MethodList:
    """Scoring methods and their options.

    Attributes
    ----------
    methods
        What users see of each; nothing heavy was imported for it.
    """

    methods: tuple[Description, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """A row per option: method, name, default, choices, help."""
        rows = [
            {
                "method": method.name,
                **row,
                "default": "" if row["default"] is None else str(row["default"]),
                "choices": " ".join(row["choices"]),
            }
            for method in self.methods
            for row in _options(method)
        ]
        return TABLES["options"].frame(rows)

    def document(self) -> dict[str, Any]:
        """Return the methods as JSON can hold them, in the format ``headtool/methods/1``."""
        return {
            "schema": "headtool/methods/1",
            "provenance": {"versions": versions()},
            "methods": [
                {
                    "name": method.name,
                    "summary": method.summary,
                    "reference": method.reference,
                    "options": _options(method),
                }
                for method in self.methods
            ],
        }


@dataclass(frozen=True)
class HeadList:
    """The attention sites of a model.

    Attributes
    ----------
    model
        The model.
    sites
        Its sites of the kinds that were asked for.
    """

    model: ModelAdapter
    sites: Sites

    @property
    def frame(self) -> pd.DataFrame:
        """A row per site.

        kind, layer, heads, kv_groups, head_dim, parameters_per_head (that no other head shares),
        parameters_per_group, calls_sharing_weights, projection.
        """
        return TABLES["heads"].frame(self._rows())

    def document(self) -> dict[str, Any]:
        """Return the sites as JSON can hold them, in the format ``headtool/heads/1``."""
        model = self.model
        return {
            "schema": "headtool/heads/1",
            "provenance": {
                "model": model.spec,
                "library": model.library,
                "class": type(model.module).__name__,
                "task": model.task,
                **model.placement,
                "sha256": model.fingerprint,
                "versions": versions(),
            },
            "heads": self._rows(),
        }

    def _rows(self) -> list[dict[str, Any]]:
        from headtool.attention.parameters import head_parameters

        rows: list[dict[str, Any]] = []
        for handle in self.model.handles:
            site = handle.site
            if site not in self.sites.items:
                continue
            owned = head_parameters(self.model.module, handle)
            rows.append(
                {
                    "kind": site.kind,
                    "layer": site.layer,
                    "heads": site.n_heads,
                    "kv_groups": site.n_kv_heads,
                    "head_dim": site.head_dim,
                    "parameters_per_head": owned.per_head,
                    "parameters_per_group": owned.per_group,
                    "calls_sharing_weights": handle.calls,
                    "projection": site.projection,
                }
            )
        return rows


def list_methods(names: Sequence[str] | None = None) -> MethodList:
    """List the scoring methods and their options.

    Parameters
    ----------
    names
        Only these methods; None for all.

    Raises
    ------
    HeadtoolError
        If there is no such method.

    Examples
    --------
    >>> import headtool
    >>> headtool.list_methods(["gradient"]).frame["name"].tolist()[:2]
    ['granularity', 'normalize']
    """
    return MethodList(
        tuple(describe_method(name) for name in dict.fromkeys(names or method_names()))
    )


def list_heads(
    model: ModelAdapter | ModelSource | str = "builtin:nli",
    *,
    kinds: Iterable[Kind] | None = None,
) -> HeadList:
    """List the attention sites of a model.

    A model that shares its weights between layers (ALBERT) has a site per layer call. Under
    grouped-query attention, heads are query heads, and the parameters of a group go only with the
    last of its heads.

    Parameters
    ----------
    model
        A model, or its SPEC.
    kinds
        Attention kinds; None for all.

    Raises
    ------
    HeadtoolError
        If the model cannot be loaded, or lacks one of the kinds.

    Examples
    --------
    >>> import headtool
    >>> headtool.list_heads("builtin:nli").frame[["kind", "layer", "heads"]].head(2)
           kind  layer  heads
    0  enc-self      0      8
    1  enc-self      1      8
    """
    from headtool.experiments.inputs import open_model

    adapter = open_model(model)
    return HeadList(adapter, adapter.sites.restrict(None if kinds is None else tuple(kinds)))


def _options(method: Description) -> list[dict[str, Any]]:
    return [
        {
            "name": option.name,
            "default": option.default,
            "choices": list(option.choices),
            "help": option.help,
        }
        for option in method.options
    ]
