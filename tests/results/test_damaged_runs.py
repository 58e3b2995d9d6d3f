"""Runs that somebody edited: refused at the door, by the file and what is wrong in it."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headtool.errors import HeadtoolError
from headtool.masks.selection import scores_of
from headtool.reports.contents.run import read_contents
from headtool.results.runs import read_run
from headtool.schema import TABLES
from headtool.schema.manifests import check_manifest

OLD = Path(__file__).parent / "old_runs"
KINDS = ("ablate", "compare", "score")
OTHERS = {
    "null": None,
    "number": 3.5,
    "text": "x",
    "list": [[]],
    "object": {"a": {"b": [None]}},
    "truth": True,
}
NAMES = {type(None): "null", int: "number", float: "number", str: "text", list: "list"}
NAMES |= {dict: "object", bool: "truth"}
# Entries that may have been left open, and what they then are.
OPEN = {
    **dict.fromkeys(
        (
            "labels",
            "batch_tokens",
            "draws",
            "limit",
            "resamples",
            "resamples_needed",
            "accuracy",
            "loss",
        ),
        "null",
    ),
    "expected_false_positives": "null",
    "select_data": "text",
    "margin": "number",
    "kinds": "list",
}

Path_ = tuple[Any, ...]


def manifest(kind: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((OLD / kind / "manifest.json").read_text())
    return document


def entries(document: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every entry of a document, with its path; methods' options may be anything."""
    parts = document.items() if isinstance(document, dict) else enumerate(document)
    for name, value in parts:
        yield (*path, name), value
        if isinstance(value, dict | list) and name != "options":
            yield from entries(value, (*path, name))


def edited(document: dict[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    """A copy in which an entry has another value; without the entry for `...`."""
    made = copy.deepcopy(document)
    place: Any = made
    for name in path[:-1]:
        place = place[name]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_entries_of_another_type_are_refused(kind: str) -> None:
    document = manifest(kind)
    check_manifest(document, "run/manifest.json")
    tried = 0
    for path, value in entries(document):
        for name, other in OTHERS.items():
            if name in (NAMES[type(value)], OPEN.get(str(path[-1]))):
                continue
            tried += 1
            with pytest.raises(HeadtoolError) as caught:
                check_manifest(edited(document, path, other), "run/manifest.json")
            message = str(caught.value)
            assert message.startswith("run/manifest.json is damaged: '"), path
            assert str(path[0]) in message
            assert message.endswith("; restore it, or make the run again")
            assert "\n" not in message
    assert tried > 200


def read_everything(run: Path) -> None:
    found = read_run(run)
    for name in found.names:
        found.table(name)
    contents = read_contents(run)
    assert isinstance(contents.notes, list)
    assert contents.whole is not None
    if "scores" in found.names or "ablation" in found.names:
        scores_of(found)
    if "outcomes" in found.names:
        found.outcomes()


def test_entries_that_are_gone_are_done_without_or_named(tmp_path: Path) -> None:
    shutil.copytree(OLD / "ablate", tmp_path / "run")
    document = manifest("ablate")
    complaints = {}
    for path, _ in entries(document):
        text = json.dumps(edited(document, path, ...))
        (tmp_path / "run" / "manifest.json").write_text(text)
        try:
            read_everything(tmp_path / "run")
        except HeadtoolError as error:
            complaints[path] = str(error)
    for name in ("method", "metric", "options", "model", "data"):
        complaint = complaints["provenance", "ablate", name]
        assert f"'provenance > ablate > {name}' is missing" in complaint
    assert ("created",) not in complaints


# -- tables that somebody made, with a manifest that agrees ---------------------------------------


def forge(run: Path, name: str, content: bytes) -> None:
    """Put a file in a table's place, and its size and digest into the manifest."""
    (run / f"{name}.parquet").write_bytes(content)
    document = json.loads((run / "manifest.json").read_text())
    digest = hashlib.sha256(content).hexdigest()
    document["tables"][name] = {"bytes": len(content), "sha256": digest}
    (run / "manifest.json").write_text(json.dumps(document))


def parquet(frame: pd.DataFrame) -> bytes:
    held = io.BytesIO()
    frame.to_parquet(held, index=False)
    return held.getvalue()


def refused(run: Path, name: str) -> str:
    with pytest.raises(HeadtoolError) as caught:
        read_run(run).table(name)
    message = str(caught.value)
    assert f"{name}.parquet" in message
    assert "\n" not in message
    return message


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copytree(OLD / "compare", tmp_path / "run")
    return tmp_path / "run"


def described() -> Iterator[tuple[str, str, str]]:
    """Tables, columns and their types, of the comparison that has rows."""
    for name in manifest("compare")["tables"]:
        frame = pd.read_parquet(OLD / "compare" / f"{name}.parquet")
        if name in TABLES and len(frame) and name != "curves":  # an older one, taken apart first
            for column in TABLES[name].columns:
                if column.name in frame.columns:
                    yield name, column.name, column.type


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({name for name, _, _ in described()}))
def test_columns_of_another_type_are_refused(run: Path, name: str) -> None:
    frame = pd.read_parquet(run / f"{name}.parquet")
    wrong: dict[str, list[Any]] = {
        "string": [1, 0.5, True, [1], None],
        "integer": ["x", 0.5, True, [1], -1, None],
        "number": ["x", True, [1], float("inf"), 1e300],
        "boolean": ["x", 2, [1]],
    }
    for table, column, kind in described():
        if table != name:
            continue
        declared = next(one for one in TABLES[name].columns if one.name == column)
        for value in wrong[kind]:
            if declared.endless and value in (float("inf"), 1e300):
                continue
            forge(run, name, parquet(frame.assign(**{column: [value] * len(frame)})))
            message = refused(run, name)
            assert f"'{column}'" in message
        forge(run, name, parquet(frame.drop(columns=column)))
        if not (declared.optional or declared.later):
            assert "has no column" in refused(run, name)
    forge(run, name, parquet(frame))
    read_run(run).table(name)


@pytest.mark.parametrize(
    ("name", "change", "part"),
    [
        ("scores", lambda f: f.assign(layer=f["layer"] + 9), "the model has no head enc-self.9.0"),
        ("scores", lambda f: f.assign(kind="cross"), "the model has no head cross.0.0"),
        ("scores", lambda f: f.assign(kind="x"), "'x', which is none of enc-self, dec-self, cross"),
        ("kept", lambda f: f.assign(head=f["head"] + 8), "the model has no head"),
        ("kept", lambda f: f.iloc[:-1], "rows are missing"),
        ("kept", lambda f: pd.concat([f, f]), "two rows have the same method, budget, kind"),
        ("tests", lambda f: pd.concat([f, f]), "two rows have the same data, kind, layer, head"),
        ("sites", lambda f: f.assign(layer=0), "two rows have the same kind, layer"),
        ("sites", lambda f: f.assign(n_heads=0), "a site has 0 heads"),
        ("sites", lambda f: f.assign(n_kv_heads=3), "8 heads and 3 key/value heads"),
        ("sites", lambda f: f.assign(n_heads=10**9), "a site has 1000000000 heads"),
        ("kept", lambda f: f.assign(share=float("nan")), "missing numbers"),
        ("scores", lambda f: f.assign(more=[[1]] * len(f)), "'more' holds object values"),
    ],
)
def test_tables_that_contradict_themselves_are_refused(
    run: Path, name: str, change: Callable[[pd.DataFrame], pd.DataFrame], part: str
) -> None:
    frame = pd.read_parquet(run / f"{name}.parquet")
    forge(run, name, parquet(change(frame)))
    if name == "sites" and "has the same" not in part and "two rows" not in part:
        with pytest.raises(HeadtoolError, match=part.replace("/", "/")):
            _ = read_run(run).sites
        return
    assert part in refused(run, name)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda f: f.iloc[:-1], "not those of every mask on every example"),
        (lambda f: f.iloc[::-1], "does not begin with outcomes of the whole model"),
        (lambda f: f[f["mask"] != ""], "does not begin with outcomes of the whole model"),
        (lambda f: f.iloc[:0], "does not begin with outcomes of the whole model"),
        (lambda f: f.assign(loss=float("nan")), "an outcome is no finite number"),
        (lambda f: f.assign(loss=float("inf")), "an outcome is no finite number"),
        (lambda f: f.assign(loss="x"), "could not convert string"),
        (lambda f: f.assign(example=0), "not those of every mask on every example"),
        (
            lambda f: f.assign(mask=f["mask"].astype(str).replace("enc-self.0.0", "enc-self.9.0")),
            "has no head enc-self.9.0",
        ),
        (
            lambda f: f.assign(mask=f["mask"].astype(str).replace("enc-self.0.0", "nonsense")),
            "'nonsense' is not a head",
        ),
    ],
)
def test_outcomes_that_are_none_are_refused(
    run: Path, change: Callable[[pd.DataFrame], pd.DataFrame], part: str
) -> None:
    frame = pd.read_parquet(run / "outcomes.parquet")
    forge(run, "outcomes", parquet(change(frame)))
    with pytest.raises(HeadtoolError) as caught:
        read_run(run).outcomes()
    assert "outcomes.parquet is damaged: " in str(caught.value)
    assert part in str(caught.value)


def test_draws_that_are_no_numbers(run: Path) -> None:
    frame = pd.read_parquet(run / "curves.parquet")
    for value in ("x", [1], {"a": 1}, b"x", pd.Timestamp("2020-01-01")):
        forge(run, "curves", parquet(frame.assign(draw=[value] * len(frame))))
        with contextlib.suppress(HeadtoolError):
            read_everything(run)


# -- what is no file ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scores.parquet", "curves.parquet", "manifest.json"])
@pytest.mark.parametrize("what", ["folder", "pipe", "link to nothing"])
def test_what_is_no_file_is_refused(run: Path, name: str, what: str) -> None:
    path = run / name
    path.unlink()
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere")
    with pytest.raises(HeadtoolError) as caught:
        read_everything(run)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["scores", "curves", "outcomes"])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 100, b"\xff" * 400])
def test_what_is_no_table_is_refused(run: Path, name: str, content: bytes) -> None:
    forge(run, name, content)
    assert "is no Parquet file" in refused(run, name)
