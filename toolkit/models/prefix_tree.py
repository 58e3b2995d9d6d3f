"""The prefixes that one search looked at, kept for searches that will ask for them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["PrefixTree", "Visits"]


@dataclass
class Visits:
    """Prefixes in the order in which a search of some sentences computed them.

    Attributes
    ----------
    sentence, parent, token, depth, useful
        One array a step: the sentence, the number of the prefix that is continued (-1 for none),
        the last token, how many tokens there were before it, and whether its own continuations
        could matter.
    """

    sentence: list[NDArray[np.int64]]
    parent: list[NDArray[np.int64]]
    token: list[NDArray[np.int64]]
    depth: list[NDArray[np.int64]]
    useful: list[NDArray[np.bool_]]

    @classmethod
    def empty(cls) -> Visits:
        """No prefix yet."""
        return cls([], [], [], [], [])


@dataclass(frozen=True)
class PrefixTree:
    """The useful prefixes of some sentences, padded to the same number.

    Attributes
    ----------
    tokens, depth
        Last token of each node and its position, [B, N]; node 0 is the empty prefix.
    bias
        Zero where a node's ancestor (or the node itself) is, else minus infinity, [B, 1, N, N].
        A padding node sees itself.
    keys, children
        Sorted ``(sentence * N + parent) * vocabulary + token``, and the node that this is.
    vocabulary
        Size of the vocabulary.
    """

    tokens: Tensor
    depth: Tensor
    bias: Tensor
    keys: Tensor
    children: Tensor
    vocabulary: int

    @property
    def nodes(self) -> int:
        """Nodes a sentence, padding included."""
        return self.tokens.shape[1]

    @classmethod
    def of(
        cls, visits: Visits, sentences: Sequence[int], *, vocabulary: int, device: torch.device
    ) -> PrefixTree:
        """Build the tree of the useful visits of some sentences, which get numbers from zero."""
        useful = np.concatenate(visits.useful)
        number = {sentence: i for i, sentence in enumerate(sentences)}
        columns = [
            np.concatenate(column).tolist()
            for column in (visits.sentence, visits.parent, visits.token, visits.depth)
        ]
        node_of: dict[int, int] = {}
        rows: list[list[tuple[int, int, int]]] = [[] for _ in sentences]
        for visit, (sentence, parent, token, depth) in enumerate(zip(*columns, strict=True)):
            if sentence in number and useful[visit]:
                row = rows[number[sentence]]
                node_of[visit] = len(row)
                row.append((node_of[parent] if parent >= 0 else -1, token, depth))
        width = max(map(len, rows))
        tokens = np.zeros((len(rows), width), dtype=np.int64)
        depths = np.zeros((len(rows), width), dtype=np.int64)
        sees = np.zeros((len(rows), width, width), dtype=np.bool_)
        sees[:, np.arange(width), np.arange(width)] = True
        keys, children = [], []
        for i, row in enumerate(rows):
            for node, (parent, token, depth) in enumerate(row):
                tokens[i, node], depths[i, node] = token, depth
                if parent >= 0:
                    sees[i, node] |= sees[i, parent]
                    keys.append((i * width + parent) * vocabulary + token)
                    children.append(node)
        order = np.argsort(np.array(keys, dtype=np.int64), kind="stable")
        bias = torch.zeros(sees.shape).masked_fill(torch.from_numpy(~sees), -torch.inf)
        return cls(
            torch.from_numpy(tokens).to(device),
            torch.from_numpy(depths).to(device),
            bias[:, None].to(device),
            torch.from_numpy(np.array(keys, dtype=np.int64)[order]).to(device),
            torch.from_numpy(np.array(children, dtype=np.int64)[order]).to(device),
            vocabulary,
        )

    def child(self, sentence: Tensor, node: Tensor, token: Tensor) -> Tensor:
        """The node of a prefix that continues another one; -1 where the tree has none."""
        wanted = (sentence * self.nodes + node) * self.vocabulary + token
        if not len(self.keys):
            return torch.full_like(wanted, -1)
        place = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[place] == wanted, self.children[place], -1)
