"""Pages that are written from the package: every command's options, and every public name."""

from __future__ import annotations

import re
import shlex
from html import escape
from typing import Any

BLOCKS = {
    "Functions": "Every command as a function, and what goes with them.",
    "Results": "What functions return and read: frozen, with typed tables.",
    "Models and data": "What comes before: models, data sets and pruned models.",
    "Building blocks": "Heads, masks, methods and metrics, and the primitives of all methods.",
}
"""The pages of the API reference, and what stands at the top of each."""

PLUGIN_WORDS = "What a method of another package derives from, gets and returns."
PLUGIN_NAMES = [f"headtool.methods.base.{name}" for name in ("Method", "Job", "Scored", "option")]


def command_names() -> list[str]:
    """Return the names of the commands, in the order of `headtool --help`."""
    import typer

    from headtool.cli.main import app

    return list(typer.main.get_command(app).commands)


def command_pages() -> dict[str, str]:
    """Return a page for each command, by name, from what `--help` says."""
    import typer

    from headtool.cli.main import app

    group = typer.main.get_command(app)
    root = group.make_context("headtool", [], resilient_parsing=True)
    return {
        name: _command_page(
            name, command, command.context_class(command, parent=root, info_name=name)
        )
        for name, command in group.commands.items()
    }


def _parts(name: str, group: Any, context: Any) -> list[str]:
    """What the commands of a group say of themselves, below its title and examples."""
    pages = [
        _command_page(f"{name} {inner}", command, command.context_class(command, parent=context))
        for inner, command in group.commands.items()
    ]
    own = [
        re.sub(r"^## Examples\n\n```sh\n.*?```\n", "", page, flags=re.M | re.S) for page in pages
    ]
    return [re.sub(r"^#", "##", page, flags=re.M).strip() for page in own]


def _command_page(name: str, command: Any, context: Any) -> str:
    parts = [f"# headtool {name}", command.help]
    pieces = " ".join(command.collect_usage_pieces(context))
    parts.append(f"```text\nheadtool {name} {pieces}\n```")
    examples = _examples(command.epilog or "")
    if examples:
        parts.append("## Examples\n\n```sh\n" + "\n".join(examples) + "\n```")
    panels: dict[str, list[Any]] = {}
    for parameter in command.get_params(context):
        if not getattr(parameter, "hidden", False) and "--help" not in parameter.opts:
            usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
            title = getattr(parameter, "rich_help_panel", None) or usual
            panels.setdefault(title, []).append(parameter)
    for title, parameters in panels.items():
        rows = [_row(parameter, context) for parameter in parameters]
        parts.append(f"## {title}\n\n| option | meaning |\n| --- | --- |\n" + "\n".join(rows))
    parts += _parts(name, command, context) if hasattr(command, "commands") else []
    return "\n\n".join(parts) + "\n"


def _examples(epilog: str) -> list[str]:
    lines = [" ".join(part.split()) for part in epilog.split("\n\n")]
    return [line for line in lines if shlex.split(line)[:1] == ["headtool"]]


def _row(parameter: Any, context: Any) -> str:
    names, meaning = parameter.get_help_record(context) or (parameter.make_metavar(context), "")
    return f"| {_code(names)} | {_cell(meaning)} |"


def _code(names: str) -> str:
    return f"<code>{escape(names.strip()).replace('|', '&#124;')}</code>"


def _cell(text: str) -> str:
    words = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    words = re.sub(r"\[((?:default|required)[^\]]*)\]", r"*\1*", words)
    return re.sub(r"(?<![\w`])(--[\w-]+)", r"`\1`", words)


def api_pages() -> dict[str, str]:
    """Return the pages of the API reference, by name: every name in `headtool.__all__`."""
    import headtool
    from headtool.methods import BUILTIN

    groups: dict[str, list[str]] = {title: [] for title in BLOCKS}
    for name in sorted(headtool.__all__, key=str.lower):
        groups[_group(name, headtool._HOMES[name])].append(f"headtool.{name}")
    pages = {
        title.lower().replace(" ", "-"): _api_page(title, BLOCKS[title], names)
        for title, names in groups.items()
    }
    classes = [place.replace(":", ".") for place in BUILTIN.values()]
    pages["plugins"] = _api_page("For packages that add methods", PLUGIN_WORDS, PLUGIN_NAMES)
    pages["methods"] = _api_page(
        "Methods", "The classes of the built-in methods, with their options.", classes
    )
    return pages


def _group(name: str, home: str) -> str:
    room = home.split(".")[1]
    if room in ("data", "models", "pruning") or home.endswith(".inputs"):
        return "Models and data"
    rooms = ("experiments", "studies", "reports", "results", "analysis", "methods")
    if room in rooms and not name.startswith("get_"):
        return "Results" if name[0].isupper() else "Functions"
    return "Building blocks"


def _api_page(title: str, words: str, names: list[str]) -> str:
    homes = "\n\n".join(f"::: {name}" for name in names)
    return f"# {title}\n\n{words}\n\n{homes}\n"
