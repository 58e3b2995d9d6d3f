"""Every reader of files takes any bytes: it returns a value or complains in one line.

A few examples of each are drawn in the suite, always the same ones; ``HEADTOOL_FUZZ=2000`` draws as
many new ones. What was found so lies in ``corpus/``, one file per reader and finding.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headtool.data import load_data
from headtool.data.conllu import read_treebank
from headtool.data.frequencies import read_frequencies
from headtool.engine.store import UnitStore
from headtool.engine.units import Unit
from headtool.errors import HeadtoolError
from headtool.exchange.fitting import fit
from headtool.exchange.reading import read_foreign
from headtool.heads import AttentionSite, Head, HeadMask, Sites
from headtool.masks.curves import budgets_of
from headtool.masks.selection import budget, from_file, scores_of
from headtool.models.fairseq.segmentation import load_segmentation
from headtool.quiet import silence
from headtool.reading import parse_json, read_json
from headtool.reports.contents.run import read_contents
from headtool.results.runs import read_run
from headtool.results.studies import (
    Cell,
    CellProgress,
    Study,
    read_study,
    write_progress,
    write_study,
)
from headtool.surgery.record import read_record

from ..support.any_bytes import mutated, mutated_json
from ..support.fairseq_texts import write_gpt2

OLD = Path(__file__).parents[1] / "results" / "old_runs"
CORPUS = Path(__file__).parent / "corpus"
DRAWN = int(os.environ.get("HEADTOOL_FUZZ", "0"))
SITES = Sites((AttentionSite("enc-self", 0, 2, 2, 4, "x"), AttentionSite("cross", 0, 3, 3, 4, "y")))

TABLE = b"text\tlabel\na good film\t1\nbad plot\t0\nfine \xc3\xa9\t1\n"
TREE = b"""# text = a b
1-2\tab\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\ta\t_\tDET\t_\t_\t2\tdet\t_\t_
2\tb\t_\tNOUN\t_\t_\t0\troot\t_\t_
2.1\tc\t_\t_\t_\t_\t_\t_\t_\t_

"""
ROWS = [{"text": "a good film", "label": 1}, {"text": "bad", "label": 0.5, "more": [None, {}]}]
FEATURES = {"info": {"features": {"label": {"_type": "ClassLabel", "names": ["bad", "good"]}}}}
MASK = {"schema": "headtool/mask/1", "closed": ["enc-self.0.1", "cross.0.2"]}
MANIFEST = json.loads((OLD / "ablate" / "manifest.json").read_text())
PRUNED = {
    "schema": "headtool/pruned/1",
    "form": "pruned",
    "library": "transformers",
    "files": {"model.safetensors": {"bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()}},
    "history": {"steps": []},
}
DICTIONARY = b"the 10\ncat 5\nsat 3\n#fairseq:overwrite 1\n<pad> 2 #fairseq:overwrite\n"
SCORES = {
    "csv": b"kind,layer,head,score,stderr\ncross,0,0,1e-3,0.5\ncross,0,1,-2,\ncross,0,2,3,nan\n",
    "duo": b"0.5\t1e-3\t1\n",
    "retrieval": {"0-0": [0.5, 1], "0-1": [0, 0.25], "0-2": [1, 1]},
    "keys": {"L0H0": 0.5, "a0.h1": 1, "cross.0.2": 3},
    "rows": {"scores": [{"layer": 0, "head": i, "score": i, "kind": "cross"} for i in range(3)]},
    "hf": {"0": [0, 2]},
    "mib": {
        "cfg": {"n_layers": 1, "n_heads": 3, "d_model": 6},
        "nodes": {f"a0.h{i}": {"in_graph": True, "score": 0.5} for i in range(3)},
        "edges": {"a0.h0->logits": {"score": 1.0, "in_graph": False}},
    },
}
PIECES = {chr(33 + i): i for i in range(94)}
STUDY = {
    "schema": "headtool/study/1",
    "name": "first",
    "metric": None,
    "cells": [
        {
            "id": "a.b",
            "model": "a",
            "family": "a",
            "replicate": "",
            "task": "b",
            "spec": "builtin:nli",
            "data": ["x"],
            "run": "cells/a.b",
            "settings": {"steps": "10%"},
        }
    ],
}
PROGRESS = {
    "schema": "headtool/study-progress/1",
    "cells": {"a.b": {"state": "failed", "seconds": 1.5, "error": "why"}},
}
UNIT = Unit(7, np.arange(2), range(1))


def parquet(frame: pd.DataFrame) -> bytes:
    held = io.BytesIO()
    frame.to_parquet(held, index=False)
    return held.getvalue()


def described_parquet(metadata: bytes) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"text": ["a", "b"], "label": [0, 1]})
    held = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({b"huggingface": metadata}), held)
    return held.getvalue()


def binarised() -> tuple[bytes, bytes]:
    """Index and content of one side of a fairseq data set."""
    sizes = np.array([3, 1], "<i4").tobytes()
    starts = np.array([0, 6], "<i8").tobytes()
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 8, 2)
    return header + sizes + starts, np.array([4, 5, 2, 2], "<u2").tobytes()


def archive() -> bytes:
    held = io.BytesIO()
    np.savez(held, loss=np.array([[1.0, 2.0], [3.0, 4.0]]), gold=np.array([[0, 1], [1, 0]]))
    return held.getvalue()


def one_file(name: str, read: Callable[[Path], object]) -> Callable[[Path, bytes], object]:
    """A reader of one file."""

    def write_and_read(folder: Path, content: bytes) -> object:
        (folder / name).write_bytes(content)
        return read(folder / name)

    return write_and_read


def in_run(table: str) -> Callable[[Path, bytes], object]:
    """A reader of a run of which one table has other bytes, and the manifest agrees."""

    def write_and_read(folder: Path, content: bytes) -> object:
        run = folder / "run"
        shutil.copytree(OLD / "ablate", run, dirs_exist_ok=True)
        (run / f"{table}.parquet").write_bytes(content)
        found = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        manifest = MANIFEST | {"tables": MANIFEST["tables"] | {table: found}}
        return read_all(run, json.dumps(manifest).encode())

    return write_and_read


def read_manifest(folder: Path, content: bytes) -> object:
    run = folder / "run"
    shutil.copytree(OLD / "ablate", run, dirs_exist_ok=True)
    return read_all(run, content)


def read_all(run: Path, manifest: bytes) -> object:
    """Read a run in all the ways that commands do; the first complaint ends it."""
    (run / "manifest.json").write_bytes(manifest)
    found = read_run(run)
    for name in found.names:
        found.table(name)
    found.outcomes()
    contents = read_contents(run)
    return contents.whole, contents.methods, contents.notes, scores_of(found)


def fairseq(part: str) -> Callable[[Path, bytes], object]:
    """A reader of a fairseq data set of which one file has other bytes."""

    def write_and_read(folder: Path, content: bytes) -> object:
        index, numbers = binarised()
        for language in ("de", "en"):
            (folder / f"dict.{language}.txt").write_bytes(DICTIONARY)
            (folder / f"test.de-en.{language}.idx").write_bytes(index)
            (folder / f"test.de-en.{language}.bin").write_bytes(numbers)
        (folder / part).write_bytes(content)
        return load_data(f"fairseq-bin:{folder}/test").fingerprint

    return write_and_read


def binarised_lines(part: str) -> Callable[[Path, bytes], object]:
    """A reader of a binarised text of which one file has other bytes."""

    def write_and_read(folder: Path, content: bytes) -> object:
        index, numbers = binarised()
        (folder / "dict.txt").write_bytes(DICTIONARY)
        (folder / "test.idx").write_bytes(index)
        (folder / "test.bin").write_bytes(numbers)
        (folder / part).write_bytes(content)
        return load_data(f"fairseq-bin:{folder}/test").fingerprint

    return write_and_read


def read_pieces(part: str) -> Callable[[Path, bytes], object]:
    """A reader of GPT-2's byte-level encoding of which one file has other bytes."""

    def write_and_read(folder: Path, content: bytes) -> object:
        with silence():
            pytest.importorskip("fairseq")
            write_gpt2(folder, [("t", "h")])
            (folder / part).write_bytes(content)
            return load_segmentation("gpt2", folder).encode("the cat \u00e9\n")

    return write_and_read


def read_unit(folder: Path, content: bytes) -> object:
    place = folder / "run.unfinished"
    shutil.rmtree(place, ignore_errors=True)
    with UnitStore(place, {"model": "x"}) as store:
        store.save(UNIT, {"loss": np.zeros((2, 2))})
        (place / "unit-000007.npz").write_bytes(content)
        return store.load(UNIT)


def study(part: str) -> Callable[[Path, bytes], object]:
    """A reader of a study of which one file has other bytes."""

    def write_and_read(folder: Path, content: bytes) -> object:
        cell = Cell("a.b", "a", "a", "", "b", "builtin:nli", ("x",), folder / "cells" / "a.b")
        write_study(Study("first", folder, (cell,)))
        write_progress(folder, {"a.b": CellProgress("failed", 1.5, "why")})
        (folder / part).write_bytes(content)
        return read_study(folder)

    return write_and_read


def read_data(suffix: str) -> Callable[[Path, bytes], object]:
    return one_file(f"data{suffix}", lambda path: load_data(str(path)).fingerprint)


def read_pair(folder: Path, content: bytes) -> object:
    (folder / "a.de").write_bytes(content)
    (folder / "b.en").write_bytes(b"one\ntwo\n")
    return load_data(f"{folder}/a.de,{folder}/b.en").fingerprint


def read_pruned(folder: Path, content: bytes) -> object:
    (folder / "model.safetensors").write_bytes(b"x")
    (folder / "headtool-pruned.json").write_bytes(content)
    return read_record(folder)


def read_scores(path: Path) -> object:
    """Scores made elsewhere, without a model and with one."""
    foreign = read_foreign(path)
    named = any(row.kind is not None for row in foreign.rows)
    for sites, shape in ((None, (1, 3)), (SITES, None)):
        fit(foreign, sites, kind=None if named else "cross", shape=shape, absolute=True)
    return fit(foreign, None)


def from_text(read: Callable[[str], object]) -> Callable[[Path, bytes], object]:
    """A reader of what stands on a command line."""
    return lambda _, content: read(content.decode("utf-8", errors="surrogateescape"))


@dataclass(frozen=True)
class Reader:
    """A reader, and files that are nearly right for it."""

    read: Callable[[Path, bytes], object]
    files: st.SearchStrategy[bytes]
    of_file: bool = True  # else what stands on the command line, which messages repeat


READERS = {
    "json": Reader(lambda _, content: parse_json(content, "it"), mutated_json(MASK)),
    "json-file": Reader(one_file("x.json", read_json), mutated_json(MASK)),
    "tsv": Reader(read_data(".tsv"), mutated(TABLE)),
    "csv": Reader(read_data(".csv"), mutated(TABLE.replace(b"\t", b",") + b'"a ""b""",1\n')),
    "jsonl": Reader(
        read_data(".jsonl"),
        mutated("\n".join(map(json.dumps, ROWS)).encode()) | mutated_json(ROWS[1]),
    ),
    "parquet": Reader(
        read_data(".parquet"), mutated(parquet(pd.DataFrame(ROWS)[["text", "label"]]))
    ),
    "parquet-features": Reader(
        lambda folder, content: read_data(".parquet")(folder, described_parquet(content)),
        mutated_json(FEATURES),
    ),
    "txt": Reader(read_data(".txt"), mutated(b"A book.\n\nWith two parts.\n")),
    "pair": Reader(read_pair, mutated(b"eins\nzwei\n")),
    "conllu": Reader(one_file("x.conllu", lambda path: read_treebank([str(path)])), mutated(TREE)),
    "frequencies": Reader(
        one_file("x", lambda path: read_frequencies(str(path))), mutated(b"the 10\ncat\t5\n")
    ),
    "mask": Reader(one_file("x", lambda path: from_file(path, SITES)), mutated_json(MASK)),
    "mask-layers": Reader(
        one_file("x", lambda path: from_file(path, SITES)), mutated_json({"0": [0, 1]})
    ),
    "mask-michel": Reader(one_file("x", lambda path: from_file(path, SITES)), mutated(b"E:1:1 A:")),
    "mask-text": Reader(
        from_text(lambda text: HeadMask.from_json(text, SITES)), mutated_json(MASK)
    ),
    "heads": Reader(
        from_text(Head.parse), mutated(b"enc-self.0.12") | mutated(b"E:1:1"), of_file=False
    ),
    "steps": Reader(
        from_text(lambda text: budgets_of(text, 12)), mutated(b"10%,25%,50%"), of_file=False
    ),
    "remove": Reader(
        from_text(lambda text: budget(text, None, 12)), mutated(b"40%"), of_file=False
    ),
    **{
        f"scores-{name}": Reader(
            one_file("x", read_scores),
            mutated(content) if isinstance(content, bytes) else mutated_json(content),
        )
        for name, content in SCORES.items()
    },
    "manifest": Reader(read_manifest, mutated_json(MANIFEST)),
    **{
        f"table-{name}": Reader(
            in_run(name), mutated((OLD / "ablate" / f"{name}.parquet").read_bytes())
        )
        for name in ("ablation", "outcomes", "sites")
    },
    "study": Reader(study("study.json"), mutated_json(STUDY)),
    "study-progress": Reader(study("progress.json"), mutated_json(PROGRESS)),
    "pruned": Reader(read_pruned, mutated_json(PRUNED)),
    "unit": Reader(read_unit, mutated(archive())),
    "fairseq-dictionary": Reader(fairseq("dict.de.txt"), mutated(DICTIONARY)),
    "fairseq-lines-dictionary": Reader(binarised_lines("dict.txt"), mutated(DICTIONARY)),
    "fairseq-lines-index": Reader(binarised_lines("test.idx"), mutated(binarised()[0])),
    "gpt2-encoder": Reader(read_pieces("encoder.json"), mutated_json(PIECES)),
    "gpt2-merges": Reader(read_pieces("vocab.bpe"), mutated(b"#version: 0.2\nt h\n")),
    "fairseq-index": Reader(fairseq("test.de-en.de.idx"), mutated(binarised()[0])),
    "fairseq-numbers": Reader(fairseq("test.de-en.en.bin"), mutated(binarised()[1])),
}


def takes(name: str, folder: Path, content: bytes) -> None:
    """Let a reader read; it may complain, in one line."""
    complaint = ""
    try:
        READERS[name].read(folder, content)
    except HeadtoolError as error:
        complaint = str(error)
    if READERS[name].of_file:
        assert "\n" not in complaint
        assert len(complaint) < 1000


@pytest.mark.parametrize("name", READERS)
def test_any_bytes_are_a_value_or_one_line(name: str, tmp_path: Path) -> None:
    @settings(
        max_examples=DRAWN or 12,
        derandomize=not DRAWN,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(READERS[name].files)
    def check(content: bytes) -> None:
        takes(name, tmp_path, content)

    check()


@pytest.mark.parametrize("file", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_what_was_found_before(file: Path, tmp_path: Path) -> None:
    takes(file.name.partition(".")[0], tmp_path, file.read_bytes())
