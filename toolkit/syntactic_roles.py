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
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.heads import AttentionSite, Kind, Sites
from headtool.models.base import Batch, at_least_float32
from headtool.parses import Parse
from headtool.role_counts import RoleCounts

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


def baseline_offsets(instances: Sequence[Instances]) -> dict[str, int]:
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


class SyntacticRoles:
    """Statistic for `headtool.observation.observe`: hits by dependency relation and direction.

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
        self._units = [parse.units for parse in parses]
        instances = [_instances(parse, causal=self.causal) for parse in parses]
        offsets = baseline_offsets(instances)
        details = list(offsets)
        number = {detail: place for place, detail in enumerate(details)}
        guesses = [f"{offset:+d}" for offset in offsets.values()]
        self.counts = RoleCounts("syntactic", details, self.sites, guesses)
        self._arcs: list[NDArray[np.int64]] = []  # query, target, detail
        self._asked: list[NDArray[np.int64]] = []  # per query and detail: the detail
        self._guessed: list[NDArray[np.int64]] = []  # of these, the baseline's hits
        for found in instances:
            arcs = [
                (query, target, number[detail])
                for (query, detail), targets in found.items()
                for target in sorted(targets)
            ]
            self._arcs.append(np.array(arcs, dtype=np.int64).reshape(-1, 3))
            self._asked.append(np.array([number[detail] for _, detail in found], dtype=np.int64))
            right = [
                number[detail]
                for (query, detail), targets in found.items()
                if query + offsets[detail] in targets
            ]
            self._guessed.append(np.array(right, dtype=np.int64))
        self._batch: Batch | None = None

    def _prepare(self, batch: Batch, length: int, device: torch.device) -> None:
        index, wide = batch.index.tolist(), len(self.counts.details)
        self._batch = batch
        self._queries, self._expected = (
            np.stack([np.bincount(of[i], minlength=wide) for i in index]).astype(np.float64)
            for of in (self._asked, self._guessed)
        )
        self.counts.add_queries(self._queries, self._expected)
        units = np.full((len(index), length), -1, dtype=np.int64)
        for row, i in enumerate(index):
            units[row, : len(self._units[i])] = self._units[i]
        number = torch.from_numpy(units).to(device)
        n_units = int(units.max(initial=0)) + 1
        member = number[:, None, :] == torch.arange(n_units, device=device)[:, None]  # [B, U, T]
        there = member.any(dim=-1)
        self._member = member
        order = torch.arange(n_units, device=device)
        keys = there[:, None, :] & (order[None, :] != order[:, None])
        if self.causal:
            keys = keys & (order[None, :] < order[:, None])
        self._hidden = ~keys[:, None]
        parts = [np.insert(self._arcs[i], 0, row, axis=1) for row, i in enumerate(index)]
        self._places = torch.from_numpy(np.concatenate(parts)).to(device)

    def update(
        self, site: AttentionSite, attention: Tensor, contexts: Tensor, batch: Batch
    ) -> None:
        """Take in one site of one batch."""
        if site not in self.sites.items or not self.counts.details:
            return
        attention = at_least_float32(attention)
        if batch is not self._batch:
            self._prepare(batch, attention.shape[-1], attention.device)
        member = self._member.to(attention.dtype)[:, None]  # [B, 1, U, T]
        size = member.sum(dim=-1, keepdim=True).clamp(min=1)
        between = (member / size) @ attention @ member.transpose(-1, -2)  # [B, H, U, U]
        best = between.masked_fill(self._hidden, -1.0).argmax(dim=-1)
        row, query, target, detail = self._places.T
        hit = best[row, :, query] == target[:, None]  # [arcs, H]
        wide = len(self.counts.details)
        hits = torch.zeros(len(batch) * wide, site.n_heads, device=attention.device)
        hits.index_add_(0, row * wide + detail, hit.to(hits.dtype))
        by_sentence = hits.reshape(len(batch), wide, -1).transpose(1, 2).cpu().double().numpy()
        self.counts.add_hits(site, by_sentence, self._queries, self._expected)
