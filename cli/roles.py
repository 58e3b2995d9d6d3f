"""``headtool roles``: what the heads of a model do, and which roles pruning leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headtool.cli.console import note, out, prepare_messages, progress_bar
from headtool.cli.loading import load_examples, read_data
from headtool.cli.options import (
    BatchTokens,
    Bpe,
    Columns,
    Data,
    Device,
    Dtype,
    FairseqData,
    Force,
    Format,
    Kinds,
    Limit,
    Model,
    Out,
    OutputFormat,
    Quiet,
    Seed,
    TrustCheckpoint,
    Verbose,
    split_names,
    whole_number,
)
from headtool.cli.runs import check_out, this_command
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd

    from headtool.analysis.comparison import Comparison
    from headtool.analysis.role_runs import SavedRoles
    from headtool.data.conllu import Treebank
    from headtool.models.base import Examples
    from headtool.models.pieces import Pieces
    from headtool.parses import Parse

__all__ = ["roles"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool roles --model path/to/model --treebank dev.conllu --out runs/roles\n\n"
    "headtool roles --model org/name --data book.txt --role previous-token,induction\n\n"
    "headtool roles runs/roles --kept runs/comparison"
)

_OF_SAVED = {"context", "run", "kept", "output", "quiet", "verbose"}

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


def roles(
    context: typer.Context,
    run: RunFolder = None,
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
    columns: Columns = None,
    limit: Limit = None,
    batch_tokens: BatchTokens = 4096,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = "float32",
    fairseq_data: FairseqData = None,
    bpe: Bpe = None,
    trust_checkpoint: TrustCheckpoint = False,
    output_dir: Out = None,
    force: Force = False,
    output: Format = OutputFormat.table,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Say what self-attention heads do: follow positions, syntax, rare tokens and the like.

    A head has a role if its largest attention weight lies where the role says for a large enough
    share of the queries, and more often than a baseline's, corrected over all heads and variants.
    Queries are tokens of the text; special tokens and padding are none. Where a role is about such
    tokens alone (positional, rare-token, syntactic, previous-token, induction), weights on special
    tokens are set aside before the largest is looked for. Syntactic heads need a
    treebank. With --kept --format csv, the table of surviving roles is printed.
    """
    prepare_messages(quiet=quiet, verbose=verbose)
    from headtool.analysis.roles import check_thresholds, role_table, surviving_roles

    survivors = _kept(kept)
    if run is not None:
        saved = _saved(run, context)
        frame, source = saved.frame, saved.source
    else:
        if treebank and data is not None:
            raise HeadtoolError("--treebank and --data exclude each other; leave one out")
        if data is not None and data.lower().endswith(".conllu"):
            raise HeadtoolError(f"{data} is a treebank; give it with --treebank")
        if treebank and columns is not None:
            raise HeadtoolError("--columns is for --data; leave it out with --treebank")
        limits = check_thresholds(_thresholds(threshold))
        names = split_names(role, "role") if role is not None else None
        check_thresholds(dict.fromkeys(names or (), 1.0))
        role_table([], correction=correction, alpha=alpha)  # complains of what cannot be
        check_out(output_dir, force=force)
        from headtool.data.conllu import read_treebank
        from headtool.heads import parse_kinds
        from headtool.models import load_model
        from headtool.models.pieces import pieces_of
        from headtool.provenance import provenance
        from headtool.roles import count_roles, request_roles

        kinds = parse_kinds(kind) if kind is not None else None
        trees = read_treebank(treebank, limit=limit) if treebank else None
        text = None if trees else read_data(data, model, columns=columns, limit=limit)
        adapter = load_model(
            model,
            device=device,
            dtype=dtype,
            fairseq_data=fairseq_data,
            bpe=bpe,
            trust_checkpoint=trust_checkpoint,
        )
        request = request_roles(
            adapter, trees, kinds=kinds, roles=names, common=common, frequencies=frequencies
        )
        pieces = pieces_of(adapter)
        if trees is not None:
            examples, parses, described = _parsed(pieces, trees, batch_tokens, quiet)
        else:
            assert text is not None
            examples = load_examples(
                adapter, text, batch_tokens=batch_tokens, limit=limit, seed=seed, quiet=quiet
            )
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
        source = provenance(adapter, examples, "roles", settings, "share", seed) | described
        _check_model(survivors, source)
        with progress_bar(quiet=quiet) as progress:
            counts, notes = count_roles(
                pieces, examples, request, parses=parses, seed=seed, progress=progress
            )
        source["notes"] = notes
        frame = role_table(
            counts, thresholds=limits, least=least, correction=correction, alpha=alpha
        )
    for line in source["notes"]:
        note(line, quiet=quiet)
    survival = None
    if survivors is not None:
        _check_model(survivors, source)
        survival = surviving_roles(frame, survivors.kept)
    if run is None and output_dir is not None:
        _write(output_dir, source, frame, survival, adapter.sites, force)
        note(f"written to {output_dir}", quiet=quiet)
    _print(frame, survival, source, output)


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
    pieces: Pieces, trees: Treebank, batch_tokens: int, quiet: bool
) -> tuple[Examples, tuple[Parse, ...], dict[str, Any]]:
    """Tokenise a treebank, saying what was left out."""
    from headtool.parses import encode_treebank

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


def _write(
    folder: Path,
    source: Mapping[str, Any],
    frame: pd.DataFrame,
    survival: pd.DataFrame | None,
    sites: Any,
    force: bool,
) -> None:

    from headtool.runs import site_frame, write_run

    tables = {
        "roles": frame,
        "sites": site_frame(sites),
    }
    if survival is not None:
        tables["role_survival"] = survival
    write_run(
        folder,
        command=this_command(),
        provenance={"roles": dict(source)},
        tables=tables,
        force=force,
    )


def _print(
    frame: pd.DataFrame,
    survival: pd.DataFrame | None,
    source: Mapping[str, Any],
    output: OutputFormat,
) -> None:
    if output is OutputFormat.json:
        from headtool.results import json_rows

        document: dict[str, Any] = {
            "schema": "headtool/roles/1",
            "provenance": source,
            "roles": json_rows(frame),
        }
        if survival is not None:
            document["survival"] = json_rows(survival)
        typer.echo(json.dumps(document, indent=1, allow_nan=False))
    elif output is OutputFormat.csv:
        typer.echo((frame if survival is None else survival).to_csv(index=False), nl=False)
    else:
        from headtool.reports.role_tables import role_tables

        console = out()
        for part in role_tables(frame, source, survival):
            console.print(part)
