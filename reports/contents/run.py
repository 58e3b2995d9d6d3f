"""What a saved run holds, checked and in one shape, whichever command wrote it.

Reports draw on this alone. Nothing is computed again: every number in a report stands in one of the
run's tables, or is a count, a difference or a selection of numbers that do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.analysis.comparison import TABLES as COMPARISON_TABLES
from headtool.analysis.screening import screening_note
from headtool.errors import HeadtoolError
from headtool.results.runs import Run, read_run
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MEASURES", "Contents", "command_of", "read_contents", "records", "with_roles"]

# The tables that reports show. A run may hold more of them.
_SHOWN = (
    *(name for name in COMPARISON_TABLES if name not in ("sites", "curve_draws")),
    *("sequential", "best", "gates.sweep", "gates.evaluation", "dsp.evaluation"),
    *("checkpoint_curves", "prunability", "rank_stability"),
    *("validation", "validation_heads"),
    *("replacement_scores", "replacement_score_agreement"),
)
MEASURES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "kl": "KL divergence",
    "logit-difference": "logit difference",
    "bits-per-byte": "bits per byte",
    "f1": "F1",
    "f1-macro": "macro F1",
    "mcc": "Matthews correlation",
    "mse": "squared error",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
}
"""Metrics as running text and axes call them, where that is not their name."""

_BY_DATA = ("scores", "ablation", "tests", "best", "sequential")


@dataclass(frozen=True, eq=False)
class Contents:
    """A run as reports see it.

    Attributes
    ----------
    run
        The run, for its further tables.
    kind
        Which command made it, such as ``compare`` or ``score``.
    tables
        The tables that reports know, those with rows only.
    settings
        What was asked for and found; see `headtool.analysis.comparison.Comparison`. A run of one
        method has the same keys as far as it knows them.
    joined
        Names of tables that are not the run's own, but were joined with it.
    """

    run: Run
    kind: str
    tables: Mapping[str, pd.DataFrame]
    settings: Mapping[str, Any]
    joined: tuple[str, ...] = ()

    def every_table(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """All tables with rows by name, also those that reports do not show, and joined ones."""
        for name in self.run.names:
            if name not in self.joined and len(frame := self.run.table(name)):
                yield name, frame
        yield from ((name, self.tables[name].copy()) for name in self.joined)

    def table(self, name: str) -> pd.DataFrame:
        """Return a table; one that the run lacks has all its columns and no rows."""
        if name in self.tables:
            return self.tables[name]
        empty = TABLES[name].empty("data")
        return _with_data(empty, self.settings) if name in _BY_DATA else empty

    @property
    def metric(self) -> str:
        """Name of the metric that deltas and curves are in."""
        return str(self.settings.get("metric", ""))

    @property
    def measure(self) -> str:
        """The metric as running text and axes call it."""
        return MEASURES.get(self.metric, self.metric)

    @property
    def higher_is_better(self) -> bool:
        """Direction of that metric."""
        return bool(self.settings.get("higher_is_better", True))

    @property
    def methods(self) -> list[str]:
        """Methods that have scores, in the order in which they were given."""
        found = self.table("scores")["method"].astype(str).unique().tolist()
        given = [str(name) for name in self.settings.get("methods", ())]
        return [name for name in given if name in found] + [n for n in found if n not in given]

    @property
    def data(self) -> list[str]:
        """SPECs of the data sets, the main one first."""
        return [str(spec) for spec in self.settings.get("data", ())]

    @property
    def model(self) -> str:
        """The model's SPEC."""
        return str(self.described("model").get("spec", ""))

    @property
    def roles(self) -> Mapping[str, Any]:
        """Provenance of the roles; empty for a run without any."""
        found = self.described("roles") or self.described("provenance").get("roles")
        return found if isinstance(found, Mapping) else {}

    @property
    def role_notes(self) -> list[str]:
        """Lines that a reader of the roles must know."""
        notes = self.roles.get("notes")
        return [str(line) for line in notes] if isinstance(notes, list) else []

    @property
    def command(self) -> str:
        """The command that made the run."""
        return str(self.run.manifest.get("command", ""))

    @property
    def created(self) -> str:
        """When it was written: ISO 8601, in UTC."""
        return str(self.run.manifest.get("created", ""))

    @property
    def whole(self) -> float:
        """The whole model's metric on the main data set; NaN if the run does not tell."""
        by_data = self.described("whole")
        values = by_data.get(self.data[0]) if self.data else None
        value = values.get(self.metric) if isinstance(values, Mapping) else None
        return float(value) if isinstance(value, int | float) else float("nan")

    @property
    def notes(self) -> list[str]:
        """Lines that a reader must know."""
        return [str(line) for line in self.settings.get("notes", ())]

    @property
    def all_but_one(self) -> bool:
        """Whether effects are those of leaving one head of a site, not of closing one."""
        how = self.described("provenance").get("ablate")
        options = how.get("options") if isinstance(how, Mapping) else None
        return isinstance(options, Mapping) and bool(options.get("all_but_one"))

    def described(self, name: str) -> Mapping[str, Any]:
        """Return a mapping from the settings; empty where there is none of that name."""
        found = self.settings.get(name)
        return found if isinstance(found, Mapping) else {}

    def examples(self, spec: str) -> int | None:
        """How many examples of a data set were used for outcomes."""
        splits = self.tables.get("splits")
        if splits is not None:
            rows = splits[splits["data"] == spec]
            count = int((rows["split"] == "evaluation").sum())
            if count:
                return count
        source = self.described("sources").get(spec)
        number = source.get("examples") if isinstance(source, Mapping) else None
        return int(number) if isinstance(number, int) else None


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table by column."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def read_contents(folder: Path) -> Contents:
    """Open a run for a report.

    Raises
    ------
    HeadtoolError
        If there is no finished run at `folder`, or it is damaged or of another version.
    """
    run = read_run(folder)
    provenance = run.manifest["provenance"]
    kind = command_of(provenance)
    settings = (
        provenance[kind] if kind in ("compare", "curve", "validate") else _settings(provenance)
    )
    tables = {}
    for name in _SHOWN:
        if name in run.names:
            frame = run.table(name)
            if len(frame):
                tables[name] = _with_data(frame, settings) if name in _BY_DATA else frame
    if not tables.keys() - {"splits"}:
        held = ", ".join(run.names) or "none"
        raise HeadtoolError(
            f"{folder} has no table that a report can show (it has: {held}); give a run of "
            "compare, curve, score, ablate, roles, dynamics or validate"
        )
    return Contents(run, kind, tables, settings)


def with_roles(contents: Contents, folder: Path) -> Contents:
    """Join a comparison with the roles that its model's heads have in another run.

    Parameters
    ----------
    contents
        A comparison.
    folder
        A run of ``headtool roles`` on the same model.

    Raises
    ------
    HeadtoolError
        If the run is none of a comparison, `folder` holds no roles, or they are those of another
        model or of other kinds of heads.
    """
    from headtool.analysis.role_runs import join_roles, read_roles

    if "kept" not in contents.tables:
        raise HeadtoolError(
            f"{contents.run.folder} is a run of {contents.kind}, which keeps no heads to join with "
            "`roles`; give a run of compare or curve"
        )
    roles = read_roles(folder)
    tables = join_roles(roles, contents.described("model"), contents.tables["kept"])
    return dataclasses.replace(
        contents,
        tables={**contents.tables, **tables},
        settings={**contents.settings, "roles": roles.described},
        joined=tuple(tables),
    )


def _settings(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a run of `score` or `ablate`: what its methods have in common."""
    first: Mapping[str, Any] = next(iter(provenance.values()), {})
    described = first.get("data")
    data = described if isinstance(described, dict) else {}
    spec = str(data.get("spec", ""))
    return {
        "metric": first.get("metric", ""),
        "higher_is_better": _higher_is_better(first),
        "methods": list(provenance),
        "data": [spec] if spec else [],
        "sources": {spec: data} if spec else {},
        "model": first.get("model", {}),
        "seed": first.get("seed"),
        **_replacement(first),
        "versions": first.get("versions", {}),
        "provenance": dict(provenance),
        "notes": [*_screened(provenance), *first.get("notes", ())],
    }


def _screened(provenance: Mapping[str, Any]) -> list[str]:
    """Say which heads were not tested, where a cheap method screened them out."""
    found = []
    for source in provenance.values():
        options = source.get("options")
        screened = source.get("screen") or (
            options.get("screen") if isinstance(options, dict) else None
        )
        if isinstance(screened, dict):
            found.append(screening_note(screened))
    return found


def _replacement(source: Mapping[str, Any]) -> dict[str, Any]:
    """What closed heads put out, where a run of `ablate` says so."""
    options = source.get("options")
    if not isinstance(options, dict) or "replacement" not in options:
        return {}
    return {"replacement": options["replacement"]}


def _higher_is_better(source: Mapping[str, Any]) -> bool:
    """Direction of the metric; that of a metric unknown here is taken to be up."""
    from headtool.metrics import get_metric
    from headtool.metrics.prediction import TASKS

    model = source.get("model")
    described = model if isinstance(model, dict) else {}
    task, labels = described.get("task"), described.get("labels")
    if task not in TASKS or not isinstance(labels, int | None):
        return True
    try:
        metric = get_metric(str(source.get("metric", "")), task=task, n_labels=labels)
    except HeadtoolError:
        return True
    return bool(metric.higher_is_better)


def command_of(provenance: Mapping[str, Any]) -> str:
    """Name the command that a run's provenance is of.

    Parameters
    ----------
    provenance
        As the manifest has it.
    """
    for name in ("compare", "curve", "roles", "dynamics", "validate"):
        if name in provenance:
            return name
    if "sequential" in provenance or "ablate" in provenance:
        return "ablate"
    return "score"


def _with_data(frame: pd.DataFrame, settings: Mapping[str, Any]) -> pd.DataFrame:
    """Name the data set in a table of a run that has one only."""
    if "data" in frame.columns:
        return frame
    known = frame.copy()
    known.insert(0, "data", next(iter(settings.get("data", ())), ""))
    return known
