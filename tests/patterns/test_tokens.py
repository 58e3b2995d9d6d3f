"""Token roles: planted attention with exact counts, and literal loops over random attention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from headtool.data.dataset import TextData
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Kind, Sites
from headtool.models.examples import Batch, Examples, Queries, Row
from headtool.models.pieces import Cut, Pieces
from headtool.patterns.tokens import (
    OFFSETS,
    TokenRoles,
    Vocabulary,
    random_repeats,
    repeat_roles,
    token_roles,
)
from headtool.results.role_counts import RoleCounts

# Token ids: padding, first token, end of sequence, two punctuation marks, words.
PAD, FIRST, END, COMMA, STOP, WORD = range(6)
SIZE = 30
NAMES = ("positional", "previous-token", "rare-token", "punctuation", "separator", "first-token")


class FakeModel:
    """Batches of given rows."""

    spec = "fake"

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def collate(self, examples: Examples, index: np.ndarray) -> Batch:
        rows = [examples.rows[i]["ids"] for i in index]
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])
        queries = Queries(ids != PAD, ids == END, ids <= END)
        return Batch(index, {"ids": ids}, ids, {self.kind: queries})


class FakePieces(Pieces):
    """A vocabulary of thirty tokens."""

    max_length = 70
    wordwise = False
    unknown = -1
    prefix = (FIRST,)

    def __init__(self, kind: Kind) -> None:
        self.model = FakeModel(kind)  # type: ignore[assignment]

    def ids(self, batch: Batch, kind: Kind) -> Tensor:
        return batch.inputs["ids"]

    def special(self, kind: Kind) -> list[int]:
        return [PAD, FIRST, END]

    def surface(self, token: int, kind: Kind) -> str:
        return {COMMA: ",", STOP: "."}.get(token, "word")

    def size(self, kind: Kind) -> int:
        return SIZE

    def numbers(self, symbols: Sequence[str], kind: Kind) -> list[int]:
        raise NotImplementedError

    def row(self, ids: Sequence[int]) -> Row:
        return {"ids": list(ids)}

    def cut(self, text: str) -> Cut | None:
        raise NotImplementedError


def examples_of(rows: Sequence[Sequence[int]], batch_tokens: int = 10_000) -> Examples:
    data = TextData("rows", "text", {"text": ("",) * len(rows)})
    lengths = np.array([len(row) for row in rows])
    return Examples(data, tuple({"ids": list(row)} for row in rows), lengths, batch_tokens)


def sites_of(kind: Kind, heads: int) -> Sites:
    return Sites((AttentionSite(kind, 0, heads, heads, 2, "out"),))


def run(
    statistic: TokenRoles, pieces: FakePieces, examples: Examples, attention: dict[int, Tensor]
) -> dict[str, RoleCounts]:
    """Feed attention [H, T, T] per example through the statistic, batch by batch."""
    site = statistic.sites[0]
    for index in examples.batches():
        batch = pieces.model.collate(examples, index)
        width = batch.inputs["ids"].shape[1]
        maps = torch.zeros(len(index), site.n_heads, width, width, dtype=torch.float64)
        for row, i in enumerate(index.tolist()):
            length = attention[i].shape[-1]
            maps[row, :, :length, :length] = attention[i]
        statistic.add(site, index, statistic.summarise(site, maps, torch.empty(0), batch))
    return {counts.role: counts for counts in statistic.counts}


def counted(
    kind: Kind,
    rows: Sequence[Sequence[int]],
    attention: dict[int, Tensor],
    *,
    common: int = 0,
    batch_tokens: int = 10_000,
) -> dict[str, RoleCounts]:
    pieces = FakePieces(kind)
    examples = examples_of(rows, batch_tokens)
    vocabulary = Vocabulary(pieces, kind)
    vocabulary.count(examples)
    vocabulary.set_common(common)
    heads = len(attention[0])
    return run(token_roles(vocabulary, sites_of(kind, heads), NAMES), pieces, examples, attention)


def pointing(length: int, targets: Sequence[int]) -> Tensor:
    """Attention [1, T, T] that lies on one key per query."""
    return torch.eye(length, dtype=torch.float64)[torch.tensor(targets)][None]


# -- planted ------------------------------------------------------------------------------------


def test_a_head_on_the_next_token_is_positional_with_every_query() -> None:
    row = [FIRST, 5, 6, 7, 8, END]
    found = counted("enc-self", [row], {0: pointing(6, [1, 2, 3, 4, 5, 5])})
    counts = found["positional"]
    best = counts.hits[0].argmax()
    assert counts.details[best] == "+1"
    # Words 5, 6 and 7 have a word after them; 8 does not, and its end of sequence is no key: of
    # the others, all with no weight, the leftmost counts.
    assert (counts.hits[0, best], counts.queries[best]) == (3, 3)
    assert counts.hits[0, counts.details.index("-3")] == 1
    assert counts.hits[0].sum() == 4
    assert counts.expected[best] == pytest.approx(3 / 4)
    assert found["separator"].hits[0, 0] == 1
    assert found["separator"].queries[0] == 4


def test_decoders_see_no_key_after_the_query() -> None:
    row = [FIRST, 5, 6, 7]
    found = counted("dec-self", [row], {0: pointing(4, [0, 1, 1, 2])})
    previous = found["previous-token"]
    # The query 5 has one key only, itself, and does not count.
    assert (previous.hits[0, 0], previous.queries[0]) == (2, 2)
    assert previous.expected[0] == pytest.approx(1 / 2 + 1 / 3)
    positional = found["positional"]
    assert positional.queries[positional.details.index("+1")] == 0
    assert found["separator"].queries[0] == 0
    first = found["first-token"]
    assert (first.hits[0, 0], first.queries[0]) == (0, 3)


def test_the_rarest_token_counts_only_outside_the_most_frequent_types() -> None:
    rows = [[5, 5, 5, 6, 6, 7], [5, 6, 5, 6, 5, 6]]
    attention = {0: pointing(6, [5] * 6), 1: pointing(6, [1] * 6)}
    # Counts: 5 six times, 6 five times, 7 once.
    alone = counted("enc-self", rows, attention, common=2)["rare-token"]
    assert (alone.hits[0, 0], alone.queries[0], alone.sentences[0]) == (6, 6, 1)
    assert alone.expected[0] == pytest.approx(1)
    both = counted("enc-self", rows, attention, common=1)["rare-token"]
    assert (both.hits[0, 0], both.queries[0], both.sentences[0]) == (12, 12, 2)
    none = counted("enc-self", rows, attention, common=3)["rare-token"]
    assert none.queries[0] == 0
    everything = counted("enc-self", rows, attention, common=0)["rare-token"]
    assert everything.queries[0] == 12


def test_types_tied_with_the_last_frequent_one_are_frequent() -> None:
    pieces = FakePieces("enc-self")
    vocabulary = Vocabulary(pieces, "enc-self")
    vocabulary.count(examples_of([[FIRST, 5, 5, 6, 7, 8, END]]))
    assert vocabulary.counts[[FIRST, END]].tolist() == [0, 0]
    assert vocabulary.set_common(2) == 4
    assert vocabulary.common == 1
    assert vocabulary.set_common(500) == 4
    assert vocabulary.common == 0


def test_punctuation_and_the_first_token_are_told_apart() -> None:
    row = [FIRST, 5, COMMA, 6, STOP, END]
    found = counted("enc-self", [row], {0: pointing(6, [0, 2, 4, 0, 0, 0])})
    assert found["punctuation"].hits[0, 0] == 2
    assert found["punctuation"].queries[0] == 4
    assert found["punctuation"].expected[0] == pytest.approx(4 * 2 / 6)
    assert found["first-token"].hits[0, 0] == 2


def test_of_equal_weights_the_leftmost_counts() -> None:
    row = [FIRST, 5, 6, 7, END]
    found = counted("enc-self", [row], {0: torch.full((1, 5, 5), 0.2, dtype=torch.float64)})
    assert found["first-token"].hits[0, 0] == 3
    positional = found["positional"]
    hits = {d: h for d, h in zip(positional.details, positional.hits[0], strict=True) if h}
    assert hits == {"+0": 1, "-1": 1, "-2": 1}


def test_a_head_that_repeats_what_followed_is_an_induction_head() -> None:
    pieces = FakePieces("dec-self")
    examples, once = random_repeats(pieces, batch_tokens=500, seed=1)
    assert (len(examples), once) == (64, 32)
    for row in examples.rows:
        ids = row["ids"]
        assert ids[0] == FIRST
        assert ids[1 : once + 1] == ids[once + 1 :]
        assert min(ids[1:]) > END
    assert examples.rows != random_repeats(pieces, batch_tokens=500, seed=2)[0].rows
    length = 1 + 2 * once
    induction = pointing(length, [max(t - once + 1, 0) for t in range(length)])
    duplicate = pointing(length, [max(t - once, 0) for t in range(length)])
    statistic = repeat_roles(Vocabulary(pieces, "dec-self"), sites_of("dec-self", 2), once)
    maps = dict.fromkeys(range(64), torch.cat([induction, duplicate]))
    (counts,) = run(statistic, pieces, examples, maps).values()
    assert counts.role == "induction"
    assert counts.queries[0] == 64 * once
    assert counts.hits[:, 0].tolist() == [64 * once, 0]
    assert counts.expected[0] == pytest.approx(64 * sum(1 / (once + k) for k in range(1, once + 1)))


def test_models_of_few_tokens_are_too_short_for_induction() -> None:
    pieces = FakePieces("dec-self")
    pieces.max_length = 16
    with pytest.raises(HeadtoolError, match="takes 16 tokens, too few to see induction"):
        random_repeats(pieces, batch_tokens=500, seed=0)


# -- random -------------------------------------------------------------------------------------


def literal(
    kind: Kind, rows: Sequence[Sequence[int]], attention: dict[int, Tensor], common: int
) -> dict[tuple[str, str], dict[str, np.ndarray | float]]:
    """Sums over sentences by loops: n, [n > 0], e, n^2, h, h^2, h n and (h - e)^2."""
    heads = len(attention[0])
    ordinary = [[t > END for t in row] for row in rows]
    counts: dict[int, int] = {}
    for row in rows:
        for token in row:
            if token > END:
                counts[token] = counts.get(token, 0) + 1
    ranked = sorted(counts.values(), reverse=True)
    limit = np.inf if common == 0 else ranked[common - 1] if common <= len(ranked) else 0
    found: dict[tuple[str, str], dict[str, np.ndarray | float]] = {}
    details = [("positional", f"{o:+d}") for o in OFFSETS]
    details += [(name, "") for name in NAMES if name != "positional"]
    for role, detail in details:
        sums = {"n": 0.0, "g": 0, "e": 0.0, "nn": 0.0}
        by_head = {name: np.zeros(heads) for name in ("h", "hh", "hn", "dd")}
        for number, row in enumerate(rows):
            fewest = min((counts[t] for t in row if t > END), default=0)
            n, e, h = 0, 0.0, np.zeros(heads)
            for query in range(len(row)):
                if not ordinary[number][query]:
                    continue
                keys = range(query + 1) if kind == "dec-self" else range(len(row))
                over_all = role in ("punctuation", "separator", "first-token")
                keys = [k for k in keys if over_all or ordinary[number][k]]
                if role == "positional":
                    targets = [k for k in keys if k - query == int(detail)]
                elif role == "previous-token":
                    targets = [k for k in keys if k == query - 1]
                elif role == "rare-token":
                    targets = [k for k in keys if counts[row[k]] == fewest and fewest < limit]
                elif role == "punctuation":
                    targets = [k for k in keys if row[k] in (COMMA, STOP)]
                elif role == "separator":
                    targets = [k for k in keys if row[k] == END]
                else:
                    targets = [k for k in keys if k == 0]
                if len(keys) < 2 or not targets:
                    continue
                n += 1
                e += len(targets) / len(keys)
                for head in range(heads):
                    weights = [float(attention[number][head, query, k]) for k in keys]
                    h[head] += keys[weights.index(max(weights))] in targets
            sums["n"] += n
            sums["g"] += n > 0
            sums["e"] += e
            sums["nn"] += n * n
            for name, value in (("h", h), ("hh", h * h), ("hn", h * n), ("dd", (h - e) ** 2)):
                by_head[name] += value
        found[role, detail] = {**sums, **by_head}
    return found


@pytest.mark.parametrize("kind", ["enc-self", "dec-self"])
@pytest.mark.parametrize("seed", range(3))
def test_counts_equal_literal_loops(kind: Kind, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [[FIRST, *rng.integers(COMMA, 12, rng.integers(1, 14)).tolist(), END] for _ in range(9)]
    rows[3] = [FIRST, 6, 7, END, 8, STOP, END]  # a pair of texts
    attention = {}
    for number, row in enumerate(rows):
        # Few values, so that there are ties.
        weights = torch.from_numpy(rng.integers(0, 6, (3, len(row), len(row))) / 5.0)
        attention[number] = weights.tril() if kind == "dec-self" else weights
    wanted = literal(kind, rows, attention, common=4)
    for batch_tokens in (10_000, 20):
        found = counted(kind, rows, attention, common=4, batch_tokens=batch_tokens)
        for (role, detail), sums in wanted.items():
            counts = found[role]
            place = counts.details.index(detail)
            for name, value in (
                ("n", counts.queries[place]),
                ("g", counts.sentences[place]),
                ("e", counts.expected[place]),
                ("nn", counts.queries_squared[place]),
                ("h", counts.hits[:, place]),
                ("hh", counts.hits_squared[:, place]),
                ("hn", counts.hits_queries[:, place]),
                ("dd", counts.excess_squared[:, place]),
            ):
                np.testing.assert_allclose(
                    value, sums[name], atol=1e-9, err_msg=f"{role} {detail} {name}"
                )
    assert wanted["positional", "-1"]["n"]
    assert wanted["rare-token", ""]["n"]
