"""The best next tokens among all that there are."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from headtool.errors import HeadtoolError

__all__ = ["ROWS", "ContinuationScorer", "best_of"]

ROWS = 128
"""Rows that are scored at once; their scores fit into the processor's cache."""

_CLASSES = 128  # a multiple of what the processor compares at once


class ContinuationScorer:
    """Scores continuations.

    Parameters
    ----------
    projection
        Output projection [V, E].
    pad, end
        Symbols: one that is never chosen, and the end of sentence, which cannot come first.
    max_length
        Most symbols of a hypothesis, the end included.
    count
        How many of the best continuations are wanted.
    tolerance
        Differences below this are ties.
    normalised
        Whether scores are log-probabilities; else they are the same up to a number per row.
    """

    def __init__(
        self,
        projection: Tensor,
        *,
        pad: int,
        end: int,
        max_length: int,
        count: int,
        tolerance: float,
        normalised: bool = True,
    ) -> None:
        missing = -len(projection) % _CLASSES
        self.size = len(projection)
        self.projection = functional.pad(projection, (0, 0, 0, missing)).T.contiguous()
        self.pad, self.end = pad, end
        self.max_length, self.count, self.tolerance = max_length, count, tolerance
        self.normalised = normalised
        self._room: Tensor | None = None

    @cached_property
    def centre(self) -> Tensor:
        """Mean output weights, [E]."""
        return self.projection[:, : self.size].mean(dim=1)

    @cached_property
    def centred(self) -> Tensor:
        """Output weights less their mean, which moves all scores of a row alike; [V, E]."""
        return (self.projection[:, : self.size] - self.centre[:, None]).T.contiguous()

    @cached_property
    def reach(self) -> float:
        """The longest of the centred weights."""
        return float(self.centred.norm(dim=1).max())

    def best(
        self, features: Tensor, depth: Tensor, likely: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Best continuations in descending order: scores and symbols, [R, count].

        Parameters
        ----------
        features
            What the decoder puts out, [R, E].
        depth
            Positions counted from zero, [R].
        likely
            Symbols to look at first, [R, K]; it saves time if the best are among them.
        """
        size = (len(features), self.count)
        values, tokens = features.new_empty(size), depth.new_empty(size)
        for start in range(0, len(features), ROWS):
            part = slice(start, start + ROWS)
            scores, at = self.scores(features[part]), depth[part]
            end = scores[:, self.end].clone()
            scores[:, self.end].masked_fill_(at == 0, -torch.inf)
            if likely is None:
                best, found = best_of(scores, self.count)
            else:
                best, found = self._among(scores, likely[part])
            last = at >= self.max_length - 1
            if last.any():
                best[last], found[last] = -torch.inf, self.pad
                best[last, 0], found[last, 0] = end[last], self.end
            values[part], tokens[part] = best, found
        if not values[:, 0].isfinite().all():
            raise HeadtoolError(
                "the model's scores are not finite; check the weights, or try `dtype=float32`"
            )
        return values, tokens

    def logits(self, features: Tensor) -> Tensor:
        """Scores that are not normalised, valid until the next call; as `scores`."""
        logits: Tensor = self._rooms(features)[0]
        torch.mm(features, self.projection, out=logits)
        logits[:, self.size :] = -torch.inf
        logits[:, self.pad] = -torch.inf
        return logits

    def scores(self, features: Tensor) -> Tensor:
        """Scores of all symbols, valid until the next call; [R, V], and some that are none."""
        if not self.normalised:
            return self.logits(features)
        logits, scores = self._rooms(features).unbind()
        torch.mm(features, self.projection, out=logits)
        logits[:, self.size :] = -torch.inf
        torch.log_softmax(logits, dim=1, out=scores)
        scores[:, self.pad] = -torch.inf
        return scores

    def _rooms(self, features: Tensor) -> Tensor:
        """Two rooms for scores, [2, R, V]."""
        if self._room is None or self._room.dtype != features.dtype:
            self._room = features.new_empty((2, ROWS, self.projection.shape[1]))
        return self._room[:, : len(features)]

    def _among(self, scores: Tensor, likely: Tensor) -> tuple[Tensor, Tensor]:
        """Find the best by looking at likely symbols, and at all where another one is as good."""
        known = scores.gather(1, likely)
        best, order = known.topk(self.count, dim=1)
        found = likely.gather(1, order)
        others = scores.scatter_(1, likely, -torch.inf).amax(dim=1)
        rows = (others >= best[:, -1]).nonzero().squeeze(1)
        if len(rows):
            restored = scores[rows].scatter_(1, likely[rows], known[rows])
            best[rows], found[rows] = best_of(restored, self.count)
        return best, found


def best_of(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Find the highest scores of each row and where they are, as `Tensor.topk` does, but faster.

    Columns are dealt out into classes, like cards to players. The highest of all are among the
    classes whose own highest ones are the highest.

    Parameters
    ----------
    scores
        Shape [R, V].
    count
        How many are wanted, in descending order.
    """
    rows, size = scores.shape
    deep = size // _CLASSES
    if size % _CLASSES or deep < 4 or count > _CLASSES // 4:
        values, places = scores.topk(count, dim=1)
        return values, places
    dealt = scores.view(rows, deep, _CLASSES)
    classes = dealt.amax(dim=1).topk(count, dim=1, sorted=False).indices
    held = dealt.gather(2, classes[:, None].expand(-1, deep, -1)).flatten(1)
    values, order = held.topk(count, dim=1)
    return values, order // count * _CLASSES + classes.gather(1, order % count)
