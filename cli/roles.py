"""``headtool roles``: what the heads of a model do, and which roles pruning leaves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headtool.cli.console import note, progress_bar
from headtool.cli.groups import DataOptions, LoadOptions, PrintOptions, RunOptions, command
from headtool.cli.options import Data, Kinds, Model, split_names, whole_number
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd

    from headtool.analysis.comparison import Comparison
    from headtool.analysis.role_runs import SavedRoles
    from headtool.data.conllu import Treebank
    from headtool.models.base import Examples, ModelAdapter
    from headtool.models.pieces import Pieces
    from headtool.patterns.parses import Parse

__all__ = ["roles"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool roles --model path/to/model --treebank dev.conllu --out runs/roles\n\n"
    "headtool roles --model org/name --data book.txt --role previous-token,induction\n\n"
    "headtool roles runs/roles --kept runs/comparison"
)

_OF_SAVED = {"context", "saved", "kept", "output", "quiet", "verbose"}

RunFolder = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RUN]", help="Show what `headtool roles --out` wrote; the model is not run."
    ),
]
TreebankFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--treebank",
        metavar="FILE",
        help="Sentences with their dependencies in CoNLL-U, instead of --data. Repeatable. "
        "A translation model reads them with its encoder.",
        rich_help_panel="Data",
    ),
]
RoleNames = Annotated[
    str | None,
    typer.Option(
        "--role",
        metavar="NAME,...",
        help="positional, syntactic, rare-token, separator, punctuation, first-token, "
        "previous-token, induction. Default: all that are possible.",
    ),
]
Thresholds = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        metavar="ROLE=SHARE,...",
        help="From which share of its queries a head has a role; for syntactic, how much better "
        "than the baseline it must be. Default: positional=0.9, syntactic=0.1, rare-token=0.66, "
        "the others 0.5.",
    ),
]
Common = Annotated[
    int,
    typer.Option(
        "--common",
        parser=whole_number("--common", least=0),
        metavar="N",
        help="The N most frequent types of tokens are never rare.",
    ),
]
FrequencyFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="What is rare: lines of TOKEN COUNT, tokens as the model's vocabulary writes them. "
        "Default: counts in the data.",
    ),
]
Least = Annotated[
    int,
    typer.Option(
        "--least",
        parser=whole_number("--least", least=1),
        metavar="N",
        help="Leave out dependency relations with fewer queries in a direction.",
    ),
]
Correction = Annotated[str, typer.Option(metavar="NAME", help="holm, bh, by or none.")]
Alpha = Annotated[float, typer.Option(metavar="LEVEL", help="Level after correction.")]
Kept = Annotated[
    Path | None,
    typer.Option(
        "--kept",
        metavar="RUN",
        help="A run of `headtool compare` of this model: which roles does each method leave?",
    ),
]


@command
def roles(
    *,
    context: typer.Context,
    saved: RunFolder = None,
    model: Model = "builtin:nli",
    data: Data = None,
    treebank: TreebankFiles = None,
    kind: Kinds = None,
    role: RoleNames = None,
    threshold: Thresholds = None,
    common: Common = 500,
    frequencies: FrequencyFile = None,
    least: Least = 20,
    correction: Correction = "holm",
    alpha: Alpha = 0.05,
    kept: Kept = None,
    reading: DataOptions,
    loading: LoadOptions,
    run: RunOptions,
    show: PrintOptions,
) -> None:
    """Say what self-attention heads do: follow positions, syntax, rare tokens and the like.

    A head has a role if its largest attention weight lies where the role says for a large enough
    share of the queries, and more often than a baseline's, corrected over all heads and variants.
    Queries are tokens of the text; special tokens and padding are none. Where a role is about such
    tokens alone (positional, rare-token, syntactic, previous-token, induction), weights on special
    tokens are set aside before the largest is looked for. Syntactic heads need a
    treebank. With --kept --format csv, the table of surviving roles is printed.
    """
    show.prepare()
    from headtool.analysis.roles import check_thresholds, role_table, surviving_roles
    from headtool.reports.terminal.roles import role_tables

    survivors = _kept(kept)
    if saved is not None:
        found = _saved(saved, context)
        frame, source = found.frame, found.source
    else:
        if treebank and data is not None:
            raise HeadtoolError("--treebank and --data exclude each other; leave one out")
        if data is not None and data.lower().endswith(".conllu"):
            raise HeadtoolError(f"{data} is a treebank; give it with --treebank")
        if treebank and reading.columns is not None:
            raise HeadtoolError("--columns is for --data; leave it out with --treebank")
        limits = check_thresholds(_thresholds(threshold))
        names = split_names(role, "role") if role is not None else None
        check_thresholds(dict.fromkeys(names or (), 1.0))
        role_table([], correction=correction, alpha=alpha)  # complains of what cannot be
        run.check()
        from headtool.data.conllu import read_treebank
        from headtool.engine.provenance import provenance
        from headtool.heads import parse_kinds
        from headtool.patterns.counting import count_roles, request_roles
        from headtool.results.runs import site_frame

        kinds = parse_kinds(kind) if kind is not None else None
        trees = read_treebank(treebank, limit=reading.limit) if treebank else None
        text = None if trees else reading.read(data, model)
        adapter = loading.load(model)
        request = request_roles(
            adapter, trees, kinds=kinds, roles=names, common=common, frequencies=frequencies
        )
        pieces = adapter.pieces()
        if trees is not None:
            examples, parses, described = _parsed(pieces, trees, reading.batch_tokens, show.quiet)
        else:
            assert text is not None
            examples = reading.encode(adapter, text, quiet=show.quiet)
            parses, described = (), {}
        settings = {
            "roles": list(request.roles),
            "kinds": list(request.kinds),
            "thresholds": {name: limits[name] for name in request.roles},
            "common": common,
            "frequencies": frequencies,
            "least": least,
            "correction": correction,
            "alpha": alpha,
        }
        source = provenance(adapter, examples, "roles", settings, "share", reading.seed) | described
        _check_model(survivors, source)
        with progress_bar(quiet=show.quiet) as progress:
            counts, notes = count_roles(
                pieces, examples, request, parses=parses, seed=reading.seed, progress=progress
            )
        source["notes"] = notes
        frame = role_table(
            counts, thresholds=limits, least=least, correction=correction, alpha=alpha
        )
    for line in source["notes"]:
        note(line, quiet=show.quiet)
    survival = None
    if survivors is not None:
        _check_model(survivors, source)
        survival = surviving_roles(frame, survivors.kept)
    if saved is None:
        tables = {"roles": frame, "sites": site_frame(adapter.sites)}
        if survival is not None:
            tables["role_survival"] = survival
        run.write({"roles": source}, tables, quiet=show.quiet)
    show.print(
        document=lambda: _document(frame, survival, source),
        frame=lambda: frame if survival is None else survival,
        tables=lambda: role_tables(frame, source, survival),
    )


def _thresholds(text: str | None) -> dict[str, float]:
    """Read ``role=share`` pairs."""
    found: dict[str, float] = {}
    for part in split_names(text, "threshold") if text is not None else ():
        name, equals, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not equals or number != number:
            raise HeadtoolError(f"--threshold takes ROLE=SHARE,..., got '{part}'")
        if name in found:
            raise HeadtoolError(f"--threshold gives {name} twice")
        found[name] = number
    return found


def _kept(folder: Path | None) -> Comparison | None:
    """Read which heads a comparison keeps."""
    if folder is None:
        return None
    from headtool.analysis.comparison import read_comparison

    return read_comparison(folder)


def _check_model(compared: Comparison | None, source: Mapping[str, Any]) -> None:
    """Refuse to join roles and kept heads of two models."""
    if compared is None or compared.folder is None:
        return
    from headtool.analysis.role_runs import check_model

    check_model(source["model"], compared.settings.get("model", {}), given=compared.folder)


def _saved(folder: Path, context: typer.Context) -> SavedRoles:
    """Read a run; options that need the model are refused."""
    from headtool.analysis.role_runs import read_roles

    for parameter in context.command.params:
        name = str(parameter.name)
        found = context.get_parameter_source(name)
        if name not in _OF_SAVED and found is not None and found.name == "COMMANDLINE":
            raise HeadtoolError(
                f"{parameter.opts[0]} needs the model, and {folder} is a finished run; leave one "
                "of them out"
            )
    return read_roles(folder)


def _parsed(
    pieces: Pieces[ModelAdapter], trees: Treebank, batch_tokens: int, quiet: bool
) -> tuple[Examples, tuple[Parse, ...], dict[str, Any]]:
    """Tokenise a treebank, saying what was left out."""
    from headtool.patterns.parses import encode_treebank

    parsed = encode_treebank(pieces, trees, batch_tokens=batch_tokens)
    spec = pieces.model.spec
    for count, what in (
        (parsed.too_long, f"left out: longer than the {pieces.max_length} tokens of {spec}"),
        (parsed.unaligned, "left out: they could not be aligned with their tokens"),
    ):
        if count:
            note(f"{count} of {len(trees.sentences)} sentences {what}", quiet=quiet)
    if parsed.lost:
        note(f"words without a token, whose dependencies do not count: {parsed.lost}", quiet=quiet)
    described = {
        "treebank": {
            "spec": trees.spec,
            "sha256": trees.fingerprint,
            "sentences": len(trees.sentences),
            "too_long": parsed.too_long,
            "unaligned": parsed.unaligned,
            "words_without_token": parsed.lost,
        }
    }
    return parsed.examples, parsed.parses, described


def _document(
    frame: pd.DataFrame, survival: pd.DataFrame | None, source: Mapping[str, Any]
) -> dict[str, Any]:
    from headtool.results.scores import json_rows

    return {
        "schema": "headtool/roles/1",
        "provenance": source,
        "roles": json_rows(frame),
        **({} if survival is None else {"survival": json_rows(survival)}),
    }
