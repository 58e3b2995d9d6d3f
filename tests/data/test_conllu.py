"""CoNLL-U: what is read, and what is refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtool.data.conllu import read_treebank
from headtool.errors import HeadtoolError


def row(name: str, form: str, head: object = "_", relation: str = "_", misc: str = "_") -> str:
    return "\t".join([name, form, "_", "_", "_", "_", str(head), relation, "_", misc])


FINE = [
    "# newdoc",
    "# text = Cats don't sleep.",
    row("1", "Cats", 4, "nsubj"),
    row("2-3", "don't"),
    row("2", "do", 4, "aux"),
    row("3", "n't", 4, "advmod"),
    row("4", "sleep", 0, "root", "Gloss=x|SpaceAfter=No"),
    row("5", ".", 4, "punct"),
    "",
]
FUSED = [
    row("0.1", "left out"),
    row("1", "jeux", 0, "root"),
    row("2-3", "du", misc="SpaceAfter=No"),
    row("2", "de", 4, "case"),
    row("3", "le", 4, "det"),
    row("3.1", "left out"),
    row("3.2", "left out"),
    row("4", "roi", 1, "nmod"),
]


def write(folder: Path, lines: list[str], name: str = "bank.conllu") -> str:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_words_heads_relations_and_text(tmp_path: Path) -> None:
    bank = read_treebank([write(tmp_path, [*FINE, *FUSED])])
    first, second = bank.sentences
    assert first.text == "Cats don't sleep."
    assert [word.form for word in first.words] == ["Cats", "do", "n't", "sleep", "."]
    assert [first.text[word.start : word.end] for word in first.words] == [
        *("Cats", "do", "n't", "sleep", ".")
    ]
    assert [word.head for word in first.words] == [3, 3, 3, -1, 3]
    assert [word.relation for word in first.words][:3] == ["nsubj", "aux", "advmod"]
    assert (first.line, second.line) == (3, 10)


def test_words_of_a_fused_token_share_its_characters(tmp_path: Path) -> None:
    (sentence,) = read_treebank([write(tmp_path, FUSED)]).sentences
    assert sentence.text == "jeux duroi"
    spans = [sentence.text[word.start : word.end] for word in sentence.words]
    assert spans == ["jeux", "du", "du", "roi"]
    spaced = sentence.spaced()
    assert spaced.text == "jeux du roi"
    assert [spaced.text[word.start : word.end] for word in spaced.words] == spans


def test_spaced_puts_words_apart(tmp_path: Path) -> None:
    (sentence,) = read_treebank([write(tmp_path, FINE)]).sentences
    spaced = sentence.spaced()
    assert spaced.text == "Cats do n't sleep ."
    forms = [spaced.text[word.start : word.end] for word in spaced.words]
    assert forms == [word.form for word in spaced.words]


def test_several_files_and_a_limit(tmp_path: Path) -> None:
    files = [write(tmp_path, FINE, "a.conllu"), write(tmp_path, FUSED, "b.conllu")]
    bank = read_treebank(files)
    assert len(bank.sentences) == 2
    assert bank.spec == ",".join(files)
    first = read_treebank(files, limit=1, limit_order="first")
    assert first.sentences == bank.sentences[:1]
    drawn = {read_treebank(files, limit=1, seed=seed).sentences for seed in range(9)}
    assert drawn == {bank.sentences[:1], bank.sentences[1:]}
    assert read_treebank(files, limit=2) == bank
    assert read_treebank(files, limit=1).fingerprint != bank.fingerprint


def test_fingerprint_sees_the_tree_and_not_the_file(tmp_path: Path) -> None:
    other = [line.replace("nsubj", "obj") for line in FINE]
    prints = [
        read_treebank([write(tmp_path, lines, name)]).fingerprint
        for lines, name in ((FINE, "a"), (FINE, "b"), (other, "c"))
    ]
    assert prints[0] == prints[1] != prints[2]


BAD = {
    "too few columns": ([*FINE, "1\tCats\t_"], 10, ["3 columns instead of 10", "tabs"]),
    "spaces for tabs": ([row("1", "a", 0, "root").replace("\t", " ")], 1, ["1 columns"]),
    "empty column": ([row("1", "", 0, "root")], 1, ["an empty column", "_"]),
    "no ID": ([row("one", "a", 0, "root")], 1, ["'one' is no ID"]),
    "ID zero": ([row("0", "a", 0, "root")], 1, ["'0' is no ID"]),
    "gap": ([row("1", "a", 0, "root"), row("3", "b", 1, "x")], 2, ["ID '3' where 2"]),
    "no empty line": ([*FINE[:-1], *FINE[2:]], 9, ["ID '1' where 6", "empty line"]),
    "range too late": ([row("1", "a", 0, "root"), row("1-2", "ab")], 2, ["ID '1-2' where 2"]),
    "range backwards": ([row("1-1", "a"), row("1", "a", 0, "root")], 1, ["ID '1-1'"]),
    "ranges overlap": (
        [row("1-3", "abc"), row("1", "a", 0, "root"), row("2-3", "bc"), row("2", "b", 1, "x")],
        3,
        ["ID '2-3'"],
    ),
    "range too long": ([row("1-2", "ab"), row("1", "a", 0, "root")], 2, ["ends at 2", "has 1"]),
    "empty node out of order": ([row("1", "a", 0, "root"), row("1.2", "b")], 2, ["ID '1.2'"]),
    "head out of range": ([row("1", "a", 2, "x")], 1, ["HEAD '2'", "0 to 1"]),
    "no head": ([row("1", "a")], 1, ["HEAD '_'", "parse"]),
    "head no number": ([row("1", "a", "-1", "x")], 1, ["HEAD '-1'"]),
    "no relation": ([row("1", "a", 0)], 1, ["no DEPREL"]),
    "own head": ([row("1", "a", 0, "root"), row("2", "b", 2, "x")], 2, ["word 2 is its own head"]),
    "circle": (
        [row("1", "a", 0, "root"), row("2", "b", 3, "x"), row("3", "c", 2, "x")],
        2,
        ["word 2", "lead back"],
    ),
    "comment inside": ([row("1", "a", 0, "root"), "# no", row("2", "b", 1, "x")], 2, ["comment"]),
    "comment alone": (["# nothing", "", *FINE], 2, ["comments without a sentence"]),
    "comment at the end": ([*FINE, "# nothing"], 10, ["comments without a sentence"]),
    "only empty nodes": ([row("0.1", "a")], 1, ["without words"]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_broken_line_is_named(case: str, tmp_path: Path) -> None:
    lines, number, parts = BAD[case]
    file = write(tmp_path, lines)
    with pytest.raises(HeadtoolError) as caught:
        read_treebank([file])
    message = str(caught.value)
    assert f"'{file}', line {number}: " in message
    assert all(part in message for part in parts), message
    assert "\n" not in message


def test_a_file_without_sentences(tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match="holds no sentence"):
        read_treebank([write(tmp_path, ["", ""])])


def test_real_treebank_gives_its_own_text(shared: Path) -> None:
    file = shared / "data" / "ud-en-ewt" / "dev.conllu"
    bank = read_treebank([str(file)])
    lines = file.read_text(encoding="utf-8").splitlines()
    texts = [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]
    assert [sentence.text for sentence in bank.sentences] == texts
    for sentence in bank.sentences:
        for word in sentence.words:
            assert sentence.text[word.start : word.end] == word.form
