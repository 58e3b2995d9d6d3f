"""What a closed head puts out instead of its own output.

Zero is the usual ablation. Because later layers repair part of the damage, zeroing understates
some heads (McGrath et al. 2023), so the mean over the data set and another example's output are
offered as well. Each of them also misleads the layers above, which were not trained on it; the
constant that does least harm is the optimal one (Li & Janson 2024). Where the data says how a text
would read if what decides were another, the head's output on that text leaves all else in place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from headtool.engine.donors import donor_outputs, draw_donors
from headtool.engine.freezing import frozen
from headtool.engine.moments import moments
from headtool.errors import HeadtoolError, unknown
from headtool.heads import AttentionSite, Head
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples
from headtool.progress import Progress, counted
from headtool.work import Passes, Size

__all__ = [
    "REPLACEMENTS",
    "Counterfactual",
    "Fill",
    "Mean",
    "Optimal",
    "Replacement",
    "Resample",
    "Zero",
    "replacement",
]

Fill = Callable[[Batch], Mapping[AttentionSite, Tensor] | None]
"""Per batch, what closed heads put out at each site, broadcastable to [B, T, H, D]."""

REPLACEMENTS = ("zero", "mean", "resample", "counterfactual", "optimal")

_TRAINED_ON = 16  # examples in a step towards optimal constants
_LEARNING_RATE = 0.3  # in standard deviations of a head's output


class Replacement(ABC):
    """A way to fill in for closed heads.

    Attributes
    ----------
    name
        Its name.
    aligned
        Whether what it fills in differs from position to position.
    alone
        Whether what it fills in for an example depends on that example alone.
    """

    name: ClassVar[str]
    aligned: ClassVar[bool] = False
    alone: ClassVar[bool] = False

    def check(self, examples: Examples) -> None:  # noqa: B027 - most need nothing
        """Refuse examples that lack what is filled in.

        Parameters
        ----------
        examples
            The examples that will be run.
        """

    def check_generated(self) -> None:
        """Refuse to be filled in where text is generated, if it is aligned by position."""
        if self.aligned:
            raise HeadtoolError(
                f"replacement '{self.name}' is aligned by position, which generated text has not; "
                "choose zero or mean for translations"
            )

    @abstractmethod
    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Gather what is needed from the data set.

        Parameters
        ----------
        model, examples
            The model, and the examples that will be run.
        progress
            Reports progress.

        Returns
        -------
        Callable
            Takes a batch; returns what closed heads put out at each site, None for zero.
        """

    @abstractmethod
    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Declare how many passes over the examples it takes to find what closed heads put out.

        Parameters
        ----------
        size
            Examples and heads.
        """


@dataclass(frozen=True)
class Zero(Replacement):
    """Zero: the same as zeroing the head's columns of W_O."""

    name: ClassVar[str] = "zero"
    alone: ClassVar[bool] = True

    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Need nothing."""
        return lambda batch: None

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take no pass."""
        return ()


@dataclass(frozen=True)
class Mean(Replacement):
    """The head's mean output over all real query tokens of the data set."""

    name: ClassVar[str] = "mean"

    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Average in one pass over the data."""
        means = {
            site: mean.to(torch.float32)
            for site, (mean, _) in moments(model, examples, progress).items()
        }
        return lambda batch: means

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take one pass."""
        return (Passes(forward=1, what="mean outputs"),)


@dataclass(frozen=True)
class Optimal(Replacement):
    """The constant for which the loss is least with that head alone closed (Li & Janson 2024).

    Each head's constant starts from its mean and takes `steps` steps of Adam, each on 16 examples
    drawn from `seed`; the rate falls to zero. Heads do not see each other's constants, so where
    several are closed at once, theirs are not optimal together.

    Attributes
    ----------
    seed, steps
        Seed of the examples drawn, and steps of Adam.
    """

    name: ClassVar[str] = "optimal"

    seed: int = 0
    steps: int = 50

    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Train the constants of all heads side by side, which share forward passes."""
        found = moments(model, examples, progress)
        shifts = {
            site: torch.zeros_like(mean, requires_grad=True) for site, (mean, _) in found.items()
        }

        def constants() -> dict[AttentionSite, Tensor]:
            return {site: mean + spread * shifts[site] for site, (mean, spread) in found.items()}

        adam = torch.optim.Adam(shifts.values(), lr=_LEARNING_RATE)
        rng = np.random.default_rng(self.seed)
        rate = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, total_iters=self.steps)
        with frozen(model.module), torch.enable_grad():
            used = min(_TRAINED_ON, len(examples)) * model.sites.n_heads
            shown = counted(
                progress,
                range(self.steps),
                total=self.steps,
                label="optimal outputs",
                work=lambda step: 2 * used * float(examples.lengths.mean()),
            )
            for _ in shown:
                count = min(_TRAINED_ON, len(examples))
                batch = model.collate(examples, rng.choice(len(examples), count, replace=False))
                room = examples.batch_tokens // int(examples.lengths[batch.index].max() * count)
                heads = model.sites.heads
                adam.zero_grad()
                for start in range(0, len(heads), max(1, room)):
                    some = heads[start : start + max(1, room)]
                    wide = batch.repeated(len(some))
                    with model.intercept(_Constants(some, constants(), count), wide):
                        losses = model.forward(wide).losses
                    torch.autograd.backward(losses.sum() / count)
                adam.step()
                rate.step()
        trained = {site: constant.detach() for site, constant in constants().items()}
        return lambda batch: trained

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take one pass for the means, and in each step one of some examples for every head."""
        run = self.steps * size.heads * min(_TRAINED_ON, size.examples) / size.examples
        return (
            Passes(forward=1, what="mean outputs"),
            Passes(forward=run, backward=run, steps=self.steps, what="optimal outputs"),
        )


@dataclass(frozen=True)
class _Constants:
    """Handler that gives each block of `rows` rows the constant of another head."""

    heads: Sequence[Head]
    constants: Mapping[AttentionSite, Tensor]
    rows: int

    def __call__(self, site: AttentionSite, contexts: Tensor) -> Tensor | None:
        places = {
            block: head.index
            for block, head in enumerate(self.heads)
            if (head.kind, head.layer) == (site.kind, site.layer)
        }
        if not places:
            return None
        changed = contexts.clone()
        for block, index in places.items():
            constant = self.constants[site][index].to(contexts)
            changed[block * self.rows : (block + 1) * self.rows, :, index] = constant
        return changed


@dataclass(frozen=True)
class Resample(Replacement):
    """The head's output on another example of the data set, aligned by position.

    The donor of an example is drawn, from `seed`, among the other examples that are at least as
    long; the longest ones take the longest other example, and positions past its end take its last
    position. Donors do not depend on batching or order of batches.
    """

    name: ClassVar[str] = "resample"
    aligned: ClassVar[bool] = True

    seed: int = 0

    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Draw the donors."""
        donors = draw_donors(examples.lengths, np.random.default_rng(self.seed))

        def fill(batch: Batch) -> Mapping[AttentionSite, Tensor]:
            return donor_outputs(model, model.collate(examples, donors[batch.index]), batch)

        return fill

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Run the donors, one for every example."""
        return (Passes(forward=1, what="donors"),)


@dataclass(frozen=True)
class Counterfactual(Replacement):
    """The head's output on the example's corrupted text, position by position.

    With several heads closed, each puts out what it puts out where the whole model reads the
    corrupted text. An encoder-decoder model writes the same target from it.
    """

    name: ClassVar[str] = "counterfactual"
    aligned: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    def check(self, examples: Examples) -> None:
        """Refuse data without corrupted texts, or with some of another length."""
        _ = examples.corrupted

    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Tokenised already, the corrupted texts need nothing but their lengths checked."""
        corrupted = examples.corrupted

        def fill(batch: Batch) -> Mapping[AttentionSite, Tensor]:
            other = model.collate(corrupted, batch.index)
            for kind, queries in batch.queries.items():
                moved = (queries.eos != other.queries[kind].eos).any(dim=1).nonzero()
                if len(moved):
                    place = examples.place(int(batch.index[int(moved[0])]))
                    raise HeadtoolError(
                        f"{examples.data.spec}, example {place}: the corrupted text divides at "
                        "other tokens than the text; they are aligned by position, so make each "
                        "part equally long"
                    )
            return donor_outputs(model, other, batch)

        return fill

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Run the corrupted texts."""
        return (Passes(forward=1, what="corrupted texts"),)


def replacement(name: str, *, seed: int = 0, steps: int = 50) -> Replacement:
    """Return the replacement of a name.

    Parameters
    ----------
    name
        One of `REPLACEMENTS`: ``zero``, ``mean``, ``resample``, ``counterfactual`` (for data with
        corrupted texts) or ``optimal``.
    seed
        Seed of the donors of ``resample``, and of the examples for ``optimal``.
    steps
        Steps of training for ``optimal``.
    """
    if name not in REPLACEMENTS:
        raise unknown("replacement", name, REPLACEMENTS)
    return {
        "zero": Zero(),
        "mean": Mean(),
        "resample": Resample(seed),
        "counterfactual": Counterfactual(),
        "optimal": Optimal(seed, steps),
    }[name]
