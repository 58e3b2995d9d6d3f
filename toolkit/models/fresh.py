"""Models of the same configuration with weights drawn anew, as before any training."""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from headtool.models.fairseq import FairseqModel

__all__ = ["fresh_fairseq", "fresh_huggingface"]

# What the libraries raise for a configuration that does not make a model.
_FAILURES = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def fresh_huggingface(module: nn.Module, *, seed: int, spec: str) -> nn.Module:
    """Build a transformers model of a module's class and configuration.

    Parameters
    ----------
    module
        The model, which may be pruned; left as it is.
    seed
        Seed of the weights.
    spec
        What to call it in messages.

    Raises
    ------
    HeadtoolError
        If that does not give a model with weights of the same names and shapes.
    """

    def build() -> nn.Module:
        from headtool.pruning.loading import pruned_class

        original: Any = module
        kind: Any = pruned_class(original.config, spec) or type(module)
        built: Any = kind(copy.deepcopy(original.config))
        if hasattr(original, "generation_config"):  # how it decodes is no matter of weights
            built.generation_config = copy.deepcopy(original.generation_config)
        return built  # type: ignore[no-any-return]

    return _fresh(module, build, seed=seed, spec=spec)


def fresh_fairseq(model: FairseqModel, *, seed: int) -> nn.Module:
    """Build a fairseq transformer from the options that its checkpoint records.

    Parameters
    ----------
    model
        The model, which may be pruned; left as it is.
    seed
        Seed of the weights.

    Raises
    ------
    HeadtoolError
        If that does not give a model with weights of the same names and shapes.
    """
    module: Any = model.module

    def build() -> nn.Module:
        from headtool.models.fairseq_parts import silence
        from headtool.pruning.models import History, record_history
        from headtool.pruning.plan import Plan, carry_out

        with silence():
            from fairseq.models.transformer import TransformerModel

            # Building completes the options in place.
            options = Namespace(**module.architecture)
            task = Namespace(
                source_dictionary=model.source_dictionary,
                target_dictionary=model.target_dictionary,
            )
            built: nn.Module = TransformerModel.build_model(options, task)
        vars(built)["architecture"] = dict(module.architecture)
        history = History.of(model)
        for step in history.steps:
            carry_out(Plan.from_json(step), built)
        if history.steps:
            record_history(built, history)
        return built

    return _fresh(module, build, seed=seed, spec=model.spec)


def _fresh(module: nn.Module, build: Callable[[], nn.Module], *, seed: int, spec: str) -> nn.Module:
    """Build a like module from a seed, and check that it is one."""
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            built = build()
    except _FAILURES as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise _refusal(spec, reason[:200]) from error
    found, wanted = _shapes(built), _shapes(module)
    different = sorted(
        name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)
    )
    if different:
        name = different[0]
        raise _refusal(
            spec,
            f"{name} would be {found.get(name, 'missing')}, and is {wanted.get(name, 'missing')}",
        )
    like = dict(module.named_parameters()) | dict(module.named_buffers())
    for name, tensor in [*built.named_parameters(), *built.named_buffers()]:
        if name in like:
            tensor.data = tensor.data.to(like[name])
    return built.eval()


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in module.state_dict().items()}


def _refusal(spec: str, reason: str) -> HeadtoolError:
    return HeadtoolError(
        f"{spec} cannot be built anew from its configuration, so nothing can be trained from "
        f"scratch ({reason})"
    )
