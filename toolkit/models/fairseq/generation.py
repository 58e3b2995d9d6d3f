"""Translations of fairseq models, as ``fairseq-generate`` searches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from headtool.attention.gating import Gating
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite
from headtool.models.examples import Batch, Row
from headtool.models.fairseq.beam import BeamSearch
from headtool.models.fairseq.greedy import GreedySearches
from headtool.models.fairseq.masks import MaskedSearches, some
from headtool.models.fairseq.network import FairseqNetwork
from headtool.models.fairseq.passes import Passes
from headtool.models.fairseq.scoring import ContinuationScorer
from headtool.models.generation import Filling, Gates, Generator
from headtool.searching import Search

__all__ = ["FairseqGenerator", "fixed_length"]

_BEAM, _LENGTH_PENALTY, _MAX_LENGTH = 5, 1.0, 201  # fairseq-generate: --max-len-b 200, and the end

_AGAIN = 64  # sentences that fairseq's own search decodes side by side

_TIE = 5e-5  # log-probabilities are computed in another order here, and differ by about 1e-6


class FairseqGenerator(Generator):
    """Decodes with a fairseq model.

    Parameters
    ----------
    model
        The model.
    search
        The settings; what they leave open is the model's own.

    Raises
    ------
    HeadtoolError
        If they leave no room for anything but the end of a sentence.
    """

    model: FairseqNetwork

    def __init__(self, model: FairseqNetwork, search: Search) -> None:
        if search.max_length == 1:
            raise HeadtoolError(
                f"`max_length` is 1, which leaves {model.spec} the end of the sentence alone; "
                "give 2 or more"
            )
        self.model = model
        longest = int(cast(Any, model.module).max_decoder_positions())
        self.search = Search(
            search.beam or _BEAM,
            _LENGTH_PENALTY if search.length_penalty is None else search.length_penalty,
            min(search.max_length or _MAX_LENGTH, longest),
        )
        self.masked = self._masked_searches()

    def _masked_searches(self) -> MaskedSearches | GreedySearches | None:
        """Set up the search that shares work between masks, where the decoder allows it."""
        beam, max_length = self.search.beam, self.search.max_length
        assert beam
        assert max_length
        dictionary = self.model.target_dictionary
        if not Passes.suit(self.model) or 2 * beam + 4 > len(dictionary):
            return None
        passes = Passes(self.model, max_length)
        vocabulary = ContinuationScorer(
            passes.decoder.projection,
            pad=dictionary.pad(),
            end=dictionary.eos(),
            max_length=max_length,
            count=2 if beam == 1 else beam + 2,
            tolerance=_TIE,
            normalised=beam > 1,  # one hypothesis needs the order of its continuations only
        )
        if beam == 1:
            return GreedySearches(passes, vocabulary, dictionary.eos())

        def searches(sentences: int) -> BeamSearch:
            return BeamSearch(
                sentences,
                beam=beam,
                length_penalty=self.search.length_penalty or 0.0,
                max_length=max_length,
                end=dictionary.eos(),
                tolerance=_TIE,
                device=self.model.device,
            )

        return MaskedSearches(passes, vocabulary, searches, dictionary.eos())

    def source_length(self, row: Row) -> int:
        """Symbols of the source, end-of-sentence included."""
        return len(row["source"])

    def decode(self, batch: Batch) -> list[list[int]]:
        """Return the best hypotheses without their end-of-sentence."""
        return self._generated(self._generator(), batch)

    def _generator(self) -> Any:
        """Set up fairseq's own search."""
        from fairseq.sequence_generator import SequenceGenerator

        assert self.search.beam
        assert self.search.max_length
        return SequenceGenerator(
            [self.model.module],
            self.model.target_dictionary,
            beam_size=self.search.beam,
            len_penalty=self.search.length_penalty,
            max_len_a=0,
            max_len_b=self.search.max_length - 1,
        )

    def _generated(self, generator: Any, batch: Batch) -> list[list[int]]:
        sources = {name: batch.inputs[name] for name in ("src_tokens", "src_lengths")}
        finished = generator.generate([self.model.module], {"net_input": sources})
        return [best[0]["tokens"].tolist()[:-1] for best in finished]

    def decode_masks(
        self, batch: Batch, masks: Sequence[Gates], filling: Filling
    ) -> list[list[list[int]]]:
        """Decode with all heads open and under each mask; see `Generator.decode_masks`."""
        if self.masked is None:
            return super().decode_masks(batch, masks, filling)
        rows, tied = self.masked.run(batch, masks, filling)
        again = torch.stack(tied).nonzero().tolist()
        for first in range(0, len(again), _AGAIN):
            pairs = again[first : first + _AGAIN]
            gates = [masks[row - 1] if row else {} for row, _ in pairs]
            part = some(batch, [place for _, place in pairs])
            for (row, place), ids in zip(
                pairs, self._decode_each(part, gates, filling), strict=True
            ):
                rows[row][place] = ids
        return rows

    def _decode_each(
        self, batch: Batch, gates: Sequence[Gates], filling: Filling
    ) -> list[list[int]]:
        """Decode every sentence under gates of its own by fairseq's own search."""
        generator = self._generator()
        handler = _Following(generator.model, gates, filling)
        with self.model.intercept(handler, batch):
            return self._generated(generator, batch)

    def texts(self, hypotheses: Sequence[Sequence[int]]) -> list[str]:
        """Join symbols and undo the segmentation."""
        dictionary = self.model.target_dictionary
        silent = {dictionary.eos(), dictionary.bos()}
        done: dict[tuple[int, ...], str] = {}  # most are the same under many masks
        for ids in map(tuple, hypotheses):
            if ids not in done:
                symbols = " ".join(dictionary[token] for token in ids if token not in silent)
                done[ids] = self.model.bpe.decode(symbols)
        return [done[tuple(ids)] for ids in hypotheses]


class _Following:
    """Gates every sentence by gates of its own, wherever fairseq's search moves its prefixes.

    Parameters
    ----------
    searched
        What the search calls in place of the model.
    gates
        Gates of each sentence.
    filling
        What closed heads put out; None for zero.
    """

    def __init__(self, searched: Any, gates: Sequence[Gates], filling: Filling) -> None:
        self.gates, self.filling = gates, filling
        self.rows = torch.arange(len(gates))
        reorder = searched.reorder_encoder_out

        def followed(encoded: Any, order: Tensor) -> Any:
            self.rows = self.rows[order.to(self.rows.device)]
            return reorder(encoded, order)

        searched.reorder_encoder_out = followed

    def __call__(self, site: AttentionSite, contexts: Tensor) -> Tensor | None:
        """Gate the heads of one site; see `Handler`."""
        if not any(site in each for each in self.gates):
            return None
        is_open = torch.ones(site.n_heads, device=contexts.device)
        rows = torch.stack([each.get(site, is_open) for each in self.gates])[self.rows]
        return Gating({site: rows}, self.filling)(site, contexts)


def fixed_length(
    model: FairseqNetwork, *, batch: int, length: int, beam: int
) -> Callable[[], object]:
    """Prepare fairseq's generation of an exact number of tokens; see `ModelAdapter.decoding`.

    Parameters
    ----------
    model
        The model.
    batch
        Rows.
    length
        Tokens that each row generates, and that its source has.
    beam
        Width of the beam.
    """
    from fairseq.sequence_generator import SequenceGenerator

    generator = SequenceGenerator(
        [model.module],
        model.target_dictionary,
        beam_size=beam,
        max_len_a=0,
        max_len_b=length,
        min_len=length,
    )
    tokens, lengths = model.source_tokens(batch, length)
    sources = {"src_tokens": tokens.to(model.device), "src_lengths": lengths.to(model.device)}
    return lambda: generator.generate([model.module], {"net_input": sources})
