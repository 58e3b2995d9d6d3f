"""Checkpoints are found and put in the order of training."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtool.errors import HeadtoolError
from headtool.experiments.checkpoints import find_checkpoints, stamp


def test_checkpoints_in_the_order_of_training(tmp_path: Path) -> None:
    for name in ("checkpoint2", "checkpoint10", "checkpoint1", "checkpoint_best"):
        (tmp_path / f"{name}.pt").touch()
    (tmp_path / "log.txt").touch()
    found = find_checkpoints(str(tmp_path / "*"))
    assert [name for name, _ in found] == ["checkpoint1", "checkpoint2", "checkpoint10"]
    assert found[0][1] == f"fairseq:{tmp_path / 'checkpoint1.pt'}"
    with pytest.raises(HeadtoolError, match="names 1 checkpoints"):
        find_checkpoints(str(tmp_path / "checkpoint1.pt"))


def test_a_checkpoint_that_changed_has_another_stamp(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint1.pt"
    checkpoint.write_bytes(b"one")
    before = stamp(f"fairseq:{checkpoint}")
    checkpoint.write_bytes(b"more")
    assert before["bytes"] == 3
    assert stamp(f"fairseq:{checkpoint}") != before
    assert stamp("builtin:nli") == {"spec": "builtin:nli"}
