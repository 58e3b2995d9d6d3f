"""Random masks as rivals: would heads removed at random have done as well, or as badly.

A method's masks are one more draw if its scores say nothing. So its area (what it keeps of the
metric, averaged over the shares removed) is ranked among those of masks drawn at random: ``p`` is
twice the smaller of the shares of draws that do at least as well, and at least as badly, the
method's own masks counted in. This is exact for whatever the areas are measured on, as long as
that is fixed beforehand and the same for the method and the draws.

**Two sorts of masks, one family.** Common draws close any heads and rank methods; matched ones
close as many heads in every layer as the method does, so that who beats them knows more than which
layers matter. If a method's masks are one of all draws, they are also one of the matched draws:
the second null hypothesis holds wherever the first does. So each method is a chain, first common,
then matched, and Holm's factor is the number of *methods* whose chain is not finished: whatever
is rejected falsely first, every chain that still holds a true hypothesis counts in that factor,
and each of them is wrong at one place only. Any false claim in the family (all methods of a kind
of heads, both directions, both sorts) has probability ``alpha`` at most, and a claim takes ``2
methods / alpha - 1`` draws instead of twice as many: see `adjust_chains`.

**Passes where they decide** (`headtool.analysis.race`, `headtool.analysis.draw_plan`). How many
draws a claim takes follows from the level; what is left to choose is what they are run on.

- A method and its draws race: all are run on few examples, a quarter of them goes on to twice as
  many, and then half of those to twice as many again. That is as exact as running all of them on
  everything, and the draws that a claim hangs on see the most examples.
- Matched draws are made only for methods that are better than common ones, as their chain asks.
- Few examples make equal areas; the loss decides between these, where the metric is not the loss
  itself and comes with it. What decides may be anything that is measured alike for all masks.
- An area needs few points: three, nearest to a quarter, a half and three quarters of the heads,
  each measured on other examples, so that an example costs a draw one pass. These are drawn by
  seed, by class. After the third round (after the first, a quarter of these) they are so many that
  all draws on all of them would be as many passes as the methods' own curves, at least twelve; and
  fewer if noise from examples is a tenth of the variance between masks or less, as draws that take
  no part in the test tell. A race takes half of those passes.

The sum of what single heads cost an example would be a control variate that takes no passes. It is
not used: in the built-in classifier it explains .49 of how differently masks do on an example where
a fifth of the heads is closed, .12 where half is, and .04 beyond.

References
----------
Holm (1979), A simple sequentially rejective multiple test procedure.
Meinshausen (2008), Hierarchical testing of variable importance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headtool.analysis.draw_plan import DrawPlan
from headtool.analysis.paired import Paired
from headtool.analysis.race import Round, Tally, standing
from headtool.analysis.resampling import bootstrap_deltas
from headtool.metrics.base import Array

__all__ = [
    "DrawTest",
    "adjust_chains",
    "next_matched",
]


def adjust_chains(chains: Sequence[Sequence[float]]) -> list[list[float]]:
    """Correct p-values that are tested one after the other in chains, by Holm over the chains.

    The smallest p-value whose turn it is is multiplied by the number of chains that are not
    finished, and is never below those before it. Then it is the next one's turn in its chain. A
    chain that ends in NaN, which was not tested, is never finished; one that begins with NaN does
    not count.

    Parameters
    ----------
    chains
        P-values in the order of testing, a chain for each method.

    Examples
    --------
    >>> from headtool.analysis.draws import adjust_chains
    >>> adjust_chains([[0.01, 0.02], [0.03, float("nan")]])
    [[0.02, 0.04], [0.04, nan]]
    """
    adjusted = [[math.nan] * len(chain) for chain in chains]
    place = {i: 0 for i, chain in enumerate(chains) if len(chain) and not math.isnan(chain[0])}
    unfinished, reached = len(place), 0.0
    while place:
        i = min(place, key=lambda chain: chains[chain][place[chain]])
        value = round(unfinished * chains[i][place[i]], 12)  # k / k' times k' is k
        reached = max(reached, min(1.0, value))
        adjusted[i][place[i]] = reached
        place[i] += 1
        if place[i] == len(chains[i]):
            del place[i]
            unfinished -= 1
        elif math.isnan(chains[i][place[i]]):
            del place[i]
    return adjusted


@dataclass(frozen=True, eq=False)
class DrawTest:
    """A method's masks among random ones, on the points and examples of a plan.

    Attributes
    ----------
    kind
        Which heads are up for removal: ``all``, or an attention kind.
    method, baseline
        The method, and the sort of random masks.
    plan
        The plan.
    rounds
        What its race showed, round by round; the means over models.
    passes
        Passes that were run for it, the method's own masks not counted.
    shown
        By model, then by point: the outcomes of the method's own mask and then of a few draws,
        which say how far it is above them; empty where whole curves do.
    """

    kind: str
    method: str
    baseline: str
    plan: DrawPlan
    rounds: tuple[Round, ...]
    passes: int
    shown: tuple[tuple[Paired, ...], ...] = ()

    @cached_property
    def tally(self) -> Tally:
        """How the method stands."""
        return standing(self.rounds, self.plan.fields)

    @property
    def area(self) -> float:
        """Its area less the mean of the draws that are shown."""
        sums = [
            sum(
                weight * paired.benefit
                for weight, paired in zip(self.plan.weights, points, strict=True)
            )
            for points in self.shown
        ]
        own, *draws = np.mean(sums, axis=0)
        return float(own - np.mean(draws))

    def resampled(self, resamples: int, seed: int) -> Array:
        """`area` in resamples of examples, draws and models, shape [resamples].

        Parameters
        ----------
        resamples, seed
            How many, and what draws them.
        """
        count, draws = len(self.shown), self.shown[0][0].n_masks - 1
        rng = np.random.default_rng([seed, 37])
        models = rng.multinomial(count, np.full(count, 1 / count), resamples) / count
        shares = rng.multinomial(draws, np.full(draws, 1 / draws), resamples) / draws
        found = np.zeros(resamples)
        for share, points in zip(models.T, self.shown, strict=True):
            here = np.zeros(resamples)
            for place, (weight, paired) in enumerate(zip(self.plan.weights, points, strict=True)):
                again = np.random.default_rng([seed, 41, place])  # the same examples for all models
                deltas = bootstrap_deltas(paired, resamples=resamples, rng=again)
                sign = weight if paired.higher_is_better else -weight
                here += sign * (deltas[:, 0] - (shares * deltas[:, 1 : 1 + draws]).sum(axis=1))
            taken = share > 0  # undefined values of a model that is not drawn do not count
            found[taken] += share[taken] * here[taken]
        return found


def next_matched(
    common: Mapping[str, DrawTest], matched: Mapping[str, DrawTest], alpha: float
) -> list[str]:
    """Name the methods whose turn it is to be compared with masks of their layers.

    Parameters
    ----------
    common
        By method, the comparison with masks of any heads.
    matched
        The same with masks of their layers, as far as they are made.
    alpha
        Level of claims.
    """
    chains = [
        [test.tally.p, matched[name].tally.p if name in matched else math.nan]
        for name, test in common.items()
    ]
    return [
        name
        for (name, test), (adjusted, _) in zip(common.items(), adjust_chains(chains), strict=True)
        if name not in matched and adjusted <= alpha and test.tally.is_better
    ]
