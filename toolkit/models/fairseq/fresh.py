"""fairseq transformers with weights drawn anew."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from torch import nn

from headtool.models.fresh import build_fresh

if TYPE_CHECKING:
    from headtool.heads import Sites

__all__ = ["fresh_fairseq"]


def fresh_fairseq(
    module: nn.Module, dictionaries: tuple[Any, Any], sites: Sites, *, seed: int, spec: str
) -> nn.Module:
    """Build a fairseq transformer from the options that its checkpoint records.

    Parameters
    ----------
    module
        The module of the model, which may be pruned; left as it is.
    dictionaries
        Those of source and target.
    sites
        The model's attention sites.
    seed
        Seed of the weights.
    spec
        What to call the model in messages.

    Raises
    ------
    HeadtoolError
        If that does not give a model with weights of the same names and shapes.
    """
    options_of: Any = module

    def build() -> nn.Module:
        from headtool.quiet import silence
        from headtool.surgery.history import History, record_history
        from headtool.surgery.plan import Plan, carry_out

        with silence():
            from fairseq.models.transformer import TransformerModel

            # Building completes the options in place.
            options = Namespace(**options_of.architecture)
            task = Namespace(
                source_dictionary=dictionaries[0],
                target_dictionary=dictionaries[1],
            )
            built: nn.Module = TransformerModel.build_model(options, task)
        vars(built)["architecture"] = dict(options_of.architecture)
        history = History.of(module, sites)
        for step in history.steps:
            carry_out(Plan.from_json(step), built)
        if history.steps:
            record_history(built, history)
        return built

    return build_fresh(module, build, seed=seed, spec=spec)
