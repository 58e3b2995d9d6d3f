"""What is killed and starved: commands that write, where they write, and what they leave."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers

from .warm_process import Ended, Warm

__all__ = ["COMMANDS", "ROUNDS", "Bench", "some", "tree"]

ROUNDS = int(os.environ.get("HEADTOOL_FAULT_ROUNDS", "1"))
"""How often each command meets each fault; 50 for a thorough check."""

_COST = re.compile(rb'"cost": \[.*?\n \],\s*', re.DOTALL)  # in manifests: how long it took
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00|\d{4}-\d\d-\d\d(?=<|\")")
_COMPARED = "--steps 50% --draws 2 --resamples 20"

COMMANDS = {
    "ablate": "ablate {model} --out run",
    "compare": "compare {model} --method gradient,magnitude " + _COMPARED + " --out run",
    "curve": "curve {model} --method gradient " + _COMPARED + " --out run",
    "dynamics": "dynamics --checkpoints {trained} --data {data} --method magnitude --steps 50% "
    "--figure course.svg --out run",
    "gates sweep": "score {model} --method gates --set gates.steps=2 --set gates.sweep=0.1,1 "
    "--out run",
    "shapley": "score {model} --method shapley --set shapley.permutations=8 "
    "--set shapley.signal=loss --out run",
    "report": "report run",
    "report in a folder": "report run --format latex",
    "prune": "prune --model {bert} --scores {scores} --remove 25% --out run",
    "prune again": "prune --model {bert} --scores {scores} --remove 50% --out run --force",
}
_TARGETS = {"report": "run/report.html", "report in a folder": "run/latex"}
_BEGIN_WITH = {"report": "compare", "report in a folder": "compare", "prune again": "prune"}


def some(*names: str) -> tuple[str, ...]:
    """Names of commands; the first of them only, where there is one round."""
    return names if ROUNDS > 1 else names[:1]


def tree(place: Path) -> dict[str, bytes | None]:
    """Everything below a folder by name; times in texts, and what a run cost, are left out."""
    found = {}
    for path in sorted(place.rglob("*")):
        content = path.read_bytes() if path.is_file() else None
        if content is not None and path.suffix in (".json", ".html", ".tex"):
            content = _COST.sub(b"", _TIME.sub(b"TIME", content))
        found[str(path.relative_to(place))] = content
    return found


@dataclass
class Bench:
    """Runs commands on small models, each in a new folder; knows how they end undisturbed."""

    warm: Warm
    folder: Path
    bert: Path
    data: Path
    _whole: dict[str, tuple[Path, Ended]] = field(default_factory=dict)

    def arguments(self, name: str) -> list[str]:
        """The words of a command."""
        names = {
            "model": f"--model {self.bert} --data {self.data} --batch-tokens 20",
            "bert": self.bert,
            "data": self.data,
        }
        if "{trained}" in COMMANDS[name]:
            names["trained"] = self._trained()
        if "{scores}" in COMMANDS[name]:
            names["scores"] = self.whole("gates sweep")[0] / "run"
        return shlex.split(COMMANDS[name].format(**names))

    def begin(self, name: str, place: Path) -> Path:
        """Make a folder for a command, with what it starts from."""
        place.mkdir(parents=True)
        if name in _BEGIN_WITH:
            shutil.copytree(self.whole(_BEGIN_WITH[name])[0], place, dirs_exist_ok=True)
        if name == "report":
            (place / "run" / "report.html").unlink()
        return place

    def whole(self, name: str) -> tuple[Path, Ended]:
        """Folder of a command that was not disturbed, and how it ended."""
        if name not in self._whole:
            place = self.begin(name, self.folder / name.replace(" ", "-"))
            ended = self.warm.run(self.arguments(name), place)
            assert ended.code == 0, ended.err
            self._whole[name] = place, ended
        return self._whole[name]

    def is_whole(self, name: str, place: Path) -> bool:
        """Whether a command's result is there, all of it; a part of it is an error."""
        target = _TARGETS.get(name, "run")
        if not (place / target).exists():
            return False
        expected = _below(target, tree(self.whole(name)[0]))
        found = _below(target, tree(place))
        if name in _BEGIN_WITH and name not in _TARGETS and found != expected:
            expected = _below(target, tree(self.whole(_BEGIN_WITH[name])[0]))
            assert found == expected
            return False
        assert found == expected
        return True

    def finish(self, name: str, place: Path) -> None:
        """Give the command again: it ends as one that was not disturbed, and nothing else is left.

        Where the result was there already, whole, it says so.
        """
        was_whole = self.is_whole(name, place)
        again = self.warm.run(self.arguments(name), place)
        if was_whole and "--force" not in COMMANDS[name]:
            assert again.code == 2, again.err
            assert "exists already" in again.err
        else:
            assert again.code == 0, again.err
        assert tree(place) == tree(self.whole(name)[0])

    def _trained(self) -> Path:
        """Two checkpoints of a Trainer."""
        place = self.folder / "trained"
        for step, factor in ((5, 1.0), (40, 0.5)):
            if not (folder := place / f"checkpoint-{step}").exists():
                shutil.copytree(self.bert, folder)
                model = transformers.AutoModelForSequenceClassification.from_pretrained(self.bert)
                name = "bert.encoder.layer.0.attention.output.dense"
                with torch.no_grad():
                    model.get_submodule(name).weight.mul_(factor)
                model.save_pretrained(folder)
        return place


def _below(target: str, found: dict[str, bytes | None]) -> dict[str, bytes | None]:
    return {name: held for name, held in found.items() if f"{name}/".startswith(f"{target}/")}
