"""The most probable next token under a mask, mostly without scoring the vocabulary.

Let h be the whole model's features at a position, h' those under a mask, and w a token's output
weights. Its score moves by w.(h' - h), at most by norm(w) norm(h' - h). The few tokens that the
whole model finds most probable are scored under the mask; no other token can pass the best of them
if its own score plus that much is lower. Where this fails, all tokens are scored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from headtool.models.lazy_search import Vocabulary

__all__ = ["Certificate"]

_CANDIDATES = 16


@dataclass(frozen=True)
class Certificate:
    """What is known of the whole model at some positions.

    Attributes
    ----------
    features
        Its features, [X, E].
    tokens
        The tokens that it finds most probable, [X, K].
    weights
        Their output weights less the mean over all tokens, which moves all scores alike; [X, E, K].
    rest
        The highest score of any other token, [X].
    reach
        The longest of the weights.
    """

    features: Tensor
    tokens: Tensor
    weights: Tensor
    rest: Tensor
    reach: float

    @classmethod
    def of(cls, vocabulary: Vocabulary, features: Tensor, depth: Tensor) -> Certificate:
        """Look at the whole model's features [X, E] at positions counted from zero, [X]."""
        projection = vocabulary.projection  # [E, V]
        weights = (projection - projection.mean(dim=1, keepdim=True)).T.contiguous()
        count = min(_CANDIDATES, len(weights) - 3)
        tokens, rest = [], []
        for part, at in zip(torch.split(features, 256), torch.split(depth, 256), strict=True):
            scores = part @ weights.T
            scores[:, vocabulary.pad] = -torch.inf
            scores[at == 0, vocabulary.end] = -torch.inf
            top, found = scores.topk(count + 1, dim=1)
            tokens.append(found[:, :count])
            rest.append(top[:, count])
        chosen = torch.cat(tokens)
        return cls(
            features,
            chosen,
            weights[chosen].transpose(1, 2).contiguous(),
            torch.cat(rest),
            float(weights.norm(dim=1).max()),
        )

    def best(
        self, vocabulary: Vocabulary, features: Tensor, depth: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return what `Vocabulary.best` does, where that would be known to rank the same.

        The values are differences to the best, and no larger than the true ones.

        Parameters
        ----------
        vocabulary
            Scores all tokens where that must be.
        features
            Features under masks, [masks x X, E].
        depth
            Positions, [X].
        """
        size = len(self.features)
        masks = len(features) // size
        moved = features.view(masks, size, -1)
        scores = torch.bmm(moved.transpose(0, 1), self.weights)  # [X, masks, K]
        top, order = scores.topk(2, dim=2)
        farther = (moved - self.features).norm(dim=2).T * self.reach + self.rest[:, None]
        margin = torch.minimum(top[..., 0] - top[..., 1], top[..., 0] - farther)
        values = features.new_full((masks * size, vocabulary.count), -torch.inf)
        tokens = torch.full(values.shape, vocabulary.pad, device=features.device)
        found = self.tokens[:, None].expand(-1, masks, -1).gather(2, order)
        tokens[:, :2] = found.transpose(0, 1).reshape(-1, 2)
        values[:, 0] = 0.0
        values[:, 1] = -margin.T.flatten()
        open_ = (margin <= vocabulary.tolerance) | (depth >= vocabulary.max_length - 1)[:, None]
        rows = open_.T.flatten().nonzero().squeeze(1)
        if len(rows):
            values[rows], tokens[rows] = vocabulary.best(features[rows], depth.repeat(masks)[rows])
        return values, tokens
