"""Why records were given up, as the delivery core remembers and counts it."""

from __future__ import annotations

from dataclasses import replace

from sharegroup.model.limits import ARCHIVED_RANGES_MAX
from sharegroup.share.archived import Archived, ArchivedRange, Reason
from tests.share.leader import REJECT, SETTINGS, Leader


def remembered(leader: Leader) -> list[tuple[int, int, str, int]]:
    ranges = leader.partition.archived.ranges()
    return [(one.first, one.last, one.reason.word, one.delivery_count) for one in ranges]


def test_each_reason() -> None:
    leader = Leader()
    leader.settings = replace(SETTINGS, delivery_count_limit=1)
    leader.acquire((0, 9))
    leader.acknowledge((0, 1, REJECT), (2, 2, [2]), (3, 3, [0]))
    leader.tick(100)  # the lock on the rest runs out, at the delivery limit
    leader.partition.damaged(10, 12)
    leader.acquire((13, 19), fetch_offset=13)
    leader.partition.log_start_moved(17)
    leader.partition.log_start_moved(30)
    leader.acquire((30, 39), fetch_offset=30)
    leader.partition.log_start_moved(45, Reason.RETENTION_CAP)
    assert remembered(leader) == [
        (0, 1, "rejected", 1),
        (2, 2, "delivery-limit", 1),
        (4, 9, "delivery-limit", 1),
        (10, 12, "damaged", 0),
        (13, 19, "deleted", 1),
        (20, 29, "deleted", 0),
        (30, 39, "retention-cap", 1),
        (40, 44, "retention-cap", 0),
    ], "a gap that the client reports is no record"
    assert leader.partition.archived.counts == [0, 7, 2, 3, 17, 15, 0, 0]


def test_finished_and_missing_records_are_not_archived() -> None:
    leader = Leader()
    leader.acquire((0, 4), (8, 9), aborted=((8, 9),))
    leader.acknowledge((1, 4, [1]))
    leader.partition.log_start_moved(10)
    assert remembered(leader) == [(0, 0, "deleted", 1)]


def test_many_runs_are_counted_and_the_last_ones_remembered() -> None:
    archived, shared = Archived(counts := [0] * 6), Archived(counts)
    runs = [ArchivedRange(at, at, Reason.REJECTED, 1) for at in range(0, 1_000, 2)]
    archived.add(runs)
    shared.add([ArchivedRange(0, 9, Reason.REJECTED, 1)])
    assert archived.ranges() == runs[-ARCHIVED_RANGES_MAX:]
    assert counts[Reason.REJECTED] == 510
