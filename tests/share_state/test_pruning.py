"""What the log may lose, and snapshots for their age."""

from __future__ import annotations

from uuid import UUID

import pytest

from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.share_state import StateBatch
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import ShareSnapshot
from tests.share_state.states import BATCH, KEY, OTHER, initialized, write

DELETED = True
Told = tuple[int, int, bool, int]
"""(number of the key, offset of its snapshot or tombstone, DELETED, what may go then)"""


@pytest.mark.parametrize(
    "told",
    [
        pytest.param([(1, 0, False, 0), (1, 10, False, 10), (2, 15, False, 10)], id="two keys"),
        pytest.param([(1, 10, False, 10)], id="one"),
        pytest.param([(1, 10, False, 10), (4, 11, False, 10), (2, 13, False, 10)], id="three"),
        pytest.param([(1, 10, False, 10), (1, 11, False, 11), (1, 15, False, 15)], id="again"),
        pytest.param(
            [
                (1, 10, False, 10),
                (2, 11, False, 10),
                (3, 15, False, 10),
                (2, 16, False, 10),
                (1, 17, False, 15),
            ],
            id="several again",
        ),
        pytest.param(
            [
                (1, 10, False, 10),
                (2, 11, False, 10),
                (3, 15, DELETED, 10),
                (2, 16, False, 10),
                (1, 17, False, 16),
            ],
            id="several and one deleted",
        ),
        pytest.param(
            [
                (1, 10, False, 10),
                (2, 11, False, 10),
                (3, 15, False, 10),
                (3, 18, False, 10),
                (2, 20, False, 10),
                (1, 25, False, 18),
            ],
            id="in reverse order",
        ),
        pytest.param(
            [
                (1, 10, False, 10),
                (2, 11, False, 10),
                (3, 15, False, 10),
                (3, 18, DELETED, 10),
                (2, 20, DELETED, 10),
                (1, 25, False, 25),
            ],
            id="in reverse order and deleted",
        ),
        pytest.param(
            [
                (1, 10, False, 10),
                (2, 11, False, 10),
                (3, 15, False, 10),
                (2, 18, False, 10),
                (3, 20, False, 10),
                (2, 27, False, 10),
                (3, 28, False, 10),
                (1, 30, False, 27),
            ],
            id="one seldom written",
        ),
        pytest.param(
            [
                (1, 10, False, 10),
                (2, 11, False, 10),
                (3, 20, DELETED, 10),
                (2, 27, DELETED, 10),
                (1, 30, False, 30),
            ],
            id="one seldom written, the others deleted",
        ),
    ],
)
def test_the_offset_up_to_which_the_log_may_be_pruned(told: list[Told]) -> None:
    coordinator = ShareCoordinator()
    for epoch, (number, offset, deleted, expected) in enumerate(told):
        key = SharePartitionKey("g", UUID(int=1), number)
        if deleted:
            coordinator.delete(key)
        else:
            (record,) = coordinator.initialize(key, epoch, 0, 1_000)
            coordinator.appended(*record, offset)
        assert coordinator.lowest_needed(1_000) == expected


def test_without_keys_the_whole_log_may_be_pruned() -> None:
    coordinator = ShareCoordinator()
    for offset, number in ((10, 1), (11, 4), (13, 2)):
        key = SharePartitionKey("g", UUID(int=1), number)
        (record,) = coordinator.initialize(key, 0, 0, 1_000)
        coordinator.appended(*record, offset)
        coordinator.delete(key)
        assert coordinator.lowest_needed(offset + 2) == offset + 2, "the tombstone too"


def test_the_oldest_snapshot_in_use_bounds_pruning() -> None:
    coordinator = ShareCoordinator()
    assert coordinator.lowest_needed(7) == 7, "without a key nothing is needed"
    for offset, key in enumerate((KEY, OTHER)):
        (record,) = coordinator.initialize(key, 5, 0, 1_000)
        assert coordinator.lowest_needed(9) is None, "not known until it is durable"
        coordinator.appended(*record, offset)
        assert coordinator.lowest_needed(9) == 0
    coordinator.appended(KEY, write(coordinator, BATCH).value, 2)
    assert coordinator.lowest_needed(9) == 0, "an update replaces nothing"
    due = coordinator.cold_snapshots([KEY, OTHER], 100_000)
    assert coordinator.lowest_needed(9) == 0, "not before they are durable"
    for offset, keyed in enumerate(due, start=3):
        coordinator.appended(*keyed, offset)
    assert coordinator.lowest_needed(9) == 3
    coordinator.delete(KEY)
    assert coordinator.lowest_needed(9) == 4


def test_an_older_snapshot_moves_nothing_back() -> None:
    coordinator = ShareCoordinator()
    (first,) = coordinator.initialize(KEY, 5, 0, 1_000)
    (second,) = coordinator.initialize(KEY, 6, 0, 1_000)
    coordinator.appended(*second, 8)
    coordinator.appended(*first, 7)
    assert coordinator.lowest_needed(9) == 8


def test_cold_keys_get_a_snapshot_that_keeps_its_creation_time() -> None:
    coordinator = initialized()
    write(coordinator, BATCH)
    assert coordinator.cold_keys(1_040, 50) == []
    assert coordinator.cold_keys(1_050, 50) == [KEY]
    (record,) = coordinator.cold_snapshots([KEY, OTHER], 1_050)
    assert isinstance(record.value, ShareSnapshot)
    assert record.value.snapshot_epoch == 1
    assert (record.value.create_timestamp_ms, record.value.write_timestamp_ms) == (1_000, 1_050)
    assert record.value.state_batches == (BATCH,)
    assert coordinator.cold_keys(9_000, 50) == [], "all are cold: nothing moved since"
    write(coordinator, StateBatch(30, 39, 2, 1), now_ms=9_000)
    assert coordinator.cold_keys(9_000, 50) == [], "updates are no snapshots"
    coordinator.initialize(OTHER, 5, 0, 9_000)
    assert coordinator.cold_keys(9_000, 50) == [KEY]
    assert coordinator.cold_keys(9_050, 50) == [KEY, OTHER]
    later = coordinator.cold_snapshots([KEY, OTHER], 9_050)
    assert [key for key, _ in later] == [KEY, OTHER]
    assert coordinator.cold_keys(99_000, 50) == [], "not for ever"


def test_keys_of_topics_that_are_gone() -> None:
    coordinator = initialized()
    coordinator.initialize(SharePartitionKey("h", UUID(int=2), 0), 0, 0, 1_000)
    coordinator.initialize(SharePartitionKey("i", UUID(int=1), 7), 0, 0, 1_000)
    assert coordinator.keys_of_other_topics(lambda _: True) == []
    assert coordinator.keys_of_other_topics(UUID(int=2).__eq__) == [
        KEY,
        SharePartitionKey("i", UUID(int=1), 7),
    ]
