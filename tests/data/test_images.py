"""Images: folders, tables, and files that mean harm."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from headtool.data import load_data
from headtool.data.cells import image_bytes, image_uri
from headtool.data.images import open_image
from headtool.errors import HeadtoolError

from ..support.tasks import save_images


def test_a_folder_of_classes(tmp_path: Path) -> None:
    folder = save_images(tmp_path / "pets")
    (folder / "cat" / ".DS_Store").write_text("x")
    data = load_data(str(folder))
    assert (data.kind, data.columns["label"]) == ("images", ("cat",) * 3 + ("dog",) * 3)
    assert len(load_data(str(folder), limit=2)) == 2
    image = open_image(data.columns["image"][0], "here")
    assert image.mode == "RGB"
    before = data.fingerprint
    moved = (tmp_path / "pets").rename(tmp_path / "moved")
    assert load_data(str(moved)).fingerprint == before
    (moved / "cat" / "0.png").write_bytes(b"else")
    assert load_data(str(moved)).fingerprint != before


@pytest.mark.parametrize("form", ["bytes", "struct"])
def test_a_table_with_bytes(form: str, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("L", (3, 2), 255).save(buffer, "PNG")
    content = buffer.getvalue()
    cell = content if form == "bytes" else {"bytes": content, "path": None}
    pd.DataFrame({"image": [cell], "label": ["cat"]}).to_parquet(tmp_path / "x.parquet")
    data = load_data(str(tmp_path / "x.parquet"))
    assert image_bytes(data.columns["image"][0]) == content
    assert open_image(data.columns["image"][0], "here").getpixel((0, 0)) == (255, 255, 255)


def test_a_table_without_images(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"image": "/etc/passwd", "label": "cat"}')
    with pytest.raises(HeadtoolError, match="holds '/etc/passwd' and no encoded image"):
        load_data(str(tmp_path / "x.jsonl"))


def test_other_files_and_links_are_refused(tmp_path: Path) -> None:
    folder = save_images(tmp_path / "pets")
    (folder / "cat" / "notes.txt").write_text("x")
    with pytest.raises(HeadtoolError, match=r"notes.txt' is no image by its name \(.jpg"):
        load_data(str(folder))
    (folder / "cat" / "notes.txt").unlink()
    outside = tmp_path / "secret.png"
    outside.write_bytes(b"x")
    link = folder / "cat" / "x.png"
    link.symlink_to(outside)
    with pytest.raises(HeadtoolError, match=r"x.png' is a link out of"):
        load_data(str(folder))
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(HeadtoolError, match=r"x.png' is a link to nowhere"):
        load_data(str(folder))
    link.unlink()
    link.symlink_to(folder / "dog" / "1.jpg")
    assert len(load_data(str(folder))) == 7


def test_pipes_and_huge_files_are_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "x.png"
    os.mkfifo(pipe)
    with pytest.raises(HeadtoolError, match="is no ordinary file"):
        image_bytes(str(pipe))
    huge = tmp_path / "y.png"
    with huge.open("wb") as file:
        file.truncate(100 * 2**20)
    with pytest.raises(HeadtoolError, match="has 100 MB, and an image may have 64"):
        image_bytes(str(huge))


def png(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is of some size."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (png(10_000, 9_000), "10000 x 9000 pixels, and headtool decodes at most 64,000,000"),
        (png(60_000, 60_000), "has too many pixels"),
        (png(50, 50), "cannot decode the image"),
        (b"<svg/>", "it is none of JPEG, PNG, WEBP, GIF, BMP, PPM"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n", "it is none of"),
    ],
)
def test_bombs_and_broken_files(content: bytes, message: str) -> None:
    with pytest.raises(HeadtoolError, match=message) as caught:
        open_image(image_uri(content), "x, example 1")
    assert "\n" not in str(caught.value)


def test_any_bytes_are_an_image_or_one_line() -> None:
    rng = np.random.default_rng(0)
    for form in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "PPM"):
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 255, (9, 7, 3), dtype=np.uint8)).save(buffer, form)
        for _ in range(40):
            content = bytearray(buffer.getvalue())
            for place in rng.integers(len(content), size=rng.integers(1, 6)):
                content[place] = rng.integers(256)
            cut = bytes(content[: rng.integers(1, len(content) + 1)])
            try:
                mode, message = open_image(image_uri(cut), "x").mode, ""
            except HeadtoolError as error:
                mode, message = "RGB", str(error)
            assert mode == "RGB"
            assert "\n" not in message
