"""`import headtool` is cheap, and every public name can be had from it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import headtool


def test_every_public_name_resolves() -> None:
    assert set(headtool._HOMES) == set(headtool.__all__)
    for name in headtool.__all__:
        assert getattr(headtool, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'scoer'"):
        _ = headtool.scoer


def test_importing_headtool_imports_nothing_heavy() -> None:
    code = (
        "import sys, headtool; "
        "print([m for m in ('torch', 'transformers', 'pandas', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
