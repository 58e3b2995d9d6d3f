"""``headtool import`` and ``headtool export``: scores made elsewhere, in and out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headtool.cli.choices import chosen_kinds
from headtool.cli.console import note, prepare_messages, this_command
from headtool.cli.fields import with_options
from headtool.cli.groups import LoadOptions, command
from headtool.cli.options import Force, Out, Quiet, Seed, Verbose
from headtool.errors import HeadtoolError, unknown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headtool.experiments.exchange import Imported
    from headtool.experiments.inputs import ModelSource
    from headtool.heads import Kind

__all__ = ["exporting", "importing"]

IMPORT_EXAMPLES = (
    "Examples:\n\n"
    "headtool import scores.csv --name theirs --model path/to/model --out runs/theirs\n\n"
    "headtool import llama-2-7b-80k.json --name retrieval --out runs/retrieval\n\n"
    "headtool import full_attention_heads.tsv --name duo --heads 32x32 --out runs/duo"
)
EXPORT_EXAMPLES = (
    "Examples:\n\n"
    "headtool export runs/scores --to csv --out scores.csv\n\n"
    "headtool export runs/scores --to hf --remove 40%\n\n"
    "headtool export runs/scores --to mib --model path/to/model --out circuit.json"
)

FORMATS = ("csv", "json", "retrieval", "mib", "duo", "hf")
_FORMATS = "|".join(FORMATS)


def _format(text: str) -> str:
    if text not in FORMATS:
        raise unknown("format", text, FORMATS)
    return text


File = Annotated[Path, typer.Argument(metavar="FILE", help="Scores that another tool wrote.")]
Name = Annotated[
    str, typer.Option("--name", metavar="NAME", help="What to call them, as a method is called.")
]
Theirs = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="SPEC",
        help="The model that was scored: every head of it must have a score. Without it, there are "
        "as many heads as the file or --heads says.",
        rich_help_panel="Model",
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        "--heads",
        metavar="LAYERSxHEADS",
        help="Layers and heads of a layer, such as 32x32, where the model is not at hand and the "
        "file does not say.",
    ),
]
OneKind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Kind of attention: enc-self, dec-self or cross. Needed where the file names none and "
        "the model has several.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        parser=_format,
        metavar=_FORMATS,
        help="Format of the file. Default: told from its content.",
    ),
]
Method = Annotated[
    str | None,
    typer.Option("--method", metavar="NAME", help="Whose scores, where there are several methods."),
]
Absolute = Annotated[
    bool, typer.Option("--absolute", metavar="", help="Take the scores without their signs.")
]
RunFolder = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="Folder that score, ablate or import wrote with --out."),
]
To = Annotated[
    str,
    typer.Option("--to", parser=_format, metavar=_FORMATS, help="Format to write."),
]
Remove = Annotated[
    str | None,
    typer.Option("--remove", metavar="SHARE", help="For hf: the share of heads that go, as 40%."),
]
KeepHeads = Annotated[
    int | None,
    typer.Option("--keep-heads", metavar="N", help="For hf: how many heads stay instead."),
]
OutFile = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Where to. Default: standard output."),
]
ForceFile = Annotated[
    bool, typer.Option("--force", metavar="", help="Replace a file that is already there.")
]


@command
def importing(
    *,
    file: File,
    name: Name,
    model: Theirs = None,
    heads: Shape = None,
    kind: OneKind = None,
    output: Format = None,
    method: Method = None,
    absolute: Absolute = False,
    seed: Seed = 0,
    loading: LoadOptions,
    output_dir: Out = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Read scores of heads that another tool made into a run.

    Then `headtool compare --scores RUN` tests them beside other methods on your model, and
    correlate, prune, report and show take the run as any other. A file is a CSV or JSON with layer,
    head and score; JSON with keys such as L5H1, a5.h1 or 5-1, each with a score or a list of
    repeats; a graph of MIB; a TSV of DuoAttention's groups; or the heads that go, {layer: [heads]}.
    """
    prepare_messages(quiet=quiet, verbose=verbose)
    from headtool.cli.console import out
    from headtool.experiments.exchange import import_scores

    found = import_scores(
        file,
        name=name,
        model=_source(model, loading),
        heads=heads,
        kind=_one_kind(kind),
        format=output,
        method=method,
        absolute=absolute,
        seed=seed,
        out=output_dir,
        force=force,
        command=this_command(),
    )
    for line in found.notes:
        note(line, quiet=quiet)
    for part in _tables(found):
        out().print(part)
    if output_dir is None:
        note("nothing is written; add --out DIR", quiet=quiet)
    else:
        note(f"written to {output_dir}", quiet=quiet)


@command
def exporting(
    *,
    run: RunFolder,
    to: To,
    method: Method = None,
    kind: OneKind = None,
    model: Theirs = None,
    remove: Remove = None,
    keep_heads: KeepHeads = None,
    loading: LoadOptions,
    out: OutFile = None,
    force: ForceFile = False,
    quiet: Quiet = False,
) -> None:
    """Write the scores of a run for another tool, to a file or to standard output.

    The formats are those that `headtool import` reads. MIB's graphs hold the width of the model and
    DuoAttention's table its key/value groups: where the run does not say them, name the --model.
    """
    prepare_messages(quiet=quiet)
    from headtool.experiments.exchange import export_scores

    text = export_scores(
        run,
        to=to,
        method=method,
        kind=_one_kind(kind),
        model=_source(model, loading),
        remove=remove,
        keep_heads=keep_heads,
        out=out,
        force=force,
    )
    if out is None:
        typer.echo(text, nl=False)
    else:
        note(f"written to {out}", quiet=quiet)


def _source(model: str | None, loading: LoadOptions) -> ModelSource | None:
    if model is not None:
        return loading.source(model)
    if loading != LoadOptions():
        raise HeadtoolError("these options say how to load a model; give `model`")
    return None


def _one_kind(text: str | None) -> Kind | None:
    kinds = chosen_kinds(text)
    if kinds is None:
        return None
    if len(kinds) > 1:
        raise HeadtoolError(f"`kind` is one kind of attention here, got {text}")
    return kinds[0]


def _tables(found: Imported) -> Iterator[RenderableType]:
    from rich.text import Text

    from headtool.reports.terminal.scores import score_maps

    imported = found.result.provenance["imported"]
    yield Text.assemble(
        (found.result.method, "bold"),
        f"  {len(found.frame)} heads from {imported['file']}, format {found.format}",
    )
    if found.repeats is not None:
        yield Text(
            with_options(
                f"  {found.repeats} repeats of every head: split-half reliability "
                f"{found.reliability:.4f}, of the ranks {found.reliability_of_ranks:.4f}"
            ),
            style="dim",
        )
    yield from score_maps(found.frame)
