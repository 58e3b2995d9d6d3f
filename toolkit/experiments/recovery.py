"""How a pruned model is trained; the command line takes its defaults from here.

Nothing heavy is imported, so that ``--help`` stays quick.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from headtool.errors import HeadtoolError

__all__ = ["Recovery"]

_LR = {False: 5e-5, True: 1e-3}  # of all weights, and of low-rank updates alone


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """How to train a pruned model.

    Attributes
    ----------
    steps
        Steps of AdamW.
    lr
        Highest learning rate, reached after a tenth of the steps, from where it falls linearly to
        zero; None: 5e-5, and 1e-3 with `lora`.
    batch_size
        Examples in a step.
    lora
        Train low-rank updates of the linear layers (rank 8), which are added to the weights in the
        end, instead of all weights. It takes peft (``pip install headtool[lora]``).

    Raises
    ------
    HeadtoolError
        If a number is out of its range.
    """

    steps: int = 100
    lr: float | None = None
    batch_size: int = 32
    lora: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size"):
            value = getattr(self, name)
            if value < 1:
                raise HeadtoolError(f"`{name}` must be at least 1, got {value}")
        if self.lr is not None and not 0 < self.lr < 1:
            raise HeadtoolError(f"`lr` must be between 0 and 1, got {self.lr:g}")

    @property
    def rate(self) -> float:
        """The highest learning rate."""
        return _LR[self.lora] if self.lr is None else self.lr

    def described(self) -> dict[str, Any]:
        """What the record of a pruned model says of it, as JSON."""
        return {**dataclasses.asdict(self), "lr": self.rate, "optimiser": "AdamW"}
