"""First primitive: what a model does to every example when some of its heads are closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.attention.gating import Gating
from headtool.engine.counting import mask_shares, unit_tokens
from headtool.engine.divergence import divergences
from headtool.engine.passes import finite_forward, gates_differ, mask_gates
from headtool.engine.replacement import Fill, Replacement, Zero
from headtool.engine.replay import Recording, Replay
from headtool.engine.stepping import Stepping, joined, room, with_fewer
from headtool.engine.store import UnitStore
from headtool.engine.units import Executor, Unit, UnitResult, cut, in_turn, run_units
from headtool.heads import AttentionSite, HeadMask
from headtool.models.answers import gathered, spread
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples, Forward
from headtool.progress import ProgressLike, silent
from headtool.results.outcomes import Outcomes
from headtool.results.progress_bar import shown

__all__ = ["evaluate"]

_LABEL = "evaluate"
_TRIED = 8  # examples on which shortcuts are tried
_FULL = 512  # tokens that keep a CPU busy: more masks in one pass would only add a reference run
_ROOMY = 4  # masks that share a forward pass; with fewer, each is run alone instead
_SAME = 1e-4  # a shortcut whose losses differ by more, relative to one plus the loss, is not taken


def evaluate(
    model: ModelAdapter,
    examples: Examples,
    masks: Sequence[HeadMask],
    *,
    replacement: Replacement | None = None,
    rescale: bool = False,
    chained: bool | None = False,
    divergence: bool = False,
    store: UnitStore | None = None,
    execute: Executor = in_turn,
    progress: ProgressLike = silent,
) -> Outcomes:
    """Run the whole model and every masked model over a data set.

    What a mask cannot change is computed once a batch (`headtool.engine.replay`), and masks share a
    forward pass while a batch has room for them. The numbers are those of one run a mask, up to
    rounding.

    Parameters
    ----------
    model
        The model; its weights stay as they are.
    examples
        The data set, as ``model.encode`` returned it.
    masks
        Which heads are open, one run each. None of them: the whole model alone.
    replacement
        What a closed head puts out; zero by default.
    rescale
        Whether the open heads of a site are multiplied by heads / open heads.
    chained
        Whether each mask starts from the mask before it instead of from the whole model: where they
        first differ. It pays where many heads are closed and few change from mask to mask. None:
        in batches that leave room for few masks beside them; and examples that fit into one batch
        are cut into several with little padding, which masks fill. It pays where most masks close
        heads of the first layer.
    divergence
        Whether the outcomes also have ``kl``: how far the masked model's predictions are from the
        whole one's, summed over the scored tokens. It takes memory for all of a batch's logits.
    store
        Keeps finished units; those that it has already are not computed again.
    execute
        Who runs the units.
    progress
        Reports progress; True shows a bar.

    Returns
    -------
    Outcomes
        Per-example statistics [masks, examples], with the whole model's.

    Raises
    ------
    HeadtoolError
        If a loss is not a finite number.

    Examples
    --------
    >>> from headtool import evaluate
    >>> from headtool import HeadMask, load_data, load_model
    >>> model = load_model("builtin:nli", device="cpu")
    >>> examples = model.encode(load_data("builtin:nli/matched", limit=4))
    >>> masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads[:2]]
    >>> evaluate(model, examples, masks).masked["loss"].shape
    (2, 4)
    """
    columns: dict[str, NDArray[np.float64]] = {}
    rows = spread(examples)  # where an example has several answers, a row for each

    def prepare() -> Callable[[Unit], UnitResult]:
        filled = replacement or Zero()
        runner = _Runner(
            model,
            rows,
            [mask_gates(mask, model, rescale=rescale) for mask in masks],
            filled.fit(model, rows, shown(progress)),
            first_position=not filled.aligned,
            chained=chained,
            divergence=divergence,
        )
        return Stepping(runner.run, joined(1), model, rows, _LABEL, repeats=True)

    units = cut(rows.batches(tight=chained is None), len(masks))
    shares = mask_shares(model, masks, chained=bool(chained))
    once = 2.0 if replacement is not None and replacement.aligned else 1.0  # donors run as well

    def work(unit: Unit) -> float:
        own = sum(shares[mask] for mask in unit.masks)
        return unit_tokens(rows, unit) * (own + (once if unit.masks.start == 0 else 0.0))

    for unit, result in run_units(
        units,
        prepare,
        label=_LABEL,
        execute=execute,
        store=store,
        progress=progress,
        work=work,
    ):
        for name, values in result.items():
            if name not in columns:
                columns[name] = np.full((1 + len(masks), len(rows)), np.nan)
            columns[name][0, unit.examples] = values[0]
            for mask, row in zip(unit.masks, values[1:], strict=True):
                columns[name][1 + mask, unit.examples] = row
    columns = gathered(examples, columns)
    whole = {name: values[0] for name, values in columns.items()}
    return Outcomes(tuple(masks), whole, {name: values[1:] for name, values in columns.items()})


@dataclass(frozen=True)
class _Base:
    """What the whole model does on one batch; all masks start from it."""

    index: NDArray[np.int64]
    batch: Batch
    filling: Mapping[AttentionSite, Tensor] | None
    columns: Mapping[str, Tensor]
    whole: Forward | None  # kept where masked models are compared with it
    recording: Recording | None  # None: no shortcut works on this model


class _Runner:
    """Runs all masks on one batch after the other."""

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
    ) -> None:
        self.model = model
        self.examples = examples
        self.gates = gates
        self.fill = fill
        self.chained = chained
        self.divergence = divergence
        # A donor's output has a row for every position, which one position alone cannot use.
        self.first_position = first_position
        self.replay: Replay | None = None
        if gates and Replay.suits(model):
            self.replay = with_fewer(examples.batches()[0][:_TRIED], self._working_replay)
        self.base: _Base | None = None  # of the batch that was run last; units come batch by batch

    def run(self, unit: Unit) -> UnitResult:
        """Run the whole model and the unit's masks on its examples."""
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
        if self.base is None or not np.array_equal(self.base.index, unit.examples):
            self.base = None  # one batch's recording at a time
            self.base = self._run_whole(unit.examples)
        base = self.base
        yield 0, base.columns
        if base.recording is None:
            for row, mask in enumerate(unit.masks, start=1):
                with self.model.intercept(Gating(self.gates[mask], base.filling), base.batch):
                    yield row, self._columns_of(self._forward(base.batch), base.whole)
            return
        chained = self._room(base.batch) < _ROOMY if self.chained is None else self.chained
        run = self._in_sequence if chained else self._masked
        for mask, columns in run(unit.masks, base, base.recording):
            yield 1 + mask - unit.masks.start, columns

    def _run_whole(self, index: NDArray[np.int64]) -> _Base:
        """Run the whole model on a batch, recording what masks will not change."""
        batch = self.model.collate(self.examples, index)
        filling = self.fill(batch)
        if self.replay is None:
            return self._base(index, batch, filling, self._forward(batch), None)
        with self.replay.record(len(batch)) as recording:
            result = self._forward(batch)
        if self.replay.reads_first and self.first_position:
            # Rounding differs between one position and all of them. The whole model takes the same
            # way as the masks, so that a head without effect has an effect of exactly zero.
            last = self._all_open(recording.last_site)
            result = self._resumed(self.replay, batch, recording, last, 1)
        return self._base(index, batch, filling, result, recording)

    def _base(
        self,
        index: NDArray[np.int64],
        batch: Batch,
        filling: Mapping[AttentionSite, Tensor] | None,
        whole: Forward,
        recording: Recording | None,
    ) -> _Base:
        kept = whole if self.divergence else None
        return _Base(index, batch, filling, self._columns_of(whole, kept), kept, recording)

    def _columns_of(self, result: Forward, whole: Forward | None) -> Mapping[str, Tensor]:
        """A model's columns, with its divergence from the whole one where that is wanted."""
        if whole is None:
            return result.columns
        return {**result.columns, "kl": divergences(whole, result)}

    def _masked(
        self, masks: range, base: _Base, recording: Recording
    ) -> Iterator[tuple[int, Mapping[str, Tensor]]]:
        """Run the masks in groups that start at the same site and fit into one batch."""
        batch, filling, whole = base.batch, base.filling, base.columns
        groups: dict[AttentionSite, list[int]] = {}
        for row in masks:
            gates = self.gates[row]
            if gates:
                groups.setdefault(recording.start(list(gates))[1], []).append(row)
            else:
                yield row, whole
        is_full = self.model.device.type == "cpu" and self._tokens(batch) >= _FULL
        room = 1 if is_full else self._room(batch)
        for rows in groups.values():
            together = len(rows) if room > len(rows) else max(1, room - 1)
            for start in range(0, len(rows), together):
                chosen = rows[start : start + together]
                if len(chosen) == 1:
                    (result,) = self._together(batch, recording, filling, chosen)
                    yield chosen[0], self._columns_of(result, base.whole)
                    continue
                reference, *parts = self._together(batch, recording, filling, [None, *chosen])
                compared = reference if self.divergence else None
                for row, part in zip(chosen, parts, strict=True):
                    columns = self._columns_of(part, compared)
                    # Rounding differs between batch sizes: the change is taken within one batch.
                    shifted = {
                        name: whole[name] + (values - reference.columns[name])
                        for name, values in columns.items()
                        if name.endswith("loss")
                    }
                    yield row, {**columns, **shifted}

    def _room(self, batch: Batch) -> int:
        """How many times a batch fits into the tokens of one."""
        return room(self.model, self.examples, _LABEL) // self._tokens(batch)

    @staticmethod
    def _tokens(batch: Batch) -> int:
        return len(batch) * max(queries.real.shape[1] for queries in batch.queries.values())

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
            before, gates = gates, self.gates[row]
            changed = [site for site in self.model.sites if gates_differ(site, before, gates)]
            if changed:
                advance = self.replay.advance(recording, changed, first_position_only=narrow)
                gating = Gating(gates, base.filling)
                with advance as recording, self.model.intercept(gating, base.batch):
                    columns = self._columns_of(self._forward(base.batch), base.whole)
            yield row, columns

    def _together(
        self,
        batch: Batch,
        recording: Recording,
        filling: Mapping[AttentionSite, Tensor] | None,
        rows: Sequence[int | None],
    ) -> list[Forward]:
        """One forward pass for several masks (None: all heads open)."""
        given = [self.gates[row] for row in rows if row is not None]
        sites = [site for site in self.model.sites if any(site in gates for gates in given)]
        gates = {site: self._stacked(site, rows, len(batch)) for site in sites}
        if filling is not None and len(rows) > 1:
            filling = {
                site: value.repeat(len(rows), 1, 1, 1) if value.ndim == 4 else value
                for site, value in filling.items()
            }
        repeated = batch.repeated(len(rows))
        assert self.replay is not None
        gating = Gating(gates, filling)
        result = self._resumed(self.replay, repeated, recording, gating, len(rows))
        size = len(batch)
        return [result.part(slice(i * size, (i + 1) * size)) for i in range(len(rows))]

    def _all_open(self, site: AttentionSite) -> Gating:
        return Gating({site: torch.ones(site.n_heads, device=self.model.device)})

    def _stacked(self, site: AttentionSite, rows: Sequence[int | None], size: int) -> Tensor:
        """Gates of one site, [H] for one mask and [masks x size, H] for several."""
        open_gates = torch.ones(site.n_heads, device=self.model.device)
        per_mask = [
            open_gates if row is None else self.gates[row].get(site, open_gates) for row in rows
        ]
        if len(rows) == 1:
            return per_mask[0]
        return torch.stack(per_mask).repeat_interleave(size, dim=0)

    def _resumed(
        self, replay: Replay, batch: Batch, recording: Recording, gating: Gating, repeat: int
    ) -> Forward:
        resume = replay.resume(
            recording,
            list(gating.gates),
            repeat=repeat,
            first_position_only=replay.reads_first and self.first_position,
        )
        with self.model.intercept(gating, batch), resume:
            return self._forward(batch)

    def _working_replay(self, index: NDArray[np.int64]) -> Replay | None:
        """Run gates of one through every shortcut on a few examples; keep what changes nothing."""
        replay = Replay(self.model)
        batch = self.model.collate(self.examples, index)
        with torch.inference_mode():
            with replay.record(len(batch)) as recording:
                losses = self._forward(batch).losses
            sites = [event.sites[0] for event in recording.events]
            tries = [sites[0], sites[len(sites) // 2], sites[-1]]

            def works() -> bool:
                return all(self._harmless(replay, s, batch, recording, losses) for s in tries)

            if works():
                return replay
            replay.reads_first = False
            return replay if works() else None

    def _harmless(
        self,
        replay: Replay,
        site: AttentionSite,
        batch: Batch,
        recording: Recording,
        losses: Tensor,
    ) -> bool:
        try:
            tried = self._resumed(replay, batch, recording, self._all_open(site), 1).losses
        except (RuntimeError, IndexError, KeyError, TypeError):
            return False  # the model's code cannot take the shortcut; it is computed in full
        return bool(((tried - losses).abs() <= _SAME * (1 + losses.abs())).all())

    def _forward(self, batch: Batch) -> Forward:
        return finite_forward(self.model, batch, self.examples)
