"""Find the attention sites of any model by watching one forward pass, and prove them right.

No family is listed. While a probe batch runs, every softmax over attention-shaped scores is noted,
and the first linear layer called after it with an input as wide
as a whole number per head is taken for the site's output projection. That guess is then *verified*:
zeroing a head's attention probabilities must zero exactly that head's slice of the projection's
input and leave the other slices as they were. A model for which this fails is refused, so no
family is silently wrong.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headtool.errors import HeadtoolError
from headtool.heads import KINDS, AttentionSite, Kind
from headtool.models.gating import Layout, SiteHandle
from headtool.models.watching import AttentionWatch

__all__ = ["Probe", "as_attention", "discover", "is_linear"]

_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "kv_heads")


@dataclass(frozen=True)
class Probe:
    """A forward pass to watch.

    Attributes
    ----------
    run
        Runs it, without gradients.
    batch
        Rows in the probe batch.
    source, target
        Query lengths of the encoder (or of the whole model) and of the decoder; the target length
        is 0 for a model without cross-attention. All three numbers must differ.
    """

    run: Callable[[], object]
    batch: int
    source: int
    target: int = 0

    @property
    def lengths(self) -> tuple[int, ...]:
        """The sequence lengths that an attention matrix of this probe can have."""
        return tuple(length for length in (self.source, self.target) if length)


@dataclass
class _Use:
    """One use of an output projection: what was seen when it was called."""

    name: str
    module: nn.Module
    owner: nn.Module
    probabilities: Tensor  # [B, H, T, S]
    projected: Tensor  # the projection's input
    layout: Layout

    @property
    def n_heads(self) -> int:
        return self.probabilities.shape[1]

    @property
    def head_dim(self) -> int:
        return self.projected.shape[-1] // self.n_heads


@dataclass
class _Recorder:
    """Pairs each attention softmax with the linear layer that follows it."""

    probe: Probe
    names: dict[nn.Module, str]
    uses: list[_Use] = field(default_factory=list)
    stack: list[nn.Module] = field(default_factory=list)
    pending: tuple[Tensor, nn.Module] | None = None

    def on_softmax(self, probabilities: Tensor) -> Tensor:
        per_head = as_attention(probabilities, self.probe)
        if per_head is not None:
            if self.pending is not None:
                raise _refusal(
                    f"{self.names[self.pending[1]]} computes attention that no linear layer projects"
                )
            self.pending = (per_head, self.stack[-1])
        elif probabilities.ndim >= 3 and any("Attention" in type(m).__name__ for m in self.stack):
            raise _refusal(
                f"{self.names[self.stack[-1]]} computes attention of the unusual shape "
                f"{tuple(probabilities.shape)}"
            )
        return probabilities

    def on_linear(self, module: nn.Module, projected: Tensor) -> None:
        if self.uses and projected is self.uses[-1].projected:
            raise _refusal(
                f"{self.names[self.uses[-1].module]} and {self.names[module]} both read the heads "
                "(an unmerged adapter? merge it into the weights first)"
            )
        if self.pending is None:
            return
        probabilities, owner = self.pending
        batch, heads, queries = probabilities.shape[:3]
        layout = _layout(projected, batch, queries)
        if layout is None or projected.shape[-1] % heads:
            raise _refusal(
                f"{self.names[module]} follows the attention of {self.names[owner]} "
                f"but reads shape {tuple(projected.shape)}"
            )
        self.pending = None
        self.uses.append(
            _Use(self.names[module], module, owner, probabilities, projected, layout)
        )


def discover(model: nn.Module, probe: Probe) -> tuple[SiteHandle, ...]:
    """Find and verify the attention sites of `model`, in canonical order.

    Parameters
    ----------
    model
        In evaluation mode.
    probe
        A forward pass on a small batch.

    Raises
    ------
    HeadtoolError
        If the model's attention cannot be reached head by head.
    """
    names = {module: name or type(model).__name__ for name, module in model.named_modules()}
    recorder = _Recorder(probe, names)
    with _watch_modules(model, recorder), AttentionWatch(recorder.on_softmax), torch.no_grad():
        probe.run()
    if recorder.pending is not None:
        raise _refusal(f"nothing projects the attention of {names[recorder.pending[1]]}")
    if not recorder.uses:
        raise _refusal(f"a forward pass of {type(model).__name__} shows no softmax attention")
    _verify(recorder.uses, probe)
    return _number(recorder.uses, probe)


def as_attention(probabilities: Tensor, probe: Probe) -> Tensor | None:
    """View softmax results as [B, H, T, S], or None where they are not attention of this probe."""
    if probabilities.ndim == 3 and probabilities.shape[0] % probe.batch == 0:
        probabilities = probabilities.view(probe.batch, -1, *probabilities.shape[1:])
    if probabilities.ndim != 4 or probabilities.shape[0] != probe.batch:
        return None
    queries, keys = probabilities.shape[2:]
    return probabilities if queries in probe.lengths and keys in probe.lengths else None


def _layout(projected: Tensor, batch: int, queries: int) -> Layout | None:
    if projected.shape[:-1] == (batch, queries):
        return "batch-first"
    if projected.shape[:-1] == (queries, batch):
        return "time-first"
    if projected.shape[:-1] == (batch * queries,):
        return "flat"
    return None


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a linear map of its input's last axis (GPT-2 has its own class)."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


@contextlib.contextmanager
def _watch_modules(model: nn.Module, recorder: _Recorder) -> Iterator[None]:
    """Keep the stack of running modules, and report linear layers to the recorder."""

    def enter(module: nn.Module, args: tuple[Any, ...]) -> None:
        if is_linear(module):
            recorder.on_linear(module, args[0])
        recorder.stack.append(module)

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        recorder.stack.pop()

    with contextlib.ExitStack() as stack:
        for module in model.modules():
            stack.callback(module.register_forward_pre_hook(enter).remove)
            stack.callback(module.register_forward_hook(leave).remove)
        yield


def _verify(uses: list[_Use], probe: Probe) -> None:
    """Check that head h's probabilities reach slice h of the projection's input, and nothing else.

    Heads are told apart by the bits of their index, so ``2 log2(H)`` passes do. Every projection
    is given its original input back, so that each site is tested on its own.
    """
    widest = max(use.n_heads for use in uses)
    bits = max(1, (widest - 1).bit_length())
    for bit in range(bits):
        for value in (0, 1):
            _verify_pattern(uses, probe, lambda head, b=bit, v=value: (head >> b) & 1 == v)


def _verify_pattern(uses: list[_Use], probe: Probe, is_open: Callable[[int], bool]) -> None:
    expected = iter(uses)
    current: list[_Use] = []

    def keep(use: _Use) -> Tensor:
        return torch.tensor([is_open(head) for head in range(use.n_heads)], device=use.projected.device)

    def on_softmax(probabilities: Tensor) -> Tensor:
        per_head = as_attention(probabilities, probe)
        if per_head is None:
            return probabilities
        use = next(expected)
        current.append(use)
        gated = per_head * keep(use).to(per_head.dtype)[:, None, None]
        return gated.view(probabilities.shape)

    def on_projection(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if not current or current[-1].module is not module:
            return None
        use = current.pop()
        shape = (*use.projected.shape[:-1], use.n_heads, use.head_dim)
        wanted = use.projected.view(shape) * keep(use).to(use.projected.dtype)[:, None]
        if not torch.allclose(args[0].view(shape), wanted, rtol=1e-3, atol=1e-5):
            raise _refusal(f"the input of {use.name} is not the heads' outputs side by side")
        return (use.projected, *args[1:])

    with contextlib.ExitStack() as stack:
        for module in {use.module for use in uses}:
            stack.callback(module.register_forward_pre_hook(on_projection).remove)
        stack.enter_context(AttentionWatch(on_softmax))
        stack.enter_context(torch.no_grad())
        probe.run()


def _number(uses: list[_Use], probe: Probe) -> tuple[SiteHandle, ...]:
    """Give each use its kind and layer."""
    by_kind: dict[Kind, list[_Use]] = {kind: [] for kind in KINDS}
    for use in uses:
        by_kind[_kind(use, probe)].append(use)
    calls: dict[nn.Module, list[_Use]] = {}
    for use in uses:
        calls.setdefault(use.module, []).append(use)
    handles = []
    for kind, members in by_kind.items():
        for layer, use in zip(_layers(members), members, strict=True):
            site = AttentionSite(
                kind=kind,
                layer=layer,
                n_heads=use.n_heads,
                n_kv_heads=_kv_heads(use.owner, use.n_heads),
                head_dim=use.head_dim,
                projection=use.name,
            )
            same = calls[use.module]
            call = next(i for i, other in enumerate(same) if other is use)
            handles.append(SiteHandle(site, use.module, use.layout, call, len(same)))
    return tuple(handles)


def _kind(use: _Use, probe: Probe) -> Kind:
    queries, keys = use.probabilities.shape[2:]
    if queries != keys:
        return "cross"
    if probe.target:
        return "dec-self" if queries == probe.target else "enc-self"
    # A decoder-only model is told from an encoder by what its queries cannot see.
    ahead = torch.triu(torch.ones(queries, keys, dtype=torch.bool), diagonal=1)
    causal = bool((use.probabilities[..., ahead.to(use.probabilities.device)] == 0).all())
    return "dec-self" if causal else "enc-self"


def _layers(uses: list[_Use]) -> list[int]:
    """Layer numbers from the module names where those tell layers apart, else by order of calls.

    A hybrid model attends in some layers only, and its layers keep their own numbers.
    """
    numbers = [re.findall(r"\.(\d+)(?=\.)", f".{use.name}.") for use in uses]
    if all(numbers):
        first = [int(found[0]) for found in numbers]
        if first == sorted(set(first)):
            return first
    return list(range(len(uses)))


def _kv_heads(owner: nn.Module, n_heads: int) -> int:
    groups = getattr(owner, "num_key_value_groups", None)
    if isinstance(groups, int) and groups > 0 and n_heads % groups == 0:
        return n_heads // groups
    for name in _KV_HEADS:
        count = getattr(owner, name, None)
        if isinstance(count, int) and 0 < count <= n_heads and n_heads % count == 0:
            return count
    return n_heads


def _refusal(reason: str) -> HeadtoolError:
    return HeadtoolError(f"this model's heads cannot be reached one by one: {reason}")
