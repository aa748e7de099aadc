"""Each rule of acquiring once, readable."""

from __future__ import annotations

from dataclasses import replace

from sharegroup.model.share_state import StateBatch
from sharegroup.share.ranges import AcquiredRange
from tests.share.leader import ACCEPT, RELEASE, SETTINGS, Leader


def test_new_records_in_batch_optimized_mode_end_with_their_log_batch() -> None:
    leader = Leader()
    assert leader.acquire((0, 4), (5, 9), (10, 14), records_max=7) == [AcquiredRange(0, 9, 1)]
    assert leader.partition.end_offset == 10


def test_new_records_in_record_limit_mode_are_exact() -> None:
    leader = Leader()
    assert leader.acquire((0, 4), (5, 9), records_max=7, strict=True) == [AcquiredRange(0, 6, 1)]
    assert leader.partition.next_fetch_offset() == 7
    assert leader.acquire((5, 9), records_max=7, strict=True) == [AcquiredRange(7, 9, 1)]


def test_ranges_are_cut_at_log_batches_by_batch_size() -> None:
    ranges = Leader().acquire((0, 4), (5, 9), (10, 14), batch_size=6)
    assert ranges == [AcquiredRange(0, 9, 1), AcquiredRange(10, 14, 1)]


def test_a_batch_that_begins_below_the_start_is_clipped() -> None:
    assert Leader(3).acquire((0, 4)) == [AcquiredRange(3, 4, 1)]


def test_redelivery_comes_before_new_records() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    leader.acknowledge((2, 3, RELEASE))
    assert leader.partition.next_fetch_offset() == 2
    assert leader.acquire((0, 9), (10, 19), member="n") == [
        AcquiredRange(2, 3, 2),
        AcquiredRange(10, 19, 1),
    ]


def test_nothing_to_acquire() -> None:
    leader = Leader(10)
    assert leader.acquire() == []
    assert leader.acquire((0, 9)) == []
    assert leader.acquire((10, 19), records_max=0) == []
    leader.acquire((10, 19))
    assert leader.acquire((10, 19), member="n") == []
    assert leader.partition.next_deadline_ms() == 100


def test_a_read_past_the_window_is_stale_and_acquires_nothing() -> None:
    leader = Leader()
    assert leader.acquire((5, 9), fetch_offset=5) == []
    assert leader.partition.next_fetch_offset() == 0


def test_the_window_limit_is_soft_by_one_log_batch_and_redelivery_is_free_of_it() -> None:
    leader = Leader()
    leader.settings = replace(SETTINGS, record_locks_max=8)
    assert leader.acquire((0, 4), (5, 9), (10, 14)) == [AcquiredRange(0, 9, 1)]
    assert not leader.partition.can_acquire(leader.settings)
    assert leader.acquire((10, 14)) == []
    leader.acknowledge((5, 9, RELEASE))
    assert leader.partition.can_acquire(leader.settings)
    assert leader.acquire((5, 9), (10, 14)) == [AcquiredRange(5, 9, 2)]


def test_finished_records_count_in_the_window_until_the_start_passes_them() -> None:
    leader = Leader()
    leader.settings = replace(SETTINGS, record_locks_max=10)
    leader.acquire((0, 9))
    leader.acknowledge((1, 9, ACCEPT))
    assert leader.partition.in_flight_count == 10
    assert not leader.partition.can_acquire(leader.settings)
    leader.acknowledge((0, 0, ACCEPT))
    assert leader.partition.in_flight_count == 0
    assert leader.partition.can_acquire(leader.settings)


# -- offsets that are not in the log


def test_available_records_that_were_compacted_away_are_archived() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    leader.acknowledge((2, 5, RELEASE))
    assert leader.acquire((4, 9), fetch_offset=2, member="n") == [AcquiredRange(4, 5, 2)]
    assert leader.shape()[1] == (2, 3, "archived", 0)


def test_a_record_below_the_read_is_not_taken_for_compacted() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    leader.acknowledge((5, 5, RELEASE))
    read_from = leader.partition.next_fetch_offset()
    leader.acknowledge((2, 2, RELEASE))  # while the log was read
    assert leader.acquire((5, 9), fetch_offset=read_from) == [AcquiredRange(5, 5, 2)]
    assert leader.partition.next_fetch_offset() == 2


def test_gaps_between_new_log_batches_are_finished_at_once() -> None:
    leader = Leader()
    assert leader.acquire((3, 4), (8, 9), fetch_offset=0) == [
        AcquiredRange(3, 4, 1),
        AcquiredRange(8, 9, 1),
    ]
    assert leader.partition.start_offset == 3
    assert leader.partition.delivery_complete_count == 3
    leader.acknowledge((3, 4, ACCEPT))
    assert leader.partition.start_offset == 8


def test_a_gap_of_any_width_is_one_span() -> None:
    leader = Leader()
    far = 10**12
    assert leader.acquire((0, 4), (far, far + 4)) == [AcquiredRange(0, 4, 1)]
    assert leader.acquire((far, far + 4)) == [AcquiredRange(far, far + 4, 1)]
    assert leader.partition.statistics().spans == 3
    assert not leader.partition.can_acquire(SETTINGS), "a wide window waits for its head"
    leader.acknowledge((0, 4, ACCEPT))
    assert leader.partition.in_flight_count == 5


# -- aborted transactions, which read_committed passes over


def test_records_of_aborted_transactions_are_finished_without_delivery() -> None:
    leader = Leader()
    batches = (0, 4), (5, 9), (10, 10), (11, 14)  # 10 is a control batch
    assert leader.acquire(*batches, aborted=((5, 9),)) == [
        AcquiredRange(0, 4, 1),
        AcquiredRange(10, 14, 1),
    ]
    assert leader.shape()[1] == (5, 9, "archived", -1)
    assert leader.partition.delivery_complete_count == 5


def test_a_read_of_nothing_but_aborted_records_moves_on() -> None:
    leader = Leader()
    assert leader.acquire((0, 4), (5, 9), aborted=((0, 9),)) == []
    assert leader.partition.next_fetch_offset() == 10
    assert leader.partition.start_offset == 10
    assert leader.partition.next_deadline_ms() is None


def test_aborted_records_after_the_last_acquired_one_are_finished_too() -> None:
    leader = Leader()
    assert leader.acquire((0, 4), (5, 9), aborted=((5, 9),)) == [AcquiredRange(0, 4, 1)]
    assert leader.partition.next_fetch_offset() == 10


def test_aborted_records_beyond_the_record_limit_are_not_skipped() -> None:
    leader = Leader()
    batches = (0, 4), (5, 9)
    given = leader.acquire(*batches, records_max=3, strict=True, aborted=((5, 9),))
    assert given == [AcquiredRange(0, 2, 1)]
    assert leader.partition.next_fetch_offset() == 3


def test_a_full_window_does_not_grow_over_aborted_records() -> None:
    leader = Leader()
    leader.settings = replace(SETTINGS, record_locks_max=5)
    leader.acquire((0, 4))
    assert leader.acquire((5, 9), aborted=((5, 9),)) == []
    assert leader.partition.end_offset == 5


def test_aborted_records_delivered_before_the_group_wanted_committed_ones_only() -> None:
    leader = Leader()
    leader.acquire((0, 4), (5, 9))
    leader.acknowledge((3, 8, RELEASE))
    assert leader.acquire((0, 4), (5, 9), aborted=((5, 9),)) == [AcquiredRange(3, 4, 2)]
    assert leader.shape()[1:] == [
        (3, 4, "acquired", 2),
        (5, 8, "archived", 0),
        (9, 9, "acquired", 1),
    ]


# -- throttling


def test_a_poisoned_run_comes_in_halves_then_its_last_delivery_alone() -> None:
    leader = Leader()
    leader.deliver(3, (0, 15))
    assert leader.acquire((0, 15)) == [AcquiredRange(0, 7, 4)]
    leader.acknowledge((0, 7, RELEASE))
    assert leader.acquire((0, 15)) == [AcquiredRange(0, 0, 5)]
    leader.acknowledge((0, 0, RELEASE))
    assert leader.partition.start_offset == 1  # limit 5: archived


def test_a_throttled_run_never_follows_other_records_nor_is_followed_by_them() -> None:
    leader = Leader()
    leader.deliver(3, (0, 3))
    leader.acquire((0, 1), (2, 3), (4, 9))  # 0-1 for the fourth time
    leader.acknowledge((0, 1, ACCEPT))
    assert leader.acquire((2, 3), (4, 9)) == [AcquiredRange(2, 3, 4)]
    leader = Leader(0, (StateBatch(0, 1, 0, 1), StateBatch(2, 5, 0, 3)))
    assert leader.acquire((0, 5), (6, 9)) == [AcquiredRange(0, 1, 2)]


def test_a_throttled_portion_keeps_within_the_records_asked_for() -> None:
    leader = Leader(0, (StateBatch(0, 19, 0, 3),))
    assert leader.acquire((0, 19), records_max=4) == [AcquiredRange(0, 3, 4)]


def test_available_records_past_the_end_of_the_read_are_not_acquired() -> None:
    leader = Leader()
    leader.acquire((0, 9))
    leader.acknowledge((5, 9, RELEASE))
    assert leader.acquire((0, 4), fetch_offset=0) == []
    assert leader.partition.next_fetch_offset() == 5
