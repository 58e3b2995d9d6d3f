"""Data sets: what a ``--data`` SPEC names, read and checked."""

from __future__ import annotations

from headtool.data.columns import parse_columns
from headtool.data.dataset import TextData
from headtool.data.labels import match_labels, regression_targets
from headtool.data.load import load_data

__all__ = ["TextData", "load_data", "match_labels", "parse_columns", "regression_targets"]
