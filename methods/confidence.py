"""Attention confidence (Voita et al. 2019, sec. 4): how sharply a head attends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.engine.observation import Summary
from headtool.engine.sharing import ATTENTION
from headtool.heads import AttentionSite
from headtool.methods.base import Job, Method, Scored, option
from headtool.methods.estimates import influence_stderr, ratio_of_sums
from headtool.models.examples import Batch
from headtool.work import Passes, Size

__all__ = ["Confidence"]


@dataclass(frozen=True)
class Confidence(Method):
    """Mean over query tokens of the largest attention weight, or of the negated entropy in nats.

    A head that always attends to one token scores 1 (entropy: 0); uniform attention over n keys
    scores 1/n (entropy: -log n). Padding never counts, neither as query nor as key; in `cross`
    attention, queries are target tokens. A higher score means a more confident head, which Voita
    et al. found to go with importance; it does not look at the loss. The standard error is that
    of the mean over tokens, over examples.

    References
    ----------
    Voita, Talbot, Moiseev, Sennrich & Titov 2019, "Analyzing Multi-Head Self-Attention", sec. 4.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> scores = headtool.get_method("confidence")().score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score", "stderr"]].round(2)
        layer  head  score  stderr
    16      2     0   0.71    0.06
    22      2     6   0.66    0.06
    15      1     7   0.58    0.03
    """

    name: ClassVar[str] = "confidence"
    summary: ClassVar[str] = "mean of the largest attention weight over query tokens"
    reference: ClassVar[str] = "Voita et al. 2019, sec. 4"

    statistic: str = option("max", "largest weight, or negated entropy", choices=("max", "entropy"))
    exclude: str = option(
        "eos",
        "query tokens to leave out: end of sequence (separators in BERT-type models), all special "
        "tokens, or none",
        choices=("eos", "special", "none"),
    )

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take one pass forwards."""
        return (Passes(forward=1, shared=ATTENTION),)

    def reads(self, job: Job) -> Sequence[_TokenSums]:
        """Read each token's statistic."""
        return [_TokenSums(self, job)]

    def compute(self, job: Job) -> Scored:
        """Average over tokens."""
        sums = job.read(_TokenSums)
        score, influence = ratio_of_sums(sums.values, sums.tokens)
        return Scored(score, influence_stderr(influence))


class _TokenSums:
    """Per example and head: the statistic summed over counted query tokens, and their number."""

    def __init__(self, method: Confidence, job: Job) -> None:
        shape = (len(job.examples), job.sites.n_heads)
        self.values = np.zeros(shape)
        self.tokens = np.zeros(shape)
        self.method = method
        self.sites = job.sites

    def summarise(
        self, site: AttentionSite, attention: Tensor, contexts: Tensor, batch: Batch
    ) -> Summary:
        """Sum over the counted tokens of one site of one batch."""
        if site not in self.sites.items:
            return {}
        queries = batch.queries[site.kind]
        counted = queries.real
        if self.method.exclude != "none":
            left_out = queries.eos if self.method.exclude == "eos" else queries.special
            counted = counted & ~left_out
        attention = attention.double()
        if self.method.statistic == "max":
            values = attention.amax(dim=-1)
        else:
            values = torch.special.xlogy(attention, attention).sum(dim=-1)
        kept = values.masked_fill(~counted[:, None], 0.0).sum(dim=-1)
        tokens = counted.sum(dim=-1, keepdim=True)
        return {"values": kept.cpu().numpy(), "tokens": tokens.cpu().numpy()}

    def add(self, site: AttentionSite, examples: NDArray[np.int64], summary: Summary) -> None:
        """Put the sums of one site of one batch in their place."""
        columns = self.sites.columns(site)
        self.values[examples, columns] = summary["values"]
        self.tokens[examples, columns] = summary["tokens"]
