"""What the heads of a model do on some text: every role's counts, in one pass over the data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headtool.analysis.roles import ROLES
from headtool.data.conllu import Treebank
from headtool.data.frequencies import read_frequencies
from headtool.engine.observation import Statistic, observe
from headtool.engine.units import Executor, in_turn
from headtool.errors import HeadtoolError, unknown
from headtool.heads import Kind
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.pieces import Pieces
from headtool.patterns.parses import Parse
from headtool.patterns.syntax import SyntacticRoles
from headtool.patterns.tokens import Vocabulary, random_repeats, repeat_roles, token_roles
from headtool.progress import Progress, silent
from headtool.results.role_counts import RoleCounts

__all__ = ["COMMON_TYPES", "RoleRequest", "count_roles", "request_roles"]

COMMON_TYPES = 500
_EVERYWHERE = ("positional", "rare-token", "separator", "punctuation", "first-token")


@dataclass(frozen=True)
class RoleRequest:
    """Which heads to look at, and for which roles.

    Attributes
    ----------
    kinds
        Kinds of self-attention.
    roles
        Names of roles, see `headtool.patterns.tokens` and `headtool.patterns.syntax`. A role that
        some of the kinds cannot have is counted for the others.
    common
        How many of the most frequent token types are not rare.
    frequencies
        Counts by token that decide what is rare; None: those of the data.
    """

    kinds: tuple[Kind, ...]
    roles: tuple[str, ...]
    common: int = COMMON_TYPES
    frequencies: Mapping[str, int] | None = None


def request_roles(
    model: ModelAdapter,
    treebank: Treebank | None,
    *,
    kinds: Sequence[Kind] | None = None,
    roles: Sequence[str] | None = None,
    common: int = COMMON_TYPES,
    frequencies: str | None = None,
) -> RoleRequest:
    """Decide what can be looked at, and refuse what cannot.

    Parameters
    ----------
    model
        The model.
    treebank
        Parsed sentences, without which no head is syntactic. A translation model's encoder reads
        them; its decoder sees no text then.
    kinds, roles
        What was asked for; None for all that is possible.
    common, frequencies
        See `RoleRequest`; `frequencies` names a file.

    Raises
    ------
    HeadtoolError
        If a kind or a role is not possible here.
    """
    possible: list[Kind] = [kind for kind in model.sites.kinds if kind != "cross"]
    both = len(possible) > 1
    if treebank is not None and both:
        possible.remove("dec-self")
    for kind in kinds or ():
        model.sites.restrict([kind])
        if kind == "cross":
            raise HeadtoolError("roles are those of self-attention; choose enc-self or dec-self")
        if kind not in possible:
            raise HeadtoolError(
                f"the treebank is read by the encoder of {model.spec}, and its decoder sees no "
                "text; give two line-aligned files as `data` to see dec-self"
            )
    chosen = tuple(kind for kind in possible if kinds is None or kind in kinds)
    names = [*_EVERYWHERE]
    reasons = {
        "syntactic": "syntactic heads need parsed sentences; give a CoNLL-U file as `treebank`",
        "previous-token": f"previous-token heads are those of a decoder, and {', '.join(chosen)} "
        "is none; use positional",
        "induction": f"induction heads are those of a model that is only a decoder, and "
        f"{model.spec} has {', '.join(model.sites.kinds)}; choose other `roles`",
    }
    if treebank is not None:
        names.append("syntactic")
    if "dec-self" in chosen:
        names.append("previous-token")
    if possible == ["dec-self"]:
        names.append("induction")
    for role in roles or ():
        if role not in ROLES:
            raise unknown("role", role, ROLES)
        if role not in names:
            raise HeadtoolError(reasons[role])
    wanted = tuple(name for name in names if roles is None or name in roles)
    counts = None
    if frequencies is not None:
        if "rare-token" not in wanted:
            raise HeadtoolError("`frequencies` is for the role rare-token; add it to `roles`")
        if len(chosen) > 1:
            raise HeadtoolError(
                "`frequencies` counts the tokens of one side; choose enc-self or dec-self as "
                "`kinds`"
            )
        counts = read_frequencies(frequencies)
    return RoleRequest(chosen, wanted, common, counts)


def count_roles(
    pieces: Pieces[ModelAdapter],
    examples: Examples,
    request: RoleRequest,
    *,
    parses: Sequence[Parse] = (),
    seed: int = 0,
    execute: Executor = in_turn,
    progress: Progress = silent,
) -> tuple[list[RoleCounts], list[str]]:
    """Observe a data set once and count what the heads do; no attention is kept.

    Parameters
    ----------
    pieces
        The model's tokens.
    examples
        The sentences.
    request
        What to count.
    parses
        Their trees, for syntactic heads.
    seed
        Draws the random tokens for induction heads.
    execute
        Who runs the batches.
    progress
        Shows progress.

    Returns
    -------
    counts, notes
        Counts by role and kind, and what a reader must know of them.
    """
    model = pieces.model
    # Heads shall see the text, also where a masked language model is to guess it.
    examples = replace(examples, rows=tuple(map(pieces.unmasked, examples.rows)))
    statistics: list[Statistic] = []
    counts: list[RoleCounts] = []
    notes: list[str] = []
    for kind in request.kinds:
        vocabulary = Vocabulary(pieces, kind)
        vocabulary.count(examples)
        if "rare-token" in request.roles:
            notes += _choose_rare(vocabulary, request, len(request.kinds) > 1)
        tokens = token_roles(vocabulary, model.sites, _of_kind(request.roles, kind))
        statistics.append(tokens)
        counts += tokens.counts
        if "syntactic" in request.roles:
            syntax = SyntacticRoles(parses, model.sites, kind)
            statistics.append(syntax)
            counts.append(syntax.counts)
    observe(model, examples, statistics, execute=execute, progress=progress)
    if "induction" in request.roles:
        repeats, once = random_repeats(pieces, batch_tokens=examples.batch_tokens, seed=seed)
        again = repeat_roles(Vocabulary(pieces, "dec-self"), model.sites, once)
        observe(model, repeats, [again], execute=execute, progress=progress)
        counts += again.counts
        notes.append(f"induction: {len(repeats)} sequences of {once} random tokens, said twice")
    rare = any(note.startswith("rare-token") for note in notes)
    for one in counts:
        if one.details and not one.queries.any() and not (rare and one.role == "rare-token"):
            notes.append(f"{one.role} of {one.sites.kinds[0]}: no token of the data can show it")
    return counts, notes


def _of_kind(roles: Collection[str], kind: Kind) -> list[str]:
    return [role for role in roles if role != "previous-token" or kind == "dec-self"]


def _choose_rare(vocabulary: Vocabulary, request: RoleRequest, several: bool) -> list[str]:
    """Decide which token types are rare, and say what is odd about it."""
    if request.frequencies is not None:
        numbers = vocabulary.pieces.numbers(list(request.frequencies), vocabulary.kind)
        counts = np.zeros(len(vocabulary.counts))
        found = 0
        for number, count in zip(numbers, request.frequencies.values(), strict=True):
            if number >= 0:
                counts[number] = count
                found += 1
        if not found:
            raise HeadtoolError(
                f"no token of `frequencies` is in the vocabulary of {vocabulary.pieces.model.spec};"
                " write tokens as the model's own vocabulary does"
            )
        vocabulary.replace_counts(counts)
    types = int((vocabulary.counts > 0).sum())
    vocabulary.set_common(request.common)
    if types > request.common:
        return []
    place = f" of {vocabulary.kind}" if several else ""
    return [
        f"rare-token{place}: there are {types} types of tokens, and none is outside the "
        f"{request.common} most frequent; `common` chooses another number"
    ]
