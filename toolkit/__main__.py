"""``python -m headtool`` is the command ``headtool``."""

from __future__ import annotations

from headtool.cli.main import run

run()
