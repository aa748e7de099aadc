"""Records that fail for good are told with their cause, if the group has dead letters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharegroup.model.dead_records import Cause, DeadRecords
from sharegroup.share.state_changes import StateChange
from tests.share.leader import SETTINGS, Leader

RELEASE, REJECT = 2, 3


def leader_at_the_limit(*, dead_letters: bool = True) -> Leader:
    """A leader whose records 0 to 9 are in the hands of ``m`` for the last time."""
    leader = Leader()
    leader.settings = replace(SETTINGS, delivery_count_limit=1, dead_letters=dead_letters)
    leader.acquire((0, 9), member="m")
    return leader


def dead(change: StateChange | None) -> tuple[DeadRecords, ...]:
    assert change is not None
    return change.dead


def test_without_dead_letters_nothing_is_told() -> None:
    leader = leader_at_the_limit(dead_letters=False)
    assert dead(leader.acknowledge((0, 4, [REJECT]), member="m")) == ()
    assert dead(leader.tick(100)) == ()


def test_rejected_and_released_records_of_one_request() -> None:
    leader = leader_at_the_limit()
    change = leader.acknowledge((0, 9, [1, 3, 3, 2, 1, 3, 2, 2, 1, 1]), member="m")
    assert sorted(dead(change)) == [
        DeadRecords(1, 2, 1, Cause.REJECTED, "m"),
        DeadRecords(3, 3, 1, Cause.RELEASED, "m"),
        DeadRecords(5, 5, 1, Cause.REJECTED, "m"),
        DeadRecords(6, 7, 1, Cause.RELEASED, "m"),
    ]


def test_a_record_that_may_come_again_is_not_dead() -> None:
    leader = leader_at_the_limit()
    leader.settings = replace(leader.settings, delivery_count_limit=2)
    assert dead(leader.acknowledge((0, 9, [RELEASE]), member="m")) == ()


def test_an_ended_lock_and_an_ended_session_name_the_member() -> None:
    leader = leader_at_the_limit()
    leader.now_ms = 10
    leader.acquire((10, 19), member="n")
    session = leader.partition.release_member("n", now_ms=10, settings=leader.settings)
    assert dead(session) == (DeadRecords(10, 19, 1, Cause.SESSION_ENDED, "n"),)
    assert dead(leader.tick(100)) == (DeadRecords(0, 9, 1, Cause.LOCK_EXPIRED, "m"),)


@pytest.mark.parametrize("pieces", [1, 3, 500])
def test_all_are_told_however_many_pieces_there_are(pieces: int) -> None:
    """Other than the archived ranges for operators, of which the latest 200 are kept."""
    leader = Leader()
    leader.settings = replace(SETTINGS, record_locks_max=2_000, dead_letters=True)
    leader.acquire((0, 2 * pieces), member="m")
    change = leader.acknowledge((0, 2 * pieces, [3, 1] * pieces + [1]), member="m")
    assert [one[:2] for one in dead(change)] == [(2 * n, 2 * n) for n in range(pieces)]
