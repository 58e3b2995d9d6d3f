"""Rules of layer-wise relevance propagation, as changed gradients that are taken times inputs.

For a linear layer, the epsilon rule with a vanishing epsilon is gradient times input. So a backward
pass propagates relevance through a whole model once the rest of it is made to pass gradients on by
the rules of AttnLRP (Achtibat et al. 2024). They are applied to functions, not to families:

- layer and RMS norms: the scale that they divide by is a constant;
- activation functions: the identity rule, all relevance goes to the one input;
- products of two signals (queries and keys, attention and values, gates): half to each;
- softmax: its gradient, which is the Taylor rule; its offset keeps the rest (the leak).

With ``conservative`` attention weights are constants instead (Ali et al. 2022): values get all the
relevance, and none leaks. Biases always keep their share. Functions not named here keep their
gradient.

``alpha-beta`` is the rule of Bach et al. 2015, eq. 60, with alpha = beta = 1/2, as Voita et al.
2019 have it. In a linear layer, in a sum of signals and in the weighted sum of the values, half of
an output's relevance goes to its positive contributions and half to the negative ones, each by
size, so that relevance keeps its sign and never exceeds what came in:

    R_i = sum_j (z+_ij / 2 sum_i z+_ij + z-_ij / 2 sum_i z-_ij) R_j,    z_ij = x_i w_ij

Where all contributions have one sign they get all. Attention weights are constants, norms follow
the identity rule, the rest is as above; nothing leaks. The released code of Voita et al. differs:
it rescales relevances to their former sum after every step (its epsilon of 1e-5, and half of the
relevance where there is one sign only, would be lost), spreads biases evenly over the inputs, takes
norms by their Jacobian, and attention by the Jacobian over queries, keys and values together unless
``consider_attn_constant`` is set, as it is here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headtool.attention.watching import explicit_attention

__all__ = ["RULES", "relevance_rules"]

RULES = ("attnlrp", "conservative", "alpha-beta")

_MATRIX_PRODUCTS = {
    torch.matmul,
    torch.Tensor.matmul,
    torch.Tensor.__matmul__,
    torch.bmm,
    torch.Tensor.bmm,
}
_ADDED_PRODUCTS = {torch.baddbmm, torch.Tensor.baddbmm}
_ELEMENTWISE = {
    torch.mul,
    torch.multiply,
    torch.Tensor.mul,
    torch.Tensor.__mul__,
    torch.Tensor.__rmul__,
}
_PRODUCTS = _MATRIX_PRODUCTS | _ELEMENTWISE
_SUMS = {
    torch.add,
    torch.Tensor.add,
    torch.Tensor.__add__,
    torch.Tensor.__radd__,
}
_ADDED_PRODUCT = {torch.addmm, torch.Tensor.addmm}
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
_ROUNDING = 1e-6  # contributions of one sign that are less, beside those of the other, are none


@contextlib.contextmanager
def relevance_rules(module: nn.Module, rule: str = "attnlrp") -> Iterator[None]:
    """Change gradients inside the context so that gradient times input is relevance.

    The values of forward passes do not change, up to rounding. Gradients of weights mean nothing
    here.

    Parameters
    ----------
    module
        The model whose forward passes run inside the context.
    rule
        One of `RULES`; see the module's docstring.
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
        self.constant_attention = rule != "attnlrp"
        self.alpha_beta = rule == "alpha-beta"

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            with self:
                return explicit_attention(*args, **kwargs, on_softmax=lambda weights: weights)
        if self.alpha_beta:
            if (found := _linear_map(func, args, kwargs)) is not None:
                return _AlphaBeta.apply(found[0], *found[1])  # type: ignore[no-untyped-call]
            if func is torch.Tensor.add_ and len(args) == 2 and all(map(_is_signal, args)):  # +=
                with self:
                    return args[0].copy_(args[0].clone() + args[1])
            if func is torch.nn.functional.layer_norm:
                return _identity_rule(args[0], func(*args, **kwargs))
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


@dataclass(frozen=True)
class _LinearMap:
    """A function of signals that is linear in them, apart from a bias.

    Attributes
    ----------
    function
        The map without its bias, of the signals and the constant if there is one.
    constant
        What the signals are multiplied with; None for a sum.
    bias
        Added to the result.
    """

    function: Callable[..., Tensor]
    constant: Tensor | None = None
    bias: Tensor | None = None

    def value(self, signals: Sequence[Tensor]) -> Tensor:
        constants = () if self.constant is None else (self.constant,)
        plain = self.function(*signals, *constants)
        return plain if self.bias is None else plain + self.bias

    def contributions(self, signals: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Sums of the positive and of the negative contributions, bias left out."""
        above = [signal.clamp(min=0) for signal in signals]
        below = [signal.clamp(max=0) for signal in signals]
        if self.constant is None:
            return self.function(*above), self.function(*below)
        plus, minus = self.constant.clamp(min=0), self.constant.clamp(max=0)
        return (
            self.function(*above, plus) + self.function(*below, minus),
            self.function(*above, minus) + self.function(*below, plus),
        )


def _linear_map(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[_LinearMap, tuple[Tensor, ...]] | None:
    """See a call as a linear map of signals, where contributions can have both signs."""
    linear = torch.nn.functional.linear
    if func is linear:
        named = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
        found = (named["input"], named["weight"], linear, named.get("bias"))
    elif func in _ADDED_PRODUCT and len(args) == 3 and not kwargs:
        found = (args[1], args[2], torch.matmul, args[0])
    elif func in _MATRIX_PRODUCTS and len(args) == 2 and not kwargs:
        if _is_signal(args[0]):
            found = (args[0], args[1], func, None)
        else:
            found = (args[1], args[0], lambda given, constant: func(constant, given), None)
    elif func in _SUMS and len(args) == 2 and not kwargs and all(map(_is_signal, args)):
        return _LinearMap(torch.add), args
    else:
        return None
    given, constant, function, bias = found
    if not _is_signal(given) or _is_signal(constant):
        return None
    return _LinearMap(function, constant, bias), (given,)


class _AlphaBeta(torch.autograd.Function):
    """A linear map whose gradient, times its inputs, is their relevance by the alpha-beta rule.

    The contributions are computed again backwards instead of being kept: those to the logits of a
    large vocabulary take several times the logits' memory.
    """

    @staticmethod
    def forward(ctx: Any, linear: _LinearMap, *signals: Tensor) -> Tensor:
        ctx.linear = linear
        ctx.save_for_backward(*signals)
        return linear.value(signals)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        with torch.enable_grad():
            inputs = [signal.detach().requires_grad_() for signal in ctx.saved_tensors]
            parts = ctx.linear.contributions(inputs)
        above, below = (part.detach() for part in parts)
        if ctx.linear.bias is not None:
            above = above + ctx.linear.bias.clamp(min=0)
            below = below + ctx.linear.bias.clamp(max=0)
        least = _ROUNDING * (above - below)
        positive, negative = above > least, -below > least
        relevance = gradients[0] * (above + below) * torch.where(positive & negative, 0.5, 1.0)
        passed_on = (
            torch.where(positive, relevance / above, 0.0),
            torch.where(negative, relevance / below, 0.0),
        )
        return None, *torch.autograd.grad(parts, inputs, passed_on)


def _with_value(carrier: Tensor, value: Tensor) -> Tensor:
    """Give a tensor another value; its gradient stays."""
    return carrier + (value - carrier).detach()
