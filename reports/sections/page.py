"""What the HTML report shows, put together from its sections."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headtool.reports.blocks import DataTable, Section
from headtool.reports.contents.facts import VERDICTS
from headtool.reports.contents.heads import Heads
from headtool.reports.contents.roles import HeadRoles
from headtool.reports.contents.run import Contents, records
from headtool.reports.findings.headline import headline
from headtool.reports.findings.procedure import Procedure, describe_procedure
from headtool.reports.findings.summary import findings
from headtool.reports.sections.additivity import additivity_section
from headtool.reports.sections.curves import curves_section
from headtool.reports.sections.dynamics import dynamics_section
from headtool.reports.sections.effects import effects_section
from headtool.reports.sections.faithfulness import faithfulness_section
from headtool.reports.sections.gates import gates_section
from headtool.reports.sections.heads import heads_section
from headtool.reports.sections.meanings import Explained, explain, explanations
from headtool.reports.sections.overview import methods_table
from headtool.reports.sections.relations import agreement_section, data_section
from headtool.reports.sections.replacements import replacements_section
from headtool.reports.sections.replicates import replicate_section
from headtool.reports.sections.roles import roles_section
from headtool.reports.sections.stability import stability_section
from headtool.reports.sections.validation import validation_section, validation_table
from headtool.reports.wording.known_truth import found_by
from headtool.reports.wording.words import count, how_drawn, listed, names, number, sentence

__all__ = ["Page", "build_page", "opening", "origin", "subtitle"]


@dataclass(frozen=True)
class Page:
    """Everything that the template prints.

    Attributes
    ----------
    title, subtitle
        What was compared, in two lines.
    created
        The day on which the run was written.
    headline
        What was found, in a sentence; may be empty.
    methods
        What is said of every method, in a row each; None for a run that compares nothing.
    opening
        What was found, in paragraphs.
    verdicts
        How many heads have which verdict; empty without tests.
    warnings
        What a reader must keep in mind, a sentence each.
    sections
        The sections that the run has tables for.
    columns
        What the columns of every table mean.
    procedure
        How the numbers were made.
    origin
        What reproduces the run, as name and value.
    command
        The command that made it.
    data
        What the page's script knows.
    answer_first
        Whether warnings stand below the first table, not above the headline.
    """

    title: str
    subtitle: str
    created: str
    headline: str
    methods: DataTable | None
    opening: list[str]
    verdicts: list[tuple[str, int]]
    warnings: list[str]
    sections: list[Section]
    columns: list[Explained]
    procedure: Procedure
    origin: list[tuple[str, str]]
    command: str
    data: dict[str, Any]
    answer_first: bool = False


def build_page(contents: Contents) -> Page:
    """Choose and arrange what a run has to show."""
    found = findings(contents)
    details = {finding.topic: [finding.detail] for finding in found if finding.detail}
    heads = Heads(contents)
    roles = HeadRoles(contents, heads)
    sections = [
        section
        for section in (
            heads_section(contents, heads, roles, details.get("kept", [])),
            curves_section(contents, [*details.get("curves", []), *details.get("winner", [])]),
            faithfulness_section(contents),
            replacements_section(contents),
            roles_section(contents, details.get("roles", [])),
            agreement_section(contents, heads, roles, details.get("agreement", [])),
            stability_section(contents, heads, details.get("stability", [])),
            replicate_section(contents, details.get("replicates", [])),
            effects_section(contents, heads, roles, details.get("heads", [])),
            data_section(contents, heads, details.get("data", [])),
            additivity_section(contents, details.get("additivity", [])),
            gates_section(contents),
            dynamics_section(contents),
            validation_section(contents),
        )
        if section is not None
    ]
    sections = [replace(one, tables=[explain(table) for table in one.tables]) for one in sections]
    methods = methods_table(contents) or validation_table(contents)
    methods = None if methods is None else explain(methods)
    tables = [*([] if methods is None else [methods]), *(t for s in sections for t in s.tables)]
    failures = [
        sentence(f"the method {row['method']} failed at {row['stage']}: {row['error']}")
        for row in records(contents.table("failures"))
    ]
    data: dict[str, Any] = {}
    for section in sections:
        data |= section.data
    return Page(
        title=_title(contents),
        subtitle=subtitle(contents),
        created=contents.created.partition("T")[0],
        headline=headline(contents),
        methods=methods,
        opening=opening(contents),
        verdicts=_verdicts(heads),
        warnings=[
            *failures,
            *(_written(contents, line) for line in contents.notes),
            *(sentence(f"roles: {line}") for line in contents.role_notes),
        ],
        sections=sections,
        columns=explanations(tables),
        procedure=describe_procedure(contents),
        origin=origin(contents),
        command=contents.command,
        data=data,
    )


def _title(contents: Contents) -> str:
    if contents.kind == "validate":
        return "Scoring methods on heads whose work is known"
    return f"Attention heads of {names([contents.model])[contents.model] or 'a model'}"


def opening(contents: Contents) -> list[str]:
    """What was found: the opening paragraph, and one on how the methods and data sets compare."""
    if contents.kind == "validate":
        return [found_by(contents.table("validation"))]
    first = ("heads", "important", "curves", "winner")
    found = [finding for finding in findings(contents) if finding.headline]
    paragraphs = [
        " ".join(f.headline for f in found if (f.topic in first) is leads)
        for leads in (True, False)
    ]
    return [paragraph for paragraph in paragraphs if paragraph]


def subtitle(contents: Contents) -> str:
    """What was compared, in a line."""
    parts = []
    if contents.kind == "validate":
        models, limit = len(contents.settings["models"]), contents.settings["limit"]
        return f"{count(models, 'planted model')}, {count(limit, 'example')} each"
    if len(contents.methods) > 1:
        parts.append(listed(contents.methods) + " compared" * (contents.kind == "compare"))
    elif contents.methods:
        parts.append(contents.methods[0])
    if contents.data:
        short = names(contents.data)
        sized = []
        for spec in contents.data:
            examples = contents.examples(spec)
            sized.append(short[spec] + (f" ({examples} examples)" if examples else ""))
        parts.append(f"on {listed(sized)}")
    if contents.measure:
        parts.append(f"by {contents.measure}")
    return ", ".join(parts[:1]) + "".join(f" {part}" for part in parts[1:])


def _written(contents: Contents, note: str) -> str:
    """A note as a sentence, with data sets named as in the rest of the report."""
    short = names(contents.data)
    about = next((spec for spec in short if note.startswith(f"{spec}: ")), None)
    text = note if about is None else note.removeprefix(f"{about}: ")
    for spec, name in short.items():
        text = text.replace(spec, name)
    return sentence(text) if about is None else f"On {short[about]}: {sentence(text)}"


def _verdicts(heads: Heads) -> list[tuple[str, int]]:
    given = [heads.verdict(place) for place in heads.places]
    return [(verdict, given.count(verdict)) for verdict in VERDICTS] if any(given) else []


def origin(contents: Contents) -> list[tuple[str, str]]:
    """What reproduces the run, as name and value."""
    model = contents.described("model")
    rows = [
        ("model", _joined(model, "spec", "class", "task", "dtype", "device")),
        ("model SHA-256", str(model.get("sha256", ""))),
    ]
    for spec in contents.data:
        source = contents.described("sources").get(spec)
        if isinstance(source, Mapping):
            cut = source.get("truncated")
            size = f"{source.get('examples')} examples" + (f", {cut} cut short" if cut else "")
            if how := how_drawn(source):
                size += f", from {how}"
            rows += [("data", f"{spec} ({size})"), ("data SHA-256", str(source.get("sha256", "")))]
        else:
            rows.append(("data", spec))
    for method, how in contents.described("provenance").items():
        options = how.get("options") if isinstance(how, Mapping) else None
        if isinstance(options, Mapping):
            rows.append((method, _listed_options(options)))
    rows += _origin_of_roles(contents)
    kept = (
        *("seed", "metric", "margin", "alpha", "resamples", "draws", "steps"),
        *("iterative", "keep_one_per_layer", "per_kind", "select_data", "stability"),
        *("replacement", "beside", "faithfulness", "absolute"),
    )
    settings = [f"{k}={_plain(contents.settings[k])}" for k in kept if k in contents.settings]
    rows.append(("settings", ", ".join(settings)))
    versions = [f"{name} {version}" for name, version in contents.described("versions").items()]
    rows += [("versions", ", ".join(versions)), ("written", contents.created)]
    return [(name, value) for name, value in rows if value]


def _origin_of_roles(contents: Contents) -> list[tuple[str, str]]:
    """What reproduces the roles, where they are those of another run."""
    roles = contents.described("roles")
    rows = []
    source = roles.get("treebank", roles.get("data"))
    if isinstance(source, Mapping):
        rows = [
            ("roles measured on", _joined(source, "spec")),
            ("SHA-256 of that data", _joined(source, "sha256")),
        ]
    options = roles.get("options")
    if isinstance(options, Mapping):
        rows.append(
            ("options of the roles", ", ".join(f"{k}={_plain(v)}" for k, v in options.items()))
        )
    return [*rows, ("roles made with", str(roles.get("command", "")))]


def _joined(values: Mapping[str, Any], *keys: str) -> str:
    return ", ".join(str(values[key]) for key in keys if values.get(key))


def _listed_options(options: Mapping[str, Any]) -> str:
    """The options of a method that have a value."""
    return ", ".join(f"{k}={_plain(v)}" for k, v in options.items() if v is not None) or "–"


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return number(value) if abs(value) >= 1e4 else f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)
