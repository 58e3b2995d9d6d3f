"""Every table that a command makes has the columns and types that the schema says."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headtool.results.runs import read_run
from headtool.schema import TABLES, Table, find_table

from .conftest import SENTENCES, Run
from .test_compare_replicates import other_weights
from .test_roles import TREES, conllu

FEW = ("--steps", "50%", "--draws", 2, "--resamples", 20)
MADE = ("--out", "run", "--force")

# By command: what the rows of its documents are called in the schema, and its CSV.
KEYS = {
    "test": {"tests": "tests", "kinds": "kinds"},
    "compat": {"tests": "compat_tests"},
    "sequential": {"tests": "sequential"},
    "roles": {"roles": "roles", "survival": "role_survival"},
    "dynamics": {
        "scores": "checkpoint_scores",
        "curves": "checkpoint_curves",
        "prunability": "prunability",
        "rank_stability": "rank_stability",
    },
    "methods": {},
    "env": {"env": "env"},
    "show": {"tables": "tables"},
    "validate": {"validation": "validation", "heads": "validation_heads"},
}
CSV = {
    "score": "scores",
    "ablate": "ablation",
    "ablate both": "replacements",
    "score both": "replacement_scores",
    "compare": "heads_compared",
    "curve": "curves",
    "correlate": "correlations",
    "prune": "savings",
    "test": "tests",
    "compat": "compat_tests",
    "sequential": "sequential",
    "roles": "roles",
    "survival": "role_survival",
    "dynamics": "checkpoint_curves",
    "speed": "speed",
    "heads": "heads",
    "env": "env",
    "show": "tables",
    "methods": "options",
    "validate": "validation",
}


@pytest.fixture
def commands(
    headtool: Run, workplace: Path, bert: Path, bart: Path, reviews: Path, book: Path
) -> list[tuple[str, tuple[object, ...]]]:
    """All commands that make tables, by what they make; one's run may be another's input."""
    second = other_weights(bert, workplace / "checkpoint-2", 1)
    first = other_weights(bert, workplace / "checkpoint-1", 2)
    (workplace / "dev.conllu").write_text(conllu(*TREES * 8))
    (workplace / "mask.txt").write_text("E:1:1 E:2:2")
    (workplace / "other.tsv").write_text(
        "text\tlabel\n" + "".join(f"{text}\t1\n" for text in SENTENCES[::-1])
    )
    for side in ("src", "ref"):
        (workplace / f"test.{side}").write_text("a good film\nbad plot\ndull .\nfine\n")
    here = ("--model", bert, "--data", reviews, "--device", "cpu")
    brief = ("--model", bart, "--data", "test.src,test.ref", "--device", "cpu")
    trained = ("--set", "gates.steps=2", "--set", "gates.sweep=0.1", "--set", "dsp.steps=2")
    few = ("--permutations", 50, "--resamples", 20)
    for arguments in (
        ("ablate", *here, "--out", "ablated"),
        ("ablate", "--model", bert, "--data", "other.tsv", "--device", "cpu", "--out", "again"),
        ("compare", *here, *FEW, "--method", "gradient,confidence", "--out", "compared"),
    ):
        assert headtool(*arguments).code == 0
    return [
        ("heads", ("heads", "--model", bert)),
        ("methods", ("methods",)),
        ("env", ("env",)),
        ("show", ("show", "ablated")),
        ("score", ("score", *here, "--method", "gradient,fisher", "--set", "fisher.heads=3")),
        (
            "score",
            (
                *("score", *here, "--method", "gradient,gates,dsp,shapley,lrp,ablation"),
                *(*trained, "--set", "shapley.permutations=2", *MADE),
            ),
        ),
        ("score", ("score", *brief, "--method", "ablation", "--metric", "bleu", *MADE)),
        ("ablate", ("ablate", *here, *MADE)),
        ("ablate", ("ablate", *here, "--all-but-one", *MADE)),
        ("ablate", ("ablate", *here, "--screen", 2, *MADE)),
        ("ablate", ("ablate", *brief, "--metric", "bleu", "--greedy", *MADE)),
        ("ablate both", ("ablate", *here, "--replacement", "zero,mean", *MADE)),
        (
            "score both",
            ("score", *here, "--method", "attribution", "--replacement", "zero,mean", *MADE),
        ),
        ("sequential", ("ablate", *here, "--sequential", *MADE)),
        ("test", ("test", "ablated")),
        ("compat", ("test", "ablated", "--compat", "sacrebleu-paired-bs", "--resamples", 20)),
        ("correlate", ("correlate", "ablated", "again", *few)),
        ("roles", ("roles", "--model", bert, "--treebank", "dev.conllu", *MADE)),
        (
            "survival",
            ("roles", "--model", bert, "--treebank", "dev.conllu", "--kept", "compared", *MADE),
        ),
        (
            "compare",
            (
                *("compare", *here, "--data", "other.tsv", *FEW, "--stability", 2),
                *("--method", "gradient,confidence", "--replicate", second),
                *("--roles", "run", "--out", "all"),
            ),
        ),
        ("compare", ("compare", *here, *FEW, "--method", "gradient", *MADE)),
        ("curve", ("curve", *here, *FEW, "--method", "gradient", *MADE)),
        ("curve", ("curve", *here, "--steps", "50%", "--draws", 0, *MADE)),
        (
            "dynamics",
            (
                *("dynamics", "--checkpoints", first.parent, "--data", reviews, "--steps", "50%"),
                *MADE,
            ),
        ),
        (
            "speed",
            (
                *("speed", "--model", bert, "--mask", "mask.txt", "--batch-sizes", 1),
                *("--length", 4, "--repetitions", 1, *MADE),
            ),
        ),
        (
            "compare",
            (
                *("compare", *here, *FEW, "--method", "gradient,magnitude"),
                *("--replacement", "zero,mean", *MADE),
            ),
        ),
        ("validate", ("validate", "--methods", "magnitude", "--models", 2, "--limit", 8, *MADE)),
        ("prune", ("prune", "--model", bert, "--mask", "mask.txt")),
        (
            "prune",
            (
                *("prune", "--model", bert, "--mask", "mask.txt", "--data", reviews),
                *("--replace", "mean", "--out", "c", "--force"),
            ),
        ),
        (
            "prune",
            ("prune", "--model", bert, "--mask", "mask.txt", "--bake", "--out", "b", "--force"),
        ),
    ]


def wrong(table: Table, frame: pd.DataFrame) -> Iterator[str]:
    """What of a table is not as declared."""
    declared = {column.name: column for column in table.columns}
    for name in frame.columns:
        if name not in declared:
            if not table.further:
                yield f"{table.name}.{name} is not declared"
        elif frame[name].dtype not in ("category", declared[name].dtype):
            yield f"{table.name}.{name} is {frame[name].dtype}, not {declared[name].dtype}"
    yield from wrong_names(table, list(frame.columns))


def wrong_names(table: Table, names: list[str]) -> Iterator[str]:
    known = [name for name in names if name in {column.name for column in table.columns}]
    required = [name for name in names if name in table.names]
    if tuple(required) != table.names:
        yield f"{table.name} has {', '.join(required)}, not {', '.join(table.names)}"
    if "data" in names and names[0] != "data" and table.columns[0].name == "data":
        yield f"{table.name} does not begin with the data"
    if not table.further and len(known) < len(names):
        yield f"{table.name} has columns that are not declared: {', '.join(names)}"


@pytest.mark.slow
def test_every_table_of_every_command_is_as_declared(
    headtool: Run, commands: list[tuple[str, tuple[object, ...]]], workplace: Path
) -> None:
    seen: set[str] = set()
    sheets: set[str] = set()
    mistakes: list[str] = []

    def note(name: str, found: Iterator[str]) -> None:
        seen.add(name)
        mistakes.extend(found)

    for what, arguments in commands:
        done = headtool(*arguments, "--format", "json")
        assert done.code == 0, (arguments, done.err)
        if "--out" in arguments and what != "prune":
            run = read_run(workplace / str(arguments[arguments.index("--out") + 1]))
            for name in run.names:
                held = pd.read_parquet(run.folder / f"{name}.parquet")
                assert len(held), f"{what} writes {name} without rows"
                table = find_table(name)
                assert table is not None, f"{what} writes {name}, which is not declared"
                note(table.name, wrong(table, held))
                note(table.name, wrong(table, run.table(name)))
        document: dict[str, Any] = json.loads(done.out)
        keys = KEYS.get("roles" if what == "survival" else what)
        for key, rows in document.items():
            if isinstance(rows, list) and rows and isinstance(rows[0], dict):
                if keys == {}:
                    continue
                table = TABLES[key if keys is None else keys[key]]
                note(table.name, wrong_names(table, list(rows[0])))
        if (table := TABLES[CSV[what]]).name in sheets:
            continue
        sheets.add(table.name)
        done = headtool(*without_output(arguments), "--format", "csv")
        assert done.code == 0, (arguments, done.err)
        note(table.name, wrong_names(table, list(pd.read_csv(io.StringIO(done.out)).columns)))
    assert mistakes == []
    # No method failed; plans and curves of prune are in no run; no repeats were imported.
    # Tables over many comparisons are in no run: tests/analysis/test_study_tables.py.
    over_cells = {name for name in TABLES if name.startswith("study_")}
    missing = set(TABLES) - seen - over_cells
    assert missing == {"failures", "plan", "pruning_curve", "score_repeats"}


def without_output(arguments: tuple[object, ...]) -> tuple[object, ...]:
    """The command without ``--out`` and ``--force``."""
    kept, skip = [], False
    for argument in arguments:
        if skip or argument == "--force":
            skip = False
        elif argument == "--out":
            skip = True
        else:
            kept.append(argument)
    return tuple(kept)
