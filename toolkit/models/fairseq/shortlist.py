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
from typing import Protocol

import torch
from torch import Tensor

from headtool.models.fairseq.scoring import ROWS, ContinuationScorer, best_of

__all__ = ["Certificate", "Favourites", "Shortlist"]

_CANDIDATES = 16


class Shortlist(Protocol):
    """What is known of the whole model's continuations at X positions."""

    def some(self, rows: slice) -> Shortlist:
        """Take some positions.

        Parameters
        ----------
        rows
            Which positions.
        """
        ...

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
        count = min(4 * vocabulary.count, vocabulary.size)
        return cls(
            torch.cat(
                [best_of(vocabulary.logits(part), count)[1] for part in torch.split(features, ROWS)]
            )
        )

    def some(self, rows: slice) -> Favourites:
        """Take some positions.

        Parameters
        ----------
        rows
            Which positions.
        """
        return Favourites(self.tokens[rows])

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
        Their output weights less the mean over all tokens, which moves all scores alike; [X, K, E].
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
        count = min(_CANDIDATES, vocabulary.size - 3)
        tokens, rest = [], []
        for part, at in zip(torch.split(features, ROWS), torch.split(depth, ROWS), strict=True):
            scores = vocabulary.logits(part)
            scores[:, vocabulary.end].masked_fill_(at == 0, -torch.inf)
            top, found = best_of(scores, count + 1)
            tokens.append(found[:, :count])
            rest.append(top[:, count] - part @ vocabulary.centre)
        chosen = torch.cat(tokens)
        return cls(
            features,
            chosen,
            vocabulary.centred[chosen],
            torch.cat(rest),
            vocabulary.reach,
        )

    def some(self, rows: slice) -> Certificate:
        """Take some positions.

        Parameters
        ----------
        rows
            Which positions.
        """
        return Certificate(
            self.features[rows],
            self.tokens[rows],
            self.weights[rows],
            self.rest[rows],
            self.reach,
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
        scores = torch.bmm(moved.transpose(0, 1), self.weights.transpose(1, 2))  # [X, masks, K]
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
