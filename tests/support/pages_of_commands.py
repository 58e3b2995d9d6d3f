"""What every command shows on a terminal, of made-up numbers that are hard to fit."""

from __future__ import annotations

import dataclasses
import io
import itertools
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console, RenderableType

import headtool
from headtool.analysis.assessment import HeadTests
from headtool.analysis.comparison import Comparison, read_comparison
from headtool.analysis.compat import CompatTests
from headtool.analysis.overlap import kept_frame
from headtool.analysis.roles import surviving_roles
from headtool.cli import env, heads, methods, show
from headtool.heads import Head, HeadMask
from headtool.reports.terminal.ablation import ablation_tables
from headtool.reports.terminal.comparison import comparison_tables, curve_tables
from headtool.reports.terminal.correlation import correlation_tables
from headtool.reports.terminal.dynamics import dynamics_tables
from headtool.reports.terminal.pruning import pruning_tables
from headtool.reports.terminal.roles import role_tables
from headtool.reports.terminal.scores import score_tables
from headtool.reports.terminal.speed import speed_tables
from headtool.reports.terminal.studies import cost_tables, status_tables
from headtool.reports.terminal.verdicts import compat_tables, sequential_tables
from headtool.reports.terminal.verdicts import test_tables as tables_of_tests
from headtool.schema import TABLES

from .comparisons import comparison
from .few_roles import SITES, SOURCE, few_roles
from .replicates import write_replicated
from .scores import result, sites
from .stability import write_subsampled

Page = Iterable[RenderableType]

OLD_RUN = Path(__file__).parents[1] / "results" / "old_runs" / "compare"

_NUMBERS = (1e-4, -0.123456, 12345.678, math.nan, 0.0, -4.56e-7)
_WORDS = {
    "kind": ("enc-self", "dec-self", "cross"),
    "verdict": ("undecided", "removable", "needed", "harmful"),
    "reason": ("rare large costs cannot be ruled out with so few examples", "", "margin"),
    "metric": ("accuracy", "loss"),
    "model": ("kept heads, original weights", "all heads", "all heads from scratch"),
}
_SOURCE: dict[str, Any] = {
    "model": {"spec": "/models/of/somebody/sentiment"},
    "data": {"spec": "data/a-name-that-is-rather-long/dev.tsv", "examples": 8192},
    "options": {"margin": 0.01, "all_but_one": False},
}
_STUDY_PLAN: dict[str, Any] = {
    "study": "a study with a name of some length",
    "done": 3,
    "unknown": ["nli.seed-1.matched: scores.of-another-package"],
    "total": {"operations": 3e15, "memory": 5e9, "seconds_least": 60.0, "seconds_most": 4000.0},
}
_STUDY_STATUS: dict[str, Any] = {
    "study": "a study with a name of some length",
    "folder": "runs/of-somebody/a-study",
    "done": 4,
    "running": 1,
    "failed": 2,
    "left": 9,
    "seconds_left": 1234.5,
}


def filled(name: str, rows: int = 7) -> pd.DataFrame:
    """A table of the schema with numbers of every size, words of every length and missing ones."""
    columns: dict[str, Any] = {}
    for place, column in enumerate(TABLES[name].columns):
        turn = range(place, place + rows)
        if column.type == "number":
            columns[column.name] = [_NUMBERS[number % len(_NUMBERS)] for number in turn]
        elif column.type == "integer":
            columns[column.name] = [7 * number * number for number in turn]
        elif column.type == "boolean":
            columns[column.name] = [number % 2 == 0 for number in turn]
        else:
            words = _WORDS.get(column.name, ("word", "several words", ""))
            columns[column.name] = [words[number % len(words)] for number in turn]
    return TABLES[name].frame(pd.DataFrame(columns).to_dict("records"))


def _scored() -> Page:
    where = sites(12, 12, 12)
    scores = result(where, np.linspace(-1e-3, 2e-3, 36).tolist())
    tables = {"gates.sweep": filled("gates.sweep"), "shapley.estimate": filled("shapley.estimate")}
    return score_tables(dataclasses.replace(scores, tables=tables), 1.5)


def _tested() -> Page:
    tests = HeadTests(
        frame=filled("tests"),
        metric="accuracy",
        whole=0.912,
        n_examples=8192,
        alpha=0.05,
        margin=0.01,
        test="mcnemar",
        interval="newcombe",
        correction="westfall-young",
        resamples=10_000,
        n_tests=7,
        **_further(HeadTests),
    )
    return tables_of_tests(tests, filled("kinds", 3), _SOURCE, signature="BLEU|nrefs:1|case:mixed")


def _further(kind: type) -> dict[str, Any]:
    """Fields of no interest here."""
    known = {"frame", "metric", "whole", "n_examples", "alpha", "margin", "test", "interval"}
    known |= {"correction", "resamples", "n_tests"}
    return {f.name: 0.05 for f in dataclasses.fields(kind) if f.name not in known}


def _compared(command: str) -> Comparison:
    tables, settings = comparison(command=command)
    return _complete(Comparison.from_tables(tables, settings))


def _complete(found: Comparison) -> Comparison:
    """Settings that a terminal shows and the synthetic comparison lacks."""
    settings = found.settings
    tests = {spec: {**used, "margin": 0.01} for spec, used in settings["tests"].items()}
    selection = settings["sources"][settings["data"][0]]
    return dataclasses.replace(
        found, settings={**settings, "tests": tests, "selection_source": selection}
    )


def _trained() -> Page:
    curves = filled("checkpoint_curves", 12)
    curves["checkpoint"] = [f"checkpoint-{1000 * (place // 6)}" for place in range(12)]
    curves["share"] = [place % 6 / 6 for place in range(12)]
    curves["relative"] = np.linspace(1, -0.2, 12)
    names = list(dict.fromkeys(curves["checkpoint"]))
    prunability = filled("prunability", 2).assign(checkpoint=names)
    pairs = filled("rank_stability", 1).assign(checkpoint_x=names[0], checkpoint_y=names[1])
    tables = {
        "checkpoint_curves": curves,
        "prunability": prunability,
        "rank_stability": pairs,
    }
    return dynamics_tables(tables, "gradient", "accuracy")


def _timed() -> Page:
    frame = filled("speed", 6).assign(work="forward", peak_memory=2.4e9, latency=0.0123)
    frame["model"] = ["whole", "masked", "pruned"] * 2
    frame["batch_size"] = [1, 1, 1, 256, 256, 256]
    frame = frame.assign(speedup=1.37, speedup_low=1.3, speedup_high=1.44, examples_per_second=9e4)
    source = {
        "model": "my/model",
        "heads": "enc-self 12 x 12",
        "heads_left": "72 heads",
        "device": "cpu",
        "threads": 2,
        "dtype": "float32",
        "length": 128,
        "repetitions": 9,
    }
    return speed_tables(frame, source)


def _pruned() -> Page:
    where = sites(12, 12)
    mask = HeadMask.without(where, [Head("enc-self", 0, head) for head in range(11)])
    savings = filled("savings", 2).assign(parameters=109_483_778, flops=22_345_678_901_234)
    rows = [
        (stage, metric, value, delta, delta - 0.02, delta + 0.02)
        for metric, whole in (("accuracy", 0.912345), ("loss", 1.0))
        for stage, value, delta in (("whole", whole, 0.0), ("zero", whole - 0.1, -0.1))
    ]
    recovery = TABLES["recovery"].frame(rows)
    return pruning_tables("my/model", mask, where, savings, recovery, bake=False)


def _survived() -> Page:
    table = few_roles()
    kept = kept_frame({"gradient": {2: np.array([True, False, False])}}, SITES.heads)
    return role_tables(table, SOURCE, surviving_roles(table, kept))


def pages(folder: Path) -> dict[str, Callable[[], Page]]:
    """By command, what makes its page; comparisons with repeats are read from `folder`."""
    write_subsampled(folder / "halves")
    write_replicated(folder / "replicates")
    alone = _SOURCE | {"options": {"all_but_one": True}}
    whole = {"accuracy": 0.912, "loss": 0.24}
    correlations = comparison()[0]["correlations"]
    return {
        "score": _scored,
        "ablate": lambda: ablation_tables(filled("ablation"), None, whole, _SOURCE),
        "ablate --all-but-one": lambda: ablation_tables(
            filled("ablation"), filled("best"), whole, alone
        ),
        "ablate --sequential": lambda: sequential_tables(filled("sequential"), _SOURCE, 0.4),
        "test": _tested,
        "test --compat": lambda: compat_tables(
            CompatTests(filled("compat_tests"), "sacrebleu-paired-bs", 0.02, 1000, 12345)
        ),
        "correlate": lambda: correlation_tables(correlations, filled("replication")),
        "compare": lambda: comparison_tables(_compared("compare")),
        "compare --stability": lambda: comparison_tables(
            _complete(read_comparison(folder / "halves"))
        ),
        "compare --replicate": lambda: comparison_tables(
            _complete(read_comparison(folder / "replicates"))
        ),
        "curve": lambda: curve_tables(_compared("curve")),
        "roles": _survived,
        "prune": _pruned,
        "speed": _timed,
        "dynamics": _trained,
        "heads": lambda: heads._tables(headtool.list_heads("builtin:nli")),
        "methods": lambda: methods._tables(headtool.list_methods().methods, in_full=False),
        "methods NAME": lambda: methods._tables(
            headtool.list_methods(["gates"]).methods, in_full=True
        ),
        "show": lambda: show._tables(headtool.show(OLD_RUN)),
        "env": lambda: env._tables(headtool.env()),
        "study run --dry-run": lambda: cost_tables(filled("study_plan"), _STUDY_PLAN),
        "study status": lambda: status_tables(filled("study_status"), _STUDY_STATUS),
    }


def printed(parts: Page, width: int) -> list[str]:
    """Lines of a page on a terminal of that width."""
    console = Console(file=io.StringIO(), width=width, legacy_windows=False)
    for part in parts:
        console.print(part)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def flat(lines: Iterable[str]) -> str:
    """All words, one space between them and at the ends."""
    return f" {' '.join(itertools.chain.from_iterable(line.split() for line in lines))} "
