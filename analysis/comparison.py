"""The result of a comparison: one frame per question, and reading it from a run.

``headtool compare`` writes these tables into its run directory, one Parquet file each, and whoever
reports on a comparison reads nothing else. What each table holds is said in `headtool.schema`, of
which ``docs/tables.md`` is the readable form. A table that was not asked for, or that does not
apply (agreement with one method, say), is not written; here it has all its columns and no rows.

Beside them the run holds per-example outcomes: ``outcomes`` (single heads on the first data set, so
that ``headtool test RUN`` works), ``outcomes.2`` ... (further data sets), ``curve_outcomes``
(every mask of the curves on the first data set), and each method's own tables as ``METHOD.TABLE``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from headtool import schema
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd

    from headtool.results.runs import Run

__all__ = ["TABLES", "Comparison", "read_comparison"]

# Every comparison and every curve has these.
_ALWAYS = ("splits", "sites", "scores", "kept", "curves")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What several methods say about the heads of one model, and how far it holds.

    Heads are named by ``kind``, ``layer`` and ``head``; a ``budget`` is a number of heads removed,
    and ``share`` the same as a share of all heads that were up for removal. The metric is the
    comparison's (``settings["metric"]``) where no column says otherwise, in its own unit. A
    ``delta`` is masked minus whole; ``area`` and ``optimism`` are positive where what they name is
    better, whatever the metric's direction. NaN is "not computed" or "undefined"; reasons are among
    ``settings["notes"]``.

    Attributes
    ----------
    settings
        What was asked for and found, as JSON: ``command`` (``compare``, or ``curve``, whose other
        tables have no rows), ``metric``, ``higher_is_better``, ``methods`` (names in the order
        given, without those that failed), ``data`` (SPECs, the first is the one of
        the curves), ``select_data`` (None where the first data set was split), ``whole`` (SPEC to
        metric to the whole model's value on the evaluation examples), ``budgets``, ``heads`` (how
        many were up for removal), ``steps``, ``iterative``, ``keep_one_per_layer``, ``per_kind``,
        ``draws``, ``seed``, ``resamples``, ``alpha``, ``margin``, ``stability`` (halves of the
        selection examples), ``replicates`` (SPEC to SHA-256 of all models, where there are
        several), ``tests`` (SPEC to which test,
        interval and correction was used), ``notes`` (lines for the reader), ``model``
        (provenance), ``sources`` (the data sets' provenance by SPEC), ``selection_source`` (of the
        examples that select), ``provenance`` (by method),
        ``versions``; and where roles were given, ``roles`` (their provenance).
    command
        The command that makes it again; empty where there was none.
    created
        When the run was written, ISO 8601 in UTC; empty where it was not.
    folder
        The run directory; None where nothing was written.
    """

    splits: pd.DataFrame
    sites: pd.DataFrame
    scores: pd.DataFrame
    ablation: pd.DataFrame
    tests: pd.DataFrame
    agreement: pd.DataFrame
    concordance: pd.DataFrame
    overlap: pd.DataFrame
    kept: pd.DataFrame
    consensus: pd.DataFrame
    curves: pd.DataFrame
    curve_draws: pd.DataFrame
    curve_tests: pd.DataFrame
    optimism: pd.DataFrame
    stability: pd.DataFrame
    subsamples: pd.DataFrame
    subsample_overlap: pd.DataFrame
    selection_frequency: pd.DataFrame
    subsample_scores: pd.DataFrame
    replicates: pd.DataFrame
    replicate_scores: pd.DataFrame
    replicate_agreement: pd.DataFrame
    replicate_overlap: pd.DataFrame
    replicate_curves: pd.DataFrame
    additivity: pd.DataFrame
    replacements: pd.DataFrame
    replacement_agreement: pd.DataFrame
    replacement_curves: pd.DataFrame
    faithfulness: pd.DataFrame
    faithfulness_areas: pd.DataFrame
    correlations: pd.DataFrame
    failures: pd.DataFrame
    roles: pd.DataFrame
    role_survival: pd.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    created: str = ""
    folder: Path | None = None

    def __repr__(self) -> str:
        """Name what was compared; the frames would fill pages."""
        settings = self.settings
        model, data = settings.get("model", {}).get("spec"), ", ".join(settings.get("data", ()))
        return f"Comparison({', '.join(settings.get('methods', ()))} on {model} with {data})"

    def _repr_html_(self) -> str:
        """Show the curves, and count verdicts and disputed heads, in a notebook."""
        from headtool.results.display import html_result

        methods = [str(name) for name in self.settings.get("methods", ())]
        curves = self.curves[self.curves["kind"] == "all"]
        names = [name for name in (*methods, "random") if (curves["method"] == name).any()]
        wide = curves.pivot(index="budget", columns="method", values="value")
        share = curves.drop_duplicates("budget").set_index("budget")["share"]
        rows = [
            (f"{share[budget]:.0%}", *(float(wide.loc[budget, name]) for name in names))
            for budget in wide.index
        ]
        lines = []
        for spec, part in self.tests.groupby("data", sort=False):
            counts = part["verdict"].value_counts()
            lines.append(f"{spec}: {', '.join(f'{n} {name}' for name, n in counts.items())}")
        lines += [
            f"{row['method']} failed: {row['error']}" for row in self.failures.to_dict("records")
        ]
        title = f"{self.settings.get('metric')} by share of heads removed"
        return html_result(title, ("removed", *names), rows, lines=lines)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The frames by name."""
        return {name: getattr(self, name) for name in TABLES}

    def document(self) -> dict[str, Any]:
        """Return the comparison as JSON can hold it: schema, settings, and rows by table.

        The format is ``headtool/comparison/1``, or ``headtool/curves/1`` of ``curve``.
        """
        from headtool.results.scores import json_rows

        schema, tables = _DOCUMENTS[str(self.settings["command"])]
        return {
            "schema": schema,
            "provenance": dict(self.settings),
            **{name: json_rows(self.tables[name]) for name in tables},
        }

    @classmethod
    def from_tables(
        cls, tables: Mapping[str, pd.DataFrame], settings: Mapping[str, Any], **made: Any
    ) -> Self:
        """Make a comparison of the tables that there are; the others get no rows.

        Parameters
        ----------
        tables
            Frames by name; what is no table of a comparison is left out.
        settings, made
            As for the class.
        """
        frames: dict[str, Any] = {}
        for name in TABLES:
            found = tables.get(name)
            frames[name] = _empty(name) if found is None or found.empty else found
        return cls(**frames, settings=settings, **made)


TABLES = tuple(part.name for part in dataclasses.fields(Comparison) if part.name in schema.TABLES)
"""Names of the tables of a comparison."""

# What the JSON document leaves out is in the run: which example is in which half, the sites, and
# the evidence of roles, which the command ``roles`` prints.
_DOCUMENTS = {
    "compare": (
        "headtool/comparison/1",
        [name for name in TABLES if name not in ("splits", "sites", "roles")],
    ),
    "curve": (
        "headtool/curves/1",
        [
            *("curves", "curve_draws", "curve_tests", "kept", "scores"),
            *("faithfulness", "faithfulness_areas", "replacement_curves", "failures"),
        ],
    ),
}

Comparison.__doc__ = (Comparison.__doc__ or "").replace(
    "    settings\n",
    "".join(f"    {name}\n        A row is {schema.TABLES[name].row}.\n" for name in TABLES)
    + "    settings\n",
    1,
)


def _empty(name: str) -> pd.DataFrame:
    """A table without rows; here tables of several data sets name theirs."""
    return schema.TABLES[name].empty("data")


def read_comparison(source: Path | Run) -> Comparison:
    """Read a comparison from its run directory.

    Raises
    ------
    HeadtoolError
        If there is no run, it is damaged or of another version, or it holds no comparison.
    """
    from headtool.results.runs import read_run

    run = read_run(source) if isinstance(source, Path) else source
    provenance = run.manifest["provenance"]
    settings = provenance.get("compare", provenance.get("curve"))
    missing = [name for name in _ALWAYS if name not in run.names]
    if settings is None or missing:
        raise HeadtoolError(
            f"{run.folder} holds no comparison; make one with headtool compare --out DIR"
        )
    return Comparison.from_tables(
        {name: run.table(name) for name in TABLES if name in run.names},
        settings,
        command=str(run.manifest.get("command", "")),
        created=str(run.manifest.get("created", "")),
        folder=run.folder,
    )
