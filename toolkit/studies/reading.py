"""Study files: YAML as plain values, with the line of every key.

A study file may come from anywhere, so it is read as data alone: no tags that make objects, no
anchors that grow, nothing deep or large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from headtool.errors import HeadtoolError
from headtool.reading import read_file

__all__ = ["Key", "Source", "given_study", "read_yaml"]

_MOST_BYTES = 256 * 1024
_MOST_EVENTS = 50_000
_DEEPEST = 12

Key = tuple[str | int, ...]
"""Where something stands, such as ``("models", 1, "replicates")``."""


@dataclass(frozen=True)
class Source:
    """What a study was read from; says where in it something stands.

    Attributes
    ----------
    name
        Name of the file; ``study`` for one that was given from Python.
    values
        What it holds: dictionaries, lists, text, numbers, truth values and None.
    lines
        Line of each key, from 1; empty where there is no file.
    """

    name: str
    values: Any
    lines: Mapping[Key, int] = field(default_factory=dict)

    def error(self, key: Key, message: str) -> HeadtoolError:
        """Build an error that names the line and the key.

        Parameters
        ----------
        key
            The key; the line of what is around it is named where it is missing.
        message
            What is wrong, and the remedy.
        """
        line = next(
            (self.lines[key[:end]] for end in range(len(key), -1, -1) if key[:end] in self.lines),
            None,
        )
        place = self.name if line is None else f"{self.name}:{line}"
        return HeadtoolError(f"{place}: {f'{written(key)}: ' if key else ''}{message}")

    def line(self, key: Key) -> int:
        """Line of a key, 0 where it has none."""
        return self.lines.get(key, 0)


def written(key: Key) -> str:
    """Write a key as one reads it, such as ``models[1].replicates``.

    Parameters
    ----------
    key
        The key.

    Examples
    --------
    >>> from headtool.studies.reading import written
    >>> written(("models", 1, "replicates"))
    'models[1].replicates'
    """
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:50]}" for part in key)
    return shown.removeprefix(".")


def given_study(study: Path | str | Mapping[str, Any]) -> Source:
    """Take a study as it is given: a file, or what such a file would hold.

    Parameters
    ----------
    study
        Path of the YAML file, or its content as dictionaries and lists.

    Raises
    ------
    HeadtoolError
        If the file cannot be read.
    """
    return Source("study", dict(study)) if isinstance(study, Mapping) else read_yaml(Path(study))


def read_yaml(path: Path) -> Source:
    """Read a YAML file as data.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    HeadtoolError
        If it cannot be read, is too large, is no YAML, or has anchors, tags or a key twice.
    """
    try:
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise HeadtoolError(f"{path} has more than {_MOST_BYTES // 1024} KiB; is it a study?")
        content = read_file(path)
    except FileNotFoundError:
        raise HeadtoolError(
            f"there is no file {path}; write a first one with headtool study init {path.name}"
        ) from None
    except OSError as error:
        raise HeadtoolError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HeadtoolError(
            f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8"
        ) from error
    try:
        _check_events(text, path)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise _no_yaml(path, error) from error
    if node is None:
        raise HeadtoolError(f"{path} is empty; headtool study init writes an example")
    lines: dict[Key, int] = {}
    values = _value(node, (), path, lines)
    return Source(str(path), values, lines)


def _check_events(text: str, path: Path) -> None:
    """Refuse what makes a document more than the text that it is."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        line = event.start_mark.line + 1
        if count > _MOST_EVENTS:
            raise HeadtoolError(f"{path}:{line}: a study has no more than {_MOST_EVENTS:,} values")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise HeadtoolError(
                f"{path}:{line}: anchors and aliases (& and *) are not read; write it out"
            )
        if getattr(event, "tag", None) is not None:
            raise HeadtoolError(f"{path}:{line}: tags such as {event.tag[:50]!r} are not read")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise HeadtoolError(f"{path}:{line}: this is nested more than {_DEEPEST} deep")


def _value(node: Any, key: Key, path: Path, lines: dict[Key, int]) -> Any:
    """What a node holds; the lines of its keys are noted."""
    line = node.start_mark.line + 1
    lines.setdefault(key, line)
    if isinstance(node, yaml.SequenceNode):
        return [_value(one, (*key, i), path, lines) for i, one in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, key, path, line)
    found: dict[str, Any] = {}
    for name, one in node.value:
        at = name.start_mark.line + 1
        if not isinstance(name, yaml.ScalarNode):
            raise HeadtoolError(f"{path}:{at}: a key must be text")
        if name.value in found:
            raise HeadtoolError(
                f"{path}:{at}: {written((*key, name.value))} is there twice; leave one out"
            )
        inner = (*key, name.value)
        lines[inner] = at
        found[name.value] = _value(one, inner, path, lines)
    return found


def _scalar(node: Any, key: Key, path: Path, line: int) -> Any:
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_object(node)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = " ".join(str(getattr(error, "problem", None) or error).split())[:100]
        raise HeadtoolError(
            f"{path}:{line}: {written(key)} cannot be read ({reason}); put text in quotes"
        ) from error
    if value is None or isinstance(value, str | int | float):
        return value
    return node.value  # a date, say, is text here


def _no_yaml(path: Path, error: Any) -> HeadtoolError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = f"{path}:{mark.line + 1}" if mark is not None else str(path)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
    return HeadtoolError(f"{place}: this is no YAML: {' '.join(str(reason).split())[:150]}")
