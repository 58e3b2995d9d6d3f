"""Classes that build models of transformers without the heads that were removed."""

from __future__ import annotations

from typing import Any

import transformers

from headtool.errors import HeadtoolError
from headtool.surgery.plan import carry_out
from headtool.surgery.record import read_plans

__all__ = ["pruned_class"]


def pruned_class(config: Any, spec: str) -> type | None:
    """Return a class that builds a transformers model without the heads that were removed.

    Parameters
    ----------
    config
        A transformers configuration.
    spec
        What to call the model in messages.

    Returns
    -------
    type or None
        None where the configuration records no removal.
    """
    recorded = getattr(config, "headtool_pruned", None)
    if recorded is None:
        return None
    plans = read_plans(recorded, spec)
    whole: Any = getattr(transformers, str((config.architectures or [""])[0]), None)
    if not isinstance(whole, type) or not issubclass(whole, transformers.PreTrainedModel):
        raise HeadtoolError(f"{spec} names no model class of transformers in its config.json")

    def build(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        whole.__init__(self, config, *args, **kwargs)
        for plan in plans:
            carry_out(plan, self)
        self.__class__ = whole

    return type(whole.__name__, (whole,), {"__init__": build, "__module__": whole.__module__})
