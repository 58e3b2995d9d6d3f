"""Every method takes the passes that it declares: real ones are counted."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from headtool.data import TextData
from headtool.engine.counting import size_of
from headtool.engine.metering import Meter
from headtool.engine.replay import Replay
from headtool.methods import BUILTIN, get_method
from headtool.methods.base import Method
from headtool.metrics import metric_of_model
from headtool.models.huggingface.model import HuggingFaceModel

from .test_contract import VARIANTS

COSTLY = {name: {"steps": "6", "batch_size": "5"} for name in ("dsp", "gates")}
FURTHER = [
    ("gates", {"scratch_steps": "3", "scratch_batch_size": "4"}),
    ("dsp", {"train": "all", "holdout": "0.5"}),
    ("fisher", {"samples": "5"}),
    ("shapley", {"permutations": "4", "tolerance": "0"}),
]


def counting(model: HuggingFaceModel, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count examples that go through the model, and gradients that come back to its outputs."""
    counts: Counter[str] = Counter()
    forward = HuggingFaceModel.forward

    def counted(self, batch, **options):
        counts["forward"] += len(batch)
        hook = self.module.register_forward_hook(seen)
        try:
            return forward(self, batch, **options)
        finally:
            hook.remove()

    def seen(module, args, output):
        logits = output.logits if hasattr(output, "logits") else output[0]
        if torch.is_grad_enabled() and logits.requires_grad:
            size = len(logits)
            logits.register_hook(lambda gradient: counts.update(backward=size))

    monkeypatch.setattr(HuggingFaceModel, "forward", counted)
    return counts


@pytest.mark.parametrize(("name", "options"), [*VARIANTS, *FURTHER])
def test_a_method_takes_the_passes_that_it_declares(
    name: str,
    options: dict[str, str],
    bert: HuggingFaceModel,
    pairs: TextData,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Replay, "suits", lambda model: False)  # every pass is one from the start
    method = get_method(name).configured({**COSTLY.get(name, {}), **options})
    examples = bert.encode(pairs)
    size = size_of(bert, examples, bert.sites, metric_of_model(bert, None))
    declared = method.cost(size)
    assert declared is not None
    counts = counting(bert, monkeypatch)
    meter = Meter([])
    method.score(bert, examples, progress=meter)
    for what in ("forward", "backward"):
        passes = counts[what] / len(examples)
        most = sum(getattr(part, what) for part in declared)
        least = sum(getattr(part, what) * part.least for part in declared)
        # Probes, and the first batch of some methods, are no pass over the data.
        assert least - 1e-9 <= passes <= most + 1.01, (what, passes, least, most)
        if name not in ("shapley", "gates", "dsp"):
            assert passes >= most - 1e-9
    (done,) = [row["token_passes"] for row in meter.record()] or [0]
    tokens = int(examples.lengths.sum())
    most = sum(part.weight for part in declared)
    assert done <= 1.15 * most * tokens + 1
    if all(part.least == 1 for part in declared) and options.get("baseline") != "resample":
        assert done >= 0.85 * most * tokens - 1


@pytest.mark.parametrize("name", BUILTIN)
def test_every_method_declares_its_cost(name: str) -> None:
    assert get_method(name).cost is not Method.cost
