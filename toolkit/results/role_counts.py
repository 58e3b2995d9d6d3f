"""How often heads do what a role says, counted sentence by sentence without keeping sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headtool.heads import AttentionSite, Sites

__all__ = ["RoleCounts"]

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]


class RoleCounts:
    """Sums over sentences of the hits of M heads in D variants of one role.

    A *query* is a position that is asked where its largest attention weight lies; it is a *hit* if
    that is where the role says. Hits within a sentence depend on each other, so sentences are the
    sampling units: with hits h, queries n and the hits e expected of a baseline, all by sentence,
    the sums of h, n, e, h^2, hn, n^2 and (h - e)^2 give shares and their variances.

    Parameters
    ----------
    role, details, sites, guesses
        The attributes of these names.

    Attributes
    ----------
    role
        Name of the role.
    details
        Its D variants: offsets, or dependency relations with their direction.
    sites
        The attention sites, with M heads in all.
    guesses
        What the baseline is, per variant.
    queries, sentences, queries_squared, expected
        Sums over sentences of n, [n > 0], n^2 and e; shape [D].
    hits, hits_squared, hits_queries, excess_squared
        Sums over sentences of h, h^2, h n and (h - e)^2; shape [M, D].
    """

    def __init__(
        self, role: str, details: Sequence[str], sites: Sites, guesses: Sequence[str]
    ) -> None:
        self.role = role
        self.details = tuple(details)
        self.sites = sites
        self.guesses = tuple(guesses)
        wide, tall = len(self.details), (sites.n_heads, len(self.details))
        self.queries: Array = np.zeros(wide)
        self.sentences: Array = np.zeros(wide)
        self.queries_squared: Array = np.zeros(wide)
        self.expected: Array = np.zeros(wide)
        self.hits: Array = np.zeros(tall)
        self.hits_squared: Array = np.zeros(tall)
        self.hits_queries: Array = np.zeros(tall)
        self.excess_squared: Array = np.zeros(tall)

    def add_queries(self, detail: Numbers, queries: Array, expected: Array) -> None:
        """Take in queries and the baseline's hits of P pairs of a sentence and a variant.

        Parameters
        ----------
        detail
            The variant's place in `details`, shape [P].
        queries, expected
            Queries of the sentence, at least one, and expected hits; shape [P].
        """
        np.add.at(self.queries, detail, queries)
        np.add.at(self.sentences, detail, 1.0)
        np.add.at(self.queries_squared, detail, queries**2)
        np.add.at(self.expected, detail, expected)

    def add_hits(
        self, site: AttentionSite, detail: Numbers, hits: Array, queries: Array, expected: Array
    ) -> None:
        """Take in a site's hits on the same pairs of a sentence and a variant.

        Parameters
        ----------
        site
            The site, with H heads.
        detail, queries, expected
            As for `add_queries`, shape [P].
        hits
            Hits of each head, shape [P, H].
        """
        columns = self.sites.columns(site)
        for sums, values in (
            (self.hits, hits),
            (self.hits_squared, hits**2),
            (self.hits_queries, hits * queries[:, None]),
            (self.excess_squared, (hits - expected[:, None]) ** 2),
        ):
            np.add.at(sums.T[:, columns], detail, values)
