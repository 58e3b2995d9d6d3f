"""Run directories: whole or not at all, and never in place of anything else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from headtool.errors import HeadtoolError
from headtool.results import folders
from headtool.results.folders import check_output
from headtool.results.runs import Run, read_run, write_run

FRAME = pd.DataFrame(
    {
        "method": ["gates", "gates"],
        "kind": ["enc-self", "cross"],
        "layer": [0, 0],
        "head": [0, 1],
        "score": [0.1 + 0.2, -1e-300],
        "stderr": [np.nan, 0.5],
        "rank": [1, 2],
        "tied": [False, False],
        "mean_rank": [1.0, 2.0],
        "kept": pd.array([True, False], dtype="boolean"),
    }
)
PROVENANCE = {"gradient": {"seed": 0, "options": {"granularity": "token"}}}


def write(folder: Path, *, value: float = 1.0, force: bool = False) -> Run:
    return write_run(
        folder,
        command="headtool score --out 'a b'",
        provenance=PROVENANCE,
        tables={"scores": FRAME, "gates.loss": pd.DataFrame({"loss": [value]})},
        weights={"gates.weights": {"layer.weight": torch.full((2, 3), value).T}},
        force=force,
    )


def test_reads_what_was_written(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "run")
    run = read_run(tmp_path / "deep" / "run")
    pd.testing.assert_frame_equal(run.table("scores"), FRAME, check_exact=True)
    assert run.table("gates.loss")["loss"].tolist() == [1.0]
    assert run.manifest["schema"] == "headtool/run/1"
    assert run.manifest["command"] == "headtool score --out 'a b'"
    assert run.manifest["provenance"] == PROVENANCE
    assert set(run.manifest["tables"]) == {"scores", "gates.loss"}
    weights = load_file(run.folder / "gates.weights.safetensors")
    assert torch.equal(weights["layer.weight"], torch.ones(3, 2))


def test_manifest_lists_every_file(tmp_path: Path) -> None:
    manifest = write(tmp_path / "run").manifest
    sizes = {f"{name}.parquet": file["bytes"] for name, file in manifest["tables"].items()}
    sizes |= {f"{name}.safetensors": file["bytes"] for name, file in manifest["weights"].items()}
    found = {path.name: path.stat().st_size for path in (tmp_path / "run").iterdir()}
    del found["manifest.json"]
    assert sizes == found


def test_others_may_read_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "run")
        assert os.umask(0o027) == 0o027  # still as it was
    finally:
        os.umask(before)
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o750


def test_files_of_libraries_that_let_nobody_read_them(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with folders.new_folder(tmp_path / "run", force=False) as made:
            (made / "deep").mkdir()
            (made / "deep" / "weights").touch(mode=0o600)
    finally:
        os.umask(before)
    assert (tmp_path / "run" / "deep" / "weights").stat().st_mode & 0o777 == 0o640


# -- all or nothing -----------------------------------------------------------------------------

FULL = OSError(28, "No space left on device")


def fail(*_: object, **__: object) -> None:
    raise FULL


def fail_later(*_: object, **__: object) -> None:
    """A bug, or an interruption."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("place", ["table", "weights", "manifest", "rename"])
def test_nothing_is_left_of_a_run_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    if place == "table":
        monkeypatch.setattr(pd.DataFrame, "to_parquet", fail)
    elif place == "weights":
        monkeypatch.setattr(Path, "write_bytes", fail)
    elif place == "manifest":
        monkeypatch.setattr(Path, "write_text", fail)
    else:
        monkeypatch.setattr(folders.os, "rename", fail)
    message = r"cannot write .*run: No space left on device; choose another `out`"
    with pytest.raises(HeadtoolError, match=message):
        write(tmp_path / "new" / "deep" / "run")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_run_that_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "write_text", fail_later)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "new" / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [fail, fail_later])
@pytest.mark.parametrize("step", [0, 1])
def test_old_run_survives_a_failed_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, error
) -> None:
    write(tmp_path / "run", value=1.0)
    rename, calls = os.rename, []

    def rename_until(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == step + 1:
            error()
        rename(source, target)

    monkeypatch.setattr(folders.os, "rename", rename_until)
    with pytest.raises((HeadtoolError, KeyboardInterrupt)):
        write(tmp_path / "run", value=2.0, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert read_run(tmp_path / "run").table("gates.loss")["loss"].tolist() == [1.0]


# -- what may be replaced -----------------------------------------------------------------------


def test_replaces_a_run_only_when_told_to(tmp_path: Path) -> None:
    write(tmp_path / "run", value=1.0)
    with pytest.raises(
        HeadtoolError, match="exists already; choose another `out` or add `force=True`"
    ):
        write(tmp_path / "run", value=2.0)
    assert read_run(tmp_path / "run").table("gates.loss")["loss"].tolist() == [1.0]
    write(tmp_path / "run", value=2.0, force=True)
    assert read_run(tmp_path / "run").table("gates.loss")["loss"].tolist() == [2.0]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_replaces_a_run_behind_a_link(tmp_path: Path) -> None:
    write(tmp_path / "disk" / "run", value=1.0)
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "run")
    write(tmp_path / "link", value=2.0, force=True)
    assert (tmp_path / "link").is_symlink()
    assert read_run(tmp_path / "disk/run").table("gates.loss")["loss"].tolist() == [2.0]


def test_replaces_runs_of_other_versions_and_empty_folders(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "manifest.json").write_text('{"schema": "headtool/run/7"}')
    for name in ("empty", "later"):
        write(tmp_path / name, force=True)
        assert read_run(tmp_path / name).table("scores").shape == FRAME.shape


def foreign(place: Path, kind: str) -> None:
    """Put something at `place` that is no run."""
    if kind == "file":
        place.write_text("precious")
        return
    if kind == "dangling link":
        place.symlink_to(place.with_name("nowhere"))
        return
    place.mkdir()
    contents = {
        "folder": ("cat.jpg", "precious"),
        "other manifest": ("manifest.json", '{"schema": "chrome", "name": "precious"}'),
        "list": ("manifest.json", '["headtool/run/1"]'),
        "broken manifest": ("manifest.json", '{"schema": "headtool/run/1",'),
        "binary manifest": ("manifest.json", "\xff\xfe"),
    }
    name, text = contents[kind]
    (place / name).write_text(text, encoding="latin-1")


@pytest.mark.parametrize(
    "kind",
    [
        "file",
        "dangling link",
        "folder",
        "other manifest",
        "list",
        "broken manifest",
        "binary manifest",
    ],
)
def test_never_replaces_what_is_no_run(tmp_path: Path, kind: str) -> None:
    foreign(tmp_path / "place", kind)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        HeadtoolError, match="is no headtool run, so `force=True` does not replace it"
    ):
        check_output(tmp_path / "place", force=True)
    with pytest.raises(HeadtoolError, match="exists already"):
        check_output(tmp_path / "place", force=False)
    assert sorted(tmp_path.rglob("*")) == before


def test_checks_the_place_without_touching_it(tmp_path: Path) -> None:
    check_output(tmp_path / "new" / "run", force=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "run", tmp_path / ("x" * 300), Path("/proc/new/run")):
        with pytest.raises(HeadtoolError, match=r"cannot write .*; choose another `out`"):
            check_output(place, force=False)


def test_relative_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("run"))
    assert read_run(Path("run")).table("scores").shape == FRAME.shape


# -- reading what is damaged --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (None, r"is no headtool run: it has no manifest\.json"),
        ("{", r"manifest\.json cannot be read"),
        ("\xff", r"manifest\.json cannot be read"),
        ("[]", "has the schema None; this version reads 'headtool/run/1'"),
        ('{"schema": "headtool/run/2"}', "has the schema 'headtool/run/2'"),
        ('{"schema": "headtool/scores/1"}', "has the schema 'headtool/scores/1'"),
        ('{"schema": "headtool/run/1"}', "it lists no tables"),
        ('{"schema": "headtool/run/1", "tables": ["scores"]}', "it lists no tables"),
    ],
)
def test_refuses_a_bad_manifest(tmp_path: Path, manifest: str | None, message: str) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest, encoding="latin-1")
    with pytest.raises(HeadtoolError, match=message) as caught:
        read_run(tmp_path)
    assert "\n" not in str(caught.value)


def test_refuses_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match="no headtool run: there is no such folder"):
        read_run(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadtoolError, match="cannot be read"):
        read_run(tmp_path / "file")


def test_refuses_tables_that_are_not_what_was_written(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    with pytest.raises(HeadtoolError, match=r"no table 'score' \(it has: scores, gates"):
        run.table("score")
    path = run.folder / "scores.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(HeadtoolError, match="is damaged"):
        run.table("scores")
    FRAME.assign(score=0.0).to_parquet(path, index=False)
    with pytest.raises(HeadtoolError, match="is damaged"):
        run.table("scores")
    path.unlink()
    with pytest.raises(HeadtoolError, match="is missing from the run"):
        run.table("scores")


def test_numbers_that_json_lacks_are_a_bug(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_run(tmp_path / "run", command="", provenance={"x": float("nan")}, tables={})
    assert list(tmp_path.iterdir()) == []


def test_manifest_is_plain_json(tmp_path: Path) -> None:
    write(tmp_path / "run")
    text = (tmp_path / "run" / "manifest.json").read_text(encoding="ascii")
    assert json.loads(text)["created"].endswith("+00:00")


def rewrite(run: Run, name: str, frame: pd.DataFrame) -> Run:
    """Put another table in the place of one, and its size and digest into the manifest."""
    frame.to_parquet(run.folder / f"{name}.parquet", index=False)
    manifest = json.loads((run.folder / "manifest.json").read_text())
    manifest["tables"][name] = folders.describe_file(run.folder / f"{name}.parquet")
    (run.folder / "manifest.json").write_text(json.dumps(manifest))
    return read_run(run.folder)


@pytest.mark.parametrize(
    ("frame", "part"),
    [
        (FRAME.drop(columns="rank"), "has no column 'rank'"),
        (FRAME.assign(rank=["first", "second"]), "instead of whole numbers"),
        (FRAME.assign(score=["high", "low"]), "the column 'score' holds"),
        (FRAME.assign(kind=[1, 2]), "instead of text"),
    ],
)
def test_a_table_with_other_columns_is_refused(
    tmp_path: Path, frame: pd.DataFrame, part: str
) -> None:
    run = rewrite(write(tmp_path / "run"), "scores", frame)
    with pytest.raises(HeadtoolError) as caught:
        run.table("scores")
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "run" / "scores.parquet"))
    assert part in message
    assert message.endswith("make the run again with the command in its manifest")
    assert "\n" not in message


def test_a_table_that_is_no_parquet_file_is_refused(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    (run.folder / "scores.parquet").write_bytes(b"no table")
    manifest = json.loads((run.folder / "manifest.json").read_text())
    manifest["tables"]["scores"] = folders.describe_file(run.folder / "scores.parquet")
    with pytest.raises(HeadtoolError, match="is no Parquet file"):
        Run(run.folder, manifest).table("scores")


def test_a_method_may_add_columns_and_tables_of_its_own(tmp_path: Path) -> None:
    run = rewrite(write(tmp_path / "run"), "scores", FRAME.assign(mine=[1, 2]))
    assert run.table("scores")["mine"].tolist() == [1, 2]
    assert run.table("gates.loss")["loss"].tolist() == [1.0]
