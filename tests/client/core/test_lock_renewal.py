"""When locks are renewed, and how the lost ones are found among the others."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.lock_renewal import RenewalRound, RenewalTimes
from sharegroup.model.errors import InvalidRecordState, KafkaError, NetworkException
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange

ONE, TWO = (TopicIdPartition(UUID(int=7), number) for number in (0, 1))


def test_a_renewal_is_due_a_third_of_a_lock_after_the_last_one_began() -> None:
    times = RenewalTimes(now_ms=1_000, unknown_ms=3_000)
    assert times.pause_ms(1_000, None) == 1_000
    assert times.pause_ms(1_000, 30_000) == 10_000
    assert times.pause_ms(11_000, 30_000) == times.pause_ms(99_000, 30_000) == 0
    times.begin(12_000)
    assert times.pause_ms(15_000, 30_000) == 7_000


def renew(
    renewal: RenewalRound, gone: set[int]
) -> tuple[list[OffsetRange], list[OffsetRange], int]:
    """The renewed and the lost ranges of ``ONE``, and the number of requests, at a broker that
    refuses ranges with an offset of ``gone``."""
    renewed: list[OffsetRange] = []
    lost: list[OffsetRange] = []
    requests = 0
    while asked := renewal.next_request():
        requests += 1
        outcomes: dict[TopicIdPartition, KafkaError | None] = {
            partition: InvalidRecordState()
            if any(gone & set(range(one.first, one.last + 1)) for one in ranges)
            else None
            for partition, ranges in asked.items()
        }
        answered = renewal.answered(asked, outcomes)
        renewed += answered.renewed.get(ONE, [])
        lost += answered.lost.get(ONE, [])
    return renewed, lost, requests


RANGES = [OffsetRange(0, 9), OffsetRange(12, 12), OffsetRange(20, 34)]


@given(st.sets(st.integers(0, 34)))
def test_exactly_the_lost_locks_are_found(gone: set[int]) -> None:
    renewed, lost, _ = renew(RenewalRound({ONE: RANGES}), gone)
    held = {offset for one in RANGES for offset in range(one.first, one.last + 1)}
    assert [one.first for one in lost] == [one.last for one in lost] == sorted(gone & held)
    assert sorted(o for one in renewed for o in range(one.first, one.last + 1)) == sorted(
        held - gone
    )


def test_whole_ranges_are_lost_if_they_are_not_to_be_cut() -> None:
    renewed, lost, _ = renew(RenewalRound({ONE: RANGES}, whole=True), {5, 12})
    assert (renewed, lost) == (RANGES[2:], RANGES[:2])


def test_a_round_ends_with_its_last_request() -> None:
    renewed, lost, requests = renew(RenewalRound({ONE: RANGES}, requests_max=2), {5})
    assert (renewed, lost, requests) == ([], [], 2), "the half without the record is not asked for"


def test_each_partition_has_its_own_outcome() -> None:
    renewal = RenewalRound({ONE: RANGES, TWO: RANGES[:1]})
    asked = renewal.next_request()
    assert asked == {ONE: RANGES, TWO: RANGES[:1]}
    error = NetworkException()
    answered = renewal.answered(asked, {ONE: error, TWO: None})
    assert answered == ({TWO: RANGES[:1]}, {}, {ONE: (RANGES, error)})
    assert not renewal.next_request()
    assert not RenewalRound({}).next_request()
