"""The options of ``headtool prune``: which heads to remove, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtool.cli.options import whole_number

__all__ = [
    "Bake",
    "BatchSize",
    "Curve",
    "Finetune",
    "KeepHeads",
    "KeepOne",
    "Lora",
    "Mask",
    "Method",
    "Onnx",
    "Out",
    "Private",
    "Push",
    "Rate",
    "Remove",
    "Replace",
    "Rescale",
    "Scores",
    "Steps",
    "Unit",
    "Verdict",
]

_WHICH, _HOW, _RECOVERY = "Which heads", "How", "Recovery"

Scores = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN",
        help="Run of `headtool compare` or `score`; of `ablate` with --verdict.",
        rich_help_panel=_WHICH,
    ),
]
Method = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Method, where the run has several.", rich_help_panel=_WHICH),
]
Remove = Annotated[
    str | None,
    typer.Option(metavar="SHARE", help="Heads to remove, such as 40%.", rich_help_panel=_WHICH),
]
KeepHeads = Annotated[
    int | None,
    typer.Option(
        "--keep-heads",
        parser=whole_number("--keep-heads", least=1),
        metavar="N",
        help="Heads to keep, instead of --remove.",
        rich_help_panel=_WHICH,
    ),
]
Verdict = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Instead, the heads that `headtool test` finds removable (or harmful).",
        rich_help_panel=_WHICH,
    ),
]
Mask = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Instead, the heads that a file closes: headtool's JSON, heads by layer, or "
        "E:1:3 A:6:2.",
        rich_help_panel=_WHICH,
    ),
]
KeepOne = Annotated[
    bool,
    typer.Option(
        "--keep-one-per-layer",
        metavar="",
        help="Never remove the last head of a layer.",
        rich_help_panel=_WHICH,
    ),
]
Unit = Annotated[
    str,
    typer.Option(
        metavar="head|group",
        help="Remove heads, whose keys and values stay while any head shares them, or whole "
        "key/value groups.",
        rich_help_panel=_WHICH,
    ),
]
Rescale = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="least-squares: refit the scales of the heads that stay, layer by layer, to what the "
        "whole model computes on --data (Kwon et al. 2022, mask tuning). Labels are not used.",
        rich_help_panel=_HOW,
    ),
]
Replace = Annotated[
    str | None,
    typer.Option(
        metavar="mean|optimal",
        help="What the heads that are gone put out, added to the biases of output projections: "
        "their means, or the constants with the least loss, fitted on one half of --data (or on "
        "--finetune).",
        rich_help_panel=_HOW,
    ),
]
Curve = Annotated[
    bool,
    typer.Option(
        "--curve/--no-curve",
        help="With --replace, also measure what is left when other shares of the heads go.",
        rich_help_panel=_HOW,
    ),
]
Finetune = Annotated[
    str | None,
    typer.Option(
        "--finetune",
        metavar="SPEC",
        help="Train the pruned model on this data set. Examples that are in --data, which "
        "measures, are left out; alone, it is halved, and the other half measures.",
        rich_help_panel=_RECOVERY,
    ),
]
Steps = Annotated[
    int,
    typer.Option(
        "--steps",
        parser=whole_number("--steps", least=1),
        metavar="N",
        help="Steps of training.",
        rich_help_panel=_RECOVERY,
    ),
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--lr",
        metavar="RATE",
        help="Highest learning rate. Default: 5e-5, and 1e-3 with --lora.",
        rich_help_panel=_RECOVERY,
    ),
]
BatchSize = Annotated[
    int,
    typer.Option(
        "--batch-size",
        parser=whole_number("--batch-size", least=1),
        metavar="N",
        help="Examples in a step.",
        rich_help_panel=_RECOVERY,
    ),
]
Lora = Annotated[
    bool,
    typer.Option(
        "--lora",
        metavar="",
        help="Train low-rank updates and add them to the weights in the end (the extra "
        "headtool\\[lora]).",
        rich_help_panel=_RECOVERY,
    ),
]
Bake = Annotated[
    bool,
    typer.Option(
        "--bake",
        metavar="",
        help="Write a model of full size that any software loads, in which the heads put out "
        "nothing.",
        rich_help_panel=_HOW,
    ),
]
Onnx = Annotated[
    bool,
    typer.Option(
        "--onnx",
        metavar="",
        help="Export the smaller model as model.onnx as well (the extra headtool\\[onnx]).",
        rich_help_panel=_HOW,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Where to write the model. Without it, nothing is."),
]
Push = Annotated[
    str | None,
    typer.Option(
        "--push",
        metavar="ORG/NAME",
        help="Also upload the folder to this repository of the Hugging Face hub, made if missing.",
    ),
]
Private = Annotated[
    bool,
    typer.Option("--private", metavar="", help="With --push: a new repository is private."),
]
