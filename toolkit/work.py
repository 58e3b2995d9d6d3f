"""What work consists of: passes of a model over examples, counted before they are made.

The unit is the token-pass: one token of one example through the whole model, forwards. Everything
else is expressed in it, so that phases of a command can be added up and their progress compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Passes", "Phase", "Size"]


@dataclass(frozen=True)
class Size:
    """What the work of a method depends on, besides its options.

    Attributes
    ----------
    examples
        Examples in the data set.
    heads, sites
        Heads that are scored, and sites that they belong to.
    share
        Share of a forward pass that closing one of these heads takes on average, since what lies
        below the head is computed once for all: between 0 and 1.
    beam
        Hypotheses of the search, where the metric decodes; else 0.
    """

    examples: int
    heads: int
    sites: int
    share: float = 1.0
    beam: int = 0


@dataclass(frozen=True)
class Passes:
    """Passes over a data set; numbers may be fractions, where some of the examples are enough.

    Attributes
    ----------
    forward
        Forward passes over all of the examples, those of backward passes included.
    backward
        Backward passes.
    decoded
        How often all examples are decoded.
    steps
        Steps of an optimiser; their passes are counted in `forward` and `backward`.
    least
        How many of the passes are certain, as a share; below 1 where work may end early.
    share
        How much of the model a forward pass computes on average.
    weights
        Whether backward passes reach the weights, which takes two forward passes instead of one.
    beam
        Hypotheses of the search.
    what
        What is done, where a method does several things.
    shared
        Which whole pass it is, where methods that read the same share one; else empty. See
        `headtool.methods.base.Method.reads`.
    """

    forward: float = 0.0
    backward: float = 0.0
    decoded: float = 0.0
    steps: int = 0
    least: float = 1.0
    share: float = 1.0
    weights: bool = False
    beam: int = 1
    what: str = ""
    shared: str = ""

    @property
    def weight(self) -> float:
        """All of it, in forward passes through the whole model."""
        backward = self.backward * (2 if self.weights else 1)
        return self.forward * self.share + backward + self.decoded * (1 + self.beam)

    def times(self, count: float) -> Passes:
        """The same passes, repeated.

        Parameters
        ----------
        count
            How often.
        """
        return replace(
            self,
            forward=self.forward * count,
            backward=self.backward * count,
            decoded=self.decoded * count,
            steps=round(self.steps * count),
        )


@dataclass(frozen=True)
class Phase:
    """A part of a command: passes over the same examples.

    Attributes
    ----------
    name
        Name of the phase, by which progress reports it.
    passes
        The passes.
    examples, tokens
        How many they are over, without padding.
    length
        Tokens of an example, averaged over tokens: what a token attends to.
    units
        Into how many units the work is cut, each done by one worker; 0 for one that is not cut.
    """

    name: str
    passes: Passes
    examples: int
    tokens: int
    length: float
    units: int = 0

    @property
    def most(self) -> float:
        """Token-passes, if nothing ends early."""
        return self.tokens * self.passes.weight

    @property
    def least(self) -> float:
        """Token-passes that are certain."""
        return self.most * self.passes.least

    @property
    def kind(self) -> str:
        """What sort of work it is: work of one sort takes about the same time a token-pass."""
        if self.passes.decoded:
            return "decoding"
        if self.passes.steps:
            return "training"
        return "backward" if self.passes.backward else "forward"
