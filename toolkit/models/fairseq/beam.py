"""Beam search as a rule over candidates, apart from any model.

The rule is that of fairseq's ``SequenceGenerator``. At each step the best continuations of all live
prefixes are ranked together; an end of sentence among the first `beam` of them finishes a
hypothesis, and the first `beam` others live on. A sentence is done when `beam` hypotheses are
finished, or at the longest length. In the end, scores are divided by the length to the power of the
length penalty. Many sentences are searched at once, each as if alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["BeamSearch", "Step"]


@dataclass(frozen=True)
class Step:
    """What a step decided for the sentences that go on.

    Attributes
    ----------
    going
        Which of the sentences go on, indices [A].
    parents
        Beam numbers that the live prefixes continue, [A, beam].
    tokens
        Their next tokens, [A, beam].
    """

    going: Tensor
    parents: Tensor
    tokens: Tensor


class BeamSearch:
    """The state of searches that run side by side.

    Parameters
    ----------
    sentences
        How many searches.
    beam, length_penalty, max_length, end
        Settings; `max_length` counts the end-of-sentence token, which is `end`.
    tolerance
        A decision by less than this is a tie: rounding decides it.
    device
        Where the tensors are.
    """

    def __init__(
        self,
        sentences: int,
        *,
        beam: int,
        length_penalty: float,
        max_length: int,
        end: int,
        tolerance: float,
        device: torch.device,
    ) -> None:
        self.beam, self.length_penalty, self.end = beam, length_penalty, end
        self.max_length, self.tolerance = max_length, tolerance
        self.step_number = 0
        self.ids = torch.arange(sentences, device=device)
        # Of the sentences that go on: scores and tokens of the live prefixes. All start alike, so
        # that only the first one may be continued in the first step.
        self.scores = torch.full((sentences, beam), -torch.inf, device=device)
        self.scores[:, 0] = 0.0
        self.paths = torch.zeros((sentences, beam, 0), dtype=torch.long, device=device)
        # Of all sentences: what is finished.
        self.finished = torch.zeros(sentences, dtype=torch.long, device=device)
        self.best = torch.full((sentences, 2), -torch.inf, device=device)
        self.tied = torch.zeros(sentences, dtype=torch.bool, device=device)
        self.hypotheses: list[list[int]] = [[] for _ in range(sentences)]

    @property
    def candidates(self) -> int:
        """How many of each prefix's best continuations a step must be given."""
        return self.beam + 2

    def needed(self, values: Tensor, tokens: Tensor, missing: Tensor) -> Tensor:
        """Which prefixes, not yet continued, could still matter.

        No continuation scores above its prefix. One that is below what the others offer for the
        next live prefixes, and for the end of sentence, need not be looked at.

        Parameters
        ----------
        values, tokens
            As for `step`; the rows of missing prefixes are ignored.
        missing
            Prefixes without continuations, boolean [A, beam].
        """
        shown = values.masked_fill(missing[:, :, None], -torch.inf)
        return missing & (self.scores > -torch.inf) & self.useful(shown, tokens, self.tolerance)

    def useful(self, values: Tensor, tokens: Tensor, slack: float) -> Tensor:
        """Return which prefixes score at most `slack` below the next live ones, [A, beam].

        Parameters
        ----------
        values, tokens
            As for `step`.
        slack
            How far a prefix may score below, in nats.
        """
        lasting = values.masked_fill(tokens == self.end, -torch.inf)
        total = (lasting + self.scores[:, :, None]).flatten(1)
        threshold = total.topk(self.beam, dim=1).values[:, -1:]
        return self.scores >= threshold - slack

    def step(self, values: Tensor, tokens: Tensor) -> Step:
        """Take one step.

        Parameters
        ----------
        values, tokens
            The best continuations of each live prefix, in descending order: log-probabilities and
            tokens, [A, beam, candidates].
        """
        beam = self.beam
        total = values + self.scores[:, :, None]
        ranked, order = total.flatten(1).topk(min(2 * beam + 1, total[0].numel()), dim=1)
        parents = order // total.shape[2]
        chosen = tokens.flatten(1).gather(1, order)
        ends = (chosen == self.end) & (ranked > -torch.inf)
        done = self._finish(ranked, parents, ends)

        # The best continuations that do not end, in order; then the one that just missed.
        rank = torch.arange(ranked.shape[1], device=ranked.device) + ends * ranked.shape[1]
        lasting = rank.topk(beam + 1, dim=1, largest=False, sorted=True).indices
        scores = ranked.gather(1, lasting)
        close = scores[:, beam - 1] - scores[:, beam] < self.tolerance  # false for -inf - -inf
        self.tied[self.ids] |= close & ~done
        going = (~done).nonzero().squeeze(1)
        lasting = lasting[going, :beam]
        step = Step(going, parents[going].gather(1, lasting), chosen[going].gather(1, lasting))
        self.ids = self.ids[going]
        self.scores = scores[going, :beam]
        old = self.paths[going].gather(
            1, step.parents[:, :, None].expand(-1, -1, self.paths.shape[2])
        )
        self.paths = torch.cat([old, step.tokens[:, :, None]], dim=2)
        self.step_number += 1
        return step

    def _finish(self, ranked: Tensor, parents: Tensor, ends: Tensor) -> Tensor:
        """Keep the hypotheses that end now; which sentences are done, boolean [A]."""
        beam = self.beam
        # An end of sentence counts among the first `beam` candidates only.
        last, next_ = ranked[:, beam - 1], ranked[:, beam]
        differs = ends[:, beam - 1] != ends[:, beam]
        tied = differs & (last - next_ < self.tolerance)
        ending = ends[:, :beam]
        place = self.finished[self.ids][:, None] + ending.cumsum(dim=1)
        accepted = ending & (place <= beam)
        low = ranked[:, :beam].masked_fill(~accepted, torch.inf).amin(dim=1)
        high = ranked[:, :beam].masked_fill(~ending | accepted, -torch.inf).amax(dim=1)
        tied |= low - high < self.tolerance
        self.tied[self.ids] |= tied
        rows = ending.any(dim=1).nonzero().squeeze(1)
        if len(rows):
            length = (self.step_number + 1) ** self.length_penalty
            scores = (ranked[rows, :beam] / length).masked_fill(~accepted[rows], -torch.inf)
            ids = self.ids[rows]
            best, which = torch.cat([self.best[ids], scores], dim=1).topk(2, dim=1)
            self.best[ids] = best
            for row, sentence, winner in zip(
                rows.tolist(), ids.tolist(), which[:, 0].tolist(), strict=True
            ):
                if winner >= 2:
                    parent = parents[row, winner - 2]
                    self.hypotheses[sentence] = self.paths[row, parent].tolist()
            self.finished[ids] += accepted[rows].sum(dim=1)
        done = self.finished[self.ids] >= beam
        if self.step_number + 1 >= self.max_length:
            done = torch.ones_like(done)
        ids = self.ids[done]
        self.tied[ids] |= self.best[ids, 0] - self.best[ids, 1] < self.tolerance
        return done
