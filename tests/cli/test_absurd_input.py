"""Numbers, names and places that no run survives: refused at once, in one line, nothing written."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ..support.damage import complaint

LONG = "x" * 300

# The command line, and what the message must contain. {bert} and {reviews} fit each other.
COMMANDS = [
    # -- levels, rates and penalties beyond all numbers
    ("compare --alpha 1e-320", ["--alpha must be at least 1e-06", "9.99989e-321"]),
    ("compare --alpha nan", ["--alpha must be between 0 and 1", "nan"]),
    (
        "score --method gates --set gates.gate_lr=1e38",
        ["gates.gate_lr must be above 0 and at most 1000", "1e+38"],
    ),
    (
        "score --method gates --set gates.train=all --set gates.weight_lr=1e38",
        ["gates.weight_lr must be above 0 and at most 1000"],
    ),
    (
        "score --method gates --set gates.scratch_steps=1 --set gates.scratch_lr=1e39",
        ["gates.scratch_lr must be above 0 and at most 1000"],
    ),
    ("ablate --metric bleu --lenpen 1e308", ["--lenpen must be from -100 to 100", "1e+308"]),
    # -- what would never end
    ("compare --draws 1000000000000", ["--draws must be at most 100,000", "each runs the model"]),
    ("curve --draws 1000000000000", ["--draws must be at most 100,000"]),
    ("compare --stability 1000000000", ["--stability must be at most 100,000", "again by every"]),
    ("compare --resamples 1000000000", ["--resamples must be at most 100,000,000"]),
    ("compare --steps 1e-9%", ["--steps 1e-9%"]),
    ("curve --steps 1e-9%", ["--steps 1e-9%"]),
    (
        "score --method gates --set gates.steps=1000000000000",
        ["gates.steps must be at most 100,000,000"],
    ),
    (
        "speed --mask mask --length 8 --batch-sizes 1000000000",
        ["8,000,000,000 tokens", "--batch-sizes times --length"],
    ),
    ("speed --mask mask --length 100000", ["--length must be at most 20"]),
    # -- names that no file can have
    (f"heads --model {LONG}", ["xxx"]),
    (f"heads --model ./{LONG}", ["xxx"]),
    (f"heads --model fairseq:{LONG}", ["is no file"]),
    (f"heads --model {LONG}@{LONG}", ["xxx"]),
    (f"score --data {LONG}", ["no data set"]),
    (f"score --data {LONG}.tsv", ["too long"]),
    (f"score --data {LONG},{LONG}", ["too long"]),
    (f"score --method {LONG}", ["unknown method"]),
    (f"score --out {LONG}", ["too long", "another --out"]),
    (f"score --out a/b/{LONG}/c", ["too long", "another --out"]),
    (f"report {LONG}", ["too long"]),
    (f"test {LONG}", ["too long"]),
    (f"correlate {LONG} {LONG}", ["too long"]),
    (f"prune --scores {LONG} --remove 40% --out y", ["too long"]),
    (f"prune --mask {LONG} --out y", ["too long"]),
    (f"roles --treebank {LONG}", ["too long"]),
    (f"roles --data {{reviews}} --role rare-token --frequencies {LONG}", ["too long"]),
    (f"dynamics --checkpoints {LONG}", ["names 0 checkpoints"]),
    # -- the folder that one is in
    ("report .", ["is no headtool run", "manifest.json"]),
    ("report ''", ["is no headtool run", "manifest.json"]),
    ("test .", ["is no headtool run", "manifest.json"]),
    ("score --out . --force", ["you are in the folder '.'", "another --out"]),
    ("score --out ''", ["another --out"]),
    ("score --out .. --force", ["you are in the folder '..'", "another --out"]),
]


@pytest.mark.parametrize(
    ("command", "parts"), COMMANDS, ids=[command[:40] for command, _ in COMMANDS]
)
def test_absurd_input(
    headtool, bert: Path, reviews: Path, workplace: Path, command: str, parts: list[str]
) -> None:
    (workplace / "mask").write_text('{"schema": "headtool/mask/1", "closed": ["enc-self.0.1"]}')
    words = shlex.split(command.replace("{reviews}", str(reviews)))
    if words[0] not in ("report", "test", "correlate", "dynamics") and "--model" not in words:
        words += ["--model", str(bert)]
    if words[0] in ("score", "compare", "curve", "ablate", "dynamics") and "--data" not in words:
        words += ["--data", str(reviews)]
    message = complaint(headtool, workplace, words)
    for part in parts:
        assert part in message
    assert len(message) < 1500
