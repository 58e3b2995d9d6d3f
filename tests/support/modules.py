"""All modules of headtool, by the name they are imported under."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).parents[2]

FOLDERS = {
    "toolkit": "headtool",
    "analysis": "headtool.analysis",
    "methods": "headtool.methods",
    "reports": "headtool.reports",
    "cli": "headtool.cli",
}


def modules() -> dict[str, Path]:
    """All modules by the name they are imported under."""
    found = {}
    for folder, name in FOLDERS.items():
        for path in (REPOSITORY / folder).rglob("*.py"):
            parts = [name, *path.relative_to(REPOSITORY / folder).with_suffix("").parts]
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()
