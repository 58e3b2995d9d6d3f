"""What tests of reports look up in a run's prose and page."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pandas as pd

from headtool.reports.blocks import Section
from headtool.reports.contents.run import Contents
from headtool.reports.findings.summary import findings
from headtool.reports.sections.page import build_page

Make = Callable[..., Contents]


def said(contents: Contents) -> dict[str, str]:
    return {finding.topic: finding.headline for finding in findings(contents)}


def details(contents: Contents) -> dict[str, str]:
    return {finding.topic: finding.detail for finding in findings(contents)}


def with_tables(contents: Contents, **tables: pd.DataFrame) -> Contents:
    return dataclasses.replace(contents, tables={**contents.tables, **tables})


def with_settings(contents: Contents, **settings: Any) -> Contents:
    return dataclasses.replace(contents, settings={**contents.settings, **settings})


def section(contents: Contents, name: str) -> Section:
    (found,) = (part for part in build_page(contents).sections if part.name == name)
    return found
