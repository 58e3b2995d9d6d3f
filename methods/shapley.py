"""Shapley values of heads by truncated Monte Carlo (Held & Yang 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headtool.engine.counting import mask_shares
from headtool.engine.measurement import measure
from headtool.errors import HeadtoolError
from headtool.methods.base import Job, Method, Scored, option
from headtool.metrics import get_metric
from headtool.metrics.base import Metric
from headtool.metrics.translation import TranslationMetric
from headtool.progress import counted
from headtool.searching import Search
from headtool.work import Passes, Size

__all__ = ["Shapley"]

_STEPS_AT_ONCE = 12
_AT_THE_FLOOR = 3
_SHARED = 3  # steps of a walk, its first and last, at which orders often meet


@dataclass(frozen=True)
class Shapley(Method):
    """What a head adds to the metric, averaged over all orders in which heads can be added.

    ``score_h = E[v(S + h) - v(S)]``, S the heads before h in a random order and v the metric with
    only the heads in S open (with the sign turned where lower is better). A higher score means more
    important. Heads that stand in for one another share what they are worth, which ablation of
    single heads gives to none of them. The scores add up to v(all) - v(none).

    Orders are drawn in pairs, each with its reverse (antithetic sampling), and walked from the
    whole model down. A walk ends early (truncation) once v has stayed within `tolerance` times
    ``|v(all) - v(none)|`` of v(none) for three steps: the heads that are left get zero from this
    order. The table `estimate` reports what the scores add up to and what truncation left out.

    The standard error is that of the sampled orders, on these examples: it falls with more orders.
    It says nothing about other examples, unlike that of other methods.

    References
    ----------
    Held & Yang 2022, "Shapley Head Pruning: Identifying and Removing Interference in Multilingual
    Transformers"; Ghorbani & Zou 2019, "Data Shapley", for truncation; Mitchell, Cooper, Frank &
    Holmes 2022, "Sampling Permutations for Shapley Value Estimation", for the pairs.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> scores = headtool.get_method("shapley")(permutations=4).score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score", "stderr"]].round(3)
        layer  head  score  stderr
    7       0     7  0.281   0.031
    21      2     5  0.156   0.031
    15      1     7  0.125   0.062
    >>> row = scores.tables["estimate"].loc[0]
    >>> float(row["all heads"]), float(row["no heads"]), float(row["sum of scores"])
    (1.0, 0.25, 0.75)
    """

    name: ClassVar[str] = "shapley"
    summary: ClassVar[str] = "what the head adds to the metric, over random orders of adding heads"
    reference: ClassVar[str] = "Held & Yang 2022"

    signal: str = option(
        "metric",
        "the metric (the run's, or the task's own), or the mean loss",
        choices=("metric", "loss"),
    )
    permutations: int = option(20, "most orders to walk; they come in pairs")
    stderr: float | None = option(
        None, "stop once the mean standard error is at most this; none: walk all orders"
    )
    tolerance: float = option(
        0.02, "how near v(none) ends a walk, as a share of |v(all) - v(none)|; 0: never"
    )

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        if self.permutations < 2 or self.permutations % 2:
            raise HeadtoolError(
                f"shapley.permutations must be even and at least 2, got {self.permutations}"
            )
        if self.stderr is not None and not self.stderr > 0:
            raise HeadtoolError(f"shapley.stderr must be above 0, got {self.stderr}")
        if not 0 <= self.tolerance < 1:
            raise HeadtoolError(f"shapley.tolerance must be in [0, 1), got {self.tolerance}")

    @property
    def uses_metric(self) -> bool:
        """Whether it is not the loss that is shared out."""
        return self.signal == "metric"

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Walk through all heads in every order, which truncation may end after a few of them."""
        blocks = math.ceil(size.heads / _STEPS_AT_ONCE)
        rounds = math.ceil(self.permutations / 4)
        orders = min(6, self.permutations) if self.stderr is not None else self.permutations
        walked = min(size.heads, _STEPS_AT_ONCE) if self.tolerance > 0 else size.heads
        masks = 2 + self.permutations * (size.heads - 1)  # all end where no head is open
        least = orders * max(1, walked - _SHARED) / masks
        if size.beam and self.signal == "metric":
            decoded = masks + 1 + rounds * blocks
            return (Passes(decoded=decoded, beam=size.beam, least=least),)
        return (
            Passes(forward=1 + rounds * blocks, least=least, what="whole model"),
            Passes(
                forward=masks,
                share=size.share,
                least=least,
                what="orders",
            ),
        )

    def compute(self, job: Job) -> Scored:
        """Walk pairs of orders until there are enough."""
        metric = get_metric("loss", task=job.model.task) if self.signal == "loss" else job.metric
        game = _Game(job, metric)
        heads = job.sites.n_heads
        whole, none = game.values([np.ones(heads, np.bool_), np.zeros(heads, np.bool_)])
        margin = self.tolerance * abs(whole - none)
        rng = np.random.default_rng(job.seed)
        pairs: list[NDArray[np.float64]] = []
        rounds = range(0, self.permutations // 2, 2)
        shown = counted(
            job.progress,
            rounds,
            total=len(rounds),
            label="orders",
            work=lambda first: game.work_since(),
        )
        for first in shown:
            drawn = [rng.permutation(heads) for _ in range(min(2, self.permutations // 2 - first))]
            orders = [order for one in drawn for order in (one, one[::-1])]
            pairs += game.pairs(first, orders, whole=whole, none=none, margin=margin)
            stderr = _stderr(pairs)
            if self.stderr is not None and len(pairs) > 2 and stderr.mean() <= self.stderr:
                break
        score = np.mean(pairs, axis=0)
        left_out = whole - none - score.sum()
        row = {
            "value": metric.name if metric.higher_is_better else f"-{metric.name}",
            "orders": 2 * len(pairs),
            "mean stderr": float(stderr.mean()),
            "all heads": whole,
            "no heads": none,
            "sum of scores": float(score.sum()),
            "left out": float(left_out),
            "masks": game.evaluated,
        }
        return Scored(score, stderr, tables={"estimate": pd.DataFrame([row])})


def _stderr(pairs: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Standard error of the mean over pairs, [heads]; NaN for one pair."""
    if len(pairs) < 2:
        return np.full(len(pairs[0]), np.nan)
    result: NDArray[np.float64] = np.std(pairs, axis=0, ddof=1) / np.sqrt(len(pairs))
    return result


class _Game:
    """Values of sets of open heads; each set is evaluated once."""

    def __init__(self, job: Job, metric: Metric) -> None:
        self.job = job
        self.metric = metric
        self.known: dict[bytes, float] = {}
        self._work = 0.0  # token-passes that nobody asked for yet

    def work_since(self) -> float:
        """Token-passes since this was last asked."""
        work, self._work = self._work, 0.0
        return work

    @property
    def evaluated(self) -> int:
        """How many sets were evaluated."""
        return len(self.known)

    def pairs(
        self, number: int, orders: list[NDArray[np.int64]], **ends: float
    ) -> list[NDArray[np.float64]]:
        """Walk orders, each followed by its reverse; the mean worth of each pair, [heads].

        Finished walks are kept with the sets that they evaluated, under a number.
        """
        before = list(self.known)

        def walk() -> dict[str, NDArray[Any]]:
            gains = np.array(self.walk(orders, **ends))
            new = list(self.known)[len(before) :]
            return {
                "gains": gains,
                "sets": np.array([np.frombuffer(key, np.bool_) for key in new]),
                "values": np.array([self.known[key] for key in new]),
            }

        kept = self.job.keep(f"orders-{number:04d}", walk)
        for is_open, value in zip(kept["sets"], kept["values"], strict=True):
            self.known[is_open.tobytes()] = float(value)
        gains = kept["gains"]
        return [(gains[i] + gains[i + 1]) / 2 for i in range(0, len(gains), 2)]

    def values(self, sets: list[NDArray[np.bool_]]) -> list[float]:
        """Value of each set [heads], the higher the better."""
        unknown = {kept.tobytes(): kept for kept in sets if kept.tobytes() not in self.known}
        if unknown:
            masks = [self.job.mask(kept) for kept in unknown.values()]
            given = self.job.model, self.job.examples, masks
            each = 1.0 + sum(mask_shares(self.job.model, masks, chained=True))
            if isinstance(self.metric, TranslationMetric):
                search = self.job.model.generator(Search()).search
                each = (1 + len(masks)) * Passes(decoded=1, beam=search.beam or 1).weight
            self._work += each * float(self.job.examples.lengths.sum())
            execute = self.job.execute
            outcomes = measure(*given, self.metric, chained=True, execute=execute).outcomes
            for i, (key, kept) in enumerate(unknown.items()):
                self.known[key] = self._value(outcomes.row(i), kept)
        return [self.known[kept.tobytes()] for kept in sets]

    def _value(self, columns: dict[str, NDArray[np.float64]], kept: NDArray[np.bool_]) -> float:
        value = self.metric.compute(columns)
        if not np.isfinite(value):
            raise HeadtoolError(
                f"{self.metric.name} is {value} with {kept.sum()} of {len(kept)} heads open, so no "
                "Shapley value exists; choose another `metric`, or shapley.signal=loss"
            )
        return value if self.metric.higher_is_better else -value

    def walk(
        self,
        orders: list[NDArray[np.int64]],
        *,
        whole: float,
        none: float,
        margin: float,
    ) -> list[NDArray[np.float64]]:
        """Close the heads of each order one after the other; what each was worth, [heads].

        All orders advance together, some steps at a time, so that the whole model runs once.
        """
        heads = len(orders[0])
        traces = [[whole] for _ in orders]
        active = list(range(len(orders)))
        for start in range(0, heads, _STEPS_AT_ONCE):
            steps = range(start + 1, min(start + _STEPS_AT_ONCE, heads) + 1)
            sets = [_open_after(orders[i], step) for i in active for step in steps]
            found = iter(self.values(sets))
            for i in active:
                traces[i] += [next(found) for _ in steps]
            active = [i for i in active if _end(traces[i], none, margin) is None]
            if not active:
                break
        return [
            _gains(order, trace[: _end(trace, none, margin)])
            for order, trace in zip(orders, traces, strict=True)
        ]


def _open_after(order: NDArray[np.int64], steps: int) -> NDArray[np.bool_]:
    """Which heads are open after that many steps of closing, shape [heads]."""
    is_open = np.ones(len(order), dtype=np.bool_)
    is_open[order[:steps]] = False
    return is_open


def _end(trace: list[float], none: float, margin: float) -> int | None:
    """How many values of a walk come before it ends, for having been at the floor some steps."""
    at_floor = 0
    for place, value in enumerate(trace, start=1):
        at_floor = at_floor + 1 if margin > 0 and abs(value - none) <= margin else 0
        if at_floor == _AT_THE_FLOOR:
            return place
    return None


def _gains(order: NDArray[np.int64], trace: list[float]) -> NDArray[np.float64]:
    """What each head was worth when it was closed; zero after the walk's end. Shape [heads]."""
    gains = np.zeros(len(order))
    gains[order[: len(trace) - 1]] = -np.diff(trace)
    return gains
