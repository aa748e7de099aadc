"""Batches cut into tasks: every record once, equal shares."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.ids import TopicIdPartition
from sharegroup.records.key_hashes import HASH_MAX
from sharegroup.spark.slices import Acquired, Slice
from sharegroup.spark.source.offsets import BatchOffset
from sharegroup.spark.source.planning import (
    NEAR_PART,
    NEAR_RECORDS,
    RECORDS_PER_TASK_MIN,
    key_parts,
    plan,
    plan_by_key,
)
from tests.spark.test_ranges import counts, disjoint

TOPIC = UUID(int=1)


def batch(ranges: dict[int, list]) -> BatchOffset:
    return BatchOffset(
        sequence=1,
        topics={TOPIC: "t"},
        ranges={
            TopicIdPartition(TOPIC, p): tuple(Acquired(*one) for one in r)
            for p, r in ranges.items()
            if r
        },
    )


def records(task: tuple[Slice, ...]) -> list[tuple[int, int, int]]:
    """(partition, offset, delivery count) of all that a task reads."""
    return [
        (s.partition, offset, count)
        for s in task
        for offset, count in counts(list(s.ranges)).items()
    ]


@given(
    st.dictionaries(st.integers(0, 4), disjoint(), max_size=5),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 40),
)
def test_every_record_is_read_once_and_tasks_are_even(
    ranges: dict[int, list], at_least: int | None, most: int | None
) -> None:
    offset = batch(ranges)
    tasks = plan(offset, min_partitions=at_least, max_records_per_partition=most)
    read = [record for task in tasks for record in records(task)]
    expected = [(p, o, c) for p, r in ranges.items() for o, c in counts(r).items()]
    assert sorted(read) == sorted(expected)
    sizes = [len(records(task)) for task in tasks]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert most is None or all(size <= most for size in sizes)
    assert len(tasks) >= min(at_least or 0, offset.records)


def test_small_batches_are_packed_and_large_ones_have_a_task_per_partition() -> None:
    small = batch({p: [(0, 9, 1)] for p in range(4)})
    large = batch({p: [(0, 99_999, 1)] for p in range(4)})
    assert len(plan(small, min_partitions=None, max_records_per_partition=None)) == 1
    assert len(plan(large, min_partitions=None, max_records_per_partition=None)) == 4


def test_one_partition_feeds_many_tasks() -> None:
    tasks = plan(batch({0: [(0, 99, 1)]}), min_partitions=8, max_records_per_partition=None)
    assert [len(records(task)) for task in tasks] == [12, 13, 12, 13, 12, 13, 12, 13]


def test_a_task_ends_with_a_partition_that_ends_nearby() -> None:
    near = batch({0: [(0, 989, 1)], 1: [(0, 1_009, 1)], 2: [(0, 1_004, 1)], 3: [(0, 994, 1)]})
    tasks = plan(near, min_partitions=None, max_records_per_partition=None)
    assert [[one.partition for one in task] for task in tasks] == [[0], [1], [2], [3]]
    asked = plan(near, min_partitions=4, max_records_per_partition=None)
    assert [len(records(task)) for task in asked] == [1_000] * 4


@given(st.lists(st.integers(1, 4_000), min_size=1, max_size=6))
def test_tasks_are_about_even(sizes: list[int]) -> None:
    offset = batch({p: [(0, size - 1, 1)] for p, size in enumerate(sizes)})
    tasks = plan(offset, min_partitions=None, max_records_per_partition=None)
    read = [record for task in tasks for record in records(task)]
    assert sorted(read) == [(p, o, 1) for p, size in enumerate(sizes) for o in range(size)]
    even = sum(sizes) / len(tasks)
    reach = min(NEAR_RECORDS, even / NEAR_PART)
    assert len(tasks) == min(len(sizes), -(-sum(sizes) // RECORDS_PER_TASK_MIN))
    assert all(abs(len(records(task)) - even) <= 2 * reach + 1 for task in tasks)


@given(st.integers(2, 200))
def test_parts_of_the_hash_space_are_disjoint_complete_and_equal(count: int) -> None:
    parts = [part for part in key_parts(count) if part]
    assert len(parts) == count
    assert parts[0][0] == 0
    assert parts[-1][1] == HASH_MAX
    assert all(after[0] == before[1] + 1 for before, after in pairwise(parts))
    sizes = [last - first + 1 for first, last in parts]
    assert max(sizes) - min(sizes) <= 1


def test_one_part_is_all_keys() -> None:
    assert key_parts(1) == [None]


@given(
    st.dictionaries(st.integers(0, 4), disjoint(), max_size=5),
    st.none() | st.integers(1, 40) | st.just(2**31 - 1),
)
def test_by_key_each_partition_is_read_by_tasks_that_have_all_its_keys(
    ranges: dict[int, list], at_least: int | None
) -> None:
    offset = batch(ranges)
    tasks = plan_by_key(offset, min_partitions=at_least)
    assert len(tasks) >= min(at_least or 1, offset.records)
    assert all(tasks)
    found: dict[int, list[Slice]] = {}
    for task in tasks:
        assert len({one.partition for one in task}) == len(task)
        for one in task:
            found.setdefault(one.partition, []).append(one)
    assert set(found) == {key.partition for key in offset.ranges}
    for partition, slices in found.items():
        key = TopicIdPartition(TOPIC, partition)
        assert {one.ranges for one in slices} == {tuple(sorted(offset.ranges[key]))}
        assert [one.keys for one in slices] == key_parts(len(slices))


def test_by_key_larger_partitions_have_more_tasks_and_small_ones_share_one() -> None:
    offset = batch({0: [(0, 7_999, 1)], 1: [(0, 999, 1)], 2: [(0, 499, 1)], 3: [(0, 499, 1)]})
    alone = plan_by_key(offset, min_partitions=None)
    assert [[one.partition for one in task] for task in alone] == [[0], [1], [2, 3]]
    ten = plan_by_key(offset, min_partitions=10)
    assert [[one.partition for one in task] for task in ten] == [*[[0]] * 8, [1], [2, 3]]
    assert [one.keys for (one,) in ten[:8]] == key_parts(8)
