"""JSON documents of scores: rows, keys such as ``L5H1``, MIB's graphs, and heads by layer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headtool.errors import HeadtoolError
from headtool.exchange.foreign import (
    MOST_HEADS,
    Foreign,
    Row,
    mean_row,
    plain_head,
    read_index,
    read_number,
    shown,
)
from headtool.exchange.tables import chosen_rows, row_of_record
from headtool.heads import Kind

__all__ = ["form_of", "read_document"]

_NODE = re.compile(r"a\d{1,6}\.h\d{1,6}")


def form_of(document: Any) -> str:
    """Tell the format of a JSON document: ``json``, ``retrieval``, ``mib`` or ``hf``.

    Parameters
    ----------
    document
        The document.

    Raises
    ------
    HeadtoolError
        If it is none of them.
    """
    if isinstance(document, list):
        return "json"
    if isinstance(document, dict):
        if "cfg" in document and "nodes" in document:
            return "mib"
        if isinstance(document.get("scores"), list):
            return "json"
        if document and all(key.strip().isdecimal() for key in document):
            return "hf"
        if document and any(isinstance(value, list) for value in document.values()):
            return "retrieval"
        if document and not any(isinstance(value, dict) for value in document.values()):
            return "json"
    raise HeadtoolError(
        "it holds no scores of heads: no rows with layer, head and score, no keys such as L5H1, no "
        "graph of MIB and no {layer: [heads]}"
    )


def read_document(document: Any, form: str, method: str | None) -> Foreign:
    """Read a JSON document.

    Parameters
    ----------
    document
        The document.
    form
        Its format, as `form_of` tells it.
    method
        Whose scores, where there are those of several methods.

    Raises
    ------
    HeadtoolError
        Naming the entry that does not fit.
    """
    if form == "mib":
        return _graph(document)
    if form == "hf":
        return _by_layer(document)
    if isinstance(document, dict) and not isinstance(document.get("scores"), list):
        return Foreign(form, tuple(_keyed(key, value) for key, value in document.items()))
    rows = document["scores"] if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise HeadtoolError("it is no list of rows with layer, head and score")
    records = []
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise HeadtoolError(f"row {number} is {shown(row)}, not layer, head and score")
        records.append((row, f"row {number}"))
    return Foreign("json", tuple(row_of_record(*one) for one in chosen_rows(records, method)))


def _keyed(key: str, value: Any) -> Row:
    """A head by its name: a score, or a list of the scores of its repeats."""
    place = shown(key)
    head = plain_head(key, place)
    if isinstance(value, list):
        return mean_row(head, [read_number(one, place) for one in value], place)
    return Row(*head, read_number(value, place), place=place)


def _by_layer(document: Any) -> Foreign:
    """Heads that go by layer, as ``prune_heads`` of transformers takes them; they score 0."""
    if not isinstance(document, dict):
        raise HeadtoolError('it is no object of layers, such as {"0": [1, 3]}')
    rows: list[Row] = []
    for key, heads in document.items():
        layer = read_index(key, "layer", f"layer {shown(key)}")
        if not isinstance(heads, list) or len(heads) > MOST_HEADS:
            raise HeadtoolError(f"layer {layer} has {shown(heads)}, which is no list of heads")
        place = f"layer {layer}"
        rows += [
            Row(None, layer, read_index(one, "head", place), 0.0, place=place) for one in heads
        ]
    return Foreign("hf", tuple(rows))


# -- MIB's graphs ----------------------------------------------------------------------------------


def _graph(document: Any) -> Foreign:
    """Heads of a circuit of MIB or EAP-IG.

    Where nodes have scores, those are the heads'. Where only edges have, a head's score is the sum
    of those of the edges that leave it: what patching its whole output changes, to first order. A
    circuit without scores has 1 for the heads in it, and 0 for all others.
    """
    if not isinstance(document, dict):
        raise HeadtoolError("it is no graph with 'cfg' and 'nodes'")
    cfg, nodes = _part(document, "cfg"), _part(document, "nodes")
    layers = _size(cfg, "n_layers")
    heads = _size(cfg, "n_heads")
    width = _size(cfg, "d_model") if "d_model" in cfg else None
    names = [name for name in nodes if _NODE.fullmatch(name)]
    for name in names:
        if not isinstance(nodes[name], dict):
            raise HeadtoolError(f"node {shown(name)} is {shown(nodes[name])}, not an object")
    if any("score" in nodes[name] for name in names):
        values = {name: _value(nodes[name], "score", f"node {name}") for name in names}
    elif _has_scores(document.get("edges")):
        values = _leaving(document["edges"], names)
    else:
        values = {name: float(_truth(nodes[name], f"node {name}")) for name in names}
    rows = [Row(*_node(name), values[name], place=f"node {name}") for name in names]
    return Foreign("mib", tuple(rows), (layers, heads), width)


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name)
    if not isinstance(part, dict):
        raise HeadtoolError(f"'{name}' of the graph is {shown(part)}, not an object")
    return part


def _size(cfg: Mapping[str, Any], name: str) -> int:
    value = cfg.get(name)
    if type(value) is not int or not 1 <= value < 10 * MOST_HEADS:
        raise HeadtoolError(f"'cfg' of the graph has {shown(value)} as {name}")
    return value


def _node(name: str) -> tuple[Kind | None, int, int]:
    return plain_head(name, f"node {name}")


def _value(entry: Mapping[str, Any], name: str, place: str) -> float:
    if name not in entry:
        raise HeadtoolError(f"{place} has no '{name}'")
    return read_number(entry[name], place)


def _truth(entry: Mapping[str, Any], place: str) -> bool:
    value = entry.get("in_graph")
    if not isinstance(value, bool):
        raise HeadtoolError(f"{place} has neither 'score' nor 'in_graph'")
    return value


def _has_scores(edges: Any) -> bool:
    return isinstance(edges, dict) and any(
        isinstance(edge, dict) and "score" in edge for edge in edges.values()
    )


def _leaving(edges: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    """Sum the scores of the edges that leave each head."""
    sums = dict.fromkeys(names, 0.0)
    for edge, entry in edges.items():
        start = edge.partition("->")[0]
        if start not in sums:
            continue
        place = f"edge {shown(edge)}"
        if not isinstance(entry, dict):
            raise HeadtoolError(f"{place} is {shown(entry)}, not an object")
        sums[start] += _value(entry, "score", place)
    return sums
