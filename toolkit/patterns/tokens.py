"""What heads attend to, token by token: offsets, rare tokens, punctuation, separators.

Queries are ordinary tokens: those that stand for text, padding and special tokens excluded. A query
counts for a role if at least two keys are there to choose from and one of them is a target of the
role. Of equal weights the leftmost counts. In decoders a query's keys end with itself.

==================  ==========================  ===============================================
role                keys                        target
==================  ==========================  ===============================================
positional          ordinary tokens             the token at an offset of -10 to 10
previous-token      ordinary tokens             the token before the query (decoders)
rare-token          ordinary tokens             the rarest token of the sentence, if its type is
                                                outside the most frequent ones
punctuation         all but padding             tokens of punctuation marks alone
separator           all but padding             end-of-sequence or separator tokens
first-token         all but padding             the first token, special or not
induction           ordinary tokens             in random tokens said twice, the token after the
                                                query's first occurrence (decoder-only models)
==================  ==========================  ===============================================

The baseline chooses any of the query's keys with equal probability.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.engine.observation import Statistic, Summary
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Kind, Sites
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples
from headtool.models.pieces import Pieces, is_punctuation
from headtool.models.token_loss import at_least_float32
from headtool.results.role_counts import RoleCounts

__all__ = ["OFFSETS", "TokenRoles", "Vocabulary", "random_repeats", "repeat_roles", "token_roles"]

OFFSETS = tuple(range(-10, 11))
_REPEATED = 32  # random tokens, said twice; fewer where the model takes no more
_SEQUENCES = 64
_FEWEST = 8


class Vocabulary:
    """Which tokens of one kind of attention are special, punctuation or rare.

    Parameters
    ----------
    pieces
        The model's tokens.
    kind
        The kind of attention, which decides the side of a translation model.
    """

    def __init__(self, pieces: Pieces[ModelAdapter], kind: Kind) -> None:
        self.pieces = pieces
        self.kind = kind
        size = pieces.size(kind)
        self.special = torch.zeros(size, dtype=torch.bool)
        self.special[pieces.special(kind)] = True
        self.punctuation = torch.zeros(size, dtype=torch.bool)
        self.counts = torch.zeros(size, dtype=torch.float64)
        self.common = 0.0
        """Types at least as frequent as this are among the most frequent ones."""

    def count(self, examples: Examples) -> None:
        """Count the tokens of a data set, and learn which are punctuation."""
        for index in examples.batches():
            batch = self.pieces.model.collate(examples, index)
            ids = self.pieces.ids(batch, self.kind)[batch.queries[self.kind].real].cpu()
            self.counts += torch.bincount(ids, minlength=len(self.counts))
        self.counts[self.special] = 0
        for token in self.counts.nonzero().flatten().tolist():
            self.punctuation[token] = is_punctuation(self.pieces.surface(token, self.kind))

    def replace_counts(self, counts: NDArray[np.float64]) -> None:
        """Use the counts of another corpus, by token id."""
        self.counts = torch.as_tensor(counts, dtype=torch.float64)

    def set_common(self, types: int) -> int:
        """Call this many types frequent, and those tied with the last of them; return how many."""
        counts = self.counts[self.counts > 0].sort(descending=True).values
        if types == 0:
            self.common = float("inf")
            return 0
        self.common = float(counts[types - 1]) if types <= len(counts) else 0.0
        return int((counts >= self.common).sum())


class _Context:
    """What one batch offers to every head: which keys each query can see."""

    def __init__(self, batch: Batch, vocabulary: Vocabulary) -> None:
        kind = vocabulary.kind
        self.batch = batch
        self.vocabulary = vocabulary
        queries = batch.queries[kind]
        self.ids = vocabulary.pieces.ids(batch, kind)
        self.real, self.separators = queries.real, queries.eos & queries.real
        self.ordinary = self.real & ~vocabulary.special.to(self.ids.device)[self.ids]
        length = self.ids.shape[1]
        position = torch.arange(length, device=self.ids.device)
        self.offset = position[None, :] - position[:, None]  # [T, S]: key minus query
        self.visible = self.offset <= 0 if kind == "dec-self" else torch.ones_like(self.offset) > 0

    @cached_property
    def keys(self) -> dict[str, Tensor]:
        """Keys of every query, [B, T, S]: the ordinary ones, and all but padding."""
        return {
            "ordinary": self.ordinary[:, None, :] & self.visible,
            "all": self.real[:, None, :] & self.visible,
        }

    def punctuation(self) -> Tensor:
        marks = self.vocabulary.punctuation.to(self.ids.device)[self.ids]
        return (marks & self.ordinary)[:, None, :]

    def first(self) -> Tensor:
        return torch.zeros_like(self.real).index_fill(1, self.offset.new_zeros(1), True)[:, None, :]

    def rarest(self) -> Tensor:
        # On the CPU: not every device has float64, and counts need its digits.
        ordinary = self.ordinary.cpu()
        counts = self.vocabulary.counts[self.ids.cpu()].masked_fill(~ordinary, torch.inf)
        fewest = counts.amin(dim=1, keepdim=True)
        found = (counts == fewest) & ordinary & (fewest < self.vocabulary.common)
        return found.to(self.ids.device)[:, None, :]


@dataclass(frozen=True)
class _Role:
    """A role: over which keys it speaks, and its targets [B or 1, T or 1, S] by detail."""

    name: str
    keys: str
    targets: dict[str, Callable[[_Context], Tensor]]


def _at(offset: int) -> Callable[[_Context], Tensor]:
    return lambda context: (context.offset == offset)[None]


_ROLES = (
    _Role("positional", "ordinary", {f"{offset:+d}": _at(offset) for offset in OFFSETS}),
    _Role("previous-token", "ordinary", {"": _at(-1)}),
    _Role("rare-token", "ordinary", {"": _Context.rarest}),
    _Role("punctuation", "all", {"": _Context.punctuation}),
    _Role("separator", "all", {"": lambda context: context.separators[:, None, :]}),
    _Role("first-token", "all", {"": _Context.first}),
)


class TokenRoles(Statistic):
    """Statistic for `headtool.engine.observation.observe`: counts of roles of one kind's heads.

    `token_roles` and `repeat_roles` make it.

    Parameters
    ----------
    vocabulary
        What is known of the tokens of one kind of attention.
    sites
        Attention sites of the model; those of other kinds are ignored.
    roles
        The roles to count.

    Attributes
    ----------
    counts
        Counts of every role that was asked for.
    """

    def __init__(self, vocabulary: Vocabulary, sites: Sites, roles: Sequence[_Role]) -> None:
        self.vocabulary = vocabulary
        self.sites = sites.restrict([vocabulary.kind])
        self.roles = roles
        self.counts = [
            RoleCounts(role.name, list(role.targets), self.sites, ["any key"] * len(role.targets))
            for role in roles
        ]
        self._batch: Batch | None = None
        self._asked: list[_Asked] = []

    def summarise(
        self, site: AttentionSite, attention: Tensor, contexts: Tensor, batch: Batch
    ) -> Summary:
        """Find the hits of one site of one batch; see `Statistic`."""
        if site not in self.sites.items:
            return {}
        if batch is not self._batch:
            self._batch = batch
            context = _Context(batch, self.vocabulary)
            self._asked = [_Asked(role, context) for role in self.roles]
        attention = at_least_float32(attention)
        best: dict[str, Tensor] = {}
        found: dict[str, NDArray[Any]] = {}
        for role, asked in zip(self.roles, self._asked, strict=True):
            if role.keys not in best:
                hidden = ~asked.keys[:, None]
                best[role.keys] = attention.masked_fill(hidden, -1.0).argmax(dim=-1)
            found[f"{role.name} detail"] = asked.detail
            found[f"{role.name} queries"] = asked.queries
            found[f"{role.name} expected"] = asked.expected
            found[f"{role.name} hits"] = asked.hits(best[role.keys])
        return found

    def add(self, site: AttentionSite, examples: NDArray[np.int64], summary: Summary) -> None:
        """Count the hits of one site of one batch; see `Statistic`."""
        for counts in self.counts:
            detail, queries, expected, hits = (
                summary[f"{counts.role} {part}"]
                for part in ("detail", "queries", "expected", "hits")
            )
            if site == self.sites[0]:  # the queries of a batch are those of every site
                counts.add_queries(detail, queries, expected)
            counts.add_hits(site, detail, hits, queries, expected)


class _Asked:
    """A role's queries in one batch, and where their targets are."""

    def __init__(self, role: _Role, context: _Context) -> None:
        self.keys = context.keys[role.keys]
        choices = self.keys.sum(dim=-1)
        self.counted: list[Tensor] = []
        self.targets: list[Tensor] = []
        queries, expected = [], []
        for find in role.targets.values():
            targets = self.keys & find(context)
            ways = targets.sum(dim=-1)
            counted = context.ordinary & (choices >= 2) & (ways > 0)
            self.targets.append(targets)
            self.counted.append(counted)
            queries.append(counted.sum(dim=1).cpu())
            share = ways.cpu().double() / choices.cpu().clamp(min=1)
            expected.append(share.masked_fill(~counted.cpu(), 0.0).sum(dim=1))
        asked = torch.stack(queries, dim=1).numpy()
        self._pairs = asked.nonzero()  # of sentence and detail
        self.detail: NDArray[np.int64] = self._pairs[1]
        self.queries = asked[self._pairs].astype(np.float64)
        self.expected: NDArray[np.float64] = torch.stack(expected, dim=1).numpy()[self._pairs]

    def hits(self, best: Tensor) -> NDArray[np.float64]:
        """Hits per pair of sentence and detail, and head, [P, H]; `best` is [B, H, T]."""
        found = []
        for targets, counted in zip(self.targets, self.counted, strict=True):
            rows = targets[:, None].expand(-1, best.shape[1], -1, -1)
            hit = rows.gather(-1, best[..., None]).squeeze(-1) & counted[:, None]
            found.append(hit.sum(dim=-1))
        by_sentence = torch.stack(found, dim=1).cpu().numpy()  # [B, D, H]
        return np.asarray(by_sentence[self._pairs], dtype=np.float64)


def token_roles(vocabulary: Vocabulary, sites: Sites, names: Collection[str]) -> TokenRoles:
    """Return the statistic that counts some roles of the heads of one kind.

    Parameters
    ----------
    vocabulary
        What is known of the tokens of one kind of attention.
    sites
        Attention sites of the model.
    names
        Names of roles; see the table above. Those that are not about single tokens are ignored.
    """
    return TokenRoles(vocabulary, sites, [role for role in _ROLES if role.name in names])


# -- induction ----------------------------------------------------------------------------------


def random_repeats(
    pieces: Pieces[ModelAdapter], *, batch_tokens: int, seed: int
) -> tuple[Examples, int]:
    """Make sequences of random ordinary tokens, each said twice.

    64 sequences of 32 tokens, drawn without repetition within a sequence (with, where the
    vocabulary is smaller), after the special tokens that the tokenizer puts before a text.

    Parameters
    ----------
    pieces
        The model's tokens.
    batch_tokens
        Token budget of a batch, padding included.
    seed
        Seed of the tokens.

    Returns
    -------
    examples, once
        The sequences, and how many tokens are said before they are said again.

    Raises
    ------
    HeadtoolError
        If the model takes too few tokens for that.
    """
    from headtool.data.dataset import TextData

    prefix: list[int] = list(pieces.prefix)
    once = min(_REPEATED, (pieces.max_length - len(prefix)) // 2)
    if once < _FEWEST:
        raise HeadtoolError(
            f"{pieces.model.spec} takes {pieces.max_length} tokens, too few to see induction; "
            "choose other `roles`"
        )
    special = {*pieces.special("dec-self"), pieces.unknown}
    ordinary = [i for i in range(pieces.embedded) if i not in special]
    rows = []
    for number in range(_SEQUENCES):
        rng = np.random.default_rng([seed, number])
        drawn = rng.choice(ordinary, size=once, replace=len(ordinary) < once).tolist()
        rows.append(pieces.row([*prefix, *drawn, *drawn]))
    lengths = np.full(len(rows), len(prefix) + 2 * once, dtype=np.int64)
    data = TextData("random tokens", "text", {"text": ("",) * len(rows)})
    return Examples(data, tuple(rows), lengths, batch_tokens), once


def repeat_roles(vocabulary: Vocabulary, sites: Sites, once: int) -> TokenRoles:
    """Return the statistic of induction heads, for the sequences that `random_repeats` made.

    Parameters
    ----------
    vocabulary
        What is known of the decoder's tokens.
    sites
        Attention sites of the model.
    once
        How many tokens are said before they are said again.
    """

    def after_first(context: _Context) -> Tensor:
        # The second half of the tokens asks; each looks for what followed it the first time.
        nth = context.ordinary.cumsum(dim=1)
        second = (nth > once) & context.ordinary
        return second[:, :, None] & (context.offset == 1 - once)[None]

    return TokenRoles(vocabulary, sites, [_Role("induction", "ordinary", {"": after_first})])
