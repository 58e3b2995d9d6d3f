"""Which columns of a table are the texts and the label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headtool.data.arrays import ARRAYS, array_data
from headtool.data.dataset import TextData
from headtool.data.images import image_data
from headtool.data.messages import listing, quoted
from headtool.data.picking import labelled, named_column, text_columns
from headtool.data.prompts import prompt_data
from headtool.data.questions import question_data
from headtool.data.tables import Table
from headtool.data.tagged import tagged_data
from headtool.data.tokens import token_data
from headtool.errors import HeadtoolError, unknown

__all__ = ["check_columns", "parse_columns", "text_data"]

_ROLES = (
    *("text", "text_a", "text_b", "label", "source", "target", "corrupted", "corrupted_b"),
    *("prompt", "answer", "wrong", "choices", "tokens", "tags"),
    *("question", "context", "answers", "image", "messages"),
    *("input_ids", "labels", "attention_mask", "token_type_ids"),
    *ARRAYS,
)
_EXAMPLE = "text_a=premise,text_b=hypothesis,label=gold_label"


@dataclass(frozen=True)
class _Layout:
    """A table that does not hold texts with labels.

    Attributes
    ----------
    own
        Roles that occur in such tables only.
    others
        Roles that may stand beside them.
    rule
        Which of them go together, for messages.
    read
        Makes data of a table, given the column of each role.
    known
        Names of columns by which such a table is recognised, by role.
    unlike
        Names of columns that such a table does not have.
    both
        Roles that are all named where one is.
    apart
        Groups of roles that do not go together, two and two.
    """

    own: frozenset[str]
    others: frozenset[str]
    rule: str
    read: Callable[[Table, Mapping[str, str], str], TextData]
    known: tuple[Mapping[str, str], ...]
    unlike: frozenset[str] = frozenset()
    both: frozenset[str] = frozenset()
    apart: tuple[tuple[frozenset[str], frozenset[str]], ...] = ()

    def holds(self, roles: set[str]) -> bool:
        """Whether roles go together."""
        mixed = any(one & roles and other & roles for one, other in self.apart)
        return self.both <= roles <= self.own | self.others and not mixed


def _translation(table: Table, columns: Mapping[str, str], spec: str) -> TextData:
    roles = ("source", "target", "corrupted")
    names = {role: named_column(table, columns[role]) for role in roles if role in columns}
    return TextData(spec, "translation", text_columns(table, names))


def _same(*roles: str) -> dict[str, str]:
    """Columns that are called as their roles."""
    return dict(zip(roles, roles, strict=True))


_LAYOUTS = (
    _Layout(
        frozenset(ARRAYS),
        frozenset({"label", "labels", "attention_mask"}),
        "arrays of numbers need one of " + ", ".join(f"{role}=NAME" for role in ARRAYS) + " and "
        "label=NAME",
        array_data,
        tuple(_same(role) for role in ARRAYS),
        unlike=frozenset({"text", "text_a", "sentence"}),  # beside sound, where either is read
        apart=(
            (frozenset({"labels"}), frozenset({"label"})),
            *((frozenset({one}), frozenset(ARRAYS) - {one}) for one in ARRAYS),
        ),
    ),
    _Layout(
        frozenset({"input_ids", "labels", "attention_mask", "token_type_ids"}),
        frozenset({"label"}),
        "texts in token numbers need input_ids=NAME, and labels=NAME or label=NAME",
        token_data,
        (_same("input_ids"),),
        both=frozenset({"input_ids"}),
        apart=((frozenset({"labels"}), frozenset({"label"})),),
    ),
    _Layout(
        frozenset({"prompt", "messages", "answer", "wrong", "choices"}),
        frozenset({"label", "corrupted"}),
        "prompts have an answer (and a wrong one), or choices and a label",
        prompt_data,
        (
            _same("prompt", "answer"),
            _same("prompt", "choices", "label"),
            _same("messages", "choices", "label"),
            _same("messages", "answer"),
            _same("messages"),
        ),
        apart=(
            (frozenset({"answer", "wrong"}), frozenset({"choices", "label"})),
            (frozenset({"messages"}), frozenset({"prompt", "corrupted"})),
        ),
    ),
    _Layout(
        frozenset({"source", "target"}),
        frozenset({"corrupted"}),
        "translation needs source=NAME,target=NAME alone",
        _translation,
        (
            _same("source", "target"),
            {"source": "document", "target": "summary"},
            {"source": "dialogue", "target": "summary"},
            {"source": "article", "target": "highlights"},
            {"source": "text", "target": "summary"},
        ),
        unlike=frozenset({"label"}),
        both=frozenset({"source", "target"}),
    ),
    _Layout(
        frozenset({"tokens", "tags"}),
        frozenset(),
        "tagged sentences need tokens=NAME,tags=NAME alone",
        tagged_data,
        (_same("tokens", "tags"), {"tokens": "tokens", "tags": "ner_tags"}),
    ),
    _Layout(
        frozenset({"question", "context", "answers"}),
        frozenset(),
        "questions need question=NAME,context=NAME,answers=NAME alone",
        question_data,
        (
            _same("question", "context", "answers"),
            {"question": "question", "context": "context", "answers": "answers.text"},
        ),
    ),
    _Layout(
        frozenset({"image"}),
        frozenset({"label"}),
        "images need image=NAME,label=NAME alone",
        image_data,
        (
            _same("image", "label"),
            {"image": "img", "label": "label"},
            {"image": "image", "label": "labels"},
        ),
    ),
)

# Names of columns in headtool, GLUE and the corpora behind it; the first match wins.
_PAIRS = (
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("#1 String", "#2 String"),
)
_SINGLES = ("text", "text_a", "sentence")
_LABELS = ("label", "gold_label", "is_duplicate", "Quality", "score", "similarity")


def parse_columns(text: str) -> dict[str, str]:
    """Parse ``--columns``: comma-separated ``role=column`` pairs.

    Roles are ``text`` or ``text_a`` (the same thing), ``text_b``, ``label``; for translation and
    summaries ``source`` and ``target``; for language models ``prompt`` with ``answer`` and
    ``wrong``, or with ``choices`` and ``label``, or in place of ``prompt`` a conversation,
    ``messages``; beside all of them ``corrupted``. Sentences with
    tags have ``tokens`` and ``tags``, questions about a text ``question``, ``context`` and
    ``answers``, images ``image`` and ``label``, texts in token numbers ``input_ids`` and
    ``labels``. Arrays in memory have ``input_values``, ``input_features``, ``pixel_values`` or
    ``audio``, and ``label`` or ``labels``.

    Raises
    ------
    HeadtoolError
        If a part is no pair, a role is unknown or named twice.

    Examples
    --------
    >>> from headtool.data import parse_columns
    >>> parse_columns("text_a=premise,text_b=hypothesis,label=gold_label")
    {'text_a': 'premise', 'text_b': 'hypothesis', 'label': 'gold_label'}
    """
    columns: dict[str, str] = {}
    for part in text.split(","):
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if not (role and equals and column):
            raise HeadtoolError(
                f"`columns`: {quoted(part)} is not role=column; write it like {_EXAMPLE}"
            )
        if role in columns:
            raise HeadtoolError(f"`columns` names {quoted(role)} twice; name each role once")
        columns[role] = column
    check_columns(columns)
    return columns


def check_columns(columns: Mapping[str, str]) -> None:
    """Refuse roles that do not exist or do not go together.

    Raises
    ------
    HeadtoolError
        Naming the role and what to write.
    """
    for role in columns:
        if role not in _ROLES:
            raise unknown("column role", role, _ROLES)
    if {"text", "text_a"} <= set(columns):
        raise HeadtoolError("`columns`: 'text' and 'text_a' mean the same column; give one of them")
    if "text_b" in columns and not {"text", "text_a"} & set(columns):
        raise HeadtoolError("`columns`: 'text_b' needs 'text_a' beside it")
    layout = _named_layout(columns)
    if layout is not None and not layout.holds(set(columns)):
        raise HeadtoolError(f"`columns`: {listing(columns)} do not go together; {layout.rule}")


def text_data(table: Table, columns: Mapping[str, str], spec: str) -> TextData:
    """Pick the texts and the label out of a table.

    Columns that are not named are found by the names of headtool (``text``, ``text_a``, ``text_b``,
    ``label``) and of the GLUE tasks. A single text that is named explicitly, in a table without a
    label, makes the rows documents for a language model. Rows that the data set itself marks as
    unlabelled are left out, with a warning: class -1 of the hub, ``-`` in ``gold_label`` (SNLI and
    MultiNLI: the annotators did not agree).

    A table with columns ``prompt`` and ``answer``, or ``prompt``, ``choices`` and ``label``, is one
    for language models; one with ``source`` and ``target``, or ``document`` and ``summary``, one
    for translation. A column ``corrupted`` beside any of them holds the same text with what decides
    changed. ``tokens`` with ``tags`` (or ``ner_tags``) are sentences for token classification,
    ``question``, ``context`` and ``answers`` questions in SQuAD's form, ``image`` and ``label``
    encoded images, ``input_ids`` with ``labels`` or ``label`` texts that are token numbers already.
    ``input_values``, ``input_features``, ``pixel_values`` and ``audio`` hold arrays of numbers.

    Parameters
    ----------
    table
        The table to read.
    columns
        Role to column name; see :func:`parse_columns`.
    spec
        The data set as the user named it.

    Raises
    ------
    HeadtoolError
        If a column is missing or ambiguous, or a label cell is empty.
    """
    layout = _named_layout(columns) or _recognised(table, columns)
    if layout is not None:
        return layout.read(table, _completed(table, columns, layout), spec)
    texts = _find_texts(table, columns)
    label = _find_label(table, columns)
    if label is None:
        return TextData(spec, "text", {"text": text_columns(table, texts)["text_a"]})
    texts |= _find_corrupted(table, columns, texts)
    return TextData(spec, "classification", labelled(table, text_columns(table, texts), label))


def _completed(table: Table, columns: Mapping[str, str], layout: _Layout) -> dict[str, str]:
    """Role to column name, those not named found by the names of the roles."""
    found = {role: role for role in _ROLES if role in table.header}
    named = columns
    for known in layout.known if not columns else ():
        if set(known.values()) <= set(table.header):
            named = known
            break
    found.pop("prompt" if "messages" in named else "messages", None)
    for role in set(ARRAYS) - set(named):  # a table may hold sound and what was made of it
        found.pop(role, None)
    return found | dict(named)


def _named_layout(columns: Mapping[str, str]) -> _Layout | None:
    """The layout that roles which the user named are for."""
    return next((layout for layout in _LAYOUTS if layout.own & set(columns)), None)


def _recognised(table: Table, columns: Mapping[str, str]) -> _Layout | None:
    """The layout that a table's own names are for; None where it has texts and labels."""
    if columns:
        return None
    header = set(table.header)
    for layout in _LAYOUTS:
        for known in layout.known:
            if set(known.values()) <= header and not layout.unlike & header:
                return layout
    return None


def _find_corrupted(
    table: Table, columns: Mapping[str, str], texts: Mapping[str, str]
) -> dict[str, str]:
    """Columns of the corrupted texts, if there are any; of a pair one may stay as it is."""
    roles = [role for role in ("corrupted", "corrupted_b") if role in {*table.header, *columns}]
    found = {role: columns.get(role, role) for role in roles}
    if "corrupted_b" in found and "text_b" not in texts:
        raise HeadtoolError(
            f"{table.source} has a column {quoted(found['corrupted_b'])} but one text only; name "
            "it 'corrupted'"
        )
    if not found:
        return {}
    found.setdefault("corrupted", texts["text_a"])
    if "text_b" in texts:
        found.setdefault("corrupted_b", texts["text_b"])
    return {role: named_column(table, name) for role, name in found.items()}


def _find_texts(table: Table, columns: Mapping[str, str]) -> dict[str, str]:
    first = columns.get("text", columns.get("text_a"))
    if first is not None:
        texts = {"text_a": named_column(table, first)}
        if "text_b" in columns:
            texts["text_b"] = named_column(table, columns["text_b"])
        return texts
    for pair in _PAIRS:
        if set(pair) <= set(table.header):
            return {"text_a": named_column(table, pair[0]), "text_b": named_column(table, pair[1])}
    for single in _SINGLES:
        if single in table.header:
            return {"text_a": named_column(table, single)}
    raise HeadtoolError(
        f"{table.source} has no column 'text' (or 'text_a' and 'text_b'), only "
        f"{listing(table.header)}; say which it is with `columns`, like {_EXAMPLE}"
    )


def _find_label(table: Table, columns: Mapping[str, str]) -> str | None:
    if "label" in columns:
        return named_column(table, columns["label"])
    for name in _LABELS:
        if name in table.header:
            return named_column(table, name)
    if {"text", "text_a"} & set(columns) and "text_b" not in columns:
        return None
    raise HeadtoolError(
        f"{table.source} has no column 'label', only {listing(table.header)}; say which it is with "
        "`columns` label=NAME (documents without labels, for a language model: `columns` text=NAME)"
    )
