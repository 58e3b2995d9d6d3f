"""Runs the masks of a unit: what they cannot change is computed once a batch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.attention.gating import Gating
from headtool.engine.divergence import divergences
from headtool.engine.passes import finite_forward, finite_outcome, gates_differ
from headtool.engine.replacement import Fill
from headtool.engine.replay import Recording, Replay
from headtool.engine.shortcuts import all_open, working_replay
from headtool.engine.stepping import room
from headtool.engine.units import Unit, UnitResult
from headtool.heads import AttentionSite
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples, Forward

__all__ = ["Runner"]

# Tokens that keep one thread of a CPU busy. A token of a layer of BERT takes, in passes of 64, 128
# and 256 tokens, 1.7, 1.3 and 1.0 times as long as in large ones at width 128; 1.2, 1.1 and 1.1
# times at 256; 1.4, 1.2 and 1.05 times at 768.
_FULL = 256
# Tokens that take as long as what every pass takes besides: 47 on a MiniLM of width 384, 85 on
# builtin:nli.
_OVERHEAD = 64
_ROOMY = 4  # masks that share a forward pass; with fewer, a chain is run instead


@dataclass(frozen=True)
class _Base:
    """What the whole model does on some copies of a batch; masks on as many start from it."""

    batch: Batch
    filling: Mapping[AttentionSite, Tensor] | None
    columns: Mapping[str, Tensor]
    whole: Forward | None  # kept where masked models are compared with it
    recording: Recording | None  # None: no shortcut works on this model

    def row(self, copy: int, size: int) -> Mapping[str, Tensor]:
        """Columns of one of the copies."""
        return _part(self.columns, copy, size)


class Runner:
    """Runs all masks on one batch after the other.

    Rounding differs between passes of different shapes. So a masked run has the shape of a recorded
    pass of the whole model and is compared with it, row by row: a head without effect then has an
    effect of exactly zero. Where a batch is too small to keep the machine busy, masks share a pass
    of several copies of it, and the whole model is recorded on as many.

    Parameters
    ----------
    model, examples
        The model and the data set.
    gates
        Of each mask, as `mask_gates` returns them.
    fill
        What closed heads put out.
    first_position
        Whether what closed heads put out may be cut to the first position.
    chained, divergence
        As for `headtool.engine.evaluation.evaluate`.
    label
        What is being done; see `headtool.engine.stepping.room`.
    """

    def __init__(
        self,
        model: ModelAdapter,
        examples: Examples,
        gates: Sequence[Mapping[AttentionSite, Tensor]],
        fill: Fill,
        *,
        first_position: bool,
        chained: bool | None,
        divergence: bool,
        label: str,
    ) -> None:
        self.model = model
        self.examples = examples
        self.gates = gates
        self.device = model.device
        self.fill = fill
        self.chained = chained
        self.divergence = divergence
        self.label = label
        # A donor's output has a row for every position, which one position alone cannot use.
        self.first_position = first_position
        firsts = (next((site for site in model.sites if site in one), None) for one in gates)
        self.largest = max(Counter(site for site in firsts if site).values(), default=1)
        self.replay = (
            working_replay(model, examples, first_position=first_position) if gates else None
        )
        self.index: NDArray[np.int64] | None = None  # the batch that was run last
        self.bases: dict[int, _Base] = {}  # of that batch, by the number of copies

    def run(self, unit: Unit) -> UnitResult:
        """Run the whole model and the unit's masks on its examples.

        Parameters
        ----------
        unit
            The unit; those of a batch had best come one after the other.
        """
        columns: dict[str, NDArray[np.float64]] = {}
        with torch.inference_mode():
            for row, values in self._columns(unit):
                for name, value in values.items():
                    if name not in columns:
                        columns[name] = np.full((1 + len(unit.masks), len(value)), np.nan)
                    columns[name][row] = value.double().cpu().numpy()
        return columns

    def _columns(self, unit: Unit) -> Iterator[tuple[int, Mapping[str, Tensor]]]:
        """Yield the columns of the whole model (row 0) and of each mask (its place, from 1)."""
        index = unit.examples
        if self.index is None or not np.array_equal(self.index, index):
            self.bases.clear()  # one batch's recordings at a time
            self.index = index
        batch = self.model.collate(self.examples, index)
        copies = 1 if self.chained or self.replay is None else self._copies(batch)
        chained = copies < _ROOMY if self.chained is None else self.chained
        copies = 1 if chained else copies
        base = self._base(batch, copies)
        yield 0, base.row(0, len(index))
        if base.recording is None:
            for row, mask in enumerate(unit.masks, start=1):
                with self.model.intercept(Gating(self._gates(mask), base.filling), base.batch):
                    yield row, self._columns_of(self._forward(base.batch), base.whole)
            return
        run = (
            self._in_sequence(unit.masks, base, base.recording)
            if chained
            else self._masked(unit.masks, batch, copies)
        )
        for mask, columns in run:
            yield 1 + mask - unit.masks.start, columns

    # -- the whole model --------------------------------------------------------------------

    def _base(self, batch: Batch, copies: int) -> _Base:
        """Run the whole model on copies of a batch, recording what masks will not change."""
        if copies not in self.bases:
            self.bases[copies] = self._run_whole(batch, copies)
        return self.bases[copies]

    def _run_whole(self, batch: Batch, copies: int) -> _Base:
        filling = self.fill(batch)
        if filling is not None and copies > 1:
            filling = {
                site: value.repeat(copies, 1, 1, 1) if value.ndim == 4 else value
                for site, value in filling.items()
            }
        batch = batch.repeated(copies)
        recording: Recording | None = None
        if self.replay is None:
            result = self._forward(batch)
        else:
            with self.replay.record() as recording:
                result = self._forward(batch)
            if self.replay.reads_first and self.first_position:
                # Rounding differs between one position and all of them, too.
                last = all_open(self.model, recording.last_site)
                result = self._resumed(self.replay, batch, recording, last)
        kept = result if self.divergence else None
        return _Base(batch, filling, self._columns_of(result, kept), kept, recording)

    def _copies(self, batch: Batch) -> int:
        """How many masks share a pass; the same for all units of a batch."""
        most = self._room(batch)
        if self.device.type == "cpu":
            tokens = self._tokens(batch) / torch.get_num_threads()
            # n masks on k copies of t tokens take n / k + 1 passes of overhead + k t: least at
            # the root. The one is the whole model's.
            best = round(math.sqrt(len(self.gates) * _OVERHEAD / tokens))
            most = min(most, math.ceil(_FULL / tokens), best)
        most = min(most, self.largest)
        if most <= 1:
            return 1
        return math.ceil(self.largest / math.ceil(self.largest / most))  # equal shares

    def _room(self, batch: Batch) -> int:
        """How many times a batch fits into the tokens of one."""
        return room(self.model, self.examples, self.label) // self._tokens(batch)

    @staticmethod
    def _tokens(batch: Batch) -> int:
        return len(batch) * max(queries.real.shape[1] for queries in batch.queries.values())

    # -- masked models ----------------------------------------------------------------------

    def _masked(
        self, masks: range, batch: Batch, copies: int
    ) -> Iterator[tuple[int, Mapping[str, Tensor]]]:
        """Run the masks in groups that start at the same site, one on each copy of the batch."""
        base = self._base(batch, copies)
        whole = base.row(0, len(batch))
        assert base.recording is not None
        groups: dict[AttentionSite, list[int]] = {}
        for row in masks:
            gates = self.gates[row]
            if gates:
                groups.setdefault(base.recording.start(list(gates))[1], []).append(row)
            else:
                yield row, whole
        for rows in groups.values():
            for start in range(0, len(rows), copies):
                chosen = rows[start : start + copies]
                if 2 * len(chosen) > copies:  # the other copies stay as they are
                    yield from self._together(chosen, copies, base, whole if copies > 1 else None)
                    continue
                for row in chosen:
                    yield from self._together([row], 1, self._base(batch, 1), whole)

    def _together(
        self, rows: Sequence[int], copies: int, base: _Base, whole: Mapping[str, Tensor] | None
    ) -> Iterator[tuple[int, Mapping[str, Tensor]]]:
        """One forward pass for several masks, each on a copy of the batch.

        Their losses are `whole` and what they differ by from the base; None: what they are.
        """
        assert self.replay is not None
        assert base.recording is not None
        size = len(base.batch) // copies
        sites = [site for site in self.model.sites if any(site in self.gates[r] for r in rows)]
        gating = Gating(
            {site: self._stacked(site, rows, copies, size) for site in sites}, base.filling
        )
        result = self._resumed(self.replay, base.batch, base.recording, gating)
        columns = self._columns_of(result, base.whole)
        for copy, row in enumerate(rows):
            masked, reference = _part(columns, copy, size), base.row(copy, size)
            shifted = {
                name: whole[name] + (values - reference[name])
                for name, values in masked.items()
                if whole is not None and name.endswith("loss")
            }
            yield row, {**masked, **shifted}

    def _in_sequence(
        self, masks: range, base: _Base, recording: Recording
    ) -> Iterator[tuple[int, Mapping[str, Tensor]]]:
        """Run one mask after the other, each from where it differs from the one before."""
        assert self.replay is not None
        alone = len(recording.events[-1].sites) == 1  # nothing else there that runs twice
        narrow = self.replay.reads_first and self.first_position and alone
        gates: Mapping[AttentionSite, Tensor] = {}
        columns = base.columns
        for row in masks:
            before, gates = gates, self._gates(row)
            changed = [site for site in self.model.sites if gates_differ(site, before, gates)]
            if changed:
                advance = self.replay.advance(recording, changed, first_position_only=narrow)
                gating = Gating(gates, base.filling)
                with advance as recording, self.model.intercept(gating, base.batch):
                    columns = self._columns_of(self._forward(base.batch), base.whole)
            yield row, columns

    def _stacked(self, site: AttentionSite, rows: Sequence[int], copies: int, size: int) -> Tensor:
        """Gates of one site, [H] for one copy and [copies x size, H] for several."""
        open_gates = torch.ones(site.n_heads, device=self.device)
        per_mask = [self._gates(row).get(site, open_gates) for row in rows]
        if copies == 1:
            return per_mask[0]
        per_mask += [open_gates] * (copies - len(rows))
        return torch.cat([gates.expand(size, -1) for gates in per_mask])

    def _gates(self, row: int) -> Mapping[AttentionSite, Tensor]:
        """Gates of a mask, [H] for all examples of the batch, or [B, H] where each has its own."""
        gates = self.gates[row]
        if all(one.ndim == 1 for one in gates.values()):
            return gates
        assert self.index is not None
        owners = self.examples.owners
        index = torch.from_numpy(self.index if owners is None else owners[self.index])
        return {site: one[index.to(one.device)] for site, one in gates.items()}

    # -- passes -----------------------------------------------------------------------------

    def _columns_of(self, result: Forward, whole: Forward | None) -> Mapping[str, Tensor]:
        """A model's columns, with its divergence from the whole one where that is wanted."""
        if whole is None:
            return result.columns
        return {**result.columns, "kl": divergences(whole, result)}

    def _forward(self, batch: Batch) -> Forward:
        run = finite_forward if self.divergence else finite_outcome  # which leaves out logits
        return run(self.model, batch, self.examples)

    def _resumed(
        self, replay: Replay, batch: Batch, recording: Recording, gating: Gating
    ) -> Forward:
        resume = replay.resume(
            recording,
            list(gating.gates),
            first_position_only=replay.reads_first and self.first_position,
        )
        with self.model.intercept(gating, batch), resume:
            return self._forward(batch)


def _part(columns: Mapping[str, Tensor], copy: int, size: int) -> Mapping[str, Tensor]:
    """Columns of one of several copies of a batch."""
    return {name: values[copy * size : (copy + 1) * size] for name, values in columns.items()}
