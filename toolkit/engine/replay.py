"""Compute once what closing heads cannot change.

Closing heads of one layer leaves everything below that layer as it was, and the heads' outputs
within it too. So the whole model runs once a batch and its blocks' outputs are kept; a masked run
then starts at the first block where a head is closed, and there at the output projection. For a
classifier that reads the first position, nothing but that position is computed after the last
attention.

Nothing here knows a model family. What a block or an attention module puts out is recorded and put
out again, and every shortcut is tried against the full computation before it is used.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headtool.attention.gating import SiteHandle
from headtool.attention.patching import answering, patched
from headtool.engine.unchanged import unchanged_layers
from headtool.heads import AttentionSite
from headtool.models.base import ModelAdapter

__all__ = ["Recording", "Replay"]

Owner = Literal["heads", "projected"]
"""What an attention module returns first: the heads' outputs, or their projection."""


@dataclass
class _Event:
    """One call of a block in a forward pass, and the sites inside it in order."""

    block: nn.Module
    output: Any = None
    sites: list[AttentionSite] = field(default_factory=list)


@dataclass
class Recording:
    """What one forward pass of the whole model left behind.

    Attributes
    ----------
    events
        The block calls in order.
    projected
        Per site, the output projection's input.
    owners
        Per site, what its attention module returned.
    unchanged
        What layers returned that no head of the decoder changes.
    """

    events: list[_Event] = field(default_factory=list)
    projected: dict[AttentionSite, Tensor] = field(default_factory=dict)
    owners: dict[AttentionSite, Any] = field(default_factory=dict)
    unchanged: dict[nn.Module, Tensor] = field(default_factory=dict)

    @property
    def last_site(self) -> AttentionSite:
        """The site that ran last."""
        return self.events[-1].sites[-1]

    def event_of(self, site: AttentionSite) -> int:
        """Which block call a site belongs to."""
        return next(i for i, event in enumerate(self.events) if site in event.sites)

    def start(self, gated: Sequence[AttentionSite]) -> tuple[int, AttentionSite]:
        """Return the first block call with a gated site, and the first such site in it."""
        first = min(self.event_of(site) for site in gated)
        return first, next(site for site in self.events[first].sites if site in gated)


class _Reached(Exception):  # noqa: N818 - a jump out of a forward pass, not an error
    """Carries the last projection's input out of a forward pass that is cut short there."""

    def __init__(self, projected: Tensor) -> None:
        super().__init__()
        self.projected = projected


class Replay:
    """Records forward passes of a model and resumes them where they change.

    Parameters
    ----------
    model
        The model. It is patched only inside `record` and `resume`.
    """

    def __init__(self, model: ModelAdapter) -> None:
        self.handles = {handle.site: handle for handle in model.handles}
        self.blocks = {site: _block(model.module, site) for site in self.handles}
        self.modes: dict[AttentionSite, Owner | None] = {}
        self.unchanged: list[nn.Module] = []  # by masks of the decoder alone
        last = model.handles[-1]
        self.reads_first = (
            model.task in ("classification", "regression") and last.layout == "batch-first"
        )

    @staticmethod
    def suits(model: ModelAdapter) -> bool:
        """Whether the model's sites lie in numbered layers that are each called once a pass."""
        return all(
            handle.calls == 1 and re.search(r"\.\d+\.", handle.site.projection)
            for handle in model.handles
        )

    def find_unchanged(
        self, recorded: Callable[[], Recording], plain: Callable[[], object]
    ) -> Mapping[nn.Module, Tensor]:
        """Find the layers of a decoder that read nothing but the encoder's output, with theirs.

        Parameters
        ----------
        recorded
            A recorded pass of a few examples.
        plain
            The same pass unrecorded; it is run without the encoder, and only where there is one.
        """
        kinds = {site.kind for site in self.handles}
        if not {"enc-self", "cross"} <= kinds:
            recorded()
            return {}
        recordings: list[Recording] = []
        upper = [block for site, block in self.blocks.items() if site.kind != "enc-self"]

        def again() -> None:
            with contextlib.ExitStack() as stack:
                for event in recordings[0].events:
                    if event.sites[0].kind == "enc-self":
                        stack.enter_context(answering(event.block, event.output))
                plain()

        found = unchanged_layers(
            list(dict.fromkeys(upper)), lambda: recordings.append(recorded()), again
        )
        self.unchanged = list(found)
        return found

    # -- recording --------------------------------------------------------------------------

    @contextlib.contextmanager
    def record(self) -> Iterator[Recording]:
        """Record the forward pass that runs inside."""
        recording = Recording()
        outputs: dict[AttentionSite, Tensor] = {}
        with contextlib.ExitStack() as stack:
            for block in set(self.blocks.values()):
                stack.enter_context(patched(block, _recorder(block, recording)))
            for owner, sites in self._by_module(lambda handle: handle.owner).items():
                stack.callback(owner.register_forward_hook(_Keep(sites, recording.owners)).remove)
            for projection, sites in self._by_module(lambda handle: handle.module).items():
                seen = _KeepInput(sites, recording)
                stack.callback(projection.register_forward_pre_hook(seen).remove)
                stack.callback(projection.register_forward_hook(_Keep(sites, outputs)).remove)
            for layer in self.unchanged:
                keep = _Keep([layer], recording.unchanged)
                stack.callback(layer.register_forward_hook(keep).remove)
            yield recording
        if not self.modes:
            self.modes = {
                site: _mode(recording.owners.get(site), recording.projected[site], outputs[site])
                for site in self.handles
            }

    def _by_module(
        self, of: Callable[[SiteHandle], nn.Module | None]
    ) -> dict[nn.Module, list[AttentionSite]]:
        """Sites by the module that serves them, in the order of its calls."""
        found: dict[nn.Module, list[SiteHandle]] = {}
        for handle in self.handles.values():
            module = of(handle)
            if module is not None:
                found.setdefault(module, []).append(handle)
        return {
            module: [handle.site for handle in sorted(handles, key=lambda h: h.call)]
            for module, handles in found.items()
        }

    # -- resuming ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def resume(
        self,
        recording: Recording,
        gated: Sequence[AttentionSite],
        *,
        first_position_only: bool = False,
    ) -> Iterator[None]:
        """Let the forward pass that runs inside start where gates on `gated` can matter.

        Parameters
        ----------
        recording
            Of the same batch.
        gated
            Sites where heads will be gated; at least one.
        first_position_only
            Compute only the first position after the last attention; see `reads_first`.
        """
        start, first = recording.start(gated)
        sites = recording.events[start].sites
        known = sites[: sites.index(first) + 1]
        position = iter(range(len(recording.events)))
        last = recording.events[-1]

        def block_forward(block: nn.Module) -> Callable[..., Any]:
            original = block.forward

            def forward(*args: Any, **kwargs: Any) -> Any:
                now = next(position)
                if now < start:
                    return recording.events[now].output
                if first_position_only and now == len(recording.events) - 1:
                    ready = last.sites[-1] if last.sites[-1] in known else None
                    return self._narrow(original, recording, ready, args, kwargs)
                return original(*args, **kwargs)

            return forward

        with contextlib.ExitStack() as stack:
            for block in set(self.blocks.values()):
                stack.enter_context(patched(block, block_forward(block)))
            for site in known:
                if self.modes[site] is not None and not (
                    first_position_only and site == last.sites[-1]
                ):
                    stack.enter_context(self._answered(site, recording))
            if first.kind != "enc-self":
                for layer, output in recording.unchanged.items():
                    stack.enter_context(answering(layer, output))
            yield

    @contextlib.contextmanager
    def advance(
        self,
        recording: Recording,
        gated: Sequence[AttentionSite],
        *,
        first_position_only: bool = False,
    ) -> Iterator[Recording]:
        """Resume as `resume` does, and record what runs, for the next pass to start from.

        Parameters
        ----------
        recording
            Of the same batch, under other gates.
        gated
            Sites where the gates of the coming pass are not those of the recorded one.
        first_position_only
            See `resume`.

        Enter it before gates are attached, so that the heads' own outputs are recorded.
        """
        start, _ = recording.start(gated)
        resumed = self.resume(recording, gated, first_position_only=first_position_only)
        with resumed, self.record() as new:
            yield new
        new.events[:start] = recording.events[:start]
        new.projected = recording.projected | new.projected
        new.owners = recording.owners | new.owners
        new.unchanged = recording.unchanged | new.unchanged

    @contextlib.contextmanager
    def _answered(
        self,
        site: AttentionSite,
        recording: Recording,
        projected: Tensor | None = None,
    ) -> Iterator[None]:
        """Let a site's attention module return what it would, from the projection's known input."""
        handle = self.handles[site]
        known = recording.projected[site] if projected is None else projected

        def forward(*args: Any, **kwargs: Any) -> Any:
            value = handle.module(known) if self.modes[site] == "projected" else known
            return _with_first(recording.owners[site], value)

        assert handle.owner is not None
        with patched(handle.owner, forward):
            yield

    def _narrow(
        self,
        original: Callable[..., Any],
        recording: Recording,
        ready: AttentionSite | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Run the last block for the first position only.

        Its attention runs in full up to the output projection (or is known already), everything
        after that for one position.
        """
        site = recording.events[-1].sites[-1]
        if ready is not None:
            projected = recording.projected[site]
        else:
            projected = self._up_to_projection(site, original, args, kwargs)
        # Without gaps, as gates leave it: oneDNN rounds otherwise where there are some (bfloat16).
        with self._answered(site, recording, projected[:, :1].contiguous()):
            if args:
                return original(args[0][:, :1], *args[1:], **kwargs)
            hidden = kwargs["hidden_states"][:, :1]
            return original(**{**kwargs, "hidden_states": hidden})

    def _up_to_projection(
        self,
        site: AttentionSite,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Tensor:
        def stop(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            raise _Reached(inputs[0])

        # Before the gates, which must meet these heads once only.
        hook = self.handles[site].module.register_forward_pre_hook(stop, prepend=True)
        try:
            original(*args, **kwargs)
        except _Reached as reached:
            return reached.projected
        finally:
            hook.remove()
        raise AssertionError(f"the last block did not call the projection of {site}")


class _Keep:
    """Forward hook that keeps what a module returns under the site (or key) of the call."""

    def __init__(self, sites: Sequence[Any], into: dict[Any, Any]) -> None:
        self.sites = itertools.cycle(sites)  # a pass for one position runs the last block twice
        self.into = into

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        self.into[next(self.sites)] = output


class _KeepInput:
    """Pre-hook that keeps the projection's input, and notes which block call the site is in."""

    def __init__(self, sites: Sequence[AttentionSite], recording: Recording) -> None:
        self.sites = iter(sites)
        self.recording = recording

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        site = next(self.sites)
        self.recording.projected[site] = args[0]
        self.recording.events[-1].sites.append(site)


def _recorder(block: nn.Module, recording: Recording) -> Callable[..., Any]:
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        event = _Event(block)
        recording.events.append(event)
        event.output = original(*args, **kwargs)
        return event.output

    return forward


def _block(model: nn.Module, site: AttentionSite) -> nn.Module:
    """The layer that a site is in: the module named up to the first number in the site's path."""
    parts = site.projection.split(".")
    depth = next(i for i, part in enumerate(parts) if part.isdigit()) + 1
    return model.get_submodule(".".join(parts[:depth]))


def _mode(owner_output: Any, projected: Tensor, output: Tensor) -> Owner | None:
    """Tell what an attention module returns, by comparing it with its projection's two sides."""
    first = owner_output[0] if isinstance(owner_output, tuple | list) else owner_output
    if not isinstance(first, Tensor):
        return None
    for mode, value in (("heads", projected), ("projected", output)):
        if first.shape == value.shape and torch.equal(first, value):
            return "heads" if mode == "heads" else "projected"
    return None


def _with_first(output: Any, value: Tensor) -> Any:
    """An attention module's output with another first tensor."""
    if isinstance(output, Tensor):
        return value
    return type(output)([value, *output[1:]])
