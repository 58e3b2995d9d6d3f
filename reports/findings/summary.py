"""What a run found, in plain words: the report's opening paragraph and a text for each section.

A pure function from the run's tables. Every claim is one of the tables' own: "needed" is a verdict
of the tests, "beats" is an adjusted p-value below the level of the run.
"""

from __future__ import annotations

from headtool.reports.blocks import Finding
from headtool.reports.contents.run import Contents
from headtool.reports.findings.relations import agreement_finding, data_finding
from headtool.reports.findings.replicates import replicate_finding
from headtool.reports.findings.roles import survival_finding
from headtool.reports.findings.sets import (
    additivity_finding,
    consensus_finding,
    removal_finding,
)
from headtool.reports.findings.singles import effect_finding, rank_finding, verdict_finding
from headtool.reports.findings.stability import stability_finding
from headtool.reports.findings.winner import winner_finding
from headtool.reports.wording.words import is_or_are, listed

__all__ = ["findings"]


def findings(contents: Contents) -> list[Finding]:
    """Say what the run found, the most important first; topics without a table are left out."""
    found = (
        verdict_finding(contents),
        rank_finding(contents),
        effect_finding(contents),
        removal_finding(contents),
        winner_finding(contents),
        survival_finding(contents),
        agreement_finding(contents),
        stability_finding(contents),
        replicate_finding(contents),
        consensus_finding(contents),
        data_finding(contents),
        additivity_finding(contents),
        _failures(contents),
    )
    return [finding for finding in found if finding is not None]


def _failures(contents: Contents) -> Finding | None:
    failures = contents.table("failures")
    if failures.empty:
        return None
    methods = list(dict.fromkeys(failures["method"].astype(str)))
    return Finding(
        "failures",
        f"{listed(methods)} failed and {is_or_are(len(methods))} missing from all that follows.",
    )
