"""A group's progress, as a broker tells it, and in the copy of a partition."""

from __future__ import annotations

from sharegroup.client.admin.descriptions import PartitionRecords, RecordRange
from sharegroup.move.offset_map import OffsetMap
from sharegroup.move.progress import NOT_BEGUN, Progress, Row, progress_of, translated
from sharegroup.share.record_state import RecordState

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED


def told(*ranges: RecordRange) -> PartitionRecords:
    return PartitionRecords(
        start_offset=ranges[0].first if ranges else None,
        end_offset=ranges[-1].last + 1 if ranges else None,
        ranges=ranges,
        locks_known=True,
    )


def test_what_a_member_holds_is_available_and_was_delivered() -> None:
    held = RecordRange(first=3, last=5, state=ACQUIRED, delivery_count=2, member_id="m", lock_ms=9)
    never = RecordRange(first=6, last=7, state=AVAILABLE, delivery_count=0)
    done = RecordRange(first=8, last=8, state=ARCHIVED, delivery_count=1)
    rests = RecordRange(first=9, last=9, state=RecordState.DELAYED, delivery_count=3, lock_ms=50)
    found = progress_of(told(held, never, done, rests), now_ms=1000)
    assert found == Progress(
        3,
        (Row(3, 5, AVAILABLE, 2), Row(8, 8, ARCHIVED, 1), Row(9, 9, AVAILABLE, 3, 1050)),
    )
    assert found.lag(20) == 16
    assert progress_of(told(), now_ms=0).lag(20) is None


def test_offsets_without_records_are_nowhere_in_the_copy() -> None:
    places = OffsetMap()
    places.add(10, 5)  # 10-14 are 0-4
    places.add(17, 5)  # 17-21 are 5-9
    progress = Progress(
        11,
        (Row(12, 13, ACKNOWLEDGED, 1), Row(14, 17, AVAILABLE, 2), Row(20, 30, ARCHIVED, 1)),
    )
    assert translated(progress, places) == Progress(
        1, (Row(2, 3, ACKNOWLEDGED, 1), Row(4, 5, AVAILABLE, 2), Row(8, 9, ARCHIVED, 1))
    )
    behind = Progress(15, (Row(15, 16, ACKNOWLEDGED, 0), Row(18, 18, AVAILABLE, 1)))
    assert translated(behind, places) == Progress(5, (Row(6, 6, AVAILABLE, 1),))
    assert translated(Progress(NOT_BEGUN), places) == Progress(NOT_BEGUN)


def test_a_start_that_has_no_copy_passes_over_what_is_finished() -> None:
    """As the target's broker does with what it is given."""
    places = OffsetMap()
    places.add(2, 4)  # 2-5 are 0-3; 0 and 1 are of an aborted transaction
    rows = (
        *(Row(0, 0, AVAILABLE, 1), Row(1, 1, ARCHIVED, 0), Row(2, 3, ACKNOWLEDGED, 1)),
        *(Row(4, 4, ARCHIVED, 3), Row(5, 5, AVAILABLE, 1)),
    )
    assert translated(Progress(0, rows), places) == Progress(3, (Row(3, 3, AVAILABLE, 1),))


def test_how_the_ranges_are_cut_makes_no_difference() -> None:
    one = Progress(0, (Row(0, 4, AVAILABLE, 1), Row(5, 6, ARCHIVED, 3)))
    other = Progress(
        0,
        (
            Row(0, 1, AVAILABLE, 1),
            Row(2, 4, AVAILABLE, 1, due_ms=7),
            Row(5, 5, ACKNOWLEDGED, 0),
            Row(6, 6, ARCHIVED, 1),
        ),
    )
    assert one.same_as(other)
    assert not one.same_as(Progress(0, (Row(0, 4, AVAILABLE, 2), Row(5, 6, ARCHIVED, 3))))
    assert not one.same_as(Progress(1, one.rows))
