"""Read the methods, settings and kinds of heads that options name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from headtool.heads import Kind
    from headtool.methods.base import Method

__all__ = ["chosen_kinds", "chosen_methods", "parse_settings", "saved_methods", "split_names"]


def split_names(text: str, what: str) -> list[str]:
    """Read a list of names, leaving out repetitions.

    Parameters
    ----------
    text
        Names, separated by commas.
    what
        The kind of names, for the message.
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise HeadtoolError(f"no {what} in '{text}'")
    for name in names:
        if names.count(name) > 1:
            raise HeadtoolError(f"{what} '{name}' is given twice in '{text}'")
    return names


def parse_settings(settings: Sequence[str], methods: Sequence[str]) -> dict[str, dict[str, str]]:
    """Read settings into values by method and option.

    Parameters
    ----------
    settings
        Settings such as ``gradient.granularity=example``.
    methods
        The methods that may have settings.

    Raises
    ------
    HeadtoolError
        For what is not a setting, or one of another method.
    """
    values: dict[str, dict[str, str]] = {name: {} for name in methods}
    for setting in settings:
        target, equals, value = setting.partition("=")
        method, dot, name = target.strip().partition(".")
        if not (equals and dot and name):
            raise HeadtoolError(f"--set takes METHOD.OPTION=VALUE, got '{setting}'")
        if method not in values:
            raise HeadtoolError(
                f"--set {setting}: method '{method}' is not among those run ({', '.join(methods)})"
            )
        if name in values[method]:
            raise HeadtoolError(f"--set gives {method}.{name} twice")
        values[method][name] = value.strip()
    return values


def chosen_methods(
    names: str, settings: Sequence[str] | None, *, several: bool = True
) -> list[Method]:
    """Build the methods that ``--method`` names, as ``--set`` configures them.

    Parameters
    ----------
    names
        Names of methods, separated by commas.
    settings
        Settings such as ``gradient.granularity=example``.
    several
        Whether `names` may be more than one; else it is one name.
    """
    from headtool.methods import describe_method, get_method

    split = split_names(names, "method") if several else [names]
    values = parse_settings(settings or [], split)
    for name in split:
        describe_method(name).read(values[name])  # a mistake is told before torch is imported
    return [get_method(name).configured(values[name]) for name in split]


def saved_methods(runs: Sequence[Path] | None) -> list[Method]:
    """Make methods of the scores that runs hold.

    Parameters
    ----------
    runs
        The runs, each with the scores of one method or several.
    """
    found: list[Method] = []
    for run in runs or ():
        from headtool.experiments.exchange import method_of_run
        from headtool.masks.selection import scores_of
        from headtool.results.runs import read_run

        opened = read_run(run)
        names = scores_of(opened)["method"].unique().tolist()
        found += [method_of_run(opened, method=str(name)) for name in names]
    return found


def chosen_kinds(names: str | None) -> tuple[Kind, ...] | None:
    """Read ``--kind``; None for all kinds."""
    from headtool.heads import parse_kinds

    return None if names is None else parse_kinds(names)
