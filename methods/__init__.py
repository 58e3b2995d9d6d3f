"""Scoring methods by name: the built-in ones, and those that other packages register."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from headtool.errors import HeadtoolError, unknown

if TYPE_CHECKING:
    from headtool.methods.base import Method
    from headtool.methods.options import Description

__all__ = ["BUILTIN", "ENTRY_POINTS", "describe_method", "get_method", "method_doc", "method_names"]

BUILTIN = {
    "ablation": "headtool.methods.ablation:Ablation",
    "activation": "headtool.methods.activation:Activation",
    "attribution": "headtool.methods.attribution:Attribution",
    "confidence": "headtool.methods.confidence:Confidence",
    "dsp": "headtool.methods.dsp:Dsp",
    "fisher": "headtool.methods.fisher:Fisher",
    "flap": "headtool.methods.flap:Flap",
    "gates": "headtool.methods.gates:Gates",
    "gradient": "headtool.methods.gradient:Gradient",
    "integrated": "headtool.methods.integrated:Integrated",
    "lrp": "headtool.methods.lrp:Lrp",
    "magnitude": "headtool.methods.magnitude:Magnitude",
    "random": "headtool.methods.random:Random",
    "retrieval": "headtool.methods.retrieval:Retrieval",
    "shapley": "headtool.methods.shapley:Shapley",
    "taylor": "headtool.methods.taylor:Taylor",
    "wanda": "headtool.methods.wanda:Wanda",
}
"""Name to ``module:class``; nothing is imported before it is asked for."""

ENTRY_POINTS = "headtool.methods"
"""Entry-point group in which other packages register methods."""


def _registered() -> dict[str, str]:
    """All methods; a name taken twice is an error, never an overwrite."""
    known = dict(BUILTIN)
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if known.get(entry.name, entry.value) != entry.value:
            raise HeadtoolError(
                f"two methods are called '{entry.name}': {known[entry.name]} and {entry.value}; "
                "uninstall one of the packages or rename its entry point"
            )
        known[entry.name] = entry.value
    return known


def method_names() -> tuple[str, ...]:
    """Names of all methods, built in or registered by other packages, sorted.

    Examples
    --------
    >>> import headtool
    >>> headtool.method_names()
    ('ablation', 'activation', 'attribution', 'confidence', 'dsp', ...)
    """
    return tuple(sorted(_registered()))


def get_method(name: str) -> type[Method]:
    """Return the class of a method, a frozen dataclass whose fields are its options.

    Parameters
    ----------
    name
        One of `method_names`.

    Returns
    -------
    type of Method
        Call it with options, then call ``score`` on the result.

    Raises
    ------
    HeadtoolError
        If no method has that name, or another package's method cannot be imported.

    Examples
    --------
    >>> import headtool
    >>> headtool.get_method("gradient")(granularity="example").settings()
    {'granularity': 'example', ...}
    >>> headtool.get_method("gradiant")
    Traceback (most recent call last):
    ...
    headtool.errors.HeadtoolError: unknown method 'gradiant'; did you mean 'gradient'? ...
    """
    known = _registered()
    if name not in known:
        raise unknown("method", name, known)
    module, _, attribute = known[name].partition(":")
    try:
        found: type[Method] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, SyntaxError) as error:
        if name in BUILTIN:
            raise
        raise _broken(name, known[name], str(error)) from error
    if name not in BUILTIN:
        _check(name, known[name], found)
    return found


def describe_method(name: str) -> Description:
    """Describe a method and its options, without importing what it computes with.

    Parameters
    ----------
    name
        One of `method_names`.

    Raises
    ------
    HeadtoolError
        If no method has that name, or another package's method cannot be imported.

    Examples
    --------
    >>> from headtool.methods import describe_method
    >>> describe_method("gradient").options[0].name
    'granularity'
    """
    found = _catalogue().get(name)
    if found is None:
        return get_method(name).described()
    _registered()  # a name taken twice is an error
    return found


def method_doc(name: str) -> str:
    """Return all there is to know of a method: its docstring, read from the source of a built-in.

    Parameters
    ----------
    name
        One of `method_names`.

    Raises
    ------
    HeadtoolError
        As `describe_method`.
    """
    if name not in _catalogue():
        return inspect.getdoc(get_method(name)) or ""
    module, _, attribute = BUILTIN[name].partition(":")
    source = Path(__file__).parent / f"{module.rpartition('.')[2]}.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return ast.get_docstring(next(one for one in classes if one.name == attribute)) or ""


@cache
def _catalogue() -> dict[str, Description]:
    """The built-in methods, as ``python -m headtool.methods`` wrote them down."""
    from headtool.methods.options import Description, Option

    text = (Path(__file__).parent / "catalogue.json").read_text(encoding="utf-8")
    found = {}
    for entry in json.loads(text):
        options = [Option(**one | {"choices": tuple(one["choices"])}) for one in entry["options"]]
        found[entry["name"]] = Description(**entry | {"options": tuple(options)})
    return found


def _check(name: str, place: str, found: object) -> None:
    """Raise `HeadtoolError` if what another package registers is not a method."""
    from headtool.methods.base import Method

    if not (isinstance(found, type) and issubclass(found, Method)):
        raise _broken(name, place, "it is no subclass of headtool.methods.base.Method")
    if getattr(found, "name", None) != name:
        raise _broken(name, place, f"it calls itself '{getattr(found, 'name', '')}'")


def _broken(name: str, place: str, reason: str) -> HeadtoolError:
    return HeadtoolError(
        f"method '{name}' ({place}) cannot be loaded: {reason}; update or uninstall its package"
    )
