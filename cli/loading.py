"""From the command line's words to a loaded model and its tokenised data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headtool.cli.console import note
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from headtool.data import TextData
    from headtool.models.base import Examples, ModelAdapter

__all__ = ["load_examples", "read_data"]

_BUILTIN_DATA = {"builtin:nli": "builtin:nli/matched", "builtin:mt": "builtin:mt/test"}


def read_data(spec: str | None, model: str, *, columns: str | None, limit: int | None) -> TextData:
    """Read the data set, or the built-in one of a built-in model.

    Data sets are read before models are loaded: a wrong file name should not cost a minute.
    """
    from headtool.data import load_data, parse_columns

    if spec is None:
        if model not in _BUILTIN_DATA:
            from headtool.models import check_model

            check_model(model)  # whether the model exists comes before what it is tried on
            raise HeadtoolError(
                f"--data is missing: the built-in sets are for the built-in models, not for {model}"
            )
        spec = _BUILTIN_DATA[model]
    return load_data(
        spec, columns=parse_columns(columns) if columns is not None else None, limit=limit
    )


def load_examples(
    model: ModelAdapter,
    data: TextData,
    *,
    batch_tokens: int,
    limit: int | None,
    seed: int,
    quiet: bool,
) -> Examples:
    """Tokenise a data set, saying what was cut."""
    examples = model.encode(data, batch_tokens=batch_tokens, seed=seed)
    if limit is not None and len(examples) > limit:
        # A running text becomes examples only when it is cut into blocks.
        examples = examples.head(limit)
    if examples.truncated:
        note(
            f"{examples.truncated} of {len(examples)} examples were cut to the model's length",
            quiet=quiet,
        )
    return examples
