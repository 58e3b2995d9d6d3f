"""What makes images or sound the input of a transformers model."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Any, cast

import transformers

from headtool.errors import HeadtoolError
from headtool.models.huggingface.checking import readable_errors

__all__ = ["check_processor", "load_processor"]

_FILES = ("preprocessor_config.json", "processor_config.json")


def load_processor(place: str, options: Mapping[str, Any], *, images: bool, spec: str) -> Any:
    """Load the image processor or feature extractor of a model; None where a folder has none.

    Parameters
    ----------
    place, options
        What ``from_pretrained`` is to be given.
    images
        Whether the model reads images, else sound. Images are processed as Pillow does it:
        torchvision is not needed.
    spec
        How the user named the model.
    """
    if images and importlib.util.find_spec("PIL") is None:
        raise HeadtoolError(f"{spec} reads images; pip install headtool[images]")
    if os.path.isdir(place) and not any(os.path.isfile(os.path.join(place, f)) for f in _FILES):
        return None
    with readable_errors(f"load the {'image processor' if images else 'feature extractor'}", spec):
        if images:
            loader = cast(Any, transformers.AutoImageProcessor)  # untyped
            return loader.from_pretrained(place, backend="pil", **options)
        return cast(Any, transformers.AutoFeatureExtractor).from_pretrained(place, **options)


def check_processor(name: str, given: Any) -> Any:
    """Return what makes images or sound input, also out of a processor that has a tokenizer, too.

    Parameters
    ----------
    name
        What to call the model in messages.
    given
        What the user gave; None is nothing.

    Raises
    ------
    HeadtoolError
        If it is something else.
    """
    for part in ("image_processor", "feature_extractor"):
        given = getattr(given, part, given)
    known = transformers.BaseImageProcessor | transformers.FeatureExtractionMixin
    if given is None or isinstance(given, known):
        return given
    raise HeadtoolError(
        f"{name} reads arrays, and wrap was given a {type(given).__name__}; give its image "
        "processor or feature extractor, or nothing"
    )
