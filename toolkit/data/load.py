"""From a ``--data`` SPEC to a data set."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from headtool.data.columns import check_columns, text_data
from headtool.data.dataset import Kind, TextData
from headtool.data.drawing import LimitOrder, check_limit
from headtool.data.fairseq_bin import fairseq_bin_data
from headtool.data.hub import hub_table
from headtool.data.images import image_folder
from headtool.data.memory import HeldData, held_table, is_held
from headtool.data.messages import quoted
from headtool.data.questions import read_squad
from headtool.data.tables import TABLE_READERS, Table
from headtool.data.tagged import read_conll
from headtool.data.textfile import quoted_path, read_lines, read_text, user_path
from headtool.errors import HeadtoolError, unknown

__all__ = ["BUILTIN_DATA", "load_data"]

_READERS = {**TABLE_READERS, ".conll": read_conll, ".json": read_squad}

BUILTIN_DATA: dict[str, tuple[str, str, Kind]] = {
    "nli/matched": ("headtool.builtin.nli", "matched", "classification"),
    "nli/counterfactual": ("headtool.builtin.nli_pairs", "counterfactual", "classification"),
    "nli/mismatched": ("headtool.builtin.nli", "mismatched", "classification"),
    "mt/test": ("headtool.builtin.mt", "test", "translation"),
    "mt/noisy": ("headtool.builtin.mt", "noisy", "translation"),
    "planted": ("headtool.builtin.planted", "", "text"),
}


def load_data(
    spec: str | HeldData,
    *,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    limit_order: LimitOrder = "seeded",
    seed: int = 0,
) -> TextData:
    """Load and check the data set that a spec names.

    ======================================  ========================================================
    spec                                    what it is
    ======================================  ========================================================
    ``builtin:nli/matched``                 a set of the built-in models (also ``nli/mismatched``,
                                            ``nli/counterfactual``, ``mt/test``, ``mt/noisy``,
                                            ``planted``)
    ``dev.tsv``                             GLUE's tab-separated values: header, no quoting
    ``dev.csv``                             comma-separated values as the csv module reads them
    ``dev.jsonl``, ``dev.parquet``          one JSON object per line; Parquet
    ``dev.conll``                           a token and its tag a line, for token classification
    ``dev.json``                            questions about texts in SQuAD's form
    ``images/``                             a folder with a folder of images for each class
    ``book.txt``                            one document for a language model
    ``test.de,test.en``                     two line-aligned files for translation
    ``fairseq-bin:DIR/test``                a split that fairseq-preprocess wrote
    ``hub:glue/sst2:validation``            a split from the Hugging Face hub or a local folder
    a table in memory                       a pandas frame, a `datasets.Dataset`, or a list of
                                            dictionaries; its name is ``memory:`` and the beginning
                                            of its fingerprint
    ======================================  ========================================================

    Parameters
    ----------
    spec
        The data set's name, or the data itself.
    columns
        Role to column name for tables and hub data, as :func:`parse_columns` returns it.
    limit
        Keep only this many rows. Of running text, experiments keep so many blocks.
    limit_order
        ``seeded`` draws the rows by `seed`, each label in its share; ``first`` takes the first
        ones. See `TextData.draw`.
    seed
        Seed of the draw. The rows are the same as those of an experiment with equal `limit` and
        `seed`.

    Returns
    -------
    TextData
        The texts and labels by role, with a fingerprint.

    Raises
    ------
    HeadtoolError
        If the spec, the columns, the limit or the data is faulty; the message names the remedy.

    Examples
    --------
    >>> import headtool
    >>> data = headtool.load_data("builtin:nli/matched", limit=8)
    >>> len(data), data.kind
    (8, 'classification')
    >>> data.columns["text_a"][0], data.columns["text_b"][0], data.columns["label"][0]
    ('Either Rosa or Olga coughed slowly.', 'Rosa did not cough today.', 'neutral')
    """
    check_limit(limit, limit_order)
    check_columns(columns or {})
    data = _load(spec, columns or {}) if isinstance(spec, str) else _held(spec, columns or {})
    return data if limit is None else data.draw(limit, order=limit_order, seed=seed)


def _held(rows: HeldData, columns: Mapping[str, str]) -> TextData:
    """A table in memory, which is named by its content."""
    if not is_held(rows):
        raise HeadtoolError(
            f"a {type(rows).__name__} is no data set; give a SPEC, a pandas DataFrame, a "
            "datasets.Dataset or a list of dictionaries"
        )
    data = text_data(held_table(rows), columns, "memory")
    return replace(data, spec=f"memory:{data.fingerprint[:8]}")


def _load(spec: str, columns: Mapping[str, str]) -> TextData:
    table = _table(spec)
    if table is not None:
        return text_data(table, columns, spec)
    if columns:
        raise HeadtoolError(
            f"`columns` applies to tables ({', '.join(_READERS)}, hub:), not to {spec!r}; "
            "leave it out"
        )
    if spec.startswith("builtin:"):
        return _builtin(spec)
    if spec.startswith("memory:"):
        raise HeadtoolError(f"{spec} was a table in memory; give the table itself")
    if spec.startswith("fairseq-bin:"):
        return fairseq_bin_data(spec)
    if _is_pair(spec):
        return _parallel(spec)
    path = user_path(spec)
    if path.suffix.lower() == ".txt":
        return _document(path, spec)
    images = image_folder(path, spec) if os.path.isdir(path) else None
    if images is None:
        raise _unknown_format(path, spec)
    return images


def _table(spec: str) -> Table | None:
    if spec.startswith("hub:"):
        return hub_table(spec)
    path = user_path(spec)
    reader = _READERS.get(path.suffix.lower())
    if reader is None or _is_pair(spec) or spec.startswith(("builtin:", "fairseq-bin:")):
        return None
    return reader(path)


def _is_pair(spec: str) -> bool:
    # A comma may also be part of a single file's name.
    return "," in spec and not os.path.exists(user_path(spec))


def _builtin(spec: str) -> TextData:
    name = spec.removeprefix("builtin:")
    if name not in BUILTIN_DATA:
        raise unknown("built-in data set", name, BUILTIN_DATA)
    module, split, kind = BUILTIN_DATA[name]
    return TextData(spec, kind, dict(_generated(module, split)))


@cache  # a second of work, for sets that never change
def _generated(module: str, split: str) -> Mapping[str, tuple[str, ...]]:
    examples = importlib.import_module(module).examples(split)
    return {role: tuple(values) for role, values in examples.items()}


def _parallel(spec: str) -> TextData:
    parts = spec.split(",")
    if len(parts) != 2:
        raise HeadtoolError(
            f"{spec!r} names {len(parts)} files; translation needs two, like test.de,test.en"
        )
    source, target = (user_path(part.strip()) for part in parts)
    columns = {"source": tuple(read_lines(source)), "target": tuple(read_lines(target))}
    if len(columns["source"]) != len(columns["target"]):
        raise HeadtoolError(
            f"{quoted_path(source)} has {len(columns['source'])} lines but {quoted_path(target)} "
            f"has {len(columns['target'])}; line-aligned files are needed"
        )
    return TextData(spec, "translation", columns)


def _document(path: Path, spec: str) -> TextData:
    text = read_text(path).replace("\r\n", "\n")
    if not text.strip():
        raise HeadtoolError(f"{quoted_path(path)} holds only white space; give a file with text")
    return TextData(spec, "text", {"text": (text,)})


def _unknown_format(path: Path, spec: str) -> HeadtoolError:
    known = f"{', '.join(_READERS)} or .txt"
    if os.path.isdir(path):
        return HeadtoolError(
            f"{quoted_path(path)} is a folder; name a {known} file in it, "
            f"or hub:{path}:SPLIT to load it with the datasets library (of images, it needs a "
            "folder for each class)"
        )
    if os.path.exists(path):
        return HeadtoolError(
            f"{quoted_path(path)} has an unknown suffix {quoted(path.suffix)}; give a {known} "
            "file, or two line-aligned files for translation, like test.de,test.en"
        )
    return HeadtoolError(
        f"no data set {spec!r}: no such file; give a {known} file, SRC,REF, "
        "builtin:nli/matched, fairseq-bin:DIR/SPLIT or hub:NAME/CONFIG:SPLIT"
    )
