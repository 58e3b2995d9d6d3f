"""The options that commands share, each with its help."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headtool.errors import HeadtoolError, unknown

if TYPE_CHECKING:
    pass

__all__ = [
    "BatchTokens",
    "Bpe",
    "Columns",
    "Data",
    "Device",
    "DeviceMap",
    "DryRun",
    "Dtype",
    "FairseqData",
    "Force",
    "Format",
    "Kinds",
    "Limit",
    "LimitOrder",
    "LoadIn",
    "MethodNames",
    "Metric",
    "Model",
    "Out",
    "OutputFormat",
    "Quiet",
    "SavedScores",
    "Seed",
    "Settings",
    "TrustCheckpoint",
    "Verbose",
    "whole_number",
]

_MODEL, _DATA, _RUN = "Model", "Data", "Output"
LARGEST_SEED = 2**63 - 1  # what torch takes


class OutputFormat(StrEnum):
    """What a result is printed as."""

    table = "table"
    json = "json"
    csv = "csv"


def whole_number(option: str, least: int, most: int | None = None) -> Callable[[str], int]:
    """Make the parser of an option that takes a whole number.

    Parameters
    ----------
    option
        The option, for the message.
    least, most
        Smallest and largest number; None for no limit.
    """

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise HeadtoolError(f"{option} must be a whole number, got '{text}'") from None
        if number < least:
            raise HeadtoolError(f"{option} must be at least {least}, got {number}")
        if most is not None and number > most:
            raise HeadtoolError(f"{option} must be at most {most}, got {number}")
        return number

    return parse


def _batch_tokens(text: str) -> int | None:
    return None if text == "auto" else whole_number("--batch-tokens", least=1)(text)


def _format(text: str) -> OutputFormat:
    if text not in OutputFormat.__members__:
        raise unknown("format", text, OutputFormat.__members__)
    return OutputFormat(text)


Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="SPEC",
        help="builtin:nli, builtin:mt, builtin:planted, a folder or hub id (org/name, "
        "org/name@revision), FILE.gguf, or fairseq:CHECKPOINT.pt.",
        rich_help_panel=_MODEL,
    ),
]
Device = Annotated[
    str,
    typer.Option(metavar="NAME", help="auto, cpu, cuda, cuda:1 or mps.", rich_help_panel=_MODEL),
]
Dtype = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="auto (as it was saved), float32, bfloat16 or float16.",
        rich_help_panel=_MODEL,
    ),
]
DeviceMap = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="In place of --device, for a model that one device does not hold: auto, disk, or JSON "
        '(or a file of it) such as {"model.embed_tokens": 0, "model.layers": "cpu"}.',
        rich_help_panel=_MODEL,
    ),
]
LoadIn = Annotated[
    str | None,
    typer.Option(
        metavar="BITS",
        help="8bit or 4bit: quantise with bitsandbytes, on a GPU.",
        rich_help_panel=_MODEL,
    ),
]
FairseqData = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Dictionaries of a fairseq model, where they are not beside the checkpoint.",
        rich_help_panel=_MODEL,
    ),
]
Bpe = Annotated[
    str | None,
    typer.Option(
        metavar="NAME:FILE",
        help="Subwords of a fairseq model, such as sentencepiece:FILE or gpt2:DIR, or none.",
        rich_help_panel=_MODEL,
    ),
]
TrustCheckpoint = Annotated[
    bool,
    typer.Option(
        "--trust-checkpoint",
        metavar="",
        help="Unpickle a fairseq checkpoint in full. It can run any code in the file.",
        rich_help_panel=_MODEL,
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="SPEC",
        help="builtin:nli/matched, a .tsv/.csv/.jsonl/.parquet/.conll/.json file, a folder of "
        "images, SRC.de,REF.en, "
        "fairseq-bin:DIR/test, a .txt file, or hub:glue/sst2:validation. "
        "Default: the built-in set of the model's task.",
        rich_help_panel=_DATA,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="ROLE=NAME,...",
        help="Columns of a data file, such as text_a=premise,label=gold.",
        rich_help_panel=_DATA,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        parser=whole_number("--limit", least=1),
        metavar="N",
        help="Use N examples, drawn by --seed, each class in its share.",
        rich_help_panel=_DATA,
    ),
]
LimitOrder = Annotated[
    str,
    typer.Option(
        "--limit-order",
        metavar="NAME",
        help="Which examples --limit uses: seeded draws them, first takes the first N.",
        rich_help_panel=_DATA,
    ),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        "--batch-tokens",
        parser=_batch_tokens,
        metavar="N|auto",
        help="Tokens in a batch, padding included. auto: as many as fit into the memory. Batches "
        "that do not fit are made smaller.",
        rich_help_panel=_DATA,
    ),
]
MethodNames = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME,...",
        help="Scoring methods; see `headtool methods`.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="METHOD.OPTION=VALUE",
        help="Set an option of a method, such as gradient.granularity=example. Repeatable.",
    ),
]
SavedScores = Annotated[
    list[Path] | None,
    typer.Option(
        "--scores",
        metavar="RUN",
        help="A run of `headtool import` or `score`, whose scores are a method too. Repeatable.",
    ),
]
Kinds = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="KIND,...",
        help="Attention kinds: enc-self, dec-self, cross. Default: all.",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Such as accuracy, mcc, loss, kl, logit-difference, acc; for translations also bleu, "
        "chrf, ter and rougeL, which decode. Default: accuracy, pearson or loss, by the task.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        parser=whole_number("--seed", least=0, most=LARGEST_SEED),
        metavar="N",
        help="Seed of everything random.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Write a run directory as well.", rich_help_panel=_RUN
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", metavar="", help="Replace what is already there.", rich_help_panel=_RUN
    ),
]
Format = Annotated[
    OutputFormat,
    typer.Option(
        "--format",
        parser=_format,
        metavar="table|json|csv",
        help="What to print on stdout.",
        rich_help_panel=_RUN,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        metavar="",
        help="Say what it would cost (passes, operations, memory, time), and stop. One batch is "
        "run for the time; nothing is written.",
        rich_help_panel=_RUN,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", metavar="", help="No progress and no notes.", rich_help_panel=_RUN
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        metavar="",
        help="Show what the libraries underneath say.",
        rich_help_panel=_RUN,
    ),
]
