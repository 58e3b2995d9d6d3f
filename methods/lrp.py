"""Layer-wise relevance propagation to the heads (Voita et al. 2019; Achtibat et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headtool.methods.base import Job, Method, Scored, option
from headtool.methods.estimates import influence_stderr
from headtool.methods.relevance import propagate
from headtool.methods.relevance_rules import RULES
from headtool.work import Passes, Size

__all__ = ["Lrp"]


@dataclass(frozen=True)
class Lrp(Method):
    """Share of the head in the relevance that its layer's heads have for the prediction.

    The logit of the predicted class is propagated back to the heads' outputs before W_O and summed
    over neurons and query tokens; ``score_h = mean over examples of |R_h| / sum_h' |R_h'|``, the
    sum over the heads of the site. For token models the highest logit of every scored token is
    explained, averaged over the tokens; a translation model reads the reference up to each token.
    The model's own prediction is explained, right or wrong: labels play no role.

    A higher score means more important. With ``sign=signed`` the sign of R_h stays, and a head that
    speaks against what is predicted has a negative score. Scores compare heads within a site;
    between sites they only compare shares. The standard error is over examples. The column
    `relevance` is the mean of R_h itself.

    Rules (see `headtool.methods.relevance_rules`):

    ============  ================================================================================
    attnlrp       linear layers by the epsilon rule with a vanishing epsilon, norms with a constant
                  scale, softmax by its gradient, products by halves (Achtibat et al. 2024)
    conservative  the same with attention weights as constants, so that all relevance of a head goes
                  on through its values (Ali et al. 2022)
    alpha-beta    linear layers, residual sums and values by alpha = beta = 1/2, as Voita et al.;
                  norms by the identity rule, attention weights as constants (an option of their
                  code). Every head's relevance has the sign of the prediction: `sign` changes
                  nothing unless predictions are negative
    ============  ================================================================================

    Which rule and which sign rank heads better differs from model to model, so compare their
    pruning curves before you rely on one (``headtool curve``).

    References
    ----------
    Voita et al. 2019, "Analyzing Multi-Head Self-Attention", sec. 4; Achtibat et al. 2024,
    "AttnLRP: Attention-Aware Layer-Wise Relevance Propagation for Transformers"; Ali et al. 2022,
    "XAI for Transformers: Better Explanations through Conservative Propagation"; Bach et al. 2015,
    "On Pixel-Wise Explanations for Non-Linear Classifier Decisions by Layer-Wise Relevance
    Propagation", eq. 60, for alpha-beta.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> scores = headtool.get_method("lrp")(rule="attnlrp").score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score", "stderr"]].round(2)
        layer  head  score  stderr
    15      1     7   0.28    0.07
    22      2     6   0.22    0.04
    2       0     2   0.19    0.06

    They are shares: those of a layer's heads add up to one.

    >>> scores.frame.groupby("layer")["score"].sum().round(6).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    name: ClassVar[str] = "lrp"
    summary: ClassVar[str] = "share of the head in its layer's relevance for the prediction"
    reference: ClassVar[str] = "Voita et al. 2019, sec. 4; rules of Achtibat et al. 2024"

    rule: str = option(
        "attnlrp",
        "AttnLRP; the same with attention weights as constants (Ali et al. 2022); or alpha = beta "
        "= 1/2 (Voita et al. 2019)",
        choices=RULES,
    )
    sign: str = option(
        "absolute",
        "how much a head matters for the prediction, or also whether for it or against it",
        choices=("absolute", "signed"),
    )

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take one pass forwards and backwards."""
        return (Passes(forward=1, backward=1),)

    def compute(self, job: Job) -> Scored:
        """Score by one backward pass over the data."""
        found = propagate(
            job.model,
            job.examples,
            rule=self.rule,
            execute=job.execute,
            progress=job.progress,
        )
        relevance = job.columns(found.per_example)
        shares = np.zeros_like(relevance)
        for site in job.sites:
            own = relevance[:, job.sites.columns(site)]
            total = np.abs(own).sum(axis=1, keepdims=True)
            shares[:, job.sites.columns(site)] = own / np.where(total > 0, total, 1.0)
        if self.sign == "absolute":
            shares = np.abs(shares)
        score = shares.mean(axis=0)
        return Scored(
            score,
            influence_stderr(shares - score),
            columns={"relevance": relevance.mean(axis=0)},
        )
