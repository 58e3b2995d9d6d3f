"""How raw text is cut into the symbols of a fairseq model's dictionary."""

from __future__ import annotations

import contextlib
import io
import os
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtool.data.messages import quoted
from headtool.data.textfile import quoted_path, user_path
from headtool.errors import HeadtoolError, unknown

__all__ = ["GPT2_FILES", "Segmentation", "load_segmentation"]

_SEGMENTATION_FILE = {
    "none": None,
    "bytes": None,
    "characters": None,
    "byte_bpe": "sentencepiece_model_path",
    "fastbpe": "bpe_codes",
    "gpt2": "gpt2_vocab_bpe",
    "sentencepiece": "sentencepiece_model",
    "subword_nmt": "bpe_codes",
}
"""fairseq's name of a segmentation, and of the option that takes its file."""

# What fairseq's readers raise for a file that is another; subword_nmt ends the process.
_DAMAGE = (
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    SystemExit,
)

GPT2_FILES = ("encoder.json", "vocab.bpe")
"""What GPT-2's byte-level encoding is read from; fairseq would download them."""


@dataclass(frozen=True)
class Segmentation:
    """How text is cut into symbols of the dictionary, and put together again.

    Attributes
    ----------
    name
        fairseq's name of it; ``none`` for text that is cut already.
    encoder
        fairseq's own encoder; None for ``none``.
    file
        The file that it was read from, where there is one; of ``gpt2``, the folder.
    """

    name: str = "none"
    encoder: Any = None
    file: Path | None = None

    def encode(self, text: str) -> str:
        """Cut text into symbols, separated by spaces."""
        return text if self.encoder is None else str(self.encoder.encode(text))

    def decode(self, symbols: str) -> str:
        """Put symbols together to text."""
        return symbols if self.encoder is None else str(self.encoder.decode(symbols))


def load_segmentation(bpe: str | None, folder: Path) -> Segmentation:
    """Load a segmentation by its name, or look for one in the checkpoint's folder.

    There, ``sentencepiece.bpe.model`` or a single ``*.model`` is taken for a sentencepiece model,
    else ``encoder.json`` and ``vocab.bpe`` for GPT-2's byte-level encoding; without any, text is
    taken to be segmented already.

    Parameters
    ----------
    bpe
        ``NAME:FILE`` or ``NAME``; None looks in the folder. For ``gpt2``, the file is the folder of
        `GPT2_FILES`; by default the checkpoint's.
    folder
        The checkpoint's folder.
    """
    if bpe is None:
        models = sorted(folder.glob("*.model"))
        usual = folder / "sentencepiece.bpe.model"
        if usual in models or len(models) == 1:
            name, file = "sentencepiece", usual if usual in models else models[0]
        elif all(os.path.isfile(folder / name) for name in GPT2_FILES):
            name, file = "gpt2", folder
        else:
            return Segmentation()
    else:
        name, colon, rest = bpe.partition(":")
        if name not in _SEGMENTATION_FILE:
            raise unknown("BPE", name, _SEGMENTATION_FILE)
        if name == "gpt2":
            place = user_path(rest) if rest else folder
            for part in GPT2_FILES:
                if not os.path.isfile(place / part):
                    raise HeadtoolError(
                        f"no {part} in {quoted_path(place)}; name the folder of {GPT2_FILES[0]} "
                        f"and {GPT2_FILES[1]} with `bpe=gpt2:DIR`"
                    )
            return Segmentation(name, _encoder(name, place), place)
        wants_file = _SEGMENTATION_FILE[name] is not None
        if wants_file and not rest:
            raise HeadtoolError(f"`bpe={name}` needs its file: `bpe={name}:FILE`")
        if colon and not wants_file:
            raise HeadtoolError(f"`bpe={name}` takes no file, got {quoted(rest)}")
        file = user_path(rest)
        if wants_file and not os.path.isfile(file):
            raise HeadtoolError(f"no such file: {quoted_path(file)}; check `bpe={name}:FILE`")
    if name == "none":
        return Segmentation()
    return Segmentation(name, _encoder(name, file), file if os.path.exists(file) else None)


def _encoder(name: str, file: Path) -> Any:
    from fairseq.data.encoders import build_bpe

    option = _SEGMENTATION_FILE[name]
    arguments = {} if option is None else {option: str(file)}
    if name == "gpt2":
        arguments = {f"gpt2_{part.replace('.', '_')}": str(file / part) for part in GPT2_FILES}
    try:
        # subword_nmt reports a line that it cannot read on stderr and ends the process.
        with contextlib.redirect_stderr(io.StringIO()):
            built = build_bpe(Namespace(bpe=name, **arguments))
        if name == "gpt2":
            _check_gpt2(built)
        return built
    except ImportError as error:
        raise HeadtoolError(f"`bpe={name}`: {' '.join(str(error).split())}") from error
    except _DAMAGE as error:
        raise HeadtoolError(
            f"{quoted_path(file)} is no {name} file, or damaged; name the right one with "
            f"`bpe={name}:FILE`, or `bpe=none` for text that is segmented already"
        ) from error


def _check_gpt2(encoder: Any) -> None:
    """Raise `ValueError` unless every text can be encoded."""
    bpe = encoder.bpe
    known = bpe.encoder
    if not isinstance(known, dict) or not all(type(one) is int for one in known.values()):
        raise ValueError("encoder.json does not number symbols")
    if not set(bpe.byte_encoder.values()) <= known.keys():
        raise ValueError("encoder.json lacks bytes")
    if any(len(pair) != 2 or "".join(pair) not in known for pair in bpe.bpe_ranks):
        raise ValueError("vocab.bpe joins to what encoder.json lacks")
