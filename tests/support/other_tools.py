"""What other people's packages compute for the heads of a GPT-2; nothing here needs headtool.

``python -P tests/support/other_tools.py FOLDER IDS.npy OUT.npz`` writes it down where they are
installed: `ids` are token ids of texts of one length, [texts, tokens].
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]


def losses(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Loss of every text, summed over its tokens: [texts]."""
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none"
    ).sum(dim=1)


def attribution_patching(folder: str, ids: NDArray[np.int64]) -> dict[str, Array]:
    """Nanda's attribution patching by TransformerLens: per head, for zeros and for means."""
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_transformers(folder, device="cpu", dtype=torch.float32)
    tokens = torch.tensor(ids)
    names = [f"blocks.{layer}.attn.hook_z" for layer in range(model.cfg.n_layers)]
    clean: dict[str, torch.Tensor] = {}
    slopes: dict[str, torch.Tensor] = {}

    def keeper(found: dict[str, torch.Tensor], name: str) -> Any:
        def keep(value: torch.Tensor, hook: Any) -> None:
            found[name] = value.detach()

        return keep

    with model.hooks(
        fwd_hooks=[(name, keeper(clean, name)) for name in names],
        bwd_hooks=[(name, keeper(slopes, name)) for name in names],
    ):
        losses(model(tokens), tokens).sum().backward()
    found: dict[str, list[torch.Tensor]] = {"zero": [], "mean": []}
    for name in names:
        shape = (*tokens.shape, model.cfg.n_heads, -1)
        z, slope = clean[name].reshape(shape), slopes[name].reshape(shape)
        for baseline, other in (("zero", 0 * z), ("mean", z.mean(dim=(0, 1)).expand_as(z))):
            found[baseline].append(((other - z) * slope).sum(dim=(1, 3)).mean(dim=0))
    return {
        f"attribution {name}": torch.cat(parts).double().numpy() for name, parts in found.items()
    }


def activations(folder: str, ids: NDArray[np.int64]) -> dict[str, Array]:
    """Activation scores by the hooks of NVIDIA's Model Optimizer, L2 over a head's channels."""
    from modelopt.torch.prune.importance_hooks import base_hooks
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    heads = model.config.n_head
    attention = SimpleNamespace(num_key_value_heads=heads)
    config = {"model": model, "block_config": SimpleNamespace(attention=attention)}
    sizes, contributions = [], []
    for block in model.transformer.h:
        projection = block.attn.c_proj
        linear = torch.nn.Linear(*projection.weight.shape)
        linear.weight.data = projection.weight.data.T.contiguous()
        size = base_hooks.L2NormHook()
        contribution = base_hooks.IndependentKvHeadContributionHook(linear, config)
        sizes.append(size)
        contributions.append(contribution)

        def note(
            module: Any, args: Any, output: Any, size: Any = size, other: Any = contribution
        ) -> None:
            size(module, (args[0].transpose(0, 1),), output)  # tokens first, as there
            other(module, args, output)

        projection.register_forward_hook(note)
    with torch.no_grad():
        model(torch.tensor(ids))
    by_head = [hook.accumulate().reshape(heads, -1).norm(dim=1) for hook in sizes]
    return {
        "minitron": torch.cat(by_head).double().numpy(),
        "contribution": torch.cat([hook.accumulate() for hook in contributions]).double().numpy(),
    }


def main() -> None:
    """Write down what both packages compute."""
    folder, ids, out = sys.argv[1:]
    tokens = np.load(ids)
    np.savez(out, **attribution_patching(folder, tokens), **activations(folder, tokens))


if __name__ == "__main__":
    main()
