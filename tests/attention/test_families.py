"""Parity on every supported family: gating a head is exact, and leaves no trace."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headtool.attention.discovery import discover
from headtool.attention.gating import Gating, SiteHandle, intercept
from headtool.attention.watching import AttentionWatch
from headtool.heads import AttentionSite

from ..support.families import FAMILIES, PADDED, SOURCE, Family, Layers, TrueFloat64, inputs, probe

Gates = dict[AttentionSite, Tensor]


@dataclass(frozen=True)
class Subject:
    """A model of one family, as it is and in double precision."""

    family: Family
    model: Any
    handles: Sequence[SiteHandle]
    double: Any
    double_handles: Sequence[SiteHandle]


@pytest.fixture(scope="module", params=FAMILIES)
def subject(request: pytest.FixtureRequest) -> Subject:
    family = FAMILIES[request.param]
    model = family.model()
    handles = discover(model, probe(model))
    double = copy.deepcopy(model).double()
    return Subject(family, model, handles, double, discover(double, probe(double)))


@contextlib.contextmanager
def gated(handles: Sequence[SiteHandle], gates: Mapping[AttentionSite, Tensor]) -> Iterator[None]:
    batch = next((len(gate) for gate in gates.values() if gate.ndim == 2), 2)
    with intercept(handles, Gating(gates), batch=batch):
        yield


def logits(model: nn.Module, arguments: Mapping[str, Tensor]) -> Tensor:
    with TrueFloat64():
        return model(**arguments).logits


def losses(model: Any, arguments: Mapping[str, Tensor]) -> Tensor:
    """Some function of each example's real outputs, [B]."""
    result = logits(model, arguments)
    weights = torch.randn(result.shape[1:], generator=torch.Generator().manual_seed(2)).to(result)
    if result.ndim == 3 and not model.config.is_encoder_decoder:
        result = result * arguments["attention_mask"][..., None]
    return (result * weights).flatten(1).sum(dim=1)


def random_gates(handles: Sequence[SiteHandle], *rows: int) -> Gates:
    generator = torch.Generator().manual_seed(3)
    return {
        handle.site: 0.2
        + torch.rand(*rows, handle.site.n_heads, generator=generator, dtype=torch.float64)
        for handle in handles
    }


def attention(
    model: nn.Module, handles: Sequence[SiteHandle], arguments: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], Tensor]:
    """Attention probabilities by site, and the logits, as they are under `AttentionWatch`."""
    latest: list[Tensor] = []
    found: dict[str, Tensor] = {}

    def note(probabilities: Tensor) -> Tensor:
        latest[:] = [probabilities]
        return probabilities

    def keep(site: AttentionSite, contexts: Tensor) -> None:
        shape = (len(contexts), site.n_heads, contexts.shape[1], -1)
        found[str(site)] = latest.pop().reshape(shape)

    with torch.no_grad(), AttentionWatch(note), intercept(handles, keep, batch=2):
        return found, logits(model, arguments)


def layers(handles: Sequence[SiteHandle]) -> Layers:
    found: Layers = {}
    for site in (handle.site for handle in handles):
        found.setdefault(site.kind, {})[site.layer] = (site.n_heads, site.n_kv_heads, site.head_dim)
    return found


def test_sites_are_those_of_the_architecture(subject: Subject) -> None:
    for handles in (subject.handles, subject.double_handles):
        assert layers(handles) == subject.family.layers
        named = dict(subject.model.named_modules())
        assert all(handle.site.projection in named for handle in handles)


@pytest.mark.parametrize("rows", [(), (2,)], ids=["shared", "per example"])
def test_gates_of_one_change_no_bit(subject: Subject, rows: tuple[int, ...]) -> None:
    arguments = inputs(subject.model, padded=True)
    gates = {h.site: torch.ones(*rows, h.site.n_heads) for h in subject.handles}
    with torch.no_grad():
        plain = subject.model(**arguments).logits
        with gated(subject.handles, gates):
            assert torch.equal(subject.model(**arguments).logits, plain)


def test_masking_equals_zeroing_columns_of_the_projection(subject: Subject) -> None:
    """Every head of every site, each masked in a row of its own."""
    model, handles = subject.double, subject.double_handles
    untied, reference_handles = model, handles
    if subject.family.untied is not None:
        untied = subject.family.untied(model)
        reference_handles = discover(untied, probe(untied))
    places = [(site, head) for site in sites_of(handles) for head in range(site.n_heads)]
    gates = {site: torch.ones(len(places), site.n_heads) for site in sites_of(handles)}
    for row, (site, head) in enumerate(places):
        gates[site][row, head] = 0
    arguments = example(inputs(model, padded=True), 1)
    with torch.no_grad():
        whole = losses(model, arguments)
        with gated(handles, gates):
            masked = losses(model, repeated(arguments, len(places)))
        wanted = []
        for (site, head), handle in zip(places, per_head(reference_handles), strict=True):
            assert (site.kind, site.layer) == (handle.site.kind, handle.site.layer)
            with zeroed_columns(handle, head):
                wanted.append(losses(untied, arguments))
    torch.testing.assert_close(masked, torch.cat(wanted), rtol=1e-10, atol=1e-10)
    assert ((masked - whole).abs() > 1e-6).all()


def sites_of(handles: Sequence[SiteHandle]) -> list[AttentionSite]:
    return [handle.site for handle in handles]


def per_head(handles: Sequence[SiteHandle]) -> list[SiteHandle]:
    return [handle for handle in handles for _ in range(handle.site.n_heads)]


def example(arguments: Mapping[str, Tensor], row: int) -> dict[str, Tensor]:
    return {name: tensor[row : row + 1] for name, tensor in arguments.items()}


def repeated(arguments: Mapping[str, Tensor], times: int) -> dict[str, Tensor]:
    """A batch of one example as a batch of many."""
    return {name: tensor.repeat_interleave(times, 0) for name, tensor in arguments.items()}


@contextlib.contextmanager
def zeroed_columns(handle: SiteHandle, head: int) -> Iterator[None]:
    weight = handle.module.get_parameter("weight")
    width = handle.site.head_dim
    columns = slice(head * width, (head + 1) * width)
    saved = weight.detach().clone()
    # A Conv1D keeps its weight the other way round.
    by_input = weight if type(handle.module).__name__ == "Conv1D" else weight.T
    by_input[columns] = 0
    try:
        yield
    finally:
        weight.copy_(saved)


def test_gated_examples_equal_single_runs_without_padding(subject: Subject) -> None:
    """Each example has gates of its own, and the second one is padded."""
    model, handles = subject.double, subject.double_handles
    arguments = inputs(model, padded=True)
    gates = random_gates(handles, 2)
    with torch.no_grad():
        with gated(handles, gates):
            together = logits(model, arguments)
        for row in range(2):
            alone = example(arguments, row)
            if row == 1 and "input_ids" in alone:
                for name in ("input_ids", "attention_mask"):
                    alone[name] = alone[name][:, : SOURCE - PADDED]
            with gated(handles, {site: gate[row : row + 1] for site, gate in gates.items()}):
                single = logits(model, alone)
            real = together[row : row + 1]
            if real.ndim == 3:
                real = real[:, : single.shape[1]]
            torch.testing.assert_close(real, single, rtol=1e-9, atol=1e-9)


def test_gradients_equal_finite_differences(subject: Subject) -> None:
    """For gates of each example, one by one; the differences run as rows of a batch."""
    model, handles = subject.double, subject.double_handles
    arguments = inputs(model, padded=True)
    gates = random_gates(handles, 2)
    exact = torch.cat(gate_gradients(model, handles, arguments, gates), dim=1)
    n_heads, step = exact.shape[1], 1e-5
    moves = torch.cat([torch.eye(n_heads), -torch.eye(n_heads)]).to(exact) * step
    for row in range(2):
        by_site = moves.split([site.n_heads for site in gates], dim=1)
        moved = {
            site: gate[row] + move
            for (site, gate), move in zip(gates.items(), by_site, strict=True)
        }
        with torch.no_grad(), gated(handles, moved):
            up, down = losses(model, repeated(example(arguments, row), 2 * n_heads)).chunk(2)
        torch.testing.assert_close(exact[row], (up - down) / (2 * step), rtol=1e-5, atol=1e-7)


def test_gradients_of_shared_gates_equal_finite_differences(subject: Subject) -> None:
    """In one direction across all sites."""
    model, handles = subject.double, subject.double_handles
    arguments = inputs(model, padded=True)
    gates = random_gates(handles)
    exact = gate_gradients(model, handles, arguments, gates)
    generator = torch.Generator().manual_seed(4)
    direction = [torch.randn(gate.shape, generator=generator).double() for gate in gates.values()]
    step = 1e-5

    def moved(by: float) -> Tensor:
        pairs = zip(gates.items(), direction, strict=True)
        with torch.no_grad(), gated(handles, {s: gate + by * d for (s, gate), d in pairs}):
            return losses(model, arguments).sum()

    difference = (moved(step) - moved(-step)) / (2 * step)
    along = sum((g * d).sum() for g, d in zip(exact, direction, strict=True))
    torch.testing.assert_close(along, difference, rtol=1e-5, atol=1e-7)


def gate_gradients(
    model: Any, handles: Sequence[SiteHandle], arguments: Mapping[str, Tensor], gates: Gates
) -> tuple[Tensor, ...]:
    leaves = {site: gate.clone().requires_grad_() for site, gate in gates.items()}
    with gated(handles, leaves):
        total = losses(model, arguments).sum()
    return torch.autograd.grad(total, list(leaves.values()))


def test_watching_attention_changes_no_output(subject: Subject) -> None:
    model, arguments = subject.double, inputs(subject.double, padded=True)
    found, watched = attention(model, subject.double_handles, arguments)
    with torch.no_grad():
        torch.testing.assert_close(watched, logits(model, arguments), rtol=1e-10, atol=1e-10)
    assert list(found) == [str(site) for site in in_running_order(subject.double_handles)]
    for name, probabilities in found.items():
        rows = real_rows(name, probabilities, arguments)
        torch.testing.assert_close(rows.sum(dim=-1), torch.ones_like(rows[..., 0]))
        if keys_are_text(name, arguments):
            padded = real_rows(name, probabilities, arguments, example=1)[..., -PADDED:]
            assert (padded == 0).all()


def test_eager_and_fused_attention_show_the_same(subject: Subject) -> None:
    if not subject.family.sdpa:
        pytest.skip("the family has eager attention only")
    assert subject.double.config._attn_implementation == "sdpa"
    arguments = inputs(subject.double, padded=True)
    fused, _ = attention(subject.double, subject.double_handles, arguments)
    eager_model = copy.deepcopy(subject.double)
    eager_model.set_attn_implementation("eager")
    eager, _ = attention(eager_model, discover(eager_model, probe(eager_model)), arguments)
    assert list(fused) == list(eager)
    for name, probabilities in fused.items():
        torch.testing.assert_close(
            real_rows(name, probabilities, arguments),
            real_rows(name, eager[name], arguments),
            rtol=1e-10,
            atol=1e-10,
        )


def in_running_order(handles: Sequence[SiteHandle]) -> list[AttentionSite]:
    """Layer by layer; a decoder layer attends to itself before it does to the source."""
    order = {"enc-self": 0, "dec-self": 1, "cross": 1}
    sites = [handle.site for handle in handles]
    return sorted(sites, key=lambda s: (order[s.kind], s.layer, s.kind == "cross"))


def real_rows(
    name: str, probabilities: Tensor, arguments: Mapping[str, Tensor], example: int | None = None
) -> Tensor:
    """Rows of real query tokens, [rows, S]; of all examples, or of one."""
    rows = probabilities.transpose(1, 2)
    real = torch.ones(rows.shape[:2], dtype=torch.bool)
    if queries_are_text(name, arguments):
        real = arguments["attention_mask"].bool()
    if example is not None:
        rows, real = rows[example], real[example]
    return rows[real].flatten(0, 1)


def queries_are_text(name: str, arguments: Mapping[str, Tensor]) -> bool:
    """Whether a site's queries are the tokens of `input_ids`, which may be padded."""
    decodes = "decoder_input_ids" in arguments
    return "input_ids" in arguments and (name.startswith("enc-self") or not decodes)


def keys_are_text(name: str, arguments: Mapping[str, Tensor]) -> bool:
    return name.startswith("cross") or queries_are_text(name, arguments)


class _StopError(Exception):
    """Raised by a handler in the middle of a forward pass."""


def test_nothing_stays_attached_or_changed(subject: Subject) -> None:
    model, arguments = subject.model, inputs(subject.model)
    before = state(model)
    plain = model(**arguments).logits

    def stop(*args: object) -> Tensor:
        raise _StopError

    def run_and_stop() -> None:
        model(**arguments)
        raise _StopError

    broken: list[Callable[[], object]] = [
        lambda: intercept_run(subject.handles, stop, lambda: model(**arguments)),
        lambda: intercept_run(subject.handles, lambda site, contexts: None, run_and_stop),
        lambda: watch_run(stop, lambda: model(**arguments)),
        lambda: discover(model, replace(probe(model), run=run_and_stop)),
    ]
    for action in broken:
        with pytest.raises(_StopError):
            action()
        assert_same_state(state(model), before)
    zeros = {handle.site: torch.zeros(handle.site.n_heads) for handle in subject.handles}
    with gated(subject.handles, zeros):
        assert not torch.allclose(model(**arguments).logits, plain)
    assert_same_state(state(model), before)
    assert torch.equal(model(**arguments).logits, plain)


def intercept_run(handles: Sequence[SiteHandle], handler: Any, run: Callable[[], object]) -> None:
    with intercept(handles, handler, batch=2):
        run()


def watch_run(on_softmax: Any, run: Callable[[], object]) -> None:
    with AttentionWatch(on_softmax):
        run()


def state(model: Any) -> dict[str, Any]:
    """All that could be changed on a model: weights, buffers, hooks, modes, settings."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {
        "tensors": {name: tensor.detach().clone() for name, tensor in tensors.items()},
        "trainable": [weight.requires_grad for weight in model.parameters()],
        "modules": list(model.modules()),
        "training": [module.training for module in model.modules()],
        "hooks": [
            [len(value) for key, value in vars(module).items() if key.endswith("_hooks")]
            for module in model.modules()
        ],
        "forward": ["forward" in vars(module) for module in model.modules()],
        "config": model.config.to_dict(),
        "implementation": model.config._attn_implementation,
    }


def assert_same_state(after: dict[str, Any], before: dict[str, Any]) -> None:
    torch.testing.assert_close(after.pop("tensors"), before["tensors"], rtol=0, atol=0)
    assert after == {key: value for key, value in before.items() if key != "tensors"}
