"""Since when records are held, as the console sees it from look to look."""

from __future__ import annotations

from sharegroup.client.admin.descriptions import PartitionRecords, RecordRange
from sharegroup.console.holds import Hold, Holds
from sharegroup.model.ids import TopicPartition
from sharegroup.share.record_state import RecordState

AT = TopicPartition("jobs", 0)
LOCK_MS = 30_000


def seen(holds: Holds, now_ms: int, *ranges: tuple[int, int, str, int, int]) -> list[Hold]:
    """What is held, from (first, last, member, deliveries, ms left on the lock)."""
    records = PartitionRecords(
        start_offset=0,
        end_offset=100,
        ranges=tuple(
            RecordRange(
                first=first,
                last=last,
                state=RecordState.ACQUIRED,
                delivery_count=deliveries,
                member_id=member,
                lock_ms=left_ms,
            )
            for first, last, member, deliveries, left_ms in ranges
        ),
        locks_known=True,
    )
    return [*holds.seen("group", {AT: records}, now_ms, LOCK_MS)[AT]]


def test_a_first_look_knows_a_least_time_only() -> None:
    [only] = seen(Holds(), 100_000, (1, 2, "a", 1, 10_000))
    assert (only.since_ms, only.exact, only.renewals) == (80_000, False, 0)


def test_a_renewed_lock_does_not_begin_anew() -> None:
    holds = Holds()
    seen(holds, 100_000)
    [first] = seen(holds, 102_000, (1, 1, "a", 1, 29_000))
    assert (first.since_ms, first.exact) == (101_000, True)
    [again] = seen(holds, 200_000, (1, 1, "a", 1, 28_000))
    assert (again.since_ms, again.exact, again.renewals) == (101_000, True, 1)
    [other] = seen(holds, 202_000, (1, 1, "a", 2, 30_000))
    assert (other.since_ms, other.renewals) == (202_000, 0), "delivered once more"


def test_a_range_that_grows_keeps_what_was_held_before() -> None:
    holds = Holds()
    seen(holds, 100_000, (4, 6, "a", 1, 30_000))
    found = seen(holds, 110_000, (2, 9, "a", 1, 30_000))
    assert [(one.first, one.last, one.since_ms) for one in found] == [
        (2, 3, 110_000),
        (4, 6, 100_000),
        (7, 9, 110_000),
    ]
    [rest] = seen(holds, 112_000, (5, 5, "a", 1, 28_000))
    assert (rest.first, rest.last, rest.since_ms, rest.renewals) == (5, 5, 100_000, 1)
