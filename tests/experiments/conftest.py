"""The runner of the command line and its small models, for comparing commands with functions."""

from __future__ import annotations

from ..cli.conftest import _no_terminal, bert, folder, headtool, reviews, workplace

__all__ = ["_no_terminal", "bert", "folder", "headtool", "reviews", "workplace"]
