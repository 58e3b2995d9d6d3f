"""From fields, which the library's messages name, to options of the command that is running.

The library writes ``"`alpha` must be between 0 and 1, got 2"``: from Python, fields are what a user
gives. On the command line the same message says ``--alpha``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["set_command", "with_options"]

# Fields whose option has another name, and those that have no option at all.
_NAMES = {
    "kinds": "--kind",
    "length_penalty": "--lenpen",
    "max_length": "--max-new-tokens",
    "methods": "--method",
    "beside": "--replacement",
    "replicates": "--replicate",
    "roles": "--role",
}
# A field in backticks, or a field with a value, such as `bake=True` or `dtype=float32`.
_FIELD = re.compile(r"`([a-z][a-z_]*)(?:=([^`]*))?`")

_known = set(_NAMES)
_options: dict[str, str] = {}


def set_command(running: Any, commands: Iterable[Any]) -> None:
    """Translate into the options of one command from now on.

    Parameters
    ----------
    running
        The command.
    commands
        All commands; their parameters are fields too.
    """
    own = _own_options(running)
    _known.update(*map(_own_options, commands))
    _options.clear()
    for field, option in _NAMES.items():
        if option is not None and option in own.values():
            _options[field] = option
    _options.update(own)


def with_options(text: str) -> str:
    """Replace fields in backticks by options of the running command.

    A field that the command has no option for only loses its backticks. All else stays.

    Parameters
    ----------
    text
        A message of the library.
    """
    return _FIELD.sub(_translated, text)


def _translated(match: re.Match[str]) -> str:
    field, value = match.groups()
    if field not in _known:
        return match[0]
    option = _options.get(field)
    if option is None:
        return match[0].strip("`")
    return option if value in (None, "True") else f"{option} {value}"


def _own_options(command: Any) -> dict[str, str]:
    """A command's options by the name of the parameter, and by their own."""
    found: dict[str, str] = {}
    for parameter in command.params:
        option = max(parameter.opts, key=len)
        if option.startswith("--"):
            found[option.removeprefix("--").replace("-", "_")] = option
            found[parameter.name] = option
    return found
