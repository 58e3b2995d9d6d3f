"""Work out what must change in a model for some of its heads to go."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from headtool.attention.discovery import is_linear
from headtool.errors import HeadtoolError
from headtool.heads import KINDS, AttentionSite
from headtool.surgery.modules import RepeatingLinear
from headtool.surgery.plan import EmptyAttention, Plan, Ranges, ranges, sizes
from headtool.surgery.tracing import PerHead, TracedAttention

__all__ = ["make_plan"]

_BIAS = "position_bias"
_TABLE = "relative_attention_bias"


@dataclass(frozen=True)
class _Change:
    """An attention and the heads that it keeps.

    `kept` is never empty: attention without heads runs on as one head of zeros, whose projections
    are gone (`empty`).
    """

    unit: TracedAttention
    kept: tuple[int, ...]
    empty: bool

    @property
    def whole(self) -> bool:
        return not self.empty and len(self.kept) == self.unit.handle.site.n_heads


def make_plan(
    units: Sequence[TracedAttention], gates: Mapping[AttentionSite, Tensor], batch: int
) -> Plan:
    """Plan the removal of heads.

    Parameters
    ----------
    units
        The model's attention, as `trace` found it.
    gates
        Gates of zero and one by site, [H]; sites left out stay whole.
    batch
        Examples in the batch of the trace.

    Raises
    ------
    HeadtoolError
        If layers that share their weights would have to keep different heads.
    """
    changes = [_change(unit, gates) for unit in units]
    slices: dict[str, tuple[int, Ranges]] = {}
    numbers: dict[str, dict[str, int]] = {}
    arguments: dict[str, dict[str, tuple[int, int, Sequence[int]] | None]] = {}
    repeats: dict[str, list[int]] = {}
    empty: list[EmptyAttention] = []
    for change in changes:
        if change.whole:
            continue
        unit, site = change.unit, change.unit.handle.site
        inputs = _widths(change)
        for name, part in unit.parameters.items():
            gone = change.empty and name.rpartition(".")[0] in inputs
            if not gone and _TABLE not in name:
                slices[name] = part.axis, ranges(_rows(part, change.kept))
        if change.empty:
            empty.append(EmptyAttention(_path(unit, unit.handle.owner), site.projection, inputs))
        else:
            slices[f"{site.projection}.weight"] = _columns(unit, change.kept)
            repeats |= _repeats(change)
        owner = unit.handle.owner
        assert owner is not None
        kv_heads = _kv_heads(change)
        numbers[_path(unit, owner)] = sizes(
            owner, heads=len(change.kept), kv_heads=kv_heads, head_dim=site.head_dim
        )
        narrowed = {
            name: _argument(part, change.kept, batch)
            for name, part in unit.arguments.items()
            if not (name == _BIAS and _makes_bias(unit))
        }
        if narrowed:
            arguments[unit.name] = dict(narrowed)
    plan = Plan(slices, numbers, arguments, {}, repeats, empty)
    return _with_shared_biases(plan, changes)


def _change(unit: TracedAttention, gates: Mapping[AttentionSite, Tensor]) -> _Change:
    site = unit.handle.site
    per_use = {
        tuple(np.flatnonzero(gates[use.site].bool().cpu().numpy()).tolist())
        if use.site in gates
        else tuple(range(site.n_heads))
        for use in unit.handles
    }
    if len(per_use) > 1 or len(unit.handles) != unit.handle.calls:
        names = ", ".join(str(use.site) for use in unit.handles)
        raise HeadtoolError(
            f"{names} share one set of weights, so the same heads must go from all of them; close "
            "them in each"
        )
    kept = per_use.pop()
    return _Change(unit, kept or (0,), not kept)


# -- slices ----------------------------------------------------------------------------------------


def _rows(part: PerHead, kept: Sequence[int]) -> list[int]:
    """Slices that one of the kept heads reads."""
    return [int(row) for row in np.flatnonzero(part.heads[:, list(kept)].any(axis=1))]


def _columns(unit: TracedAttention, kept: Sequence[int]) -> tuple[int, Ranges]:
    """The kept heads' columns of the output projection."""
    width = unit.handle.site.head_dim
    axis = 1 if isinstance(unit.handle.module, nn.Linear) else 0  # GPT-2's is transposed
    return axis, ranges([head * width + i for head in kept for i in range(width)])


def _widths(change: _Change) -> dict[str, int]:
    """Outputs of the linear layers before the heads, with one head left; only if that is none."""
    if not change.empty:
        return {}
    widths = {}
    for name, part in change.unit.outputs.items():
        if part is not None:
            widths[name] = len(_rows(part, change.kept))
        else:
            linear: Any = _part(change.unit, name)
            widths[name] = linear.nf if hasattr(linear, "nf") else linear.out_features
    return widths


def _part(unit: TracedAttention, name: str) -> nn.Module:
    return unit.module.get_submodule(name.removeprefix(f"{unit.name}."))


def _path(unit: TracedAttention, module: nn.Module | None) -> str:
    """Name in the model of a module inside a unit."""
    inside = next(name for name, part in unit.module.named_modules() if part is module)
    return ".".join(part for part in (unit.name, inside) if part)


def _argument(part: PerHead, kept: Sequence[int], batch: int) -> tuple[int, int, list[int]]:
    """Narrow an argument: its axis, the heads there, and which of them the kept heads read."""
    heads = part.heads
    per_example = len(heads) // batch
    if part.axis == 0 and len(heads) % batch == 0:
        tiled = np.tile(heads[:per_example], (batch, 1))
        if per_example and (tiled == heads).all():
            heads = heads[:per_example]
    return part.axis, len(heads), [int(heads[:, head].argmax()) for head in kept]


# -- shared keys and values ------------------------------------------------------------------------


def _kv_heads(change: _Change) -> int:
    """Number of keys and values that the attention code is to see."""
    site = change.unit.handle.site
    if site.n_kv_heads == site.n_heads or _repeating(change.unit) or _uneven(change):
        return len(change.kept)
    return len(_group_sizes(change))


def _group_sizes(change: _Change) -> dict[int, int]:
    """Kept heads by key/value group; groups without any are left out."""
    counts: dict[int, int] = {}
    for head in change.kept:
        group = _group(change.unit, head)
        counts[group] = counts.get(group, 0) + 1
    return counts


def _group(unit: TracedAttention, head: int) -> int:
    site = unit.handle.site
    return head * site.n_kv_heads // site.n_heads


def _uneven(change: _Change) -> bool:
    return len(set(_group_sizes(change).values())) > 1


def _repeating(unit: TracedAttention) -> bool:
    return any(isinstance(part, RepeatingLinear) for part in unit.module.modules())


def _repeats(change: _Change) -> dict[str, list[int]]:
    """For groups of uneven size: which output of each projection each of its new outputs is."""
    unit = change.unit
    index: dict[str, list[int]] = {}
    for name, part in unit.outputs.items():
        linear = _part(unit, name)
        if part is None:
            continue
        if isinstance(linear, RepeatingLinear):
            rows = _rows(unit.parameters[f"{name}.weight"], change.kept)
            place = {row: new for new, row in enumerate(rows)}
            old = linear.index.tolist()
            index[name] = [place[old[output]] for output in _rows(part, change.kept)]
        elif _uneven(change) and not _repeating(unit) and is_linear(linear):
            outputs = _head_by_head(change, part)
            if outputs != list(range(len(outputs))):
                index[name] = outputs
    return index


def _head_by_head(change: _Change, part: PerHead) -> list[int]:
    """Order the kept outputs of a projection by head, repeating those that heads share.

    Fused projections hold queries, keys and values one after the other, each ordered by head, or
    all of them group by group. Where the group goes back, the next of these parts begins.
    """
    rows = _rows(part, change.kept)
    groups = [_group(change.unit, int(part.heads[row].argmax())) for row in rows]
    starts = [i for i in range(len(rows)) if i == 0 or groups[i] < groups[i - 1]]
    order: list[int] = []
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        for head in change.kept:
            order += [i for i in range(start, stop) if part.heads[rows[i], head]]
    return order


# -- position biases that layers share -------------------------------------------------------------


def _makes_bias(unit: TracedAttention) -> bool:
    """Whether an attention hands its position bias on to later layers (T5 and its like)."""
    return hasattr(unit.handle.owner, "compute_bias")


def _with_shared_biases(plan: Plan, changes: Sequence[_Change]) -> Plan:
    """Add what becomes of position biases that one layer looks up for all.

    The table keeps a column for every head that any of the layers has left, and each layer picks
    its own. Cross-attention has no table, and its layers hand on zeros; each makes its own instead.
    """
    slices, arguments = dict(plan.slices), dict(plan.arguments)
    biases: dict[str, list[int]] = {}
    sharing = [change for change in changes if _makes_bias(change.unit)]
    for kind in KINDS:
        family = [change for change in sharing if change.unit.handle.site.kind == kind]
        if all(change.whole for change in family):
            continue
        if kind == "cross":
            arguments |= {
                change.unit.name: {_BIAS: None}
                for change in family
                if _BIAS in change.unit.arguments
            }
            continue
        for members in _by_table(family):
            columns = {change.unit.name: _bias_columns(change) for change in members}
            table = f"{members[0].unit.name}.{_TABLE}.weight"
            if table in members[0].unit.parameters:
                used = sorted({column for kept in columns.values() for column in kept}) or [0]
                slices[table] = 1, ranges(used)
                columns = {
                    name: [used.index(column) for column in kept] for name, kept in columns.items()
                }
            biases |= {name: kept or [0] for name, kept in columns.items()}
    return dataclasses.replace(plan, slices=slices, arguments=arguments, biases=biases)


def _by_table(family: Sequence[_Change]) -> list[list[_Change]]:
    """The layers that use one table each, that with the table first.

    The first layers may lack it: then it is in a layer that lost all heads before.
    """
    groups: list[list[_Change]] = []
    for change in family:
        if not groups or f"{change.unit.name}.{_TABLE}.weight" in change.unit.parameters:
            groups.append([])
        groups[-1].append(change)
    return groups


def _bias_columns(change: _Change) -> list[int]:
    """Columns of the table that the kept heads use."""
    own = change.unit.parameters.get(f"{change.unit.name}.{_TABLE}.weight")
    part = own or change.unit.arguments.get(_BIAS)
    if part is None or change.empty:
        return []
    return [int(part.heads[:, head].argmax()) for head in change.kept]
