"""Public functions and classes describe what they take, and what users call shows an example."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

import headtool
from headtool.cli.main import app
from headtool.methods import BUILTIN

from ..support.modules import MODULES

COMMANDS = {
    inspect.unwrap(command.callback)
    for group in (app, *(found.typer_instance for found in app.registered_groups))
    if isinstance(group, typer.Typer)
    for command in group.registered_commands
    if command.callback
}
"""Their parameters are described by the help of each option."""


def section(doc: str, title: str) -> str:
    """The body of a section of a NumPy docstring; nothing if there is none."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n---+$|\Z)", doc, re.M | re.S)
    return found[1] if found else ""


def described(doc: str, title: str) -> set[str]:
    """The names that a section describes: they start a line, and a description follows."""
    heads = re.findall(r"^(\*{0,2}\w[^\n]*)\n+(?: {4,}\S)", section(doc, title), re.M)
    return {name.strip("* ") for line in heads for name in line.split(":")[0].split(",")}


def parameters(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "cls"}


def undescribed(
    thing: Callable[..., Any], *, titles: tuple[str, ...] = ("Parameters",)
) -> set[str]:
    """Parameters without a description, where there are two or more."""
    taken = parameters(thing)
    doc = inspect.getdoc(thing) or ""
    named = set().union(*(described(doc, title) for title in titles))
    return taken - named if len(taken) > 1 else set()


def hints(cls: type) -> dict[str, Any]:
    """Types of a class's fields, with what an option of the command line says of itself."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError:  # of a type that only the type checker imports
        return {}


def of_class(cls: type) -> Iterator[tuple[str, set[str]]]:
    """What a class and each public method defined in it leave undescribed."""
    fields: dict[str, Any] = {}
    if dataclasses.is_dataclass(cls):
        fields = {field.name: field for field in dataclasses.fields(cls)}
        helped = {name for name, field in fields.items() if "help" in field.metadata}
        helped |= {name for name, hint in hints(cls).items() if hasattr(hint, "__metadata__")}
        inherited = set().union(*(getattr(base, "__annotations__", {}) for base in cls.__mro__[1:]))
        yield "", undescribed(cls, titles=("Attributes", "Parameters")) - helped - inherited
    elif "__init__" in vars(cls) and not getattr(cls, "_is_protocol", False):
        yield "", undescribed(cls, titles=("Attributes", "Parameters"))
    for name, member in vars(cls).items():
        function = inspect.unwrap(getattr(member, "__func__", member))
        if name.startswith("_") or name in fields or not inspect.isfunction(function):
            continue
        if any(hasattr(base, name) for base in cls.__mro__[1:]):
            continue  # described where it is declared first
        yield f".{name}", undescribed(function)


def gaps(module: str) -> list[str]:
    """What the public names of a module leave undescribed."""
    loaded = importlib.import_module(module)
    found = []
    for name in getattr(loaded, "__all__", ()):
        thing = getattr(loaded, name)
        if getattr(thing, "__module__", None) != module or inspect.unwrap(thing) in COMMANDS:
            continue
        if inspect.isclass(thing):
            found += [(f"{name}{member}", missing) for member, missing in of_class(thing)]
        elif inspect.isfunction(thing):
            found.append((name, undescribed(inspect.unwrap(thing))))
    return [f"{name}: {', '.join(sorted(missing))}" for name, missing in found if missing]


@pytest.mark.parametrize(
    "module", sorted(name for name in MODULES if not name.endswith("__main__"))
)
def test_parameters_are_described(module: str) -> None:
    assert gaps(module) == []


def without_example(things: dict[str, Any]) -> list[str]:
    docs = {name: inspect.getdoc(thing) or "" for name, thing in things.items()}
    return [name for name, doc in docs.items() if ">>>" not in section(doc, "Examples")]


def test_every_method_shows_an_example() -> None:
    classes = {name: headtool.get_method(name) for name in BUILTIN}
    assert without_example(classes) == []


def test_every_public_function_shows_an_example() -> None:
    functions = {name: getattr(headtool, name) for name in headtool.__all__}
    functions = {name: thing for name, thing in functions.items() if inspect.isfunction(thing)}
    assert {"load_model", "evaluate"} <= set(functions)
    assert without_example(functions) == []


def test_a_gap_would_be_noticed() -> None:
    def half(first: int, second: int, third: int) -> None:
        """Do it.

        Parameters
        ----------
        first, second
            Two of three.

        Examples
        --------
        >>> half(1, 2, 3)
        """

    assert undescribed(half) == {"third"}
    assert without_example({"half": half, "gap": test_a_gap_would_be_noticed}) == ["gap"]
