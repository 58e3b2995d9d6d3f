"""The prefixes that one search looked at, kept for searches that will ask for them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.models.fairseq.grids import Grid
from headtool.models.fairseq.source import widened

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
    """The useful prefixes of some sentences, X in all and up to N a sentence (or a few less).

    Attributes
    ----------
    tokens, depth
        Last token of each node and its position, [X], sentence after sentence; the first node of
        each is the empty prefix.
    begins, sizes
        The first node of each sentence, and how many it has; [B].
    bias
        Zero where a node's ancestor (or the node itself) is, else minus infinity, [B, 1, N, N]; or
        [1, 1, N, N] for all sentences. A padding node sees itself.
    keys, children
        Sorted ``(sentence * N + parent) * vocabulary + token``, and the node that this is.
    vocabulary
        Size of the vocabulary.
    """

    tokens: Tensor
    depth: Tensor
    begins: Tensor
    sizes: Tensor
    bias: Tensor
    keys: Tensor
    children: Tensor
    vocabulary: int

    @property
    def nodes(self) -> int:
        """Most nodes of a sentence."""
        return self.bias.shape[3]

    @classmethod
    def chains(
        cls, hypotheses: Sequence[Sequence[int]], *, start: int, device: torch.device
    ) -> PrefixTree:
        """Take every beginning of one hypothesis a sentence, without looking up any later.

        Parameters
        ----------
        hypotheses
            The hypotheses, without their end.
        start
            The symbol before the first.
        device
            Where the tensors are.
        """
        sizes = torch.tensor([1 + len(ids) for ids in hypotheses], device=device)
        width = widened(int(sizes.max()))
        sees = torch.ones((width, width), dtype=torch.bool, device=device).tril()
        bias = torch.zeros(sees.shape, device=device).masked_fill(~sees, -torch.inf)
        none = sizes.new_empty(0)
        return cls(
            torch.tensor([token for ids in hypotheses for token in (start, *ids)], device=device),
            torch.cat([torch.arange(1 + len(ids), device=device) for ids in hypotheses]),
            sizes.cumsum(dim=0) - sizes,
            sizes,
            bias[None, None],
            none,
            none,
            1,
        )

    @classmethod
    def of(
        cls, visits: Visits, sentences: Sequence[int], *, vocabulary: int, device: torch.device
    ) -> PrefixTree:
        """Build the tree of the useful visits of some sentences.

        Parameters
        ----------
        visits
            What a search looked at.
        sentences
            Which sentences; they get numbers from zero.
        vocabulary
            Size of the vocabulary.
        device
            Where the tensors are.
        """
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
        width = widened(max(map(len, rows)))
        sizes = np.array(list(map(len, rows)))
        sees = np.zeros((len(rows), width, width), dtype=np.bool_)
        sees[:, np.arange(width), np.arange(width)] = True
        keys, children = [], []
        for i, row in enumerate(rows):
            for node, (parent, token, _) in enumerate(row):
                if parent >= 0:
                    sees[i, node] |= sees[i, parent]
                    keys.append((i * width + parent) * vocabulary + token)
                    children.append(node)
        order = np.argsort(np.array(keys, dtype=np.int64), kind="stable")
        bias = torch.zeros(sees.shape).masked_fill(torch.from_numpy(~sees), -torch.inf)
        flat = np.array([node for row in rows for node in row], dtype=np.int64)

        def tensor(array: NDArray[np.int64]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        return cls(
            tensor(flat[:, 1]),
            tensor(flat[:, 2]),
            tensor(sizes.cumsum() - sizes),
            tensor(sizes),
            bias[:, None].to(device),
            tensor(np.array(keys, dtype=np.int64)[order]),
            tensor(np.array(children, dtype=np.int64)[order]),
            vocabulary,
        )

    def bias_of(self, sentences: slice, grid: Grid) -> Tensor:
        """Bias of some sentences whose nodes are laid out in a grid.

        Parameters
        ----------
        sentences
            Which sentences.
        grid
            How their nodes are laid out.
        """
        bias = self.bias if len(self.bias) == 1 else self.bias[sentences]
        return bias[:, :, : grid.most, : grid.width]

    def child(self, sentence: Tensor, node: Tensor, token: Tensor) -> Tensor:
        """Return the node of a prefix that continues another one; -1 where the tree has none.

        Parameters
        ----------
        sentence, node
            The prefix that is continued.
        token
            The token that continues it.
        """
        wanted = (sentence * self.nodes + node) * self.vocabulary + token
        if not len(self.keys):
            return torch.full_like(wanted, -1)
        place = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[place] == wanted, self.children[place], -1)
