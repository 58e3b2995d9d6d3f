"""Choose the heads to remove: by scores, by verdicts, or by a mask in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.errors import HeadtoolError, unknown
from headtool.heads import HeadMask, Sites
from headtool.masks.curves import layers_of, spare_last
from headtool.metrics import metric_of_run
from headtool.reading import parse_json, read_file
from headtool.results.scores import ranks

if TYPE_CHECKING:
    import pandas as pd

    from headtool.results.runs import Run

__all__ = [
    "UNITS",
    "budget",
    "by_scores",
    "by_verdicts",
    "from_file",
    "groups_of",
    "scores_of",
    "scores_of_ablation",
    "tied_at_cut",
]

UNITS = ("head", "group")


def budget(remove: str | None, keep: int | None, heads: int) -> int:
    """Read how many heads are to go, from a share to remove or a number to keep.

    Parameters
    ----------
    remove
        A share of the heads, such as ``40%``; used where `keep` is None.
    keep
        How many heads to keep.
    heads
        How many the model has.

    Returns
    -------
    int
        Heads to remove, at least 1 and fewer than all.

    Raises
    ------
    HeadtoolError
        If it is no share, or would leave all heads or none.

    Examples
    --------
    >>> from headtool.masks.selection import budget
    >>> budget("40%", None, 32), budget(None, 20, 32)
    (13, 12)
    """
    if keep is not None:
        if not 1 <= keep < heads:
            raise HeadtoolError(
                f"`keep_heads` must be between 1 and {heads - 1} (the model has {heads} heads), "
                f"got {keep}"
            )
        return heads - keep
    text = (remove or "").strip()
    try:
        share = float(text.removesuffix("%")) if text.endswith("%") else None
    except ValueError:
        share = None
    if share is None or not 0 < share < 100:
        raise HeadtoolError(
            f"`remove` takes a share of the heads between 0% and 100%, such as 40%, got '{text}'"
        )
    count = round(share * heads / 100)
    if not 0 < count < heads:
        raise HeadtoolError(
            f"`remove` {text} of {heads} heads is {count}; choose a share that removes some and "
            "leaves some"
        )
    return count


def scores_of(run: Run) -> pd.DataFrame:
    """Scores that a run holds, or those of its ablation: what its metric loses without the head.

    Raises
    ------
    HeadtoolError
        If the run has neither.
    """
    tables = run.manifest["tables"]
    if "scores" in tables:
        return run.table("scores")
    if "ablation" not in tables or run.source["options"].get("all_but_one"):
        raise HeadtoolError(
            f"{run.folder} has no scores of single heads; make some with headtool score --out DIR"
        )
    return scores_of_ablation(run.table("ablation"), run.source)


def scores_of_ablation(deltas: pd.DataFrame, source: Mapping[str, Any]) -> pd.DataFrame:
    """Turn the deltas of an ablation into scores: what its metric loses without the head.

    Parameters
    ----------
    deltas
        A row per metric and head: kind, layer, head, delta, metric.
    source
        Provenance of the ablation, which names its metric.
    """
    metric = metric_of_run(source)
    table = deltas[deltas["metric"] == metric.name].reset_index(drop=True)
    score = table["delta"] * (-1 if metric.higher_is_better else 1)
    finer = None
    if metric.name != "loss" and "loss" in set(deltas["metric"]):
        finer = deltas.loc[deltas["metric"] == "loss", "delta"].to_numpy(np.float64)
    seed = int(source.get("seed", 0))
    rank, tied = ranks(score.to_numpy(np.float64), tie_break=finer, seed=seed)
    return table.assign(method="ablation", score=score, rank=rank, tied=tied)


def groups_of(sites: Sites, unit: str) -> NDArray[np.int64]:
    """Number the units that heads are removed in, shape [heads]: themselves, or key/value groups.

    Parameters
    ----------
    sites
        The model's sites.
    unit
        ``head`` or ``group``.

    Examples
    --------
    >>> from headtool.heads import Sites
    >>> from headtool.masks.selection import groups_of
    >>> from headtool.heads import AttentionSite
    >>> sites = Sites((AttentionSite("dec-self", 0, 4, 2, 16, "layer.0.output"),))
    >>> groups_of(sites, "head").tolist(), groups_of(sites, "group").tolist()
    ([0, 1, 2, 3], [0, 0, 1, 1])
    """
    if unit not in UNITS:
        raise unknown("unit", unit, UNITS)
    groups: list[int] = []
    first = 0
    for site in sites:
        size = 1 if unit == "head" else site.n_heads // site.n_kv_heads
        groups += [first + head // size for head in range(site.n_heads)]
        first = groups[-1] + 1
    return np.asarray(groups)


def by_scores(
    scores: pd.DataFrame, sites: Sites, count: int, *, unit: str = "head", keep_one: bool = False
) -> HeadMask:
    """Close the heads with the lowest scores, over all sites.

    Parameters
    ----------
    scores
        One method's scores: kind, layer, head, score and rank, for all or some of the heads.
    sites
        The model's sites.
    count
        How many heads to close. Whole groups go while they fit into it.
    unit
        ``head``, or ``group``: key/value groups go as a whole, that with the lowest mean rank of
        its heads' scores first.
    keep_one
        Keep the last head (or group) of every site.

    Raises
    ------
    HeadtoolError
        If the scores are of another model, or if that many heads cannot be closed.
    """
    position = _positions(scores, sites)
    importance = np.full(sites.n_heads, np.inf)
    importance[position] = -scores["rank"].to_numpy(dtype=np.float64)
    groups = groups_of(sites, unit)
    layer_of_head = layers_of(sites)
    size = np.bincount(groups)
    mean = np.bincount(groups, weights=importance) / size
    layer = layer_of_head[np.unique(groups, return_index=True)[1]]
    order = np.argsort(mean, kind="stable")
    order = order[np.isfinite(mean[order])]
    if keep_one:
        order = spare_last(order, layer)
    closed = np.zeros(len(size), dtype=np.bool_)
    left = count
    for group in order:
        if size[group] <= left:
            closed[group] = True
            left -= int(size[group])
    if not closed.any() or (unit == "head" and left):
        can = int(size[order].sum())
        raise HeadtoolError(
            f"{count} heads are to go, but only {can} of {sites.n_heads} can; remove fewer"
            if can < count
            else f"{count} heads are less than one key/value group; remove more, or use `unit=head`"
        )
    return HeadMask(sites, ~closed[groups])


def tied_at_cut(
    scores: pd.DataFrame, mask: HeadMask, *, unit: str = "head"
) -> tuple[int, int] | None:
    """Count the heads whose scores do not tell whether they go: others with equal scores do not.

    Parameters
    ----------
    scores
        One method's scores: kind, layer, head and score, for all or some of the heads.
    mask
        What `by_scores` made of them.
    unit
        ``head``; with ``group``, groups are equal whose heads have equal scores.

    Returns
    -------
    tuple of int
        How many heads those are, and how many of them the mask closes; None if there are none.
    """
    sites = mask.sites
    score = np.full(sites.n_heads, np.nan)
    score[_positions(scores, sites)] = scores["score"].to_numpy(dtype=np.float64)
    groups = groups_of(sites, unit)
    members = [np.flatnonzero(groups == group) for group in range(groups[-1] + 1)]
    values = [tuple(np.sort(score[heads]).tolist()) for heads in members]
    goes = [not mask.open[heads].any() for heads in members]
    gone = {value for value, shut in zip(values, goes, strict=True) if shut}
    left = {value for value, shut in zip(values, goes, strict=True) if not shut}
    places = [place for place, value in enumerate(values) if value in gone & left]
    sizes = [(len(members[place]), goes[place]) for place in places]
    if not sizes:
        return None
    return sum(size for size, _ in sizes), sum(size for size, shut in sizes if shut)


def by_verdicts(
    tests: pd.DataFrame, sites: Sites, verdict: str, *, unit: str = "head", keep_one: bool = False
) -> HeadMask:
    """Close the heads with a verdict; a group only if all its heads have it.

    Parameters
    ----------
    tests
        Verdicts: kind, layer, head, delta and verdict, for all or some of the heads.
    sites
        The model's sites.
    verdict
        The verdict, such as ``removable``.
    unit
        ``head``, or ``group`` for whole key/value groups.
    keep_one
        Keep a head (or group) of every site: the one whose loss changes the metric most.

    Raises
    ------
    HeadtoolError
        If the verdicts are of another model, or if no head has this one.
    """
    position = _positions(tests, sites)
    has = np.zeros(sites.n_heads, dtype=np.bool_)
    has[position] = (tests["verdict"] == verdict).to_numpy()
    groups = groups_of(sites, unit)
    whole = np.bincount(groups, weights=has) == np.bincount(groups)
    closed = whole[groups]
    if not closed.any():
        found = ", ".join(f"{n} {name}" for name, n in tests["verdict"].value_counts().items())
        what = "key/value group" if unit == "group" else "head"
        raise HeadtoolError(f"no {what} is {verdict} ({found}); choose heads by `remove` instead")
    if keep_one:
        cost = np.zeros(sites.n_heads)
        cost[position] = tests["delta"].abs().to_numpy()
        for site in sites:
            columns = sites.columns(site)
            if closed[columns].all():
                spared = groups[columns][int(np.argmax(cost[columns]))]
                closed &= groups != spared
    return HeadMask(sites, ~closed)


def from_file(path: Path, sites: Sites) -> HeadMask:
    """Read a mask: headtool's own JSON, ``{layer: [heads]}``, or Michel's ``E:1:3 A:2:1``.

    Parameters
    ----------
    path
        The file.
    sites
        The model's sites.

    Raises
    ------
    HeadtoolError
        If the file is missing or no mask, or if the model lacks a head that it names.
    """
    try:
        text = read_file(path).decode("utf-8")
    except FileNotFoundError:
        raise HeadtoolError(f"no such file: {path}; check `mask`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise HeadtoolError(f"cannot read the mask {path}: {error}") from error
    if text.lstrip()[:1] not in ("{", "["):
        return _not_empty(HeadMask.from_michel(text, sites), path)
    document = parse_json(text, f"the mask {path}")
    if isinstance(document, dict) and "schema" not in document:
        try:
            layers = {
                int(layer): [int(head) for head in heads] for layer, heads in document.items()
            }
        except (OverflowError, TypeError, ValueError):
            raise HeadtoolError(
                f'{path} is no head mask; write {{"schema": "headtool/mask/1", "closed": '
                '["enc-self.0.1"]}'
            ) from None
        return _not_empty(HeadMask.from_huggingface(layers, sites), path)
    return _not_empty(HeadMask.from_json(text, sites), path)


def _not_empty(mask: HeadMask, path: Path) -> HeadMask:
    if mask.open.all():
        raise HeadtoolError(f"the mask {path} closes no head; there is nothing to remove")
    return mask


def _positions(frame: pd.DataFrame, sites: Sites) -> Sequence[int]:
    """Where the heads of a frame stand among the model's."""
    from headtool.heads import Head

    rows = zip(frame["kind"], frame["layer"], frame["head"], strict=True)
    positions = [sites.position(Head(kind, int(layer), int(head))) for kind, layer, head in rows]
    if len(set(positions)) != len(positions):
        raise HeadtoolError("a head is scored twice; choose one method and data set")
    return positions
