"""The options of methods: how they are declared, described, and read from text.

Nothing heavy is imported, so that a mistake in an option is told before torch is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headtool.errors import HeadtoolError, nearest

__all__ = ["Description", "Option", "option"]

T = TypeVar("T")


def option(default: T, help: str, *, choices: Iterable[str] = ()) -> T:
    """Declare an option of a method, as a field of its dataclass.

    Parameters
    ----------
    default
        Its value unless a user sets another.
    help
        One line for users, in lower case and without a full stop.
    choices
        The values it may take beside its default; empty for no limit.
    """
    metadata = {"help": help, "choices": tuple(choices)}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Option:
    """An option of a method as users see it.

    Attributes
    ----------
    name
        The field's name, without the underscore that keeps it apart from a Python keyword.
    default
        Its value unless a user sets another.
    help
        What it means, in one line.
    choices
        The values it may take beside the default; empty for no limit.
    type
        ``str``, ``bool``, ``int`` or ``float``; followed by ``| None`` where it may be none.
    """

    name: str
    default: Any
    help: str
    choices: tuple[str, ...]
    type: str = "str"

    def check(self, value: object, method: str) -> None:
        """Refuse a value that is none of the choices.

        Parameters
        ----------
        value
            The value.
        method
            Name of the method, for the message.

        Raises
        ------
        HeadtoolError
            If there are choices and it is none of them.
        """
        if self.choices and value not in (*self.choices, self.default):
            raise HeadtoolError(
                f"{method}.{self.name} must be one of {', '.join(self.choices)}, got '{value}'"
            )

    def read(self, text: str, method: str) -> Any:
        """Read a value, as ``--set`` gives it, by the option's type.

        Parameters
        ----------
        text
            The value as text.
        method
            Name of the method, for the message.

        Raises
        ------
        HeadtoolError
            If it is of another type, or none of the choices.
        """
        kind, _, none = self.type.partition(" | ")
        if none and text.lower() == "none":
            return None
        value = _READERS.get(kind, _text)(text, f"{method}.{self.name}")
        self.check(value, method)
        return value


@dataclass(frozen=True)
class Description:
    """A method as users see it.

    Attributes
    ----------
    name
        Its name.
    summary
        What a score is, in one line.
    reference
        Where it comes from.
    options
        Its options.
    """

    name: str
    summary: str
    reference: str
    options: tuple[Option, ...]

    def read(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Read option values from text, as ``--set`` gives them.

        Parameters
        ----------
        texts
            Values by option.

        Raises
        ------
        HeadtoolError
            If an option is unknown, or a value cannot be read or is none of the choices.
        """
        known = {declared.name: declared for declared in self.options}
        for name in texts:
            if not known:
                raise HeadtoolError(f"{self.name} has no options, got '{name}'")
            if name not in known:
                raise HeadtoolError(
                    f"{self.name} has no option '{name}'{nearest(name, known)} "
                    f"(known: {', '.join(known)})"
                )
        return {name: known[name].read(text, self.name) for name, text in texts.items()}


def _truth(text: str, name: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise HeadtoolError(f"{name} must be true or false, got '{text}'")
    return text.lower() == "true"


def _whole(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise HeadtoolError(f"{name} must be a whole number, got '{text}'") from None


def _number(text: str, name: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise HeadtoolError(f"{name} must be a number, got '{text}'") from None
    if not math.isfinite(number):
        raise HeadtoolError(f"{name} must be a finite number, got '{text}'")
    return number


def _text(text: str, name: str) -> str:
    return text


_READERS: dict[str, Callable[[str, str], Any]] = {"bool": _truth, "int": _whole, "float": _number}
