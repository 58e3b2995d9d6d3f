"""Write scores for other people's tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headtool.errors import HeadtoolError
from headtool.results.scores import json_rows

__all__ = ["Exported", "write_foreign"]

_COLUMNS = ["kind", "layer", "head", "score", "stderr"]


@dataclass(frozen=True, eq=False)
class Exported:
    """Scores of one method, and what formats of other tools want to know beside.

    Attributes
    ----------
    frame
        The table ``scores`` of one method, every head once, in canonical order.
    provenance
        Where the scores come from.
    repeats
        Measurements of every head, shape [R, heads]; None without any.
    groups
        Key/value groups of a layer; None if unknown.
    width
        Width of the residual stream; None if unknown.
    removed
        Which heads go, shape [heads]; None where that is not said.
    """

    frame: pd.DataFrame
    provenance: Mapping[str, Any]
    repeats: NDArray[np.float64] | None = None
    groups: int | None = None
    width: int | None = None
    removed: NDArray[np.bool_] | None = None

    @property
    def layers(self) -> NDArray[np.float64]:
        """The scores by layer and head, [layers, heads].

        Raises
        ------
        HeadtoolError
            If there are several kinds of attention, or layers differ in heads.
        """
        kinds = self.frame["kind"].unique().tolist()
        if len(kinds) > 1:
            raise HeadtoolError(
                f"this format knows one kind of attention, and there are {', '.join(kinds)}; "
                "choose one by `kind`"
            )
        sizes = self.frame.groupby("layer", sort=True).size()
        if sizes.nunique() > 1:
            raise HeadtoolError(
                f"this format wants as many heads in every layer, and there are {sizes.min()} to "
                f"{sizes.max()}; choose csv or json"
            )
        return self.frame["score"].to_numpy(np.float64).reshape(len(sizes), -1)


def write_foreign(scores: Exported, format: str) -> str:
    """Return the content of a file in another tool's format.

    Parameters
    ----------
    scores
        The scores.
    format
        One of `headtool.exchange.reading.FORMATS`.

    Raises
    ------
    HeadtoolError
        If the format cannot say it, or wants something that is unknown.
    """
    if format != "json" and format != "csv" and scores.frame["score"].isna().any():
        raise HeadtoolError(
            "heads without a score have no place in this format; choose csv or json"
        )
    return _WRITERS[format](scores)


def _csv(scores: Exported) -> str:
    text: str = scores.frame[_COLUMNS].to_csv(index=False, lineterminator="\n")
    return text


def _json(scores: Exported) -> str:
    document = {
        "schema": "headtool/scores/1",
        "provenance": dict(scores.provenance),
        "scores": json_rows(scores.frame),
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _retrieval(scores: Exported) -> str:
    """Lists of repeats by ``layer-head``; a list of one where there are none."""
    layers = scores.layers
    names = [f"{layer}-{head}" for layer in range(len(layers)) for head in range(layers.shape[1])]
    repeats = layers.reshape(1, -1) if scores.repeats is None else scores.repeats
    return json.dumps(dict(zip(names, repeats.T.tolist(), strict=True))) + "\n"


def _mib(scores: Exported) -> str:
    """A graph of MIB with a score for every head, and no edges; MLPs have none and always stay."""
    layers = scores.layers
    if scores.width is None:
        raise HeadtoolError("MIB's graphs hold the width of the model; give `model`")
    nodes: dict[str, dict[str, Any]] = {"input": {"in_graph": False}}
    for layer, values in enumerate(layers.tolist()):
        for head, value in enumerate(values):
            nodes[f"a{layer}.h{head}"] = {"in_graph": False, "score": value}
        nodes[f"m{layer}"] = {"in_graph": False}
    nodes["logits"] = {"in_graph": True}
    cfg = {
        "n_layers": len(layers),
        "n_heads": layers.shape[1],
        "parallel_attn_mlp": False,
        "d_model": scores.width,
    }
    return json.dumps({"cfg": cfg, "nodes": nodes, "edges": {}}) + "\n"


def _duo(scores: Exported) -> str:
    """DuoAttention's table: mean scores of the key/value groups, from 0 to 1.

    DuoAttention cuts values off at 0 and 1, so scores beyond are moved and scaled into that range,
    which leaves their order.
    """
    layers = scores.layers
    if scores.groups is None:
        raise HeadtoolError(
            "DuoAttention's table has a column for each key/value group, and how many there are is "
            "unknown; give `model`"
        )
    groups = layers.reshape(len(layers), scores.groups, -1).mean(axis=2)
    low, high = float(groups.min()), float(groups.max())
    if low < 0 or high > 1:
        groups = (groups - low) / (high - low) if high > low else np.full_like(groups, 0.5)
    return "".join("\t".join(f"{value:.18e}" for value in row) + "\n" for row in groups.tolist())


def _hf(scores: Exported) -> str:
    """Heads that go, by layer, as ``prune_heads`` of transformers takes them."""
    scores.layers  # noqa: B018 - refuses several kinds
    if scores.removed is None:
        raise HeadtoolError(
            "{layer: [heads]} names the heads that go; say how many by `remove` or `keep_heads`"
        )
    gone = scores.frame[scores.removed]
    layers: dict[str, list[int]] = {}
    for layer, head in zip(gone["layer"].tolist(), gone["head"].tolist(), strict=True):
        layers.setdefault(str(layer), []).append(head)
    return json.dumps(layers) + "\n"


_WRITERS: dict[str, Callable[[Exported], str]] = {
    "csv": _csv,
    "json": _json,
    "retrieval": _retrieval,
    "mib": _mib,
    "duo": _duo,
    "hf": _hf,
}
