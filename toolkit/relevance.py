"""Layer-wise relevance propagation for any model: gradients times inputs, under changed gradients.

For a linear layer, the epsilon rule with a vanishing epsilon is gradient times input. So a backward
pass propagates relevance through a whole model once the rest of it is made to pass gradients on by
the rules of AttnLRP (Achtibat et al. 2024). They are applied to functions, not to families:

- layer and RMS norms: the scale that they divide by is a constant;
- activation functions: the identity rule, all relevance goes to the one input;
- products of two signals (queries and keys, attention and values, gates): half to each;
- softmax: its gradient, which is the Taylor rule; its offset keeps the rest (the leak).

With ``conservative`` attention weights are constants instead (Ali et al. 2022): values get all the
relevance, and none leaks. Biases always keep their share. Functions not named here pass on their
gradient.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headtool.differentiation import frozen
from headtool.evaluation import finite_forward
from headtool.heads import AttentionSite
from headtool.models.base import Batch, Examples, ModelAdapter
from headtool.models.watching import explicit_attention
from headtool.progress import Progress, silent

__all__ = ["RULES", "Relevance", "propagate", "relevance_rules"]

RULES = ("attnlrp", "conservative")

_PRODUCTS = {
    torch.matmul,
    torch.Tensor.matmul,
    torch.Tensor.__matmul__,
    torch.bmm,
    torch.Tensor.bmm,
    torch.mul,
    torch.multiply,
    torch.Tensor.mul,
    torch.Tensor.__mul__,
    torch.Tensor.__rmul__,
}
_ADDED_PRODUCTS = {torch.baddbmm, torch.Tensor.baddbmm}
_FACTORS = ("batch1", "batch2")
_SOFTMAX = {
    torch.softmax,
    torch.special.softmax,
    torch.nn.functional.softmax,
    torch.Tensor.softmax,
}
_ACTIVATIONS = {
    torch.nn.functional.gelu,
    torch.nn.functional.silu,
    torch.nn.functional.relu,
    torch.relu,
    torch.tanh,
    torch.Tensor.tanh,
}
_ACTIVATION_NAME = re.compile("gelu|silu|relu|tanh|swish|mish|activation", re.IGNORECASE)


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
    model: ModelAdapter, examples: Examples, *, rule: str = "attnlrp", progress: Progress = silent
) -> Relevance:
    """Propagate each prediction back to the heads' outputs, one backward pass a batch.

    Parameters
    ----------
    model, examples
        The model and its data set. A translation model reads the reference up to each token.
    rule
        One of `RULES`.
    progress
        Reports progress.
    """
    relevance = np.zeros((len(examples), model.sites.n_heads))
    explained = np.zeros(len(examples))
    batches = examples.batches()
    with frozen(model.module):
        for index in progress(batches, total=len(batches), label="relevance"):
            batch = model.collate(examples, index)
            contexts: dict[AttentionSite, Tensor] = {}

            def keep(
                site: AttentionSite, seen: Tensor, contexts: dict[AttentionSite, Tensor] = contexts
            ) -> Tensor:
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
                    finite_forward(model, batch, examples)
            finally:
                hook.remove()
            top = _explained(model, batch, outputs[-1])
            gradients = torch.autograd.grad(top.sum(), list(contexts.values()), allow_unused=True)
            explained[index] = top.detach().double().cpu().numpy()
            for (site, seen), gradient in zip(contexts.items(), gradients, strict=True):
                if gradient is not None:
                    real = batch.queries[site.kind].real
                    own = (seen.detach().double() * gradient.double()).sum(dim=-1)
                    own = (own * real[..., None]).sum(dim=1)
                    relevance[index, model.sites.columns(site)] = own.cpu().numpy()
    return Relevance(relevance, explained)


def _catcher(outputs: list[Tensor]) -> Callable[..., None]:
    """Forward hook that keeps the first tensor a model returns: its prediction."""

    def catch(module: nn.Module, args: Any, output: Any) -> None:
        while not isinstance(output, Tensor):
            output = next(iter(output.values() if isinstance(output, Mapping) else output))
        outputs.append(output)

    return catch


def _explained(model: ModelAdapter, batch: Batch, logits: Tensor) -> Tensor:
    """What is explained of each example, [B]; see `Relevance`."""
    if model.task == "regression":
        return logits.squeeze(-1)
    if model.task == "classification":
        return logits.amax(dim=-1)
    masked = model.task == "masked-lm"
    scored = batch.targets != -100 if masked else batch.queries["dec-self"].real
    if model.task == "causal-lm":
        logits, scored = logits[:, :-1], scored[:, 1:]
    return (logits.amax(dim=-1) * scored).sum(dim=1) / scored.sum(dim=1).clamp(min=1)


@contextlib.contextmanager
def relevance_rules(module: nn.Module, rule: str = "attnlrp") -> Iterator[None]:
    """Let forward passes inside build a graph whose gradients, times inputs, are relevances.

    Values stay what they are, up to rounding. Gradients of weights mean nothing here.
    """
    with contextlib.ExitStack() as stack:
        for part in module.modules():
            if isinstance(part, nn.Embedding):
                stack.callback(part.register_forward_hook(_start).remove)
            elif _is_activation(part):
                stack.callback(part.register_forward_hook(_identity_hook).remove)
        stack.enter_context(_Rules(rule))
        yield


def _is_activation(module: nn.Module) -> bool:
    """Whether a module is an activation function, which may be made up of many functions."""
    leaf = not list(module.children()) and not list(module.parameters())
    return leaf and _ACTIVATION_NAME.search(type(module).__name__) is not None


def _start(module: nn.Module, args: Any, output: Tensor) -> Tensor:
    """Mark what depends on the input: in a product, only signals share relevance."""
    return output if output.requires_grad else output.detach().requires_grad_()


def _identity_hook(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
    return _identity_rule(args[0], output)


class _Rules(TorchFunctionMode):
    """Changes what functions pass on backwards; see the module's docstring."""

    def __init__(self, rule: str) -> None:
        super().__init__()
        self.constant_attention = rule == "conservative"

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            with self:
                return explicit_attention(*args, **kwargs, on_softmax=lambda weights: weights)
        if func is torch.nn.functional.layer_norm:
            return _layer_norm(func(*args, **kwargs), *args, **kwargs)
        if func is torch.nn.functional.rms_norm:
            return _rms_norm(func(*args, **kwargs), *args, **kwargs)
        if func in (torch.rsqrt, torch.Tensor.rsqrt):
            return func(*args, **kwargs).detach()
        if func in _PRODUCTS and all(_is_signal(arg) for arg in args[:2]) and len(args) > 1:
            return func(*map(_halved, args[:2]), *args[2:], **kwargs)
        if func in _ADDED_PRODUCTS:
            added, first, second = (*args, *(kwargs.pop(n) for n in _FACTORS if n in kwargs))
            if _is_signal(first) and _is_signal(second):
                first, second = _halved(first), _halved(second)
            return func(added, first, second, **kwargs)
        result = func(*args, **kwargs)
        if func in _SOFTMAX and self.constant_attention:
            return result.detach()
        if func in _ACTIVATIONS and _is_signal(args[0]):
            return _identity_rule(args[0], result)
        return result


def _is_signal(value: Any) -> bool:
    """Whether a value depends on the input; weights are frozen."""
    return isinstance(value, Tensor) and value.requires_grad


class _Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] / 2


def _halved(value: Tensor) -> Tensor:
    return cast(Tensor, _Halve.apply(value))  # type: ignore[no-untyped-call]


def _identity_rule(given: Tensor, result: Tensor) -> Tensor:
    """The result as a multiple of what was given, elementwise; zero given keeps no relevance."""
    safe = torch.where(given == 0, torch.ones_like(given), given)
    ratio = torch.where(given == 0, torch.zeros_like(given), result / safe).detach()
    return _with_value(given * ratio, result)


def _layer_norm(
    value: Tensor,
    given: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """The norm's value, with the gradient that it has if its scale is a constant."""
    axes = tuple(range(-len(normalized_shape), 0))
    centred = given - given.mean(dim=axes, keepdim=True)
    scale = (centred.detach().square().mean(dim=axes, keepdim=True) + eps).rsqrt()
    return _with_value(centred * scale * (1.0 if weight is None else weight), value)


def _rms_norm(
    value: Tensor,
    given: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    axes = tuple(range(-len(normalized_shape), 0))
    eps = torch.finfo(given.dtype).eps if eps is None else eps
    scale = (given.detach().square().mean(dim=axes, keepdim=True) + eps).rsqrt()
    return _with_value(given * scale * (1.0 if weight is None else weight), value)


def _with_value(carrier: Tensor, value: Tensor) -> Tensor:
    """Give a tensor another value; its gradient stays."""
    return carrier + (value - carrier).detach()
