"""What a translation model, or a language model, writes when some of its heads are closed.

Hypotheses are those of the model's own library: fairseq's ``SequenceGenerator`` as
``fairseq-generate`` sets it up, or ``generate`` of transformers with the model's own settings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from headtool.engine.counting import unit_tokens
from headtool.engine.passes import mask_gates
from headtool.engine.replacement import Fill, Replacement, Zero
from headtool.engine.stepping import Stepping
from headtool.engine.store import UnitStore
from headtool.engine.units import Executor, Unit, UnitResult, cut, in_turn, run_units
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.models.base import ModelAdapter
from headtool.models.batching import length_buckets
from headtool.models.examples import Examples
from headtool.models.generation import Gates, Generator
from headtool.progress import ProgressLike, silent
from headtool.results.hypotheses import Hypotheses
from headtool.results.progress_bar import shown
from headtool.searching import Search
from headtool.work import Passes

__all__ = ["Search", "translate"]


def translate(
    model: ModelAdapter,
    examples: Examples,
    masks: Sequence[HeadMask],
    *,
    search: Search | None = None,
    replacement: Replacement | None = None,
    rescale: bool = False,
    store: UnitStore | None = None,
    execute: Executor = in_turn,
    progress: ProgressLike = silent,
    fast: bool = True,
) -> Hypotheses:
    """Translate a data set, or continue its prompts, with the whole and every masked model.

    Parameters
    ----------
    model
        A sequence-to-sequence model, or a causal language model; its weights stay as they are.
    examples
        The data set, as ``model.encode`` returned it; only its sources or prompts are used.
    masks
        Which heads are open, one run each. None of them: the whole model alone.
    search
        How hypotheses are searched; by default by the model's own settings.
    replacement
        What a closed head puts out; zero by default. Those that are aligned by position are
        refused, which generated text is not.
    rescale
        Whether the open heads of a site are multiplied by heads / open heads.
    store
        Keeps finished units; those that it has already are not computed again.
    execute
        Who runs the units.
    progress
        Reports progress; True shows a bar.
    fast
        Take over what masks leave as it was; else decode every mask from scratch. The hypotheses
        are the same.

    Returns
    -------
    Hypotheses
        The translations or continuations, detokenised.

    Raises
    ------
    HeadtoolError
        If the model writes nothing, the data has no prompts, or the model's generation settings are
        not supported.
    """
    if model.task not in ("seq2seq", "causal-lm"):
        raise HeadtoolError(
            f"{model.spec} is a {model.task} model, which writes no text; name a translation "
            "model, such as builtin:mt, or a causal language model"
        )
    if model.task == "causal-lm" and not all("prompt" in row for row in examples.rows):
        raise HeadtoolError(
            f"{examples.data.spec} has no prompts that {model.spec} could continue; give a table "
            "with the columns prompt and answer"
        )
    (replacement or Zero()).check_generated()
    decoder = model.generator(search or Search())
    label = "translate" if model.task == "seq2seq" else "continue"
    ids: list[list[list[int]]] = [[[]] * len(examples) for _ in range(1 + len(masks))]

    def prepare() -> Callable[[Unit], UnitResult]:
        gates = [mask_gates(mask, model, rescale=rescale) for mask in masks]
        fill = (replacement or Zero()).fit(model, examples, shown(progress))
        decode = partial(_decoded, model, decoder, examples, gates, fill, fast=fast)
        return Stepping(decode, _joined, model, examples, label)

    lengths = [decoder.source_length(row) for row in examples.rows]
    units = cut(length_buckets(lengths, batch_tokens=examples.batch_tokens), len(masks))
    each = Passes(decoded=1, beam=decoder.search.beam or 1).weight

    def work(unit: Unit) -> float:
        return unit_tokens(examples, unit) * each * (len(unit.masks) + (unit.masks.start == 0))

    for unit, result in run_units(
        units,
        prepare,
        label=label,
        execute=execute,
        store=store,
        progress=progress,
        work=work,
    ):
        rows = [0, *(1 + mask for mask in unit.masks)]
        for row, hypotheses in zip(rows, _unpack(result), strict=True):
            for example, hypothesis in zip(unit.examples.tolist(), hypotheses, strict=True):
                ids[row][example] = hypothesis
    texts = decoder.texts([hypothesis for row in ids for hypothesis in row])
    by_mask = [tuple(texts[i : i + len(examples)]) for i in range(0, len(texts), len(examples))]
    return Hypotheses(tuple(masks), by_mask[0], tuple(by_mask[1:]), decoder.search)


def _decoded(
    model: ModelAdapter,
    decoder: Generator,
    examples: Examples,
    gates: Sequence[Gates],
    fill: Fill,
    unit: Unit,
    *,
    fast: bool,
) -> UnitResult:
    """Decode the unit's examples with the whole model and with each of its masks."""
    batch = model.collate(examples, unit.examples)
    chosen = [gates[mask] for mask in unit.masks]
    with torch.inference_mode():
        filling = fill(batch)
        if fast:
            return _pack(decoder.decode_masks(batch, chosen, filling))
        return _pack(Generator.decode_masks(decoder, batch, chosen, filling))


def _joined(results: Sequence[UnitResult]) -> UnitResult:
    parts = [_unpack(result) for result in results]
    return _pack([list(itertools.chain(*rows)) for rows in zip(*parts, strict=True)])


def _pack(rows: Sequence[Sequence[Sequence[int]]]) -> dict[str, NDArray[np.float64]]:
    """Token ids [1 + masks, examples, any number] as arrays: their lengths, and all end to end."""
    lengths = np.array([[len(ids) for ids in row] for row in rows], dtype=np.float64)
    flat = [token for row in rows for ids in row for token in ids]
    return {"lengths": lengths, "tokens": np.array(flat, dtype=np.float64)}


def _unpack(result: Mapping[str, NDArray[np.float64]]) -> list[list[list[int]]]:
    """Undo `_pack`; ids are far below the integers that a double cannot hold."""
    lengths = result["lengths"].astype(np.int64)
    ends = lengths.ravel().cumsum()
    tokens = result["tokens"].astype(np.int64)
    pieces = iter([part.tolist() for part in np.split(tokens, ends[:-1])])
    return [[next(pieces) for _ in range(lengths.shape[1])] for _ in range(lengths.shape[0])]
