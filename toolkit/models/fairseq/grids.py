"""Rows of sequences of different lengths, end to end, and the grids that attention wants."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headtool.models.fairseq.source import widened

__all__ = ["Grid"]


class Grid:
    """How the rows of B sequences are laid out, R in all and up to N each.

    Rows of several masks follow each other: those of all sequences under the first mask, then
    under the next. Where all sequences are as long, most grids are views of the rows.

    Parameters
    ----------
    sizes
        How long each sequence is.
    device
        Where the rows are.
    """

    def __init__(self, sizes: Sequence[int], device: torch.device) -> None:
        self.sizes = torch.tensor(sizes, device=device)
        self.batch, self.rows, self.most = len(sizes), sum(sizes), max(sizes)
        self.width = widened(self.most)
        self.equal = self.batch * self.most == self.rows
        begins = self.sizes.cumsum(dim=0) - self.sizes
        self._sequence = torch.arange(self.batch, device=device).repeat_interleave(self.sizes)
        self._place = torch.arange(self.rows, device=device) - begins[self._sequence]

    def cells(self, times: int, width: int) -> Tensor:
        """Where each row is in grids of a width, mask by mask; [times * R].

        Parameters
        ----------
        times
            How many masks.
        width
            Width of the grids.
        """
        cells = self._sequence * width + self._place
        each = torch.arange(times, device=cells.device)[:, None] * (self.batch * width)
        return (each + cells).flatten()

    def spread(self, rows: Tensor, times: int, width: int | None = None) -> Tensor:
        """Put rows [times * R, E] into grids [times * B, width or N, E], zero where there is none.

        Parameters
        ----------
        rows
            The rows.
        times
            How many masks.
        width
            Width of the grids; by default the longest sequence.
        """
        width = width or self.most
        shape = (times * self.batch, width, rows.shape[1])
        if self.equal and width == self.most and rows.is_contiguous():
            return rows.view(shape)
        if self.equal:
            grid = rows.new_empty(shape)
            grid[:, : self.most] = rows.view(shape[0], self.most, shape[2])
            grid[:, self.most :] = 0
            return grid
        flat = rows.new_zeros((shape[0] * width, shape[2]))
        return flat.index_copy_(0, self.cells(times, width), rows).view(shape)

    def gathered(self, grids: Tensor, times: int) -> Tensor:
        """Undo `spread` of a width; rows [times * R, E].

        Parameters
        ----------
        grids
            The grids, [times * B, width, E].
        times
            How many masks.
        """
        flat = grids.flatten(0, 1)
        if len(flat) == times * self.rows:
            return flat
        return flat.index_select(0, self.cells(times, grids.shape[1]))

    def spread_by_sequence(self, rows: Tensor, times: int) -> Tensor:
        """Put rows [times * R, E] into grids [B, times * N, E]: all masks of a sequence in one.

        Parameters
        ----------
        rows
            The rows.
        times
            How many masks.
        """
        grids = self.spread(rows, times).view(times, self.batch, self.most, -1)
        return grids.transpose(0, 1).reshape(self.batch, times * self.most, -1)

    def gathered_by_sequence(self, grids: Tensor, times: int) -> Tensor:
        """Undo `spread_by_sequence`.

        Parameters
        ----------
        grids
            The grids, [B, times * N, E].
        times
            How many masks.
        """
        by_mask = grids.view(self.batch, times, self.most, -1).transpose(0, 1)
        return self.gathered(by_mask.reshape(times * self.batch, self.most, -1), times)
