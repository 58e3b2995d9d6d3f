"""Train a pruned model for some steps, so that the heads that stay make up for those that went."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from headtool.attention.discovery import is_linear
from headtool.attention.gating import Gating
from headtool.attention.weights import check_trainable
from headtool.errors import HeadtoolError
from headtool.experiments.recovery import Recovery
from headtool.methods.training import loss_per_token, shuffled, training
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import Progress, counted, silent

__all__ = ["recover"]

_WARMUP, _DECAY, _CLIP = 0.1, 0.01, 1.0


def recover(
    model: ModelAdapter,
    examples: Examples,
    how: Recovery,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> ModelAdapter:
    """Train a model on its task's loss.

    Parameters
    ----------
    model
        The model, whose module is trained and must not be used for anything else.
    examples
        What to train on.
    how
        How.
    seed
        Seed of batches, dropout and low-rank updates.
    progress
        Reports progress.

    Returns
    -------
    ModelAdapter
        The trained model, of the same shapes and in the same precision.

    Raises
    ------
    HeadtoolError
        If the loss is no number, or `lora` does not work for such a model.

    References
    ----------
    Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", for `lora`.
    """
    module = model.module
    names = [name for name, _ in module.named_parameters()]
    check_trainable(module, names, spec=model.spec, what="`finetune`")
    precision = next(module.parameters()).dtype
    if precision in (torch.float16, torch.bfloat16):
        module.float()  # steps of fine-tuning are too small for half precision
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        weights = _inject(model) if how.lora else list(module.parameters())
    rising = max(1, round(_WARMUP * how.steps))

    def share(step: int) -> float:
        return min((step + 1) / rising, (how.steps - step) / max(1, how.steps - rising))

    adam = torch.optim.AdamW(weights, lr=how.rate, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, share)
    batches = shuffled(len(examples), how.batch_size, seed)
    with training(module, weights, seed=seed):
        steps = zip(range(how.steps), batches, strict=False)
        shown = counted(
            progress,
            steps,
            total=how.steps,
            label="fine-tune",
            work=lambda item: 3.0 * examples.lengths[item[1]].sum(),
        )
        for _, index in shown:
            loss = loss_per_token(model, examples, index, Gating({}), label_smoothing=0.0)
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(weights, _CLIP)
            adam.step()
            schedule.step()
    if how.lora:
        _merge(module)
    module.to(precision)
    return model.with_module(module)


def _inject(model: ModelAdapter) -> list[nn.Parameter]:
    """Put low-rank updates beside the linear layers; return their weights."""
    try:
        import peft
    except ImportError as error:
        raise HeadtoolError(
            "`lora` needs peft, which is not installed: pip install headtool[lora]"
        ) from error
    names = list(_adaptable(model))
    if not names or model.library == "fairseq":
        raise HeadtoolError(
            f"`lora` is not for {model.library} models, whose attention reads its weights past "
            "their layers; leave `lora` out, so that all weights are trained"
        )
    config = peft.LoraConfig(r=8, lora_alpha=16, target_modules=names)
    module: Any = model.module
    peft.inject_adapter_in_model(config, module)
    return [weight for name, weight in module.named_parameters() if ".lora_" in name]


def _adaptable(model: ModelAdapter) -> Iterator[str]:
    """Names of the linear layers whose weights are theirs alone, and no repeated ones."""
    uses: dict[int, int] = {}
    for part in model.module.modules():
        for weight in part.parameters(recurse=False):
            uses[id(weight)] = uses.get(id(weight), 0) + 1
    for name, part in model.module.named_modules():
        plain = type(part) is nn.Linear or type(part).__name__ == "Conv1D"
        if plain and is_linear(part) and uses[id(part.weight)] == 1:
            yield name


def _merge(module: nn.Module) -> None:
    """Add the low-rank updates to the weights, and leave the model as it was before them."""
    from peft.tuners.lora import LoraLayer

    for name, part in list(module.named_modules()):
        if isinstance(part, LoraLayer):
            merged: Any = part
            merged.merge()
            module.set_submodule(name, merged.get_base_layer())
    if hasattr(module, "peft_config"):
        del module.peft_config
