"""Each rule of delivery once, readable; combinations are the work of test_against_naive."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.model.share_state import StateBatch
from sharegroup.share.archived import Reason
from sharegroup.share.ranges import AcquiredRange
from sharegroup.share.record_state import AckType
from sharegroup.share.state_changes import StateChange
from tests.share.leader import ACCEPT, REJECT, RELEASE, SETTINGS, Leader

# -- life


def test_a_new_partition() -> None:
    partition = Leader(7).partition
    assert (partition.start_offset, partition.end_offset, partition.in_flight_count) == (7, 7, 0)
    assert (partition.state_epoch, partition.leader_epoch) == (3, 4)
    assert partition.next_fetch_offset() == 7
    assert partition.next_deadline_ms() is None
    assert partition.can_acquire(SETTINGS)


def test_loading_keeps_counts_and_makes_gaps_available() -> None:
    leader = Leader(5, (StateBatch(7, 8, 2, 1), StateBatch(9, 9, 0, 3)))
    assert leader.partition.next_fetch_offset() == 5
    assert leader.partition.delivery_complete_count == 2
    assert leader.acquire((5, 9)) == [AcquiredRange(5, 6, 1)]  # 9 is throttled: not together


# -- acknowledge


def test_accepting_the_head_writes_only_the_new_start() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    change = leader.acknowledge((0, 9, ACCEPT))
    assert change == StateChange(start_offset=10, delivery_complete_count=0, batches=())
    assert leader.partition.next_deadline_ms() is None


def test_each_type_does_what_it_says() -> None:
    leader = Leader()
    leader.acquire((0, 5))
    change = leader.acknowledge((1, 4, [0, 1, 2, 3]))
    assert change == StateChange(
        start_offset=0,
        delivery_complete_count=3,
        batches=(
            StateBatch(1, 1, 4, 1),
            StateBatch(2, 2, 2, 1),
            StateBatch(3, 3, 0, 1),
            StateBatch(4, 4, 4, 1),
        ),
        made_available=1,
    )
    assert leader.shape() == [
        (0, 0, "acquired", 1),
        (1, 1, "archived", 0),
        (2, 2, "acknowledged", 0),
        (3, 3, "available", 1),
        (4, 4, "archived", 0),
        (5, 5, "acquired", 1),
    ]


def test_release_at_the_limit_archives() -> None:
    leader = Leader()
    leader.settings = replace(SETTINGS, delivery_count_limit=1)
    leader.acquire((0, 1))
    change = leader.acknowledge((1, 1, RELEASE))
    assert change is not None
    assert change.batches == (StateBatch(1, 1, 4, 1),)
    assert change.made_available == 0


def test_a_change_across_two_delivery_counts_keeps_both() -> None:
    leader = Leader(0, (StateBatch(1, 2, 0, 1),))
    leader.acquire((0, 2))
    change = leader.acknowledge((1, 2, RELEASE))
    assert change is not None
    assert change.batches == (StateBatch(1, 2, 0, 2),)
    leader.acquire((0, 2))
    change = leader.acknowledge((0, 2, [2, 1, 1]))
    assert change is not None
    assert change.batches == (StateBatch(0, 0, 0, 1), StateBatch(1, 2, 2, 3))


def test_all_or_nothing() -> None:
    leader = Leader()
    leader.acquire((0, 4))
    leader.acquire((5, 9), member="n")
    before = leader.shape()
    with pytest.raises(InvalidRecordState):
        leader.acknowledge((0, 4, ACCEPT), (5, 5, ACCEPT))
    with pytest.raises(InvalidRequest):
        leader.acknowledge((0, 4, ACCEPT), (8, 10, ACCEPT))
    assert leader.shape() == before


def test_only_the_holder_can_acknowledge_an_acquired_record() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    with pytest.raises(InvalidRecordState, match="another member"):
        leader.acknowledge((0, 0, ACCEPT), member="n")
    leader.acknowledge((5, 5, ACCEPT))
    with pytest.raises(InvalidRecordState, match="not acquired"):
        leader.acknowledge((5, 5, ACCEPT))
    with pytest.raises(InvalidRequest, match="past the acquired"):
        leader.acknowledge((10, 10, ACCEPT))


def test_acknowledgements_below_the_start_are_ignored() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    leader.acknowledge((0, 4, ACCEPT))
    assert leader.acknowledge((0, 2, ACCEPT), member="nobody") is None
    change = leader.acknowledge((3, 5, REJECT))
    assert change is not None
    assert change.start_offset == 6


def test_renew_restarts_the_lock_and_writes_nothing() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    leader.now_ms = 60
    assert leader.acknowledge((0, 4, [AckType.RENEW])) is None
    assert leader.partition.next_deadline_ms() == 100
    change = leader.tick(100)
    assert change is not None
    assert change.batches == (StateBatch(5, 9, 0, 1),)
    assert leader.partition.next_deadline_ms() == 160
    assert leader.shape()[0] == (0, 4, "acquired", 1)


def test_renew_is_refused_without_the_request_flag_or_when_disabled() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    with pytest.raises(InvalidRequest):
        leader.acknowledge((0, 0, [AckType.RENEW]), renew_allowed=False)
    leader.settings = replace(SETTINGS, renew_enabled=False)
    with pytest.raises(InvalidRecordState, match="not enabled"):
        leader.acknowledge((0, 0, [AckType.RENEW]))


# -- locks and sessions


def test_a_lock_ends_exactly_at_its_deadline() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    assert leader.partition.next_deadline_ms() == 100
    assert leader.tick(99) is None
    change = leader.tick(100)
    assert change == StateChange(
        start_offset=0,
        delivery_complete_count=0,
        batches=(StateBatch(0, 9, 0, 1),),
        made_available=10,
        expired=10,
    )
    with pytest.raises(InvalidRecordState):
        leader.acknowledge((0, 0, ACCEPT))
    assert leader.acquire((0, 9), member="n") == [AcquiredRange(0, 9, 2)]


def test_the_holder_may_answer_until_the_lock_is_taken_back() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    leader.now_ms = 500
    assert leader.acknowledge((0, 9, ACCEPT)) is not None


def test_only_what_is_still_held_expires() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    leader.acknowledge((3, 4, ACCEPT))
    change = leader.tick(100)
    assert change is not None
    assert change.expired == 8
    assert change.batches == (StateBatch(0, 2, 0, 1), StateBatch(5, 9, 0, 1))


def test_expiry_at_the_limit_archives_and_moves_the_start() -> None:
    leader = Leader()
    leader.settings = replace(SETTINGS, delivery_count_limit=1)
    leader.acquire((0, 9))
    change = leader.tick(100)
    assert change == StateChange(start_offset=10, delivery_complete_count=0, batches=(), expired=10)


def test_an_ended_session_releases_only_its_records_and_keeps_the_counts() -> None:
    leader = Leader()
    leader.acquire((0, 4))
    leader.acquire((5, 9), member="n")
    change = leader.partition.release_member("m", now_ms=1, settings=SETTINGS)
    assert change is not None
    assert change.batches == (StateBatch(0, 4, 0, 1),)
    assert change.made_available == 5
    assert leader.partition.release_member("m", now_ms=1, settings=SETTINGS) is None
    assert leader.partition.statistics().members == 1
    assert leader.acquire((0, 4), member="n") == [AcquiredRange(0, 4, 2)]


def test_a_lowered_limit_holds_for_what_is_in_flight() -> None:
    leader = Leader()
    leader.deliver(2, (0, 9))
    leader.acquire((0, 9))
    leader.settings = replace(SETTINGS, delivery_count_limit=2)
    change = leader.tick(100)
    assert change is not None
    assert change.start_offset == 10


# -- the log's start


def test_the_start_follows_the_log_start() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    change = leader.partition.log_start_moved(4)
    assert change == StateChange(start_offset=4, delivery_complete_count=0, batches=())
    leader.partition.check_invariants()
    assert leader.partition.log_start_moved(4) is None
    assert leader.acknowledge((0, 3, ACCEPT)) is None
    change = leader.tick(100)
    assert change is not None
    assert change.expired == 6


def test_the_log_start_may_pass_the_whole_window() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    change = leader.partition.log_start_moved(50)
    assert change is not None
    assert change.start_offset == 50
    assert leader.partition.next_fetch_offset() == 50
    assert leader.partition.next_deadline_ms() is None
    assert leader.acquire((50, 59)) == [AcquiredRange(50, 59, 1)]


def test_the_log_start_stops_at_what_is_unfinished() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    leader.acknowledge((4, 6, ACCEPT))
    change = leader.partition.log_start_moved(3)
    assert change is not None
    assert change.start_offset == 3
    change = leader.partition.log_start_moved(4)
    assert change is not None
    assert (change.start_offset, change.delivery_complete_count) == (7, 0)


def test_a_gap_beside_a_rejected_record_is_one_batch_but_not_given_up() -> None:
    leader = Leader()
    leader.acquire((0, 5))
    change = leader.acknowledge((1, 4, [0, 3, 0, 1]))
    assert change is not None
    assert change.batches == (StateBatch(1, 3, 4, 1), StateBatch(4, 4, 2, 1))
    assert leader.partition.archived.counts[Reason.REJECTED] == 1


# -- look


def test_statistics() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    leader.acquire((10, 19), member="n")
    leader.acknowledge((1, 3, [1, 2, 3]))
    statistics = leader.partition.statistics()
    assert (statistics.start_offset, statistics.end_offset) == (0, 20)
    assert (statistics.available, statistics.acquired) == (1, 17)
    assert (statistics.acknowledged, statistics.archived) == (1, 1)
    assert (statistics.spans, statistics.members) == (6, 2)


def test_a_window_of_single_records_keeps_its_invariants() -> None:
    leader = Leader()
    size = 10_000
    leader.settings = replace(SETTINGS, record_locks_max=size)
    leader.acquire((0, size - 1), records_max=size)
    for offset in range(1, size, 2):
        leader.partition.acknowledge("m", [(offset, offset, ACCEPT)], now_ms=0, settings=SETTINGS)
    leader.partition.check_invariants()
    assert leader.partition.statistics().spans == size
    changes = [leader.tick(100)]
    while leader.partition.next_deadline_ms() is not None:
        assert leader.partition.next_deadline_ms() == 100
        changes.append(leader.tick(100))
    assert sum(change.expired for change in changes if change) == size // 2
    assert sum(len(change.batches) for change in changes if change) == size // 2
    assert len(changes) == 2, "very many pieces are not taken back in one call"


def test_a_session_that_held_very_many_pieces_gives_the_rest_back_at_once_too() -> None:
    leader = Leader()
    size = 10_000
    leader.settings = replace(SETTINGS, record_locks_max=size)
    leader.acquire((0, size - 1), records_max=size)
    leader.acknowledge((0, size - 1, [1, 4] * (size // 2)))
    change = leader.partition.release_member("m", now_ms=7, settings=SETTINGS)
    leader.partition.check_invariants()
    assert change is not None
    assert change.expired < size // 2
    assert leader.partition.next_deadline_ms() == 7
    while leader.partition.next_deadline_ms() is not None:
        leader.tick(7)
    assert leader.partition.statistics().acquired == 0
    assert leader.partition.statistics().available == size // 2
