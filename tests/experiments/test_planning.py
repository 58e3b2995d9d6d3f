"""What a command says that it will cost, against what it then does."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headtool
from headtool.engine.metering import Meter
from headtool.errors import HeadtoolError
from headtool.experiments.dry_run import COMMANDS
from headtool.experiments.model_cost import model_cost
from headtool.models import load_model
from headtool.schema import TABLES
from headtool.surgery.costs import count_costs


class Watch:
    """A display that remembers the meter."""

    meter: Meter

    def begin(self, meter: Meter) -> None:
        self.meter = meter

    def step(self, meter: Meter, label: str) -> None:
        pass

    def __call__(self, items, *, total, label):
        yield from items

    @property
    def done(self) -> dict[str, int]:
        return {row["phase"]: row["token_passes"] for row in self.meter.record()}


def test_a_plan_is_the_same_with_and_without_seconds(tmp_path: Path) -> None:
    given = {"limit": 40, "heads": ["enc-self.0.1", "enc-self.3.2"], "out": tmp_path / "run"}
    plan = headtool.plan("ablate", "builtin:nli", **given)
    assert list(tmp_path.iterdir()) == []
    assert plan.frame.columns.tolist() == [c.name for c in TABLES["plan"].columns]
    (row,) = plan.frame.to_dict("records")
    tokens = row["tokens"]
    assert row["forward"] == 3
    # The whole model, a head of the first layer, and one of the last of four.
    assert row["token_passes_most"] == pytest.approx((1 + 1 + 1 / 4) * tokens)
    assert math.isnan(row["seconds_most"])
    assert math.isnan(plan.speed)
    timed = headtool.plan("ablate", "builtin:nli", **given, timed=True)
    assert timed.speed > 0
    seconds = timed.frame["seconds_most"].item()
    assert seconds == pytest.approx(row["token_passes_most"] / timed.speed)
    document = plan.document()
    assert document["schema"] == "headtool/plan/1"
    assert document["total"]["seconds_most"] is None
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_workers_share_units_and_the_last_is_waited_for() -> None:
    given = {"limit": 200, "batch_tokens": 800, "timed": True}
    one = headtool.plan("ablate", "builtin:nli", **given)
    (row,) = one.frame.to_dict("records")
    units = row["units"]
    assert units > 4
    many = headtool.plan("ablate", "builtin:nli", **given, workers=4)
    (spread,) = many.frame.to_dict("records")
    share = math.ceil(units / 4) / units
    assert spread["seconds_most"] * many.speed == pytest.approx(row["token_passes_most"] * share)


def test_operations_are_those_that_torch_counts() -> None:
    for spec, least in (("builtin:nli", 0.9), ("builtin:mt", 0.8)):
        model = load_model(spec, device="cpu")
        attention = sorted({handle.site.projection.rpartition(".")[0] for handle in model.handles})
        probe = model.probe(model.module, batch=3, source=20, target=20)
        counted = count_costs(model.module, attention, probe).flops
        ours = model_cost(model).flops(20) * 60
        assert least < ours / counted < 1.15


@pytest.mark.parametrize("method", ["gradient", "ablation", "confidence", "attribution"])
def test_scoring_does_what_was_planned(method: str) -> None:
    watch = Watch()
    headtool.score(methods=[method], limit=24, progress=watch)
    (phase, *others) = watch.meter.phases
    planned = sum(part.most for part in (phase, *others))
    assert watch.done == {method: round(planned)}
    assert watch.meter.share == 1.0


def test_a_pass_that_several_methods_read_is_planned_and_counted_once() -> None:
    methods = ["confidence", "gradient", "flap", "fisher", "taylor"]
    plan = headtool.plan("score", methods=methods, limit=24).frame
    (tokens,) = plan["tokens"].unique()
    assert plan[["phase", "what", "token_passes_most"]].to_numpy().tolist() == [
        ["confidence", "for confidence, flap", tokens],
        ["gradient", "for gradient, fisher, taylor", 2 * tokens],
    ]
    watch = Watch()
    scoring = headtool.score(methods=methods, limit=24, progress=watch)
    assert watch.done == {"confidence": tokens, "gradient": 2 * tokens} | {
        name: 0 for name in methods if name in watch.done and watch.done[name] == 0
    }
    assert watch.meter.share == 1.0
    assert all(scoring.seconds[name] > 0 for name in methods)


def test_a_comparison_shares_passes_in_every_round() -> None:
    watch = Watch()
    given = {"methods": ["gradient", "fisher"], "steps": "50%", "limit": 24, "draws": 1}
    found = headtool.compare("builtin:nli", **given, stability=2, progress=watch)
    plan = headtool.plan("compare", "builtin:nli", **given, stability=2).frame
    most = plan.groupby("phase", sort=False)["token_passes_most"].sum()
    assert [name for name in most.index if "fisher" in name] == []
    for name in ("scores.gradient", "again.gradient", "stability"):
        assert watch.done[name] == pytest.approx(most[name])
    assert found.settings["passes"] == {"gradient": 2.0, "fisher": 2.0}  # what each takes alone


def test_a_comparison_stays_within_its_plan() -> None:
    watch = Watch()
    given = {"methods": ["gradient", "confidence"], "steps": "25%", "limit": 60}
    headtool.compare("builtin:nli", **given, progress=watch)
    plan = headtool.plan("compare", "builtin:nli", **given).frame
    names = plan["phase"].unique().tolist()
    assert names == [
        *("scores.gradient", "scores.confidence", "singles", "again.gradient"),
        *("again.confidence", "curves", "draws"),
    ]
    done = watch.done
    for name, rows in plan.groupby("phase", sort=False):
        most, least = rows["token_passes_most"].sum(), rows["token_passes_least"].sum()
        assert 0.3 * least <= done[name] <= 1.05 * most, name
    assert watch.meter.left() == (0.0, 0.0)


def test_phases_of_a_comparison_follow_the_request() -> None:
    given = {"methods": ["gradient", "ablation"], "steps": "50%", "limit": 40}

    def phases(**options):
        frame = headtool.plan("compare", "builtin:nli", **given, **options).frame
        return frame.groupby("phase", sort=False)["token_passes_most"].sum()

    plain = phases()
    assert "again.ablation" not in plain.index  # its masks are those of single heads
    several = phases(stability=4, iterative=True, draws=2)
    assert {"stability", "scores.gradient.steps"} <= set(several.index)
    assert "draws" not in several.index
    curve = headtool.plan("curve", "builtin:nli", methods=["gradient"], limit=40).frame
    assert curve["phase"].tolist() == ["scores.gradient", "curves", "draws"]


def test_what_may_end_early_says_so() -> None:
    plan = headtool.plan("ablate_sequentially", "builtin:nli", limit=256)
    assert plan.total["token_passes_least"] == pytest.approx(plan.total["token_passes_most"] / 4)
    watch = Watch()
    headtool.ablate_sequentially("builtin:nli", limit=256, progress=watch)
    assert plan.total["token_passes_least"] * 0.9 <= watch.done["ablate"]
    # The whole model runs once a block.
    assert watch.done["ablate"] <= plan.total["token_passes_most"] * 1.2


def test_gradients_take_more_memory_than_masks() -> None:
    forward = headtool.plan("ablate", "builtin:nli", limit=200)
    backward = headtool.plan("score", "builtin:nli", methods=["gradient"], limit=200)
    weights = forward.model.bytes
    assert weights < forward.memory < backward.memory
    smaller = headtool.plan("ablate", "builtin:nli", limit=200, batch_tokens=512)
    assert smaller.memory < forward.memory


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("correlate", (["builtin:nli/matched", "builtin:nli/mismatched"],)),
        ("roles", ()),
    ],
)
def test_other_commands_are_planned(command: str, given: tuple[object, ...]) -> None:
    plan = headtool.plan(command, "builtin:nli", *given, limit=16)
    assert plan.command == command
    assert (plan.frame["token_passes_most"] > 0).all()


def test_speed_dynamics_and_pruning_are_planned() -> None:
    model = headtool.load_model("builtin:nli")
    mask = headtool.HeadMask.without(model.sites, model.sites.heads[:4])
    speed = headtool.plan("speed", model, mask=mask, batch_sizes=[1, 4], length=8, repetitions=2)
    assert speed.frame["tokens"].tolist() == [8, 32]
    twice = [("early", "builtin:nli"), ("late", "builtin:nli")]
    course = headtool.plan("dynamics", twice, "builtin:nli/matched", steps="50%", limit=16)
    assert course.frame["phase"].tolist() == [
        *("early.scores", "early.curve", "late.scores", "late.curve"),
    ]
    pruned = headtool.plan("prune", model, data="builtin:nli/matched", mask=mask, limit=16)
    assert pruned.frame["phase"].tolist() == ["quality"]
    assert np.isnan(pruned.total["seconds_most"])


def test_all_commands_that_take_progress_are_known() -> None:
    assert set(COMMANDS) <= set(headtool.__all__)
    with pytest.raises(HeadtoolError, match="unknown command 'scor'; did you mean 'score'"):
        headtool.plan("scor")
    with pytest.raises(HeadtoolError, match="`workers` must be at least 1, got 0"):
        headtool.plan("score", workers=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'limits'"):
        headtool.plan("score", limits=3)


@pytest.mark.parametrize("command", ["ablate", "compare"])
def test_plans_count_the_passes_that_measure_the_noise(command: str) -> None:
    short = load_model("builtin:nli", device="cpu", dtype="bfloat16")
    given: dict[str, Any] = {"limit": 24, "metric": "loss"}
    if command == "compare":
        given |= {"methods": ["gradient"], "steps": "50%", "draws": 1}
    plan = headtool.plan(command, short, **given)
    (row,) = [row for row in plan.frame.to_dict("records") if row["phase"] == "rounding"]
    watch = Watch()
    getattr(headtool, command)(short, progress=watch, **given)
    assert watch.done["rounding"] == pytest.approx(row["token_passes_most"], abs=1)
    exact = load_model("builtin:nli", device="cpu")
    assert "rounding" not in set(headtool.plan(command, exact, **given).frame["phase"])
