"""The rules by which ``generate`` of transformers searches, apart from any model.

Many searches run side by side, each as if alone: one that is decided leaves, while ``generate``
carries all of a batch to the end of the longest, which changes nothing for those that are decided.
One that comes to a tie leaves, too; its hypothesis means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Beams", "Greedy", "Rule", "Step"]

_NEVER = -1e9
"""What ``generate`` scores the second to last prefix of the first step with, and no hypothesis."""

_LIVE = _NEVER / 10
"""A prefix of a lower score only fills its place."""


@dataclass(frozen=True)
class Rule:
    """Settings of a search.

    Attributes
    ----------
    beam
        Prefixes kept at each step; one is greedy search.
    length_penalty, early_stopping
        As in ``GenerationConfig``.
    ends
        Tokens that end a hypothesis, [E].
    tolerance
        A decision by less than this is a tie: rounding decides it.
    """

    beam: int
    length_penalty: float
    early_stopping: bool | str
    ends: Tensor
    tolerance: float


@dataclass(frozen=True)
class Step:
    """What a step decided for the A searches that go on.

    Attributes
    ----------
    going
        Which of the searches go on, [A].
    parents
        The prefixes that are continued, by their numbers before the step, [A, beam].
    """

    going: Tensor
    parents: Tensor


class Greedy:
    """The most probable token at each step.

    Parameters
    ----------
    longest
        Most tokens that each writes, [P].
    rule
        Their settings.
    """

    def __init__(self, longest: Tensor, rule: Rule) -> None:
        self.rule, self.longest = rule, longest
        searches, device = len(longest), longest.device
        self.steps = 0
        self.ids = torch.arange(searches, device=device)
        self.scores = torch.zeros((searches, rule.beam), device=device)
        self.paths = torch.zeros((searches, rule.beam, 0), dtype=torch.long, device=device)
        self.tied = torch.zeros(searches, dtype=torch.bool, device=device)
        self.hypotheses: list[list[int]] = [[] for _ in range(searches)]

    @property
    def candidates(self) -> int:
        """How many of each prefix's best continuations a step must be given, best first."""
        return 2

    def step(self, values: Tensor, tokens: Tensor) -> Step:
        """Take one step.

        Parameters
        ----------
        values, tokens
            Scores and tokens of each live prefix's best continuations, [A, beam, candidates].
        """
        written = tokens[:, :, 0]
        self.tied[self.ids] |= values[:, 0, 0] - values[:, 0, 1] < self.rule.tolerance
        self.paths = torch.cat([self.paths, written[:, :, None]], dim=2)
        self.steps += 1
        done = torch.isin(written[:, 0], self.rule.ends)
        done |= self.longest[self.ids] == self.steps
        for row in done.nonzero().squeeze(1).tolist():
            self.hypotheses[int(self.ids[row])] = self.paths[row, 0].tolist()
        going = (~done & ~self.tied[self.ids]).nonzero().squeeze(1)
        self.ids, self.scores, self.paths = self.ids[going], self.scores[going], self.paths[going]
        return Step(going, torch.zeros((len(going), 1), dtype=torch.long, device=going.device))


class Beams(Greedy):
    """Beam search as ``generate`` does it.

    At each step the best continuations of all live prefixes are ranked together. An end among the
    first `beam` finishes a hypothesis, of which the best `beam` are kept by their score over the
    length to the power of the length penalty; the first `beam` others live on. A search is decided
    when `beam` hypotheses are finished and the early stopping says so.

    Parameters
    ----------
    longest
        Most tokens that each writes, [P].
    rule
        Their settings.
    """

    def __init__(self, longest: Tensor, rule: Rule) -> None:
        super().__init__(longest, rule)
        self.scores[:, 1:] = _NEVER
        self.finished = torch.full_like(self.scores, _NEVER)
        self.is_finished = torch.zeros_like(self.scores, dtype=torch.bool)

    @property
    def candidates(self) -> int:
        """How many of each prefix's best continuations a step must be given, best first."""
        return self.rule.beam + len(self.rule.ends) + 1

    def step(self, values: Tensor, tokens: Tensor) -> Step:
        """Take one step.

        Parameters
        ----------
        values, tokens
            Scores and tokens of each live prefix's best continuations, [A, beam, candidates].
        """
        beam = self.rule.beam
        total = (values + self.scores[:, :, None]).flatten(1)
        kept = beam * max(2, 1 + len(self.rule.ends))
        ranked, order = total.topk(min(kept + 1, total.shape[1]), dim=1)
        parents = order // values.shape[2]
        chosen = tokens.flatten(1).gather(1, order)
        self.steps += 1
        last = self.longest[self.ids] == self.steps
        ends = torch.isin(chosen, self.rule.ends) | last[:, None]
        self._finish(ranked, parents, chosen, ends)

        scores, lasting = (ranked + ends * _NEVER).topk(beam + 1, dim=1)
        tied = self._close(scores[:, beam - 1], scores[:, beam])
        stops, close = self._stops(scores[:, 0])
        none_lasts = scores[:, 0] < _LIVE
        open_ = (tied & ~stops) | close | self._at_the_edge(ranked, ends) | none_lasts
        tied = torch.where(last, tied, open_)
        done = last | stops | none_lasts
        ids = self.ids[done]
        tied[done] |= self.is_finished[ids, 1] & self._close(
            self.finished[ids, 0], self.finished[ids, 1]
        )
        self.tied[self.ids] |= tied

        going = (~done & ~tied).nonzero().squeeze(1)
        lasting = lasting[going, :beam]
        step = Step(going, parents[going].gather(1, lasting))
        self.ids, self.scores = self.ids[going], scores[going, :beam]
        written = chosen[going].gather(1, lasting)[:, :, None]
        self.paths = torch.cat([continued(self.paths[going], step.parents), written], dim=2)
        return step

    def _close(self, higher: Tensor, lower: Tensor) -> Tensor:
        """Where two scores in order are a tie; false between two of minus infinity."""
        return (higher - lower < self.rule.tolerance) & (higher > _LIVE)

    def _at_the_edge(self, ranked: Tensor, ends: Tensor) -> Tensor:
        """Where it is a tie which ends of sentence are among the first candidates."""
        beam, tolerance = self.rule.beam, self.rule.tolerance
        above = ends[:, :beam] & (ranked[:, :beam] < ranked[:, beam : beam + 1] + tolerance)
        below = ends[:, beam:] & (ranked[:, beam:] > ranked[:, beam - 1 : beam] - tolerance)
        return above.any(dim=1) | (below & (ranked[:, beam:] > _LIVE)).any(dim=1)

    def _finish(self, ranked: Tensor, parents: Tensor, chosen: Tensor, ends: Tensor) -> None:
        """Keep the hypotheses that end now."""
        beam, ids = self.rule.beam, self.ids
        now = ends.clone()
        now[:, beam:] = False
        scores = ranked / self.steps**self.rule.length_penalty + ~now * _NEVER
        merged = torch.cat([self.finished[ids], scores], dim=1)
        self.finished[ids], which = merged.topk(beam, dim=1)
        flags = torch.cat([self.is_finished[ids], now], dim=1).gather(1, which)
        self.is_finished[ids] = flags
        best = which[:, 0]
        for row in (flags[:, 0] & (best >= beam)).nonzero().squeeze(1).tolist():
            place = int(best[row]) - beam
            path = self.paths[row, parents[row, place]].tolist()
            self.hypotheses[int(ids[row])] = [*path, int(chosen[row, place])]

    def _stops(self, best: Tensor) -> tuple[Tensor, Tensor]:
        """Which searches are decided, and where that is a tie; by the best live score."""
        rule = self.rule
        longest = rule.early_stopping == "never" and rule.length_penalty > 0
        length = self.longest[self.ids] if longest else self.longest.new_tensor(self.steps)
        possible = best / (length.double() ** rule.length_penalty).to(best.dtype)
        full = self.is_finished[self.ids].all(dim=1)
        worst = self.finished[self.ids, -1]
        stops = full & (possible <= worst)
        close = full & ((possible - worst).abs() < rule.tolerance)
        if rule.early_stopping is True:
            return full, close & ~full
        return stops, close


def continued(values: Tensor, parents: Tensor) -> Tensor:
    """Take each prefix's values [A, beam, ...] from its parent's."""
    index = parents.view(*parents.shape, *[1] * (values.ndim - 2))
    return values.gather(1, index.expand(*parents.shape, *values.shape[2:]))
