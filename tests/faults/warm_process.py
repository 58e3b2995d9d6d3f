"""The other end of ``warm.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Ended", "Warm"]


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code (or minus the signal), what it said, and what it did."""

    code: int
    out: str
    err: str
    steps: list[str] | None
    seconds: float


class Warm:
    """The warm process; see ``warm.py``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("warm.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the warm process has died"
        return json.loads(line)

    def together(self, *jobs: dict[str, Any]) -> list[Ended]:
        """Run several commands at the same time; each has ``arguments``, a ``place`` and faults.

        Faults are ``kill_at`` (the number of a step), ``kill_after`` (seconds), ``largest_file``
        (bytes), ``remove_at`` (the number of a step) and ``start_after`` (seconds).
        """
        faults = ("kill_at", "kill_after", "largest_file", "remove_at")
        plain = {**dict.fromkeys(faults), "start_after": 0}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([{**plain, **job} for job in jobs]) + "\n")
        self._process.stdin.flush()
        return [Ended(**one) for one in self._answer()]

    def run(self, arguments: list[str], place: Path, **faults: float) -> Ended:
        """Run a command in a folder; see `together`."""
        (ended,) = self.together({"arguments": arguments, "place": str(place), **faults})
        return ended

    def close(self) -> None:
        assert self._process.stdin is not None
        with self._process:
            self._process.stdin.close()
