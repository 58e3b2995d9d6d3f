"""Layer-wise relevance propagation from a model's prediction to the outputs of its heads.

The rules of propagation are in `headtool.methods.relevance_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.engine.counting import unit_work
from headtool.engine.freezing import frozen
from headtool.engine.passes import finite_forward
from headtool.engine.stepping import Stepping, batches_of, joined
from headtool.engine.units import Executor, Unit, UnitResult, cut, in_turn, run_units
from headtool.heads import AttentionSite
from headtool.methods.relevance_rules import relevance_rules
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples
from headtool.progress import Progress, silent
from headtool.work import Passes

__all__ = ["Relevance", "propagate"]


@dataclass(frozen=True)
class Relevance:
    """Relevance of the heads' outputs for what the model predicts.

    Attributes
    ----------
    per_example
        Relevance of each head's output before W_O, summed over its neurons and query tokens,
        [N, heads]; positive where it speaks for the prediction.
    explained
        What was explained: the logit of the predicted class (regression: the prediction; token
        models: the mean over scored tokens of the highest logit), shape [N].
    """

    per_example: NDArray[np.float64]
    explained: NDArray[np.float64]


def propagate(
    model: ModelAdapter,
    examples: Examples,
    *,
    rule: str = "attnlrp",
    execute: Executor = in_turn,
    progress: Progress = silent,
) -> Relevance:
    """Propagate each prediction back to the heads' outputs, one backward pass a batch.

    Parameters
    ----------
    model, examples
        The model and its data set. A translation model reads the reference up to each token.
    rule
        One of `headtool.methods.relevance_rules.RULES`.
    execute
        Who runs the units, a batch each.
    progress
        Reports progress.

    Returns
    -------
    Relevance
        For every head of the model and every example.
    """
    relevance = np.zeros((len(examples), model.sites.n_heads))
    explained = np.zeros(len(examples))
    with frozen(model.module):
        for unit, result in run_units(
            cut(batches_of(model, examples)),
            lambda: Stepping(
                partial(_propagated, model, examples, rule), joined(0), model, examples, "relevance"
            ),
            label="relevance",
            execute=execute,
            progress=progress,
            work=unit_work(examples, Passes(forward=1, backward=1)),
        ):
            relevance[unit.examples] = result["relevance"]
            explained[unit.examples] = result["explained"]
    return Relevance(relevance, explained)


def _propagated(model: ModelAdapter, examples: Examples, rule: str, unit: Unit) -> UnitResult:
    """Propagate the predictions of one batch."""
    batch = model.collate(examples, unit.examples)
    contexts: dict[AttentionSite, Tensor] = {}

    def keep(site: AttentionSite, seen: Tensor) -> Tensor:
        contexts[site] = seen if seen.requires_grad else seen.detach().requires_grad_()
        return contexts[site]

    outputs: list[Tensor] = []
    hook = model.module.register_forward_hook(_catcher(outputs))
    try:
        with (
            torch.enable_grad(),
            relevance_rules(model.module, rule),
            model.intercept(keep, batch),
        ):
            result = finite_forward(model, batch, examples)
    finally:
        hook.remove()
    if model.task == "question-answering" and result.logits is not None:
        top = result.logits.amax(dim=-1).sum(dim=1)  # of the first and of the last token
    else:
        top = _explained(model, batch, outputs[-1])
    gradients = torch.autograd.grad(top.sum(), list(contexts.values()), allow_unused=True)
    relevance = np.zeros((len(batch), model.sites.n_heads))
    for (site, seen), gradient in zip(contexts.items(), gradients, strict=True):
        if gradient is not None:
            real = batch.queries[site.kind].real
            own = (seen.detach().double() * gradient.double()).sum(dim=-1)
            own = (own * real[..., None]).sum(dim=1)
            relevance[:, model.sites.columns(site)] = own.cpu().numpy()
    return {"relevance": relevance, "explained": top.detach().double().cpu().numpy()}


def _catcher(outputs: list[Tensor]) -> Callable[..., None]:
    """Forward hook that keeps the first tensor a model returns: its prediction."""

    def catch(module: nn.Module, args: Any, output: Any) -> None:
        while not isinstance(output, Tensor):
            output = next(iter(output.values() if isinstance(output, Mapping) else output))
        outputs.append(output)

    return catch


def _explained(model: ModelAdapter, batch: Batch, logits: Tensor) -> Tensor:
    """The number that is explained for each example, shape [B]; see `Relevance`."""
    if model.task == "regression":
        return logits.squeeze(-1)
    if model.task == "classification":
        return logits.amax(dim=-1)
    predicted = model.task in ("masked-lm", "causal-lm", "token-classification")
    scored = batch.targets != -100 if predicted else batch.queries["dec-self"].real
    return (logits.amax(dim=-1) * scored).sum(dim=1) / scored.sum(dim=1).clamp(min=1)
