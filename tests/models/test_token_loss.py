"""The loss in pieces is torch's own, gradients included, and holds no logits twice."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headtool.models import token_loss
from headtool.models.token_loss import token_losses


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("product", [True, False])
def test_equals_cross_entropy(
    dtype: torch.dtype, smoothing: float, product: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(token_loss._ROOM, "cpu", 40)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 5, 4, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(11, 4, generator=generator, dtype=torch.float64).to(dtype)
    targets = torch.randint(0, 11, (3, 5), generator=generator)
    scored = torch.rand(3, 5, generator=generator) < 0.7
    factors = torch.randn(3, 5, generator=generator)

    def logits(leaf: torch.Tensor) -> torch.Tensor:
        made = leaf @ weight.T
        return made if product else made.sin()  # whose derivative needs what it was given

    ours = hidden.clone().requires_grad_()
    losses, plain, correct = token_losses(logits(ours), targets, scored, label_smoothing=smoothing)
    (losses * factors).sum().backward()

    theirs = hidden.clone().requires_grad_()
    given = logits(theirs)
    wide = given if dtype == torch.float64 else given.float()
    wanted = nn.functional.cross_entropy(
        wide.transpose(1, 2), targets, reduction="none", label_smoothing=smoothing
    )
    (wanted * scored * factors).sum().backward()

    torch.testing.assert_close(losses, wanted * scored)
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert losses.dtype == wide.dtype
    assert torch.equal(correct, (given.argmax(-1) == targets) & scored)
    exact = nn.functional.cross_entropy(wide.transpose(1, 2), targets, reduction="none")
    torch.testing.assert_close(plain, exact * scored)
    assert not plain.requires_grad


def test_gradients_take_the_place_of_logits() -> None:
    hidden = torch.randn(2, 3, 4, requires_grad=True)
    logits = nn.functional.linear(hidden, torch.randn(50, 4))
    before = logits.detach().clone()
    targets, scored = torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.bool)
    losses, _, _ = token_losses(logits, targets, scored)
    assert torch.equal(logits, before)
    losses.sum().backward()
    wanted = before.softmax(-1)
    wanted[..., 0] -= 1
    torch.testing.assert_close(logits.detach(), wanted)
    with pytest.raises(RuntimeError, match="a second time"):
        losses.sum().backward()
