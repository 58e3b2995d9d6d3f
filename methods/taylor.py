"""First-order Taylor importance of the head's weights (Molchanov et al. 2019; LLM-Pruner)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.attention.weights import check_trainable
from headtool.engine.counting import unit_work
from headtool.engine.freezing import frozen
from headtool.engine.passes import finite_forward
from headtool.engine.sharing import GRADIENTS, Derivatives
from headtool.engine.stepping import Stepping, added
from headtool.engine.units import Unit, UnitResult, cut, in_order, run_units
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Sites
from headtool.methods.base import Job, Method, Scored, option
from headtool.methods.estimates import influence_stderr, ratio_of_sums
from headtool.methods.slices import HeadSlices, head_outputs, head_slices
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.work import Passes, Size

__all__ = ["Taylor"]

_Slices = Mapping[AttentionSite, Sequence[HeadSlices]]

_TO_OUTPUTS = Passes(forward=1, backward=1, shared=GRADIENTS)
_TO_WEIGHTS = Passes(forward=1, backward=1, weights=True)


@dataclass(frozen=True)
class Taylor(Method):
    """First-order estimate of what the loss loses when the head's weights become zero.

    With w the head's weights (its slices of W_Q, W_K, W_V with their biases, and of W_O) and L the
    mean loss over the examples:

    =======  =====================================================================================
    group    ``|sum_w w dL/dw|``: weights may cancel (Molchanov et al. 2019, the square root of
             theirs; the order is the same)
    element  ``sum_w |w dL/dw|``: they may not (LLM-Pruner's element-wise importance)
    =======  =====================================================================================

    A higher score means more important. Scaling W_V or W_O scales the head's output, so in `group`
    each contributes ``dL/dxi_h`` of `gradient`; queries and keys add what sharper attention would
    change. Weights that several heads or layers share count in full for each. The loss of a
    translation or text is that of all its tokens.

    The standard error of `group` is over batches of consecutive examples; `element` has none (NaN).

    LLM-Pruner sums within output channels first and takes absolute values there, for `group`; here,
    as in Molchanov et al., the head is the group.

    References
    ----------
    Molchanov, Mallya, Tyree, Frosio & Kautz 2019, "Importance Estimation for Neural Network
    Pruning", sec. 3; Ma, Fang & Wang 2023, "LLM-Pruner: On the Structural Pruning of Large Language
    Models", sec. 3.2.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> taylor = headtool.get_method("taylor")(batch_size=2)
    >>> scores = taylor.score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score", "stderr"]].round(3)
        layer  head  score  stderr
    15      1     7  0.009   0.009
    2       0     2  0.009   0.009
    16      2     0  0.007   0.007
    """

    name: ClassVar[str] = "taylor"
    summary: ClassVar[str] = "first-order estimate of the loss without the head's weights"
    reference: ClassVar[str] = "Molchanov et al. 2019; Ma et al. 2023 (LLM-Pruner)"

    granularity: str = option(
        "group",
        "where absolute values are taken: of the head's sum, or of every weight",
        choices=("group", "element"),
    )
    batch_size: int = option(
        8, "consecutive examples in a batch; the standard error of group is over these"
    )

    def check(self) -> None:
        """Refuse batches without examples."""
        if self.batch_size < 1:
            raise HeadtoolError(f"taylor.batch_size must be at least 1, got {self.batch_size}")

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take one pass forwards and backwards: for `element`, to the weights."""
        return (_TO_WEIGHTS if self.granularity == "element" else _TO_OUTPUTS,)

    def reads(self, job: Job) -> Sequence[_Outputs]:
        """Read the gradients of gates and of all that the projections before them put out."""
        by_site = head_outputs(job) if self.granularity == "group" else None
        if by_site is None:
            return []
        layers = {name: heads for own in by_site.values() for name, heads in own.items()}
        return [_Outputs(layers, {site: tuple(own) for site, own in by_site.items()})]

    def compute(self, job: Job) -> Scored:
        """Add up weights times gradients."""
        count = len(job.examples)
        starts = np.arange(0, count, self.batch_size)
        batches = np.split(np.arange(count), starts[1:])
        if job.readings:
            per_example = _by_group(job.model.sites, job.read(_Outputs))
            per_batch = np.add.reduceat(per_example, starts, axis=0)
        else:
            slices = head_slices(job, biases=True)
            if self.granularity == "element":
                score = job.columns(_by_element(job, batches, slices)) / count
                return Scored(score, np.full(len(score), np.nan))
            results = _run(job, batches, slices, _by_head)
            per_batch = np.stack([result["heads"] for result in results])
        sizes = np.array([[len(index)] for index in batches], dtype=np.float64)
        counts = np.broadcast_to(sizes, (len(batches), job.sites.n_heads))
        change, influence = ratio_of_sums(job.columns(per_batch), counts)
        return Scored(np.abs(change), influence_stderr(influence))


@dataclass
class _Outputs(Derivatives):
    """Derivatives of the gates, and of what linear layers put out, by the site that reads it."""

    names: Mapping[AttentionSite, Sequence[str]] = field(default_factory=dict)


def _by_group(sites: Sites, read: _Outputs) -> NDArray[np.float64]:
    """Sum w dL_b/dw over each head's weights, [N, heads of the model], without their gradients.

    What a linear layer puts out, y, is linear in its weights and biases: over those of one output,
    w dL/dw adds up to y dL/dy. For W_O that is the gate's gradient. Weights that several sites
    share count with all their uses. (Models for which `head_outputs` has no answer take gradients
    of weights.)
    """
    gradients = read.gradients
    total = np.zeros_like(gradients.per_example)
    for site, names in read.names.items():
        columns = sites.columns(site)
        for name in names:
            total[:, columns] += gradients.layers[name]
        for other in sites:
            if other.projection == site.projection:
                total[:, columns] += gradients.per_example[:, sites.columns(other)]
    return total


def _by_element(
    job: Job, batches: Sequence[NDArray[np.int64]], slices: _Slices
) -> NDArray[np.float64]:
    """Sum |w dL/dw| over each head's weights, [heads of the model]; L is summed over examples."""
    total: dict[str, NDArray[np.float64]] = {}
    for result in _run(job, batches, slices, _by_weight):
        total = {name: product + total.get(name, 0) for name, product in result.items()}
    sizes = {name: np.abs(product) for name, product in total.items()}
    return _sums(job.model, slices, sizes)


def _run(
    job: Job,
    batches: Sequence[NDArray[np.int64]],
    slices: _Slices,
    work: Callable[..., UnitResult],
) -> Iterator[UnitResult]:
    """Make a backward pass to the weights for each batch, and yield what `work` makes of them."""
    with _differentiable(job.model, slices):
        done = run_units(
            cut(batches),
            lambda: Stepping(
                partial(work, job.model, job.examples, slices),
                added,
                job.model,
                job.examples,
                "weight gradients",
            ),
            label="weight gradients",
            execute=job.execute,
            progress=job.progress,
            work=unit_work(job.examples, _TO_WEIGHTS),
        )
        yield from (result for _, result in in_order(done))


def _names(slices: _Slices) -> list[str]:
    """Names of all weights that belong to heads."""
    return sorted({part.name for parts in slices.values() for part in parts})


def _by_weight(model: ModelAdapter, examples: Examples, slices: _Slices, unit: Unit) -> UnitResult:
    """Each weight times the gradient of the batch's summed loss, by name."""
    names = _names(slices)
    batch = model.collate(examples, unit.examples)
    weights = [model.module.get_parameter(name) for name in names]
    with torch.enable_grad():
        losses = finite_forward(model, batch, examples).losses
        gradients = torch.autograd.grad(losses.sum(), weights, allow_unused=True)
    return {
        name: _product(weight.detach(), gradient)
        for name, weight, gradient in zip(names, weights, gradients, strict=True)
    }


def _by_head(model: ModelAdapter, examples: Examples, slices: _Slices, unit: Unit) -> UnitResult:
    """The same, summed by head."""
    return {"heads": _sums(model, slices, _by_weight(model, examples, slices, unit))}


def _product(weight: Tensor, gradient: Tensor | None) -> NDArray[np.float64]:
    if gradient is None:
        return np.zeros(tuple(weight.shape))
    product: NDArray[np.float64] = (weight.double() * gradient.double()).cpu().numpy()
    return product


def _sums(
    model: ModelAdapter, slices: _Slices, values: Mapping[str, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Add values of weights up by head, for all heads of the model."""
    total = np.zeros(model.sites.n_heads)
    for site, parts in slices.items():
        for part in parts:
            total[model.sites.columns(site)] += part.sums(values[part.name])
    return total


@contextlib.contextmanager
def _differentiable(model: ModelAdapter, slices: _Slices) -> Iterator[None]:
    """Take gradients of the heads' weights alone; afterwards everything is as it was."""
    check_trainable(model.module, _names(slices), spec=model.spec, what="taylor")
    weights = [model.module.get_parameter(name) for name in _names(slices)]
    with frozen(model.module):
        try:
            for weight in weights:
                weight.requires_grad_(True)
            yield
        finally:
            for weight in weights:
                weight.requires_grad_(False)
