"""The one type that every data set becomes, whatever it was read from."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from headtool.data.cells import image_bytes
from headtool.data.drawing import Drawn, LimitOrder, check_limit, drawn_rows

__all__ = ["Kind", "TextData"]

Kind = Literal[
    "classification",
    "translation",
    "text",
    "prompt",
    "choice",
    "tokens",
    "questions",
    "images",
    "arrays",
    "ids",
]

_COLUMNS: dict[Kind, tuple[set[str], ...]] = {
    "classification": (
        {"text_a", "label"},
        {"text_a", "label", "corrupted"},
        {"text_a", "text_b", "label"},
        {"text_a", "text_b", "label", "corrupted", "corrupted_b"},
    ),
    "translation": ({"source", "target"}, {"source", "target", "corrupted"}),
    "text": ({"text"},),
    "prompt": (
        {"prompt", "answer"},
        {"prompt", "answer", "wrong"},
        {"prompt", "answer", "corrupted"},
        {"prompt", "answer", "wrong", "corrupted"},
        {"messages", "answer"},
        {"messages", "answer", "wrong"},
    ),
    "choice": (
        {"prompt", "choices", "label"},
        {"prompt", "choices", "label", "corrupted"},
        {"messages", "choices", "label"},
    ),
    "tokens": ({"tokens", "tags"},),
    "questions": (
        {"question", "context", "answers"},
        {"question", "context", "answers", "answerable"},
    ),
    "images": ({"image", "label"},),
    "arrays": tuple(
        {name, "label", *mask}
        for name in ("input_values", "input_features", "pixel_values", "audio")
        for mask in ((), ("attention_mask",))
    ),
    "ids": tuple(
        {"input_ids", *label, *mask, *types}
        for label in ((), ("label",), ("labels",))
        for mask in ((), ("attention_mask",))
        for types in ((), ("token_type_ids",))
    ),
}


@dataclass(frozen=True)
class TextData:
    """Hold a data set as columns of strings, before any tokenizer has seen it.

    Parameters
    ----------
    spec
        The data set as the user named it.
    kind
        ``classification`` (columns ``text_a``, optionally ``text_b``, and ``label``, the labels as
        written; regression targets are labels too), ``translation`` (``source``, ``target``),
        ``text`` (``text``: one string per document), ``prompt`` (``prompt``, ``answer``, optionally
        ``wrong``: another answer), ``choice`` (``prompt``, ``choices``: a JSON list of strings,
        ``label``: which of them is right, from 0), ``tokens`` (``tokens`` and ``tags``: JSON lists
        of strings of one length), ``questions`` (``question``, ``context`` and ``answers``: a JSON
        list of texts with their first characters; ``answerable``, ``yes`` or ``no``, where some
        have no answer), ``images`` (``image``: paths or data URIs, and ``label``), ``arrays``
        (``input_values``, ``input_features``, ``pixel_values`` or ``audio``: arrays as
        `headtool.data.cells.array_uri` writes them, ``label``, and optionally ``attention_mask``)
        or ``ids`` (``input_ids``: JSON lists of token numbers, optionally ``attention_mask`` and
        ``token_type_ids``, with ``label`` or, as lists, ``labels``). The first two and prompts
        may have ``corrupted``: the same text with what decides changed, for
        ``replacement=counterfactual``; beside ``text_b`` there is ``corrupted_b``.
        Prompts and choices may have ``messages`` in place of ``prompt``: a JSON list of objects
        with ``role`` and ``content``, which the model's chat template makes a prompt of.
    columns
        Column name to strings; all columns have the same length, at least one row.
    pretokenized
        Whether the strings are symbols of the model's dictionary, separated by spaces, to which no
        byte-pair encoding may be applied again.
    languages
        Source and target language where the data itself records them (fairseq's binary folders).
    rows
        Which rows of what was read these are, from 0; None for all of them.
    drawn
        How a limit chose them; None where there was no limit, or all rows are within it.

    Raises
    ------
    ValueError
        If the columns do not fit the kind, differ in length or are empty.

    Examples
    --------
    >>> from headtool import TextData
    >>> data = TextData("reviews.tsv", "classification", {"text_a": ("good",), "label": ("1",)})
    >>> len(data), data.name
    (1, 'reviews')
    """

    spec: str
    kind: Kind
    columns: Mapping[str, tuple[str, ...]]
    pretokenized: bool = False
    languages: tuple[str, str] | None = None
    rows: tuple[int, ...] | None = None
    drawn: Drawn | None = None

    def __post_init__(self) -> None:
        if set(self.columns) not in _COLUMNS[self.kind]:
            raise ValueError(f"{self.kind} data cannot have columns {sorted(self.columns)}")
        lengths = {len(values) for values in self.columns.values()}
        if len(lengths) != 1 or 0 in lengths:
            raise ValueError(f"columns need one common length above zero, got {sorted(lengths)}")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        columns = ", ".join(self.columns)
        return f"<TextData {self.spec}: {len(self):,} rows of {self.kind} ({columns})>"

    @property
    def labels(self) -> tuple[str, ...]:
        """Class or target of each row, as written; empty where rows have none."""
        has = self.kind in ("classification", "images", "arrays", "ids")
        return self.columns.get("label", ()) if has else ()

    @property
    def name(self) -> str:
        """A short name for tables: the last two parts of the spec's path, without suffix."""
        return _short_name(self.spec)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the kind, the column names and the contents; the spec plays no part."""
        digest = hashlib.sha256()
        digest.update(f"{self.kind} pretokenized={self.pretokenized}\n".encode())
        for name in sorted(self.columns):
            values = self.columns[name]
            digest.update(f"{name} {len(values)}\n".encode())
            for value in values:
                encoded = image_bytes(value) if name == "image" else value.encode("utf-8")
                # The length in front keeps ("ab", "c") and ("a", "bc") apart.
                digest.update(f"{len(encoded)}:".encode())
                digest.update(encoded)
        return digest.hexdigest()

    def head(self, n: int) -> TextData:
        """Return the first `n` rows (all of them if there are fewer).

        Raises
        ------
        HeadtoolError
            If `n` is below one.
        """
        check_limit(n, "first")
        return self if n >= len(self) else self.take(range(n))

    def draw(self, limit: int, *, order: LimitOrder = "seeded", seed: int = 0) -> TextData:
        """Return some of the rows, in the order of the data; all of them if there are no more.

        Rows with labels are drawn by label, each in its share; pairs of sentences are spread over
        the data. Of running text, whole documents are drawn here, blank ones left out, and its
        blocks when it is tokenised.

        Parameters
        ----------
        limit
            How many rows.
        order
            ``seeded`` draws them; ``first`` takes the first ones.
        seed
            Seed of the draw. The same rows have the same draw, whatever is done with them.

        Raises
        ------
        HeadtoolError
            If `limit` is below one, or there is no such order.
        """
        check_limit(limit, order)
        labels = [label.strip() for label in self.columns.get("label", ())]
        drawn = Drawn(limit, order, seed, len(self), Counter(labels))
        if limit >= len(self):
            return replace(self, drawn=drawn) if self.kind == "text" else self
        rows = list(range(len(self)))
        if self.kind == "text" and order == "seeded":
            rows = [row for row in rows if self.columns["text"][row].strip()] or rows
        if limit < len(rows):
            chosen = drawn_rows(len(rows), limit, order=order, seed=seed, labels=labels or None)
            rows = [rows[place] for place in chosen.tolist()]
        return replace(self.take(rows), drawn=drawn)

    def take(self, indices: Iterable[int]) -> TextData:
        """Return the rows at `indices`, in that order; an index may occur more than once.

        Raises
        ------
        IndexError
            If an index is out of range.
        ValueError
            If there is no index.
        """
        places = list(indices)
        columns = {
            name: tuple(values[place] for place in places) for name, values in self.columns.items()
        }
        rows = places if self.rows is None else [self.rows[place] for place in places]
        return replace(self, columns=columns, rows=tuple(rows))


def _short_name(spec: str) -> str:
    for scheme in ("builtin:", "fairseq-bin:", "hub:"):
        if spec.startswith(scheme):
            return "/".join(_last_parts(Path(spec.removeprefix(scheme).replace(":", "/"))))
    first_file = Path(spec if os.path.exists(spec) else spec.split(",")[0])
    *folder, file = _last_parts(first_file)
    return "/".join([*folder, Path(file).stem])


def _last_parts(path: Path) -> list[str]:
    parts = [part for part in path.parts if part not in (path.anchor, "..", "~")]
    return parts[-2:] or [str(path)]
