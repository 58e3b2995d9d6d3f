"""The best next tokens under a mask, looked for among those that the whole model finds probable.

Greedy search needs the most probable token only, mostly without scoring the vocabulary. Let h be
the whole model's features at a position, h' those under a mask, and w a token's output weights. Its
score moves by w.(h' - h), at most by norm(w) norm(h' - h). The few tokens that the whole model
finds most probable are scored under the mask; no other token can pass the best of them if its own
score plus that much is lower. Where this fails, all tokens are scored.

Beam search needs probabilities, and so the scores of all tokens; which are the best is then seen by
comparing the whole model's favourites with the highest of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from headtool.models.fairseq.lazy_search import ContinuationScorer

__all__ = ["Certificate", "Favourites", "Shortlist"]

_CANDIDATES = 16
_ROWS = 256  # positions of the whole model that are scored at once


class Shortlist(Protocol):
    """What is known of the whole model's continuations at X positions."""

    def best(
        self, vocabulary: ContinuationScorer, features: Tensor, depth: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return values and tokens ranked as by `ContinuationScorer.best`, [masks x X, count].

        Parameters
        ----------
        vocabulary
            Scores all tokens where that must be.
        features
            Features under masks, [masks x X, E].
        depth
            Positions counted from zero, [X].
        """
        ...


@dataclass(frozen=True)
class Favourites:
    """The tokens that the whole model finds most probable, [X, K]."""

    tokens: Tensor

    @classmethod
    def of(cls, vocabulary: ContinuationScorer, features: Tensor) -> Favourites:
        """Look at the whole model's features.

        Parameters
        ----------
        vocabulary
            Scores tokens.
        features
            The whole model's features, [X, E].
        """
        count = min(4 * vocabulary.count, vocabulary.projection.shape[1])
        return cls(
            torch.cat(
                [
                    vocabulary.scores(part).topk(count, dim=1).indices
                    for part in torch.split(features, _ROWS)
                ]
            )
        )

    def best(
        self, vocabulary: ContinuationScorer, features: Tensor, depth: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return what `ContinuationScorer.best` does; see `Shortlist.best`.

        Parameters
        ----------
        vocabulary
            Scores all tokens where that must be.
        features
            Features under masks, [masks * X, E].
        depth
            Positions counted from zero, [X].
        """
        masks = len(features) // len(depth)
        return vocabulary.best(features, depth.repeat(masks), self.tokens.repeat(masks, 1))


@dataclass(frozen=True)
class Certificate:
    """What bounds the scores of tokens for greedy search.

    Attributes
    ----------
    features
        The whole model's features, [X, E].
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
    def of(cls, vocabulary: ContinuationScorer, features: Tensor, depth: Tensor) -> Certificate:
        """Look at the whole model's features.

        Parameters
        ----------
        vocabulary
            Scores tokens.
        features
            The whole model's features, [X, E].
        depth
            Positions counted from zero, [X].
        """
        projection = vocabulary.projection  # [E, V]
        weights = (projection - projection.mean(dim=1, keepdim=True)).T.contiguous()
        count = min(_CANDIDATES, len(weights) - 3)
        tokens, rest = [], []
        for part, at in zip(torch.split(features, _ROWS), torch.split(depth, _ROWS), strict=True):
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
        self, vocabulary: ContinuationScorer, features: Tensor, depth: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rank the two best; see `Shortlist.best`.

        Values are differences to the best one, and the true difference is no smaller.

        Parameters
        ----------
        vocabulary
            Scores all tokens where that must be.
        features
            Features under masks, [masks * X, E].
        depth
            Positions counted from zero, [X].
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
        # Also where the margin is no number: all tokens are scored, and the scores checked.
        clear = (margin > vocabulary.tolerance) & (depth < vocabulary.max_length - 1)[:, None]
        rows = (~clear).T.flatten().nonzero().squeeze(1)
        if len(rows):
            values[rows], tokens[rows] = vocabulary.best(features[rows], depth.repeat(masks)[rows])
        return values, tokens
