"""Size of the head's output (Minitron), or of what it adds to the layer's."""

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
from headtool.methods.slices import output_weights
from headtool.models.examples import Batch
from headtool.work import Passes, Size

__all__ = ["Activation"]


@dataclass(frozen=True)
class Activation(Method):
    """How large the head's output is.

    With ``ctx[b, t, j]`` channel j of the head's output at query token t of example b, padding left
    out:

    ============  ================================================================================
    minitron      ``sqrt(mean_b sum_j (mean_t |ctx[b, t, j]|)^2)``: a mean over tokens, and L2 over
                  examples and channels
    contribution  mean over tokens of ``|W_O^h ctx[b, t]|_2``, what the head adds to the output of
                  its layer
    ============  ================================================================================

    A higher score means more important. The loss plays no role, and layers are compared as they
    are. The standard error is over examples.

    `minitron` has a mean over examples where the released code has a sum: a constant factor.
    `contribution` is their code's for key/value heads, here of every query head.

    References
    ----------
    Muralidharan et al. 2024, "Compact Language Models via Pruning and Knowledge Distillation"
    (Minitron), sec. 2.2, and the importance hooks of NVIDIA's Model Optimizer.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> activation = headtool.get_method("activation")(variant="contribution")
    >>> scores = activation.score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score", "stderr"]].round(2)
        layer  head  score  stderr
    26      3     2   6.63    1.52
    29      3     5   5.31    0.25
    18      2     2   4.84    0.75
    """

    name: ClassVar[str] = "activation"
    summary: ClassVar[str] = "size of the head's output"
    reference: ClassVar[str] = "Muralidharan et al. 2024 (Minitron)"

    variant: str = option(
        "minitron",
        "the output itself, or what W_O makes of it",
        choices=("minitron", "contribution"),
    )

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take one pass forwards."""
        return (Passes(forward=1, shared=ATTENTION),)

    def reads(self, job: Job) -> Sequence[_Sizes]:
        """Read the sizes of the heads' outputs."""
        return [_Sizes(self.variant, job)]

    def compute(self, job: Job) -> Scored:
        """Average over examples, or over tokens."""
        sizes = job.read(_Sizes)
        if self.variant == "contribution":
            score, influence = ratio_of_sums(sizes.values, sizes.tokens)
            return Scored(score, influence_stderr(influence))
        square = sizes.values.mean(axis=0)
        score = np.sqrt(square)
        slope = np.divide(0.5, score, out=np.zeros_like(score), where=score > 0)
        return Scored(score, influence_stderr((sizes.values - square) * slope))


class _Sizes:
    """Per example and head: the squared size (minitron), or the summed contribution; and tokens."""

    def __init__(self, variant: str, job: Job) -> None:
        shape = (len(job.examples), job.sites.n_heads)
        self.values = np.zeros(shape)
        self.tokens = np.zeros(shape)
        self.sites = job.sites
        self.projected: dict[AttentionSite, NDArray[np.float64]] = {}
        if variant == "contribution":
            for handle in job.model.handles:
                columns = output_weights(handle)
                # |W c|^2 = c' (W' W) c, which needs no vector as wide as the layer.
                self.projected[handle.site] = columns @ columns.swapaxes(1, 2)

    def summarise(
        self, site: AttentionSite, attention: Tensor, contexts: Tensor, batch: Batch
    ) -> Summary:
        """Measure the outputs of one site of one batch."""
        if site not in self.sites.items:
            return {}
        real = batch.queries[site.kind].real
        outputs = contexts.double().masked_fill(~real[..., None, None], 0.0)
        tokens = real.sum(dim=1, keepdim=True)
        if site in self.projected:
            product = torch.from_numpy(self.projected[site]).to(outputs)
            squares = torch.einsum("bthd,hde,bthe->bth", outputs, product, outputs)
            values = squares.clamp(min=0).sqrt().sum(dim=1)
        else:
            means = outputs.abs().sum(dim=1) / tokens[..., None]
            values = means.square().sum(dim=-1)
        return {"values": values.cpu().numpy(), "tokens": tokens.cpu().numpy()}

    def add(self, site: AttentionSite, examples: NDArray[np.int64], summary: Summary) -> None:
        """Put the sizes of one site of one batch in their place."""
        columns = self.sites.columns(site)
        self.values[examples, columns] = summary["values"]
        self.tokens[examples, columns] = summary["tokens"]
