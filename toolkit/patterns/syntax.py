"""Which dependency relations heads follow, word by word.

Attention between words is that of Clark et al. 2019: *to* a word it is the sum over its tokens,
*from* a word the mean over them; special tokens are no words. A word asks which other word has its
largest weight (itself excluded, as there; the leftmost of equal ones). In decoders it asks among
the words before it, and only relations to these count.

For a relation and the direction "dependent->head" the queries are the dependents, and a hit is the
word that they depend on; for "head->dependent" the queries are words with such dependents, and any
of them is a hit. Queries with fewer than two words to choose from do not count.

The baseline of Voita et al. 2019 always guesses the relation's most frequent offset in words on the
same data (of equally frequent ones the nearest, then the left one).

References
----------
Clark, Khandelwal, Levy & Manning 2019, "What Does BERT Look At?", sec. 4.
Voita, Talbot, Moiseev, Sennrich & Titov 2019, "Analyzing Multi-Head Self-Attention", sec. 5.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.engine.observation import Statistic, Summary
from headtool.heads import AttentionSite, Kind, Sites
from headtool.models.examples import Batch
from headtool.models.token_loss import at_least_float32
from headtool.patterns.parses import Parse
from headtool.results.role_counts import RoleCounts

__all__ = ["DIRECTIONS", "SyntacticRoles", "baseline_offsets"]

DIRECTIONS = ("dependent->head", "head->dependent")

Instances = dict[tuple[int, str], set[int]]
"""By query and detail (relation and direction), the words that are hits."""


def _instances(parse: Parse, *, causal: bool) -> Instances:
    found: Instances = {}
    for dependent, head, relation in parse.arcs:
        for query, target, direction in (
            (dependent, head, DIRECTIONS[0]),
            (head, dependent, DIRECTIONS[1]),
        ):
            choices = query if causal else parse.n_units - 1
            if choices >= 2 and (target < query or not causal):
                found.setdefault((query, f"{relation} {direction}"), set()).add(target)
    return found


def baseline_offsets(instances: Iterable[Instances]) -> dict[str, int]:
    """Return the most frequent offset (target minus query, in words) of every detail, sorted."""
    seen: dict[str, Counter[int]] = {}
    for found in instances:
        for (query, detail), targets in found.items():
            counter = seen.setdefault(detail, Counter())
            counter.update(target - query for target in targets)
    return {
        detail: min(counter, key=lambda offset: (-counter[offset], abs(offset), offset))
        for detail, counter in sorted(seen.items())
    }


class SyntacticRoles(Statistic):
    """Statistic for `headtool.engine.observation.observe`: hits by relation and direction.

    Parameters
    ----------
    parses
        The trees of the examples that are observed, in their order.
    sites
        Attention sites of the model.
    kind
        The kind whose positions the trees are about.

    Attributes
    ----------
    counts
        The counts; empty of details where the treebank has no usable relation.
    """

    def __init__(self, parses: Sequence[Parse], sites: Sites, kind: Kind) -> None:
        self.sites = sites.restrict([kind])
        self.causal = kind == "dec-self"
        self._parses = parses
        self._offsets = baseline_offsets(_instances(parse, causal=self.causal) for parse in parses)
        details = list(self._offsets)
        self._number = {detail: place for place, detail in enumerate(details)}
        guesses = [f"{offset:+d}" for offset in self._offsets.values()]
        self.counts = RoleCounts("syntactic", details, self.sites, guesses)
        self._batch: Batch | None = None

    def _prepare(self, batch: Batch, length: int, device: torch.device) -> None:
        parses = [self._parses[i] for i in batch.index.tolist()]
        self._batch = batch
        pairs: dict[tuple[int, str], list[int]] = {}  # sentence, detail: place, queries, guessed
        places: list[tuple[int, int, int, int]] = []  # sentence, query, target, pair
        for row, parse in enumerate(parses):
            for (query, name), targets in _instances(parse, causal=self.causal).items():
                found = pairs.setdefault((row, name), [len(pairs), 0, 0])
                found[1] += 1
                found[2] += query + self._offsets[name] in targets
                places += [(row, query, target, found[0]) for target in sorted(targets)]
        self._detail = np.array([self._number[name] for _, name in pairs], dtype=np.int64)
        sums = np.array(list(pairs.values()), dtype=np.float64).reshape(-1, 3)
        self._queries, self._expected = sums[:, 1], sums[:, 2]
        self._places = torch.tensor(places, dtype=torch.long, device=device).reshape(-1, 4)
        units = torch.full((len(parses), length), -1)
        for row, parse in enumerate(parses):
            units[row, : len(parse.units)] = torch.from_numpy(parse.units)
        units = units.to(device)
        order = torch.arange(int(units.max()) + 1, device=device)
        self._member = units[:, None, :] == order[:, None]  # [B, U, T]
        keys = self._member.any(dim=-1)[:, None, :] & (order != order[:, None])
        if self.causal:
            keys = keys & (order < order[:, None])
        self._hidden = ~keys[:, None]

    def summarise(
        self, site: AttentionSite, attention: Tensor, contexts: Tensor, batch: Batch
    ) -> Summary:
        """Find the hits of one site of one batch; see `Statistic`."""
        if site not in self.sites.items or not self.counts.details:
            return {}
        attention = at_least_float32(attention)
        if batch is not self._batch:
            self._prepare(batch, attention.shape[-1], attention.device)
        member = self._member.to(attention.dtype)[:, None]  # [B, 1, U, T]
        size = member.sum(dim=-1, keepdim=True).clamp(min=1)
        between = (member / size) @ attention @ member.transpose(-1, -2)  # [B, H, U, U]
        best = between.masked_fill(self._hidden, -1.0).argmax(dim=-1)
        row, query, target, pair = self._places.T
        hit = best[row, :, query] == target[:, None]  # [arcs, H]
        hits = torch.zeros(len(self._detail), site.n_heads, device=attention.device)
        hits.index_add_(0, pair, hit.to(hits.dtype))
        return {
            "detail": self._detail,
            "queries": self._queries,
            "expected": self._expected,
            "hits": hits.cpu().double().numpy(),
        }

    def add(self, site: AttentionSite, examples: NDArray[np.int64], summary: Summary) -> None:
        """Count the hits of one site of one batch; see `Statistic`."""
        detail, queries, expected, hits = (
            summary[part] for part in ("detail", "queries", "expected", "hits")
        )
        if site == self.sites[0]:  # the queries of a batch are those of every site
            self.counts.add_queries(detail, queries, expected)
        self.counts.add_hits(site, detail, hits, queries, expected)
