"""What is said of the cost: the plan of a dry run, a line before long work, and one bar."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headtool.cli.progress import Bar, summary
from headtool.engine.metering import Meter
from headtool.experiments.dry_run import plan
from headtool.work import Passes, Phase

COMMANDS = {
    "ablate": [],
    "score": ["--method", "gradient,gates"],
    "compare": ["--steps", "50%"],
    "curve": ["--steps", "50%"],
    "roles": [],
    "validate": ["--methods", "gradient,magnitude"],
    "correlate": ["--data", "builtin:nli/matched", "--data", "builtin:nli/mismatched"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dry_run_prints_the_plan_and_writes_nothing(
    command: str, headtool: Any, tmp_path: Path
) -> None:
    place = [] if command == "correlate" else ["--out", str(tmp_path / "run")]
    done = headtool(
        command, *COMMANDS[command], "--limit", "20", *place, "--dry-run", "--format", "json"
    )
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["schema"] == "headtool/plan/1"
    assert document["command"] == command
    total = document["total"]
    assert total["seconds_most"] > 0
    assert total["memory"] > 300_000
    assert total["forward_flops"] == pytest.approx(
        sum(row["forward_flops"] for row in document["plan"])
    )
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_is_a_table_and_refuses_what_the_command_refuses(
    headtool: Any, tmp_path: Path
) -> None:
    done = headtool("ablate", "--limit", "20", "--dry-run")
    assert "ablate of builtin:nli" in done.out
    assert "with 1 worker" in done.out
    rows = headtool("ablate", "--limit", "20", "--dry-run", "--format", "csv").out.splitlines()
    assert rows[0].startswith("phase,what,examples,tokens,forward,backward,decoded,steps,units")
    assert len(rows) == 2
    bad = headtool("ablate", "--limit", "20", "--dry-run", "--heads", "enc-self.9.9")
    assert bad.code == 2


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def shown(seconds: float, units: int, *, terminal: bool = False) -> list[str]:
    """What a bar prints while units of so many seconds are done."""
    clock, text = Clock(), io.StringIO()
    bar = Bar(Console(file=text, force_terminal=terminal, width=120), clock=clock)
    found = plan("ablate", "builtin:nli", limit=8)
    bar.planned(found, lambda: found)
    phases = [Phase("ablate", Passes(forward=units), 10, 100, 10.0)]
    meter = Meter(phases, bar, clock=clock)

    def working():
        for unit in range(units):
            clock.now += seconds
            yield unit

    for _ in meter(working(), total=units, label="evaluate", work=lambda unit: 100.0):
        pass
    bar.close()
    return text.getvalue().splitlines()


def test_short_work_is_not_spoken_of() -> None:
    assert shown(0.1, 15) == []


def test_without_a_terminal_there_is_a_line_every_half_minute() -> None:
    lines = shown(4.0, 20)
    assert lines[0].startswith("plan: 33 forward passes over up to 8 examples")
    assert lines[1] == "ablate: evaluate: 5% after 0:04, about 1:16 left"
    assert lines[2] == "ablate: evaluate: 45% after 0:36, about 0:44 left"
    assert lines[3] == "ablate: evaluate: 85% after 1:08, about 0:12 left"
    assert len(lines) == 4


def test_quiet_shows_nothing() -> None:
    bar = Bar(None)
    found = plan("compare", "builtin:nli", limit=2000)
    bar.planned(found, lambda: found)
    bar.step(Meter(found.phases), "evaluate")
    bar.close()


def test_long_work_is_announced_before_it_begins() -> None:
    text = io.StringIO()
    bar = Bar(Console(file=text, width=200))
    found = plan("compare", "builtin:nli")
    bar.planned(found, lambda: found)
    (line,) = text.getvalue().splitlines()
    assert line == summary(found)
    assert line.startswith("plan: at most ")
    assert "1,000 examples" in line
