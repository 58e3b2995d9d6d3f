"""Every method with every kind of options, each quick on a tiny model."""

from __future__ import annotations

from headtool.methods import get_method
from headtool.methods.base import Method

__all__ = ["QUICK", "VARIANTS", "build"]

QUICK = {name: {"steps": "5", "batch_size": "8"} for name in ("dsp", "gates")}

VARIANTS = [
    ("gradient", {"granularity": "token"}),
    ("gradient", {"granularity": "example"}),
    ("gradient", {"granularity": "batch", "batch_size": "4"}),
    ("gradient", {"granularity": "cumulative", "batch_size": "4"}),
    ("gradient", {"normalize": "none"}),
    ("gradient", {"normalize": "minmax"}),
    ("ablation", {}),
    ("ablation", {"signal": "loss"}),
    ("ablation", {"signal": "loss", "replacement": "mean"}),
    ("ablation", {"signal": "loss", "replacement": "resample"}),
    ("ablation", {"signal": "loss", "replacement": "optimal", "optimal_steps": "4"}),
    ("activation", {}),
    ("activation", {"variant": "contribution"}),
    ("attribution", {}),
    ("attribution", {"baseline": "mean", "backward": "relp"}),
    ("attribution", {"baseline": "resample", "sign": "signed"}),
    ("confidence", {}),
    ("confidence", {"statistic": "entropy", "exclude": "none"}),
    ("confidence", {"exclude": "special"}),
    ("dsp", {}),
    ("dsp", {"heads": "1", "temperature": "2", "train": "all"}),
    ("dsp", {"heads": "8", "variant": "straight-through"}),
    ("fisher", {}),
    ("fisher", {"granularity": "batch", "batch_size": "4", "heads": "3"}),
    ("fisher", {"granularity": "example", "samples": "none"}),
    ("flap", {}),
    ("flap", {"normalize": "none", "power": "2"}),
    ("gates", {}),
    ("gates", {"heads": "3"}),
    ("gates", {"target": "0.4"}),
    ("gates", {"init": "released", "penalty": "site-mean"}),
    ("gates", {"train": "all", "label_smoothing": "0.1"}),
    ("integrated", {"ig_steps": "2"}),
    ("integrated", {"ig_steps": "2", "path": "inputs", "sign": "signed"}),
    ("integrated", {"ig_steps": "2", "path": "attention"}),
    ("lrp", {}),
    ("lrp", {"rule": "conservative", "sign": "signed"}),
    ("lrp", {"rule": "alpha-beta"}),
    ("magnitude", {}),
    ("gates", {"sweep": "0.01,0.5"}),
    ("random", {}),
    ("shapley", {"permutations": "2", "signal": "loss"}),
    ("shapley", {"permutations": "4", "tolerance": "0", "stderr": "0.5"}),
    ("taylor", {}),
    ("taylor", {"granularity": "element", "batch_size": "5"}),
    ("wanda", {}),
]


OF_LANGUAGE_MODELS = [
    ("retrieval", {"needles": "6", "tokens": "5", "lengths": "16,40"}),
    ("retrieval", {"needles": "6", "tokens": "4", "cue": "1", "needle": "random"}),
    ("retrieval", {"needles": "4", "share": "needle"}),
]
"""Variants of methods that are for these models only; see `headtool.methods.base.Method.tasks`."""


def build(name: str, options: dict[str, str]) -> Method:
    return get_method(name).configured(QUICK.get(name, {}) | options)
