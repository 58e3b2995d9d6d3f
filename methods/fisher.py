"""Fisher information of the heads' gates (Kwon et al. 2022), with their rearrangement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headtool.engine.differentiation import Gradients, differentiate
from headtool.engine.sharing import GRADIENTS, Derivatives
from headtool.errors import HeadtoolError
from headtool.heads import Sites
from headtool.methods.base import Job, Method, Scored, option
from headtool.methods.estimates import highest, influence_stderr
from headtool.metrics.base import Metric
from headtool.work import Passes, Size

__all__ = ["Fisher", "rearrange"]


@dataclass(frozen=True)
class Fisher(Method):
    """Empirical Fisher information of a gate on the head: how sharply the loss bends there.

    At a trained model, closing the heads of a set costs about ``1/2 sum_h I_h`` of loss if heads
    do not interact. With ``g`` the gradients of the loss with respect to gates of one:

    =======  =====================================================================================
    batch    ``I_h = sum over batches of g_h^2``, g of the batch-mean loss (the released code)
    example  ``I_h = mean over examples of g_h^2``: the diagonal of the empirical Fisher matrix
    =======  =====================================================================================

    A higher score means more important. Batches are consecutive examples. The loss of a
    translation or text is that of all its tokens. The standard error is over batches or examples.

    With `heads`, the column `kept` says which heads stay. They are first those with the highest
    scores (`kept_diagonal`), then, in each layer, heads are swapped to lower ``sum of (sum over
    closed heads of g_h)^2``: the layer's block of the matrix instead of its diagonal, so that heads
    which do the same work do not both go. How many heads each layer keeps does not change,
    and neither do the scores. The paper then rescales the heads that stay (mask tuning, sec. 4.3);
    that changes the model and not the choice of heads: ``headtool prune --rescale least-squares``
    does it for the choice of any method.

    References
    ----------
    Kwon, Kim, Mahoney, Hassoun, Keutzer & Gholami 2022, "A Fast Post-Training Pruning Framework
    for Transformers", sec. 4.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> fisher = headtool.get_method("fisher")(granularity="example", heads=24)
    >>> scores = fisher.score(model, examples)
    >>> top = scores.frame.nsmallest(3, "rank")
    >>> (top["score"] / top["score"].max()).round(2).tolist()
    [1.0, 0.56, 0.42]
    >>> int(scores.frame["kept"].sum())
    24
    """

    name: ClassVar[str] = "fisher"
    summary: ClassVar[str] = "Fisher information of a gate on the head"
    reference: ClassVar[str] = "Kwon et al. 2022"

    granularity: str = option(
        "batch",
        "what is squared: gradients of batches, or of examples",
        choices=("batch", "example"),
    )
    batch_size: int = option(32, "examples in a batch, for granularity batch")
    samples: int | None = option(
        2048, "examples to use, drawn at random where there are more; none for all"
    )
    heads: int | None = option(
        None, "number of heads to keep: adds which they are, after rearrangement within layers"
    )

    def check(self) -> None:
        """Refuse batches and samples without examples."""
        for name in ("batch_size", "samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise HeadtoolError(f"fisher.{name} must be at least 1, got {value}")

    def idle(self, metric: Metric | None = None) -> Mapping[str, str]:
        """Batches are for the granularity that they define."""
        return {} if self.granularity == "batch" else {"batch_size": "on granularity example"}

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take one pass forwards and backwards, of as many examples as are used."""
        used = 1.0 if self.samples is None else min(1.0, self.samples / size.examples)
        shared = GRADIENTS if used == 1 else ""
        return (Passes(forward=used, backward=used, shared=shared),)

    def reads(self, job: Job) -> Sequence[Derivatives]:
        """Read the gates' gradients, if all examples are used."""
        return [] if self._some(job) else [Derivatives()]

    def _some(self, job: Job) -> bool:
        """Whether only some of the examples are used."""
        return self.samples is not None and self.samples < len(job.examples)

    def _gradients(self, job: Job) -> Gradients:
        if not self._some(job):
            return job.read(Derivatives).gradients
        rng = np.random.default_rng(job.seed)
        chosen = np.sort(rng.choice(len(job.examples), self.samples, replace=False))
        examples = job.examples.take(chosen)
        return differentiate(job.model, examples, execute=job.execute, progress=job.progress)

    def compute(self, job: Job) -> Scored:
        """Square the gradients."""
        if self.heads is not None:
            job.check_heads("fisher.heads", self.heads)
        per_unit = job.columns(self._gradients(job).per_example)
        if self.granularity == "batch":
            starts = np.arange(0, len(per_unit), self.batch_size)
            sizes = np.diff([*starts, len(per_unit)])
            per_unit = np.add.reduceat(per_unit, starts, axis=0) / sizes[:, None]
        squares = per_unit**2
        units = len(squares)
        scale = units if self.granularity == "batch" else 1
        score = scale * squares.mean(axis=0)
        stderr = influence_stderr(scale * squares - score)
        columns = {}
        if self.heads is not None:
            diagonal = highest(score, self.heads, seed=job.seed)
            columns = {
                "kept": rearrange(diagonal, per_unit, job.sites),
                "kept_diagonal": diagonal,
            }
        return Scored(score, stderr, columns=columns)


def rearrange(
    kept: NDArray[np.bool_], gradients: NDArray[np.float64], sites: Sites
) -> NDArray[np.bool_]:
    """Swap closed and kept heads of each layer to lower the squared sum of closed gradients.

    The closed heads of a layer are at first those with the smallest squares. Each other head, from
    the smallest square to the largest, is then closed as well, and of all closed heads the one is
    opened that leaves the smallest ``sum over units of (sum over closed heads of g)^2``.

    Parameters
    ----------
    kept
        Which heads stay, shape [heads]; it says how many each layer keeps.
    gradients
        Gradients of each unit (batch or example), shape [units, heads].
    sites
        The sites of the heads.

    Returns
    -------
    ndarray
        Which heads stay now, shape [heads].
    """
    result = kept.copy()
    for site in sites:
        columns = sites.columns(site)
        result[columns] = _rearranged(gradients[:, columns], kept[columns])
    return result


def _rearranged(gradients: NDArray[np.float64], before: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Choose which heads of one layer stay, given how many, and which of equal ones, did before."""
    kept = np.ones(gradients.shape[1], dtype=np.bool_)
    closed = int((~before).sum())
    if closed == 0:
        return kept
    order = np.lexsort((before, (gradients**2).sum(axis=0))).tolist()
    chosen = order[:closed]
    for head in order[closed:]:
        chosen.append(head)
        vectors = gradients[:, chosen]
        without = vectors.sum(axis=1, keepdims=True) - vectors
        chosen.pop(int((without**2).sum(axis=0).argmin()))
    kept[chosen] = False
    return kept
