"""Folders of fairseq-preprocess: against files written here and against fairseq itself."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from headtool.data import load_data
from headtool.errors import HeadtoolError

DICTIONARY = "the 10\ncat 5\nsat 3\n#fairseq:overwrite 1\n<pad> 2 #fairseq:overwrite\n"
# numbers 0-3 are <s> <pad> </s> <unk>, then the dictionary in order


def write_side(stem: Path, sentences, *, code: int = 8, dtype="<u2") -> None:
    sizes = np.array([len(sentence) for sentence in sentences], "<i4")
    width = np.dtype(dtype).itemsize
    starts = (np.concatenate([[0], np.cumsum(sizes[:-1])]) * width).astype("<i8")
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, code, len(sentences))
    Path(f"{stem}.idx").write_bytes(header + sizes.tobytes() + starts.tobytes())
    Path(f"{stem}.bin").write_bytes(np.concatenate(sentences).astype(dtype).tobytes())


@pytest.fixture
def folder(tmp_path):
    for language in ("de", "en"):
        (tmp_path / f"dict.{language}.txt").write_text(DICTIONARY)
    write_side(tmp_path / "test.de-en.de", [[4, 5, 2], [2], [3, 1, 2]])
    write_side(tmp_path / "test.de-en.en", [[6, 2], [7, 2], [8, 4, 4, 2]], code=4, dtype="<i4")
    return tmp_path


def test_symbols_without_end_of_sentence(folder):
    data = load_data(f"fairseq-bin:{folder}/test")
    assert data.columns == {
        "source": ("the cat", "", "<unk> <pad>"),
        "target": ("sat", "#fairseq:overwrite", "<pad> the the"),
    }
    assert (data.kind, data.pretokenized, data.languages) == ("translation", True, ("de", "en"))


def test_the_pair_may_be_read_the_other_way_round(folder):
    forth = load_data(f"fairseq-bin:{folder}/test.de-en")
    back = load_data(f"fairseq-bin:{folder}/test.en-de")
    assert back.languages == ("en", "de")
    assert back.columns["source"] == forth.columns["target"]
    assert back.columns["target"] == forth.columns["source"]


def test_several_pairs_must_be_told_apart(folder):
    (folder / "dict.fr.txt").write_text(DICTIONARY)
    for language in ("de", "fr"):
        write_side(folder / f"test.de-fr.{language}", [[4, 2]])
    with pytest.raises(HeadtoolError, match=r"several language pairs; name one of .*test\.de-fr"):
        load_data(f"fairseq-bin:{folder}/test")
    assert load_data(f"fairseq-bin:{folder}/test.de-fr").languages == ("de", "fr")


def rewrite(path: Path, change) -> None:
    path.write_bytes(change(path.read_bytes()))


FAULTS = {
    "no split": (lambda d: [p.unlink() for p in d.glob("test.*")], "there: none"),
    "one side": (lambda d: (d / "test.de-en.en.bin").unlink(), "no binarised pair"),
    "no index": (lambda d: (d / "test.de-en.en.idx").unlink(), "no such file"),
    "no dictionary": (lambda d: (d / "dict.en.txt").unlink(), "no such file"),
    "foreign index": (lambda d: (d / "test.de-en.de.idx").write_bytes(b"TNTIDX\0\0"), "mmap kind"),
    "cut index": (lambda d: rewrite(d / "test.de-en.de.idx", lambda x: x[:-3]), "mmap kind"),
    "cut header": (lambda d: rewrite(d / "test.de-en.de.idx", lambda x: x[:20]), "mmap kind"),
    "odd type": (
        lambda d: rewrite(d / "test.de-en.de.idx", lambda x: x[:17] + b"\x63" + x[18:]),
        "mmap kind",
    ),
    "no sentences": (
        lambda d: (d / "test.de-en.de.idx").write_bytes(
            b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 8, 0)
        ),
        "has no sentences",
    ),
    "cut data": (lambda d: rewrite(d / "test.de-en.de.bin", lambda x: x[:-2]), "12 bytes where"),
    "empty data": (lambda d: (d / "test.de-en.de.bin").write_bytes(b""), "is empty"),
    "unequal": (
        lambda d: write_side(d / "test.de-en.en", [[4, 2]]),
        "3 de sentences but 1 en ones",
    ),
    "small dictionary": (
        lambda d: (d / "dict.en.txt").write_text("the 10\n"),
        "sentence 1: symbol 6, but",
    ),
    "no counts": (lambda d: (d / "dict.en.txt").write_text("the\n"), "line 1: 'the' is not"),
    "twice": (lambda d: (d / "dict.en.txt").write_text("a 1\na 2\n"), "line 2: 'a' occurs twice"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_folders(folder, fault):
    break_it, part = FAULTS[fault]
    break_it(folder)
    with pytest.raises(HeadtoolError) as caught:
        load_data(f"fairseq-bin:{folder}/test")
    assert "\n" not in str(caught.value)
    assert part in str(caught.value)


def test_an_unknown_split_lists_those_present(folder):
    with pytest.raises(HeadtoolError, match=r"for 'tset' \(there: 'test.de-en'\)"):
        load_data(f"fairseq-bin:{folder}/tset")


def test_a_missing_folder(tmp_path):
    with pytest.raises(HeadtoolError, match="no such folder"):
        load_data(f"fairseq-bin:{tmp_path}/nope/test")


def fairseq_sentences(stem: str, dictionary: str) -> tuple[str, ...]:
    from fairseq.data import Dictionary
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    symbols, rows = Dictionary.load(dictionary), MMapIndexedDataset(stem)
    return tuple(symbols.string(rows[index]) for index in range(len(rows)))


def test_fairseq_reads_the_same(folder):
    pytest.importorskip("fairseq", reason="needs the fairseq extra")
    data = load_data(f"fairseq-bin:{folder}/test")
    for role, language in (("source", "de"), ("target", "en")):
        stem, dictionary = f"{folder}/test.de-en.{language}", f"{folder}/dict.{language}.txt"
        assert data.columns[role] == fairseq_sentences(stem, dictionary)


def test_fairseq_reads_the_same_from_real_data(shared):
    pytest.importorskip("fairseq", reason="needs the fairseq extra")
    folder = Path(shared) / "models" / "fairseq-multi30k-de-en" / "data-bin"
    data = load_data(f"fairseq-bin:{folder}/test")
    assert len(data) == 1000
    for role, language in (("source", "de"), ("target", "en")):
        stem, dictionary = f"{folder}/test.de-en.{language}", f"{folder}/dict.{language}.txt"
        assert data.columns[role] == fairseq_sentences(stem, dictionary)
