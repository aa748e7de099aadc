"""Which records a table names, in whatever order and library the rows come."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.arrow.record_places import places_in

Row = tuple[str, int, int]
rows = st.lists(
    st.tuples(st.sampled_from(["a", "b", "ä"]), st.integers(0, 2), st.integers(0, 2**40)),
    max_size=30,
)


def table_of(named: list[Row]) -> pa.Table:
    topics, partitions, offsets = ([row[at] for row in named] for at in range(3))
    return pa.table(
        {
            "offset": pa.array(offsets, pa.int64()),
            "else": pa.nulls(len(named)),
            "partition": pa.array(partitions, pa.int32()),
            "topic": pa.array(topics, pa.string()),
        }
    )


def named_by(table: Any) -> list[Row]:
    """What the places name, put back into the order of the rows."""
    found: dict[int, Row] = {}
    for one in places_in(table):
        assert one.offsets.tolist() == sorted(one.offsets.tolist())
        positions = range(len(pa.table(table)))
        at = positions[one.rows] if isinstance(one.rows, slice) else one.rows.tolist()
        found |= {
            row: (one.topic, one.partition, offset)
            for row, offset in zip(at, one.offsets.tolist(), strict=True)
        }
    return [found[row] for row in range(len(found))]


@given(rows)
def test_every_row_is_named_once(named: list[Row]) -> None:
    assert named_by(table_of(named)) == named
    assert named_by(table_of(sorted(named))) == sorted(named)


@given(rows)
def test_chunks_frames_and_dictionaries_name_the_same(named: list[Row]) -> None:
    table = table_of(named)
    assert named_by(pa.concat_tables([table.slice(0, 3), table.slice(3)])) == named
    assert named_by(table.to_pandas()) == named
    assert named_by(pl.from_arrow(table)) == named
    encoded = table.set_column(3, "topic", table["topic"].combine_chunks().dictionary_encode())
    assert named_by(encoded) == named


def test_rows_of_one_partition_are_one_slice() -> None:
    [one] = places_in(table_of([("a", 1, offset) for offset in range(5, 100)]))
    assert (one.topic, one.partition, one.rows) == ("a", 1, slice(0, 95))


@pytest.mark.parametrize(
    ("table", "named"),
    [
        (pa.table({"topic": ["a"], "offset": [1]}), "there is no column partition"),
        (pa.table({"topic": ["a"], "partition": [1], "offset": [None]}), "offset is null in 1"),
        (pa.table({"topic": ["a"], "partition": ["b"], "offset": [1]}), "Failed to parse"),
    ],
)
def test_a_table_without_places_is_refused(table: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        places_in(table)


@pytest.mark.parametrize("what", [7, "accept", [1, 2], None])
def test_other_types_are_refused(what: object) -> None:
    with pytest.raises(TypeError, match="has no records: pass records, an Arrow batch"):
        places_in(what)


def test_a_frame_of_pandas_may_be_filtered() -> None:
    frame = pd.DataFrame({"topic": ["a", "a"], "partition": [0, 0], "offset": [3, 4]})
    assert named_by(frame[frame.offset > 3].reset_index(drop=True)) == [("a", 0, 4)]
