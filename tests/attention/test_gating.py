"""Reaching into a forward pass: views of heads, what a handler can do, and gates."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from headtool.attention.gating import Gating, Layout, SiteHandle, intercept
from headtool.heads import AttentionSite

BATCH, TIME, HEADS, WIDTH = 2, 5, 4, 3


def site(layer: int = 0) -> AttentionSite:
    return AttentionSite("enc-self", layer, HEADS, HEADS, WIDTH, "out")


def contexts(dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(BATCH, TIME, HEADS, WIDTH, generator=generator).to(dtype)


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        ("batch-first", (BATCH, TIME, 12)),
        ("time-first", (TIME, BATCH, 12)),
        ("flat", (BATCH * TIME, 12)),
    ],
)
def test_split_and_join(layout: Layout, shape: tuple[int, ...]) -> None:
    handle = SiteHandle(site(), nn.Linear(12, 12), layout)
    per_head = contexts()
    merged = {
        "batch-first": per_head.flatten(2),
        "time-first": per_head.transpose(0, 1).flatten(2),
        "flat": per_head.flatten(2).flatten(0, 1),
    }[layout]
    assert merged.shape == shape
    assert torch.equal(handle.split(merged, BATCH), per_head)
    assert torch.equal(handle.join(per_head, merged), merged)


def test_what_a_handler_returns_is_projected() -> None:
    layer = nn.Linear(12, 12)
    handle = SiteHandle(site(), layer, "batch-first")
    x = torch.randn(BATCH, TIME, 12)
    seen: list[tuple[AttentionSite, torch.Size]] = []

    def note(where: AttentionSite, heads: Tensor) -> None:
        seen.append((where, heads.shape))

    with torch.no_grad():
        plain, of_zero, of_more = layer(x), layer(x * 0), layer(x * 2 + 1)
        with intercept([handle], note, batch=BATCH):
            assert torch.equal(layer(x), plain)
            assert torch.equal(layer(x), plain)
        with intercept([handle], lambda where, heads: heads * 0, batch=BATCH):
            assert torch.equal(layer(x), of_zero)
        with (
            intercept([handle], lambda where, heads: heads * 2, batch=BATCH),
            intercept([handle], lambda where, heads: heads + 1, batch=BATCH),
        ):
            torch.testing.assert_close(layer(x), of_more)
    assert seen == [(site(), (BATCH, TIME, HEADS, WIDTH))] * 2
    assert not layer._forward_pre_hooks


def test_uses_of_a_shared_projection_are_told_apart() -> None:
    """Three layers share weights; in each pass, some of their calls are of interest."""
    layer = nn.Linear(12, 12)
    handles = [SiteHandle(site(i), layer, "batch-first", call=i, calls=3) for i in (0, 2)]
    x = torch.randn(BATCH, TIME, 12)
    seen: list[int] = []

    def note(where: AttentionSite, heads: Tensor) -> None:
        seen.append(where.layer)

    with intercept(handles, note, batch=BATCH):
        for _ in range(2 * 3):
            layer(x)
    assert seen == [0, 2, 0, 2]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("with_replacement", [False, True])
def test_gates_of_one_change_nothing_and_of_zero_leave_the_replacement(
    dtype: torch.dtype, with_replacement: bool
) -> None:
    """Replacements and gates are in single precision, whatever the model is in."""
    mean = torch.randn(HEADS, WIDTH)
    replacements = {site(): mean} if with_replacement else None
    heads = contexts(dtype)
    for shape in [(HEADS,), (BATCH, HEADS)]:
        opened = Gating({site(): torch.ones(shape)}, replacements)(site(), heads)
        assert opened is not None
        assert opened.dtype == dtype
        assert torch.equal(opened, heads)
        closed = Gating({site(): torch.zeros(shape)}, replacements)(site(), heads)
        wanted = mean.to(dtype) if with_replacement else torch.zeros(HEADS, WIDTH, dtype=dtype)
        assert closed is not None
        assert torch.equal(closed, wanted.expand_as(closed))


def test_gates_scale_their_own_head_and_example() -> None:
    gates = torch.tensor([[1.0, 0.5, 0.0, 2.0], [0.0, 1.0, 1.0, -1.0]], dtype=torch.float64)
    mean = torch.randn(HEADS, WIDTH, dtype=torch.float64)
    heads = contexts()
    gated = Gating({site(): gates}, {site(): mean})(site(), heads)
    assert gated is not None
    for b in range(BATCH):
        for t in range(TIME):
            for h in range(HEADS):
                wanted = gates[b, h] * heads[b, t, h] + (1 - gates[b, h]) * mean[h]
                torch.testing.assert_close(gated[b, t, h], wanted)


def test_a_replacement_can_differ_by_example_and_position() -> None:
    other = torch.randn(BATCH, TIME, HEADS, WIDTH, dtype=torch.float64)
    gates = torch.tensor([1.0, 0.0, 1.0, 0.0])
    gated = Gating({site(): gates}, {site(): other})(site(), contexts())
    assert gated is not None
    assert torch.equal(gated[:, :, 1::2], other[:, :, 1::2])
    assert torch.equal(gated[:, :, ::2], contexts()[:, :, ::2])


def test_sites_without_gates_are_left_alone() -> None:
    assert Gating({site(1): torch.zeros(HEADS)})(site(), contexts()) is None


@pytest.mark.parametrize("shape", [(HEADS,), (BATCH, HEADS)])
@pytest.mark.parametrize("with_replacement", [False, True])
def test_gradients_with_respect_to_gates(shape: tuple[int, ...], with_replacement: bool) -> None:
    """At one as well, where masks start."""
    mean = torch.randn(HEADS, WIDTH, dtype=torch.float64)
    replacements = {site(): mean} if with_replacement else None

    def output(gates: Tensor) -> Tensor:
        gated = Gating({site(): gates}, replacements)(site(), contexts())
        assert gated is not None
        return gated

    for start in (torch.ones, torch.zeros, torch.rand):
        gates = start(shape, dtype=torch.float64).requires_grad_()
        assert torch.autograd.gradcheck(output, gates)
