"""What can be wrong with a transformers model's files, each in one line."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import nn

from headtool.attention.weights import home
from headtool.errors import HeadtoolError
from headtool.models.huggingface.special import plain_ids

__all__ = ["check_config", "check_ids", "check_parts", "readable_errors"]

_MOST = 2000  # layers, or heads in a layer; building a layer takes about a millisecond
_COUNTS = (
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "n_layers",
    "encoder_layers",
    "decoder_layers",
    "num_decoder_layers",
    "num_attention_heads",
    "num_heads",
    "n_head",
    "n_heads",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "num_key_value_heads",
)


@contextlib.contextmanager
def readable_errors(action: str, spec: str, *, unknown: bool = False) -> Iterator[None]:
    """Turn what the libraries raise for an unusable part of a model into one line.

    Parameters
    ----------
    action
        What is done, such as ``load the tokenizer``.
    spec
        How the user named the model.
    unknown
        Whether the model may not exist at all.
    """
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    try:
        yield
    except HeadtoolError:
        raise
    except SafetensorError as error:
        raise HeadtoolError(
            f"the weights of {spec} are damaged or cut short ({error}); download them again"
        ) from error
    except pickle.UnpicklingError as error:
        raise HeadtoolError(
            f"the weights of {spec} hold more than tensors, and unpickling that could run any "
            "code; use weights in the safetensors format"
        ) from error
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        ImportError,
        LookupError,
        OSError,
        RuntimeError,
        StrictDataclassError,
        TypeError,
        ValueError,
    ) as error:
        if unknown and isinstance(error, OSError):
            raise HeadtoolError(
                f"unknown model '{spec}': neither a folder nor a model that can be had from the "
                "hub now; check the spelling, or the network and HF_HUB_OFFLINE"
            ) from error
        raise _unusable(action, spec, error) from error
    except Exception as error:
        if type(error) is not Exception:  # tokenizers raises nothing more special
            raise
        raise _unusable(action, spec, error) from error


def _unusable(action: str, spec: str, error: Exception) -> HeadtoolError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return HeadtoolError(f"cannot {action} of {spec}: {reason[:300]}")


def check_config(spec: str, config: Any) -> None:
    """Refuse a configuration that makes no model, or one that would take hours to build.

    Parameters
    ----------
    spec
        How the user named the model.
    config
        The configuration.

    Raises
    ------
    HeadtoolError
        Naming the entry of config.json and its value.
    """
    entries = config.to_dict()
    for name in _COUNTS:
        value = entries.get(name)
        if value is not None and not (type(value) is int and 1 <= value <= _MOST):
            raise HeadtoolError(
                f"{name} in the config.json of {spec} must be a number from 1 to {_MOST}, got "
                f"{_shown(value)}; correct it"
            )
    chunk = entries.get("chunk_size_feed_forward")
    if type(chunk) is int and chunk > 1:
        raise HeadtoolError(
            f"chunk_size_feed_forward in the config.json of {spec} must be 0 or 1, as sentences "
            f"are of any length, got {_shown(chunk)}; correct it"
        )
    names = config.architectures
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise HeadtoolError(
            f"architectures in the config.json of {spec} must be a list of class names, got "
            f"{_shown(names)}; correct it"
        )


def check_parts(spec: str, module: nn.Module, tokenizer: Any) -> None:
    """Refuse a tokenizer and a model that do not go together, or that do not run.

    Parameters
    ----------
    spec
        How the user named the model.
    module, tokenizer
        The model and its tokenizer; None for a model that has none.

    Raises
    ------
    HeadtoolError
        Naming the file to correct.
    """
    if tokenizer is None:
        _run(spec, module, plain_ids(cast(Any, module).config, []))
        return
    length = tokenizer.model_max_length
    special = tokenizer.num_special_tokens_to_add()
    if not isinstance(length, int | float) or not length > special:
        raise HeadtoolError(
            f"model_max_length in the tokenizer_config.json of {spec} must be a number above "
            f"{special}, got {_shown(length)}; correct it"
        )
    with readable_errors("run the tokenizer", spec):
        ids = tokenizer("a b c d e")["input_ids"]
    known = _embedded(module)
    for token in (tokenizer.pad_token, tokenizer.mask_token):
        number = None if token is None else tokenizer.convert_tokens_to_ids(token)
        if known is not None and number is not None and number >= known:
            raise HeadtoolError(
                f"token '{token}' of {spec} has the number {number}, and the model embeds only "
                f"{known} tokens; call resize_token_embeddings and save it again, or use its own "
                "tokenizer"
            )
    check_ids(spec, module, [ids])
    _run(spec, module, ids[: int(min(length, 5))])


def check_ids(
    spec: str, module: nn.Module, rows: Iterable[Sequence[int]], *, written: bool = False
) -> None:
    """Refuse token numbers that the model has no embeddings for.

    Parameters
    ----------
    spec
        How the user named the model.
    module
        The model.
    rows
        Token numbers of some texts.
    written
        Whether the model is to write these texts; else it reads them.

    Raises
    ------
    HeadtoolError
        Naming the largest number.
    """
    known = _written(module) if written else _embedded(module)
    largest = max((max(row, default=0) for row in rows), default=0)
    if known is not None and largest >= known:
        raise HeadtoolError(
            f"the tokenizer of {spec} gives the token number {largest}, and the model embeds only "
            f"{known} tokens; call resize_token_embeddings and save it again, or use its own "
            "tokenizer"
        )


def _embedded(module: Any) -> int | None:
    """Tokens that the model has embeddings for; None where it does not say."""
    try:
        table = module.get_input_embeddings()
    except NotImplementedError:
        return None
    return table.num_embeddings if isinstance(table, nn.Embedding) else None


def _written(module: Any) -> int | None:
    """Tokens that the model can write; None where it does not say."""
    layer = module.get_output_embeddings()
    return layer.out_features if isinstance(layer, nn.Linear) else None


def _run(spec: str, module: Any, ids: list[int]) -> None:
    """Run the model once: much that is wrong in a configuration shows only then."""
    rows = torch.tensor([ids or [0]], device=home(module))
    arguments = {"input_ids": rows, "attention_mask": torch.ones_like(rows)}
    if module.config.is_encoder_decoder:
        start = module.config.decoder_start_token_id
        arguments["decoder_input_ids"] = rows[:, :1] * 0 + (0 if start is None else start)
    with readable_errors("run a forward pass", spec), torch.no_grad():
        module(**arguments)


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**15 else "a huge number"
    return text if len(text) <= 50 else f"{text[:50]}..."
