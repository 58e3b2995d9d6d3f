"""Columns and tables: building frames, and checking what was read."""

from __future__ import annotations

import pandas as pd
import pytest

from headtool.errors import HeadtoolError
from headtool.schema import GROUPS, TABLES, find_table
from headtool.schema.columns import Table, boolean, integer, number, string

TABLE = Table(
    "points",
    "a point",
    "nobody",
    (
        string("name", "its name"),
        integer("count", "points", "how many"),
        number("height", "metres", "how high"),
        boolean("open", "whether it is open", optional=True, missing=True),
        integer("rank", "", "added afterwards", later=True),
    ),
)
FRAME = pd.DataFrame({"name": ["a"], "count": [1], "height": [0.5], "rank": [1]})


def test_a_frame_has_its_types_with_and_without_rows() -> None:
    filled = TABLE.frame([("a", 1, 2, 3)])
    assert filled.dtypes.map(str).to_dict() == {
        "name": str(pd.Series(dtype="str").dtype),
        "count": "int64",
        "height": "float64",
        "rank": "int64",
    }
    for empty in (TABLE.empty(), TABLE.frame([]), TABLE.joined([]), TABLE.joined([filled[:0]])):
        pd.testing.assert_frame_equal(empty, filled[:0], check_index_type=False)
    assert list(TABLE.empty("open").columns) == ["name", "count", "height", "open", "rank"]
    assert TABLE.names == ("name", "count", "height", "rank")


def test_rows_may_be_mappings_in_any_order() -> None:
    rows = [{"height": 2, "rank": 3, "count": 1, "name": "a"}]
    pd.testing.assert_frame_equal(TABLE.frame(rows), TABLE.frame([("a", 1, 2, 3)]))


def test_joined_tables_lose_what_is_no_column() -> None:
    joined = TABLE.joined([FRAME.assign(other=1), FRAME])
    assert tuple(joined.columns) == TABLE.names
    assert len(joined) == 2


def test_whole_numbers_are_read_as_numbers() -> None:
    read = TABLE.checked(FRAME.assign(height=[3]), "x")
    assert read["height"].tolist() == [3.0]
    assert read["height"].dtype == "float64"


def test_a_column_that_came_later_reads_as_not_computed() -> None:
    read = TABLE.checked(FRAME.drop(columns="rank"), "x")
    assert read["rank"].isna().all()
    assert read["rank"].dtype == "Int64"
    # So it is read again from a run that such a table was joined with.
    pd.testing.assert_frame_equal(TABLE.checked(read, "x"), read)
    assert TABLE.checked(FRAME, "x")["rank"].dtype == "int64"


def test_empty_columns_without_a_type_get_theirs() -> None:
    read = TABLE.checked(pd.DataFrame(columns=list(TABLE.names)), "x")
    pd.testing.assert_frame_equal(read, TABLE.empty(), check_index_type=False)


@pytest.mark.parametrize(
    ("frame", "parts"),
    [
        (FRAME.drop(columns="count"), ["no column 'count'"]),
        (FRAME.assign(more=1), ["a column 'more'"]),
        (FRAME.assign(name=[1]), ["'name'", "of text", "int64"]),
        (FRAME.assign(name=[None]), ["'name'", "of text"]),
        (FRAME.assign(name=pd.Series([b"x"], dtype=object)), ["'name'", "of text"]),
        (FRAME.assign(count=[0.5]), ["'count'", "whole numbers", "float64"]),
        (FRAME.assign(count=pd.Series([None], dtype="Int64")), ["'count'", "whole numbers"]),
        (FRAME.assign(height=["high"]), ["'height'", "of numbers"]),
        (FRAME.assign(height=[True]), ["'height'", "of numbers"]),
        (FRAME.assign(open=["yes"]), ["'open'", "truth values"]),
        (FRAME.assign(open=[1]), ["'open'", "truth values"]),
    ],
)
def test_other_tables_are_refused_in_one_line(frame: pd.DataFrame, parts: list[str]) -> None:
    with pytest.raises(HeadtoolError) as caught:
        TABLE.checked(frame, "run/points.parquet")
    message = str(caught.value)
    assert message.startswith("run/points.parquet ")
    assert "\n" not in message
    assert message.endswith("make the run again with the command in its manifest")
    for part in parts:
        assert part in message


def test_a_missing_truth_value_is_allowed_where_the_table_says_so() -> None:
    frame = pd.concat([FRAME.assign(open=[True]), FRAME], ignore_index=True)
    read = TABLE.checked(frame, "x")
    assert read["open"].dtype == "boolean"
    assert read["open"].tolist() == [True, pd.NA]


def test_further_columns_are_allowed_where_the_table_says_so() -> None:
    with pytest.raises(HeadtoolError, match="'mine'"):
        TABLES["ablation"].checked(TABLES["ablation"].empty().assign(mine=1), "x")
    read = TABLES["scores"].checked(TABLES["scores"].empty().assign(mine=1), "x")
    assert "mine" in read.columns


def test_every_table_is_described_once_and_in_full() -> None:
    tables = [table for group in GROUPS.values() for table in group]
    assert len(tables) == len(TABLES)
    for table in tables:
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names), table.name
        assert table.row
        assert table.where
        for column in table.columns:
            assert column.meaning, (table.name, column.name)
            assert "|" not in column.meaning + column.unit, (table.name, column.name)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("scores", "scores"),
        ("outcomes.2", "outcomes"),
        ("ablation.outcomes", "outcomes"),
        ("ablation.references", "references"),
        ("gates.sweep", "gates.sweep"),
        ("outcomes.x", None),
        ("theirs.table", None),
    ],
)
def test_names_in_runs(name: str, found: str | None) -> None:
    table = find_table(name)
    assert (table.name if table else None) == found
