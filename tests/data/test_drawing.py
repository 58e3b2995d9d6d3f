"""Which rows a limit takes: the same for a seed, each row as likely, classes in their shares."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from headtool.data import TextData, load_data
from headtool.data.drawing import drawn_rows
from headtool.errors import HeadtoolError


def labelled(*labels: str) -> TextData:
    texts = tuple(f"text {row}" for row in range(len(labels)))
    return TextData("x.tsv", "classification", {"text_a": texts, "label": labels})


SORTED = labelled(*["a"] * 60, *["b"] * 30, *["c"] * 10)


@pytest.mark.parametrize("seed", range(5))
def test_every_class_has_its_share(seed: int) -> None:
    drawn = SORTED.draw(20, seed=seed)
    assert Counter(drawn.columns["label"]) == {"a": 12, "b": 6, "c": 2}
    odd = Counter(SORTED.draw(7, seed=seed).columns["label"])
    assert odd.total() == 7
    for label, share in (("a", 4.2), ("b", 2.1), ("c", 0.7)):
        assert odd[label] in (int(share), int(share) + 1)


def test_the_order_is_that_of_the_data_and_the_rows_are_known() -> None:
    drawn = SORTED.draw(20)
    assert drawn.rows is not None
    assert list(drawn.rows) == sorted(set(drawn.rows))
    assert drawn.columns["text_a"] == tuple(f"text {row}" for row in drawn.rows)
    assert drawn.take([3, 1]).rows == (drawn.rows[3], drawn.rows[1])
    assert drawn.drawn is not None
    assert drawn.drawn.described() == {
        "limit": 20,
        "limit_order": "seeded",
        "seed": 0,
        "of": 100,
    }
    assert SORTED.draw(100) is SORTED


def test_first_takes_the_first() -> None:
    first = SORTED.draw(20, order="first", seed=4)
    assert first.rows == tuple(range(20))
    assert first.drawn is not None
    assert first.drawn.described()["seed"] is None


@pytest.mark.parametrize("labels", [None, list("aaaaabbbc"), list("abcdefghi")])
def test_every_row_is_as_likely_as_any_other(labels: list[str] | None) -> None:
    draws = [drawn_rows(9, 4, order="seeded", seed=seed, labels=labels) for seed in range(4000)]
    assert {len(set(rows.tolist())) for rows in draws} == {4}
    shares = np.bincount(np.concatenate(draws), minlength=9) / len(draws)
    # Four standard errors of a share of 4/9.
    assert np.abs(shares - 4 / 9).max() < 4 * (4 / 9 * 5 / 9 / 4000) ** 0.5


def test_rows_without_classes_are_spread_over_the_data() -> None:
    rows = drawn_rows(1000, 10, order="seeded", seed=3)
    assert np.diff(rows).max() <= 200
    assert rows[0] < 200
    assert rows[-1] >= 800


def test_seeds_differ_and_processes_do_not() -> None:
    rows = drawn_rows(500, 5, order="seeded", seed=1).tolist()
    assert rows != drawn_rows(500, 5, order="seeded", seed=2).tolist()
    code = (
        "from headtool.data.drawing import drawn_rows;"
        "print(drawn_rows(500, 5, order='seeded', seed=1).tolist())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(rows)


def test_documents_of_a_text_are_drawn_without_the_blank_ones() -> None:
    documents = tuple("" if row % 2 else f"text {row}" for row in range(40))
    data = TextData("wiki", "text", {"text": documents})
    drawn = data.draw(5)
    assert len(drawn) == 5
    assert all(drawn.columns["text"])
    assert data.draw(5, order="first").columns["text"] == documents[:5]
    assert len(TextData("blank", "text", {"text": ("", " ", "")}).draw(2)) == 2


def test_load_data_draws_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "sorted.tsv"
    rows = zip(SORTED.columns["text_a"], SORTED.columns["label"], strict=True)
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    drawn = load_data(str(path), limit=20, seed=2)
    assert drawn.rows == SORTED.draw(20, seed=2).rows
    first = load_data(str(path), limit=2, limit_order="first")
    assert first.columns["text_a"] == ("text 0", "text 1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limit": 3, "limit_order": "last"}, "unknown `limit_order` 'last'"),
        ({"limit_order": "first"}, "`limit_order` first says which rows `limit` takes"),
    ],
)
def test_orders_that_cannot_be(options: dict[str, object], words: str) -> None:
    with pytest.raises(HeadtoolError, match=words):
        load_data("builtin:nli/matched", **options)  # type: ignore[arg-type]
