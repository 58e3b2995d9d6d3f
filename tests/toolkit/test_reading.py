"""Files that a user names may be anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Head, HeadMask, Sites
from headtool.reading import parse_json, read_file, read_json

SITES = Sites((AttentionSite("enc-self", 0, 2, 2, 4, "x"),))
DEEP = "[" * 200_000
LONG = "9" * 5000


@pytest.mark.parametrize("text", ["", "{", DEEP, LONG, '{"a": ' + LONG + "}", "nul", b"\xff"])
def test_what_is_no_json_is_one_line(text: str | bytes) -> None:
    with pytest.raises(HeadtoolError, match=r"^it is not JSON: .") as error:
        parse_json(text, "it")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


def test_json_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b'\xef\xbb\xbf{"a": [1, "\xc3\xa9"]}')
    assert read_json(tmp_path / "x") == {"a": [1, "é"]}
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "y")
    with pytest.raises(HeadtoolError, match="cannot be read: Is a directory"):
        read_json(tmp_path)


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(HeadtoolError, match="is no regular file"):
            read_file(path)


@pytest.mark.parametrize("text", [f"enc-self.0.{LONG}", f"enc-self.{LONG}.0", f"E:1:{LONG}"])
def test_a_number_of_thousands_of_digits_names_no_head(text: str) -> None:
    with pytest.raises(HeadtoolError, match="is not a head"):
        Head.parse(text)


@pytest.mark.parametrize("text", [DEEP, '{"schema": "headtool/mask/1", "closed": ' + LONG + "}"])
def test_a_mask_of_absurd_json_is_refused(text: str) -> None:
    with pytest.raises(HeadtoolError, match="the head mask is not JSON"):
        HeadMask.from_json(text, SITES)
