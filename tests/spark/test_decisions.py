"""Columns of decisions to ranges, against a dictionary with one entry per record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.ids import TopicPartition
from sharegroup.spark.sink.decisions import WORDS, DecisionError, Decisions, decisions_in, merged
from sharegroup.spark.sink.raw_text import NotText

Row = tuple[str, int, int, str, int | None]
rows = st.lists(
    st.tuples(
        st.sampled_from(["orders", "refunds"]),
        st.integers(0, 2),
        st.integers(0, 40),
        st.sampled_from(["accept", "RELEASE", "Reject", "renew"]),
        st.none(),
    ),
    max_size=40,
)


def batch(given: Sequence[Row]) -> pa.RecordBatch:
    topics, partitions, offsets, acks, delays = zip(*given, strict=True) if given else ((),) * 5
    return pa.record_batch(
        {
            "topic": pa.array(topics, pa.string()),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "ack": pa.array(acks, pa.string()),
            "delay_ms": pa.array(delays, pa.int32()),
        }
    )


def naive(given: Sequence[Row]) -> dict[tuple[str, int, int], tuple[int, int]] | None:
    """What is decided about each record; None: two things about one."""
    known: dict[tuple[str, int, int], tuple[int, int]] = {}
    for topic, partition, offset, ack, delay in given:
        decision = WORDS[ack.lower()], delay or 0
        if known.setdefault((topic, partition, offset), decision) != decision:
            return None
    return known


def records(decisions: Decisions) -> dict[tuple[str, int, int], tuple[int, int]]:
    return {
        (where.topic, where.partition, offset): (kind, delay)
        for where, ranges in decisions.lists().items()
        for first, last, kind, delay in ranges
        for offset in range(first, last + 1)
    }


@given(st.lists(rows, max_size=4))
def test_batches_and_tasks_decide_as_one(tasks: list[list[Row]]) -> None:
    every = [row for task in tasks for row in task]
    expected = naive(every)
    if expected is None:
        with pytest.raises(DecisionError, match="decide once about a record"):
            merged([decisions_in(batch(task)) for task in tasks])
        return
    decisions = merged([decisions_in(batch(task)) for task in tasks])
    assert records(decisions) == expected
    assert decisions.records == len(expected)
    for ranges in decisions.lists().values():
        for one, two in pairwise(ranges):
            assert one[1] < two[0]  # ascending, disjoint, and no two that could be one
            assert one[1] + 1 < two[0] or one[2:] != two[2:]


def test_a_million_equal_answers_are_one_range() -> None:
    count = 1_000_000
    given = pa.record_batch(
        {
            "topic": pa.array(["t"]).take(pa.array([0] * count)),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(count)),
            "ack": pa.array([1] * count, pa.int8()),
        }
    )
    assert decisions_in(given).lists() == {TopicPartition("t", 3): [[0, count - 1, 1, 0]]}


def test_a_delay_makes_a_separate_range() -> None:
    given = batch([("t", 0, n, "release", 100 if n == 2 else None) for n in range(4)])
    ranges = decisions_in(given).lists()[TopicPartition("t", 0)]
    assert ranges == [[0, 1, 2, 0], [2, 2, 2, 100], [3, 3, 2, 0]]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (("t", 0, 0, "acept", None), "'acept': write accept, release, reject or renew"),
        (("t", 0, 0, None, None), "ack is null in 1 of 1 rows"),
        ((None, 0, 0, "accept", None), "topic is null"),
        (("t", None, 0, "accept", None), "partition is null"),
        (("t", 0, None, "accept", None), "offset is null"),
        (("t", 0, -1, "accept", None), "below 0"),
        (("t", 0, 0, "accept", 5), "delay_ms goes with release and renew"),
        (("t", 0, 0, "release", -5), "delay_ms is below 0"),
    ],
)
def test_invalid_rows_are_refused(row: Row, sentence: str) -> None:
    with pytest.raises(DecisionError, match=sentence):
        decisions_in(batch([row]))


def test_an_unknown_number_is_refused() -> None:
    given = batch([("t", 0, 0, "accept", None)])
    changed = given.set_column(3, "ack", pa.array([5]))
    with pytest.raises(DecisionError, match="ack is 5: write accept"):
        decisions_in(changed)


def test_a_contradiction_names_the_record_and_both_answers() -> None:
    with pytest.raises(DecisionError, match="t-0 offset 7 is to be both accept and reject"):
        decisions_in(batch([("t", 0, 7, "reject", None), ("t", 0, 7, "accept", None)]))


@pytest.mark.parametrize("name", ["topic", "ack"])
def test_a_word_that_is_no_utf8(name: str) -> None:
    rows = batch([("orders", 0, 1, "accept", None)])
    column = pa.array([b"\xff"]).view(pa.string())
    with pytest.raises(NotText, match=f"the column {name} has b'.xff', which is no UTF-8 text"):
        decisions_in(rows.set_column(rows.schema.get_field_index(name), name, column))
