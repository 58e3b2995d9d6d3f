"""Images with a class each: a folder of a folder for each class, or a table with encoded images.

Images may come from anywhere. Only formats that Pillow decodes by itself are read, their size is
looked at before they are decoded, and links that lead out of the folder are refused.
"""

from __future__ import annotations

import io
import os
import struct
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headtool.data.cells import image_bytes
from headtool.data.dataset import TextData
from headtool.data.messages import first_line, quoted
from headtool.data.picking import labelled, named_column
from headtool.data.tables import Table
from headtool.data.textfile import quoted_path
from headtool.errors import HeadtoolError

__all__ = ["image_data", "image_folder", "open_image"]

_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".ppm")
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "PPM")
_MOST_PIXELS = 64_000_000


def image_folder(path: Path, spec: str) -> TextData | None:
    """List the images of a folder with one folder for each class; None if it has no such folders.

    Files and folders whose names start with a dot are left out.

    Parameters
    ----------
    path
        The folder.
    spec
        The data set as the user named it.

    Raises
    ------
    HeadtoolError
        If a class has something else than images, or a link leads out of the folder.
    """
    root = path.resolve()
    images, labels = [], []
    try:
        classes = [entry for entry in _entries(path) if entry.is_dir()]
        for folder in classes:
            for file in _entries(folder):
                _check_place(file, root)
                images.append(str(file.absolute()))
                labels.append(folder.name)
    except OSError as error:
        raise HeadtoolError(
            f"cannot read the folder {quoted_path(path)}: {error.strerror}"
        ) from None
    if not images:
        return None
    return TextData(spec, "images", {"image": tuple(images), "label": tuple(labels)})


def _entries(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _check_place(file: Path, root: Path) -> None:
    """Refuse what is no image by its name, and what lies elsewhere."""
    if file.suffix.lower() not in _SUFFIXES:
        raise HeadtoolError(
            f"{quoted_path(file)} is no image by its name ({', '.join(_SUFFIXES)}); remove it, or "
            "name the folder that has a folder of images for each class"
        )
    try:
        place = file.resolve(strict=True)
    except (OSError, RuntimeError):
        raise HeadtoolError(f"{quoted_path(file)} is a link to nowhere; remove it") from None
    if not place.is_relative_to(root):
        raise HeadtoolError(
            f"{quoted_path(file)} is a link out of {quoted_path(root)}; copy the image there"
        )


def image_data(table: Table, columns: Mapping[str, str], spec: str) -> TextData:
    """Pick encoded images and their labels out of a table.

    Parameters
    ----------
    table
        The table to read.
    columns
        Role to column name: ``image`` and ``label``.
    spec
        The data set as the user named it.

    Raises
    ------
    HeadtoolError
        If a column is missing, or a cell is no encoded image.
    """
    name = named_column(table, columns.get("image", "image"))
    label = named_column(table, columns.get("label", "label"))
    cells = table.cells(name, lists=True)
    for row, cell in enumerate(cells):
        if not (cell or "").startswith("data:"):
            raise HeadtoolError(
                f"{table.place(row)}: column {quoted(name)} holds {quoted(cell or '')} and no "
                "encoded image; give a parquet file with the bytes, or a folder"
            )
    found = {"image": tuple(cell for cell in cells if cell is not None)}
    return TextData(spec, "images", labelled(table, found, label))


def open_image(cell: str, place: str) -> Any:
    """Decode an image.

    Parameters
    ----------
    cell
        A cell of the column ``image``.
    place
        What to call it in messages.

    Returns
    -------
    PIL.Image.Image
        In RGB and upright; of several frames the first.

    Raises
    ------
    HeadtoolError
        If it is damaged, too large, in another format, or Pillow is not installed.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ModuleNotFoundError as error:
        raise HeadtoolError(
            f"images need the package {error.name}; pip install headtool[images]"
        ) from error
    if not cell.startswith("data:"):
        place = f"{place} ({os.path.basename(cell)!r})"
    content = image_bytes(cell)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata, and of sizes that are checked below
            with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                width, height = image.size
                if width * height > _MOST_PIXELS:
                    raise _too_large(place, f"{width} x {height} pixels")
                image.load()
                return ImageOps.exif_transpose(image).convert("RGB")
    except Image.DecompressionBombError as error:
        raise _too_large(place, "too many pixels") from error
    except _BROKEN as error:
        reason = first_line(error)
        if isinstance(error, UnidentifiedImageError):
            reason = f"it is none of {', '.join(_FORMATS)}"
        raise HeadtoolError(
            f"{place}: cannot decode the image ({reason[:100]}); replace or remove it"
        ) from error


_BROKEN = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""What Pillow raises for damaged files, which is not one exception of its own."""


def _too_large(place: str, size: str) -> HeadtoolError:
    return HeadtoolError(
        f"{place}: the image has {size}, and headtool decodes at most {_MOST_PIXELS:,}; make it "
        "smaller"
    )
