"""Folders that ``fairseq-preprocess`` wrote: index, data and dictionary files.

The format is read here directly, without fairseq: an index of 26 header bytes and two arrays, the
symbol numbers, and a dictionary of one symbol per line. Reading it through fairseq would import the
whole of it (seconds), keep memory maps open and answer a damaged file with an assertion.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headtool.data.dataset import TextData
from headtool.data.messages import listing, quoted
from headtool.data.textfile import quoted_path, read_bytes, read_lines, user_path
from headtool.errors import HeadtoolError

__all__ = ["fairseq_bin_data"]

_MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQ")  # magic, version, type of the symbol numbers, number of rows
_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<i1"),
    3: np.dtype("<i2"),
    4: np.dtype("<i4"),
    5: np.dtype("<i8"),
    8: np.dtype("<u2"),
    9: np.dtype("<u4"),
    10: np.dtype("<u8"),
}
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_BOS, _EOS = 0, 2


@dataclass(frozen=True)
class _Pair:
    """The files of one split: ``{split}.{pair}.{language}.bin``."""

    stem: Path
    source: str
    target: str

    def side(self, language: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}.{language}")


def fairseq_bin_data(spec: str) -> TextData:
    """Load ``fairseq-bin:DIR/SPLIT`` as symbols separated by spaces, end of sentence stripped.

    Where ``fairseq-preprocess --only-source`` wrote it (``SPLIT.bin`` and ``dict.txt``), it is
    running text, a line each.

    The language pair comes from the file names (``test.de-en.de.bin``); where a split has several,
    or to read it the other way round, write ``DIR/test.en-de``. Index files of fairseq's default
    kind (``mmap``) are read.

    Raises
    ------
    HeadtoolError
        If the split, a side of it or a dictionary is missing, damaged, of another kind, unaligned,
        or does not fit the dictionary.
    """
    location = user_path(spec.removeprefix("fairseq-bin:"))
    if (location.with_name(f"{location.name}.bin")).is_file():
        lines = _sentences(location, location.parent / "dict.txt")
        return TextData(spec, "text", {"text": lines}, pretokenized=True)
    pair = _find_pair(location, spec)
    source, target = (
        _sentences(pair.side(language), location.parent / f"dict.{language}.txt")
        for language in (pair.source, pair.target)
    )
    if len(source) != len(target):
        raise HeadtoolError(
            f"{spec!r}: {len(source)} {pair.source} sentences but {len(target)} "
            f"{pair.target} ones; binarise both sides again from line-aligned files"
        )
    return TextData(
        spec,
        "translation",
        {"source": source, "target": target},
        pretokenized=True,
        languages=(pair.source, pair.target),
    )


def _find_pair(location: Path, spec: str) -> _Pair:
    folder = location.parent
    if not folder.is_dir():
        raise HeadtoolError(f"no such folder: {quoted_path(folder)}; check {spec!r}")
    files = {path.name.removesuffix(".bin") for path in folder.glob("*.bin")}
    pairs = [
        _Pair(folder / stem, source, target)
        for stem, source, target in (_parse_side(name) for name in sorted(files))
        if f"{stem}.{target}" in files
    ]
    split, _, wanted = location.name.partition(".")
    candidates = [pair for pair in pairs if pair.stem.name.split(".")[0] == split]
    if wanted:
        for pair in candidates:
            if wanted == f"{pair.source}-{pair.target}":
                return pair
            if wanted == f"{pair.target}-{pair.source}":
                return _Pair(pair.stem, pair.target, pair.source)
    elif len(candidates) == 1:
        return candidates[0]
    elif candidates:
        names = listing(f"{location.name}.{pair.source}-{pair.target}" for pair in candidates)
        raise HeadtoolError(f"{spec!r} has several language pairs; name one of {names}")
    present = listing(pair.stem.name for pair in pairs) or "none"
    raise HeadtoolError(
        f"{quoted_path(folder)} has no binarised pair of files for {quoted(location.name)} "
        f"(there: {present}); name one, like fairseq-bin:DIR/test"
    )


def _parse_side(name: str) -> tuple[str, str, str]:
    """Split ``test.de-en.de`` into stem, source and target; other names give an empty target."""
    stem, _, language = name.rpartition(".")
    pair = stem.rpartition(".")[2]
    if pair.startswith(f"{language}-"):
        return stem, language, pair.removeprefix(f"{language}-")
    return stem, language, ""


def _sentences(side: Path, dictionary: Path) -> tuple[str, ...]:
    symbols = _symbols(dictionary)
    index = side.with_name(side.name + ".idx")
    data = side.with_name(side.name + ".bin")
    rows = _rows(index, data)
    sentences: list[str] = []
    for row in rows:
        numbers = [number for number in row.tolist() if number not in (_BOS, _EOS)]
        strange = [number for number in numbers if not 0 <= number < len(symbols)]
        if strange:
            raise HeadtoolError(
                f"{quoted_path(data)}, sentence {len(sentences) + 1}: symbol {strange[0]}, but "
                f"{quoted_path(dictionary)} has {len(symbols)}; use the dictionary that the data "
                "was binarised with"
            )
        sentences.append(" ".join(symbols[number] for number in numbers))
    return tuple(sentences)


def _rows(index: Path, data: Path) -> list[npt.NDArray[np.integer]]:
    """Return the symbol numbers of every sentence."""
    header = read_bytes(index)
    damaged = HeadtoolError(
        f"{quoted_path(index)} is damaged or not of fairseq's mmap kind; make it again "
        "with fairseq-preprocess --dataset-impl mmap"
    )
    if len(header) < _HEADER.size or not header.startswith(_MAGIC):
        raise damaged
    _, version, code, count = _HEADER.unpack_from(header)
    if version != 1 or code not in _DTYPES or len(header) != _HEADER.size + 12 * count:
        raise damaged
    if count == 0:
        raise HeadtoolError(f"{quoted_path(index)} has no sentences; choose another split")
    sizes = np.frombuffer(header, "<i4", count, _HEADER.size)
    starts = np.frombuffer(header, "<i8", count, _HEADER.size + 4 * count)
    content = read_bytes(data)
    dtype = _DTYPES[code]
    ends = starts + sizes.astype(np.int64) * dtype.itemsize
    if sizes.min() < 0 or starts.min() < 0 or ends.max() > len(content):
        raise HeadtoolError(
            f"{quoted_path(data)} has {len(content)} bytes where its index needs {ends.max()}; "
            "the file is cut off or belongs to another index, copy both again"
        )
    return [
        np.frombuffer(content, dtype, int(size), int(start))
        for start, size in zip(starts, sizes, strict=True)
    ]


def _symbols(path: Path) -> list[str]:
    """Return a dictionary's symbols by number: fairseq's four special ones, then one per line."""
    symbols = list(_SPECIAL)
    seen = set(symbols)
    for number, line in enumerate(read_lines(path), start=1):
        text = line.rstrip()
        overwrite = text.endswith(" #fairseq:overwrite")
        symbol, space, count = text.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not space or not count.lstrip("-").isdecimal():
            raise HeadtoolError(
                f"{quoted_path(path)}, line {number}: {quoted(line)} is not 'symbol count'; "
                "use the dictionary that fairseq-preprocess wrote"
            )
        if symbol in seen and not overwrite:
            raise HeadtoolError(
                f"{quoted_path(path)}, line {number}: {quoted(symbol)} occurs twice; use the "
                "dictionary that fairseq-preprocess wrote"
            )
        seen.add(symbol)
        symbols.append(symbol)
    return symbols
