"""Attribution patching: what replacing the head's output would cost, to first order."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from headtool.engine.differentiation import Gradients, Rules, differentiate
from headtool.engine.replacement import replacement
from headtool.engine.sharing import GRADIENTS, Derivatives
from headtool.methods.base import Job, Method, Scored, option
from headtool.methods.estimates import influence_stderr
from headtool.methods.relevance_rules import relevance_rules
from headtool.work import Passes, Size

__all__ = ["Attribution"]


@dataclass(frozen=True)
class Attribution(Method):
    """First-order estimate of what the loss gains when the head's output is replaced.

    With ctx the head's output at the query tokens of an example, z what replaces it, and g the
    gradient of the example's loss with respect to ctx:

    ``score_h = |mean_b sum_t (z - ctx)[b, h, t] . g[b, h, t]|``

    A higher score means more important. With ``sign=signed`` the sign stays, and positive means
    that the head helps: that estimates the score of `ablation` with ``signal=loss`` and the same
    replacement, for all heads from one backward pass (there the loss is per token, here per
    example), and is exact where the model is linear after the head. Heads with the most negative
    scores are often not the ones to remove: far from the whole model the loss is not linear. With a
    baseline of zero this is `gradient` with ``granularity=example``, which takes absolute values
    before the mean instead of after it.

    ``backward=relp`` replaces gradients by coefficients of layer-wise relevance propagation
    (relevance patching): norms divide by a constant, activation functions follow the identity
    rule, products give half to each factor, and attention weights are constants. They are the rules
    of `lrp` with ``rule=conservative``. What is propagated is the loss.

    The standard error is over examples. The corrections of AtP* (Kramar et al. 2024) for saturated
    attention and for cancelling effects are not made.

    References
    ----------
    Nanda 2023, "Attribution Patching: Activation Patching At Industrial Scale"; Syed, Rager & Conmy
    2023, "Attribution Patching Outperforms Automated Circuit Discovery"; Kramar, Lieberum, Shah &
    Nanda 2024, "AtP*: An Efficient and Scalable Method for Localizing LLM Behaviour to Components";
    Rezaei Jafari, Eberle, Khakzar & Nanda 2025, "RelP: Faithful and Efficient Circuit Discovery via
    Relevance Patching".

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> attribution = headtool.get_method("attribution")(baseline="mean")
    >>> scores = attribution.score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score", "stderr"]].round(3)
        layer  head  score  stderr
    15      1     7  0.004   0.004
    2       0     2  0.004   0.004
    1       0     1  0.002   0.002
    """

    name: ClassVar[str] = "attribution"
    summary: ClassVar[str] = "first-order estimate of the loss with the head's output replaced"
    reference: ClassVar[str] = "Nanda 2023; Syed et al. 2023; Rezaei Jafari et al. 2025 (RelP)"
    replaced_by: ClassVar[str] = "baseline"

    baseline: str = option(
        "zero",
        "what replaces the head's output: zero, its mean over the data set, its output on another "
        "example, or on the example's corrupted text",
        choices=("zero", "mean", "resample", "counterfactual"),
    )
    backward: str = option(
        "gradient",
        "gradients, or coefficients of layer-wise relevance propagation (RelP)",
        choices=("gradient", "relp"),
    )
    sign: str = option(
        "absolute",
        "how much a head matters, or also whether it helps or harms",
        choices=("absolute", "signed"),
    )

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take one pass forwards and backwards, after what the baseline takes."""
        shared = GRADIENTS if self._plain else ""
        own = Passes(forward=1, backward=1, shared=shared)
        return (*replacement(self.baseline).cost(size), own)

    @property
    def _plain(self) -> bool:
        """Whether these are the gradients of the gates."""
        return self.baseline == "zero" and self.backward == "gradient"

    def reads(self, job: Job) -> Sequence[Derivatives]:
        """Read the gates' gradients, if these are what is needed."""
        return [Derivatives()] if self._plain else []

    def compute(self, job: Job) -> Scored:
        """Average what replacing the head would change."""
        plain = self._plain
        gradients = job.read(Derivatives).gradients if plain else self._gradients(job)
        change = -job.columns(gradients.per_example)
        score = change.mean(axis=0)
        stderr = influence_stderr(change - score)
        return Scored(np.abs(score) if self.sign == "absolute" else score, stderr)

    def _gradients(self, job: Job) -> Gradients:
        """Make a backward pass by other rules, or against another output."""
        rules: Rules = contextlib.nullcontext
        if self.backward == "relp":
            rules = partial(relevance_rules, job.model.module, "conservative")
        source = replacement(self.baseline, seed=job.seed)
        return differentiate(
            job.model,
            job.examples,
            fill=source.fit(job.model, job.examples, job.progress),
            rules=rules,
            execute=job.execute,
            progress=job.progress,
        )
