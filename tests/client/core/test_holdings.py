"""Kafka's acknowledgement rules, on records that nobody fetched."""

from __future__ import annotations

from uuid import UUID

import pytest

from sharegroup.client.core.acknowledgements import UNDECIDED, AcknowledgedRange, AckType
from sharegroup.client.core.delivery import Delivery
from sharegroup.client.core.holdings import AcknowledgementMode, Decided, Holdings
from sharegroup.client.errors import IllegalState
from sharegroup.client.node_session import Lease
from sharegroup.client.record import Record
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange

WHERE = TopicIdPartition(UUID(int=1), 0)
NOW_S = 0.0
LATE_S = 100.0


def delivery(first: int, last: int, lease: Lease | None = None) -> Delivery:
    one = Delivery(WHERE, OffsetRange(first, last), 1, lease or Lease(), deadline=30.0)
    one.mark(first, last, UNDECIDED)
    one.records = [
        Record("t", 0, offset, 0, None, b"", [], 1, one) for offset in range(first, last + 1)
    ]
    return one


def holding(mode: AcknowledgementMode, *deliveries: Delivery) -> Holdings:
    holdings = Holdings(mode)
    holdings.buffer(list(deliveries))
    return holdings


def implicit(*deliveries: Delivery) -> Holdings:
    return holding(AcknowledgementMode.IMPLICIT, *deliveries)


def explicit(*deliveries: Delivery) -> Holdings:
    return holding(AcknowledgementMode.EXPLICIT, *deliveries)


def ranges(decided: list[Decided]) -> list[AcknowledgedRange]:
    return [one for each in decided for one in each.ranges]


def test_the_next_poll_accepts_in_implicit_mode() -> None:
    holdings = implicit(delivery(0, 2))
    assert [r.offset for r in holdings.next_records(10, NOW_S)] == [0, 1, 2]
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 2, b"\1")]
    assert holdings.settle() == []


def test_nothing_is_acknowledged_by_hand_in_implicit_mode() -> None:
    holdings = implicit(delivery(0, 0))
    [record] = holdings.next_records(10, NOW_S)
    with pytest.raises(IllegalState, match="explicit"):
        holdings.decide(record, AckType.ACCEPT)


def test_explicit_mode_wants_a_word_on_every_record() -> None:
    holdings = explicit(delivery(0, 2))
    first, second, third = holdings.next_records(10, NOW_S)
    holdings.decide(first, AckType.ACCEPT)
    holdings.decide(third, AckType.REJECT)
    with pytest.raises(IllegalState, match="All records must be acknowledged"):
        holdings.settle()
    holdings.decide(second, AckType.RELEASE)
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 2, b"\1\2\3")]


def test_before_it_is_sent_the_last_word_counts_and_then_none() -> None:
    holdings = explicit(delivery(0, 0))
    [record] = holdings.next_records(10, NOW_S)
    holdings.decide(record, AckType.REJECT)
    holdings.decide(record, AckType.ACCEPT)
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(0, 0, b"\1")]
    with pytest.raises(IllegalState, match="before"):
        holdings.decide(record, AckType.ACCEPT)


def test_a_commit_sends_what_is_decided_and_leaves_the_rest() -> None:
    holdings = explicit(delivery(0, 2))
    records = holdings.next_records(10, NOW_S)
    holdings.decide(records[1], AckType.ACCEPT)
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(1, 1, b"\1")]
    holdings.decide(records[0], AckType.ACCEPT)
    holdings.decide(records[2], AckType.ACCEPT)
    assert ranges(holdings.settle()) == [
        AcknowledgedRange(0, 0, b"\1"),
        AcknowledgedRange(2, 2, b"\1"),
    ]


def test_gaps_go_with_the_others_and_a_range_of_gaps_at_once() -> None:
    with_gap = delivery(0, 2)
    with_gap.mark(1, 1, AckType.GAP)
    with_gap.records.pop(1)
    gaps_only = Delivery(WHERE, OffsetRange(3, 5), 1, Lease(), 30.0)
    holdings = Holdings(AcknowledgementMode.IMPLICIT)
    assert ranges(holdings.buffer([with_gap, gaps_only])) == [AcknowledgedRange(3, 5, b"\0")]
    holdings.next_records(10, NOW_S)
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 2, b"\1\0\1")]


def test_a_poll_returns_whole_ranges_about_as_many_as_asked() -> None:
    holdings = implicit(delivery(0, 3), delivery(4, 7), delivery(8, 8))
    assert len(holdings.next_records(2, NOW_S)) == 4
    assert len(holdings.next_records(5, NOW_S)) == 5


def test_what_waited_longer_than_its_lock_is_dropped() -> None:
    lost = Lease()
    holdings = implicit(delivery(0, 1, lost), delivery(2, 3))
    lost.lost = True
    assert [r.offset for r in holdings.next_records(10, NOW_S)] == [2, 3]
    holdings.buffer([delivery(4, 5)])
    assert holdings.next_records(10, LATE_S) == []


def test_iteration_accepts_one_when_the_next_is_asked_for() -> None:
    holdings = implicit(delivery(0, 3))
    holdings.iterate(holdings.next_records(10, NOW_S))
    for _ in range(3):
        assert holdings.advance() is not None
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(0, 1, b"\1")]
    assert ranges(holdings.release_all()) == [AcknowledgedRange(2, 3, b"\2")]


def test_a_commit_within_an_iteration_accepts_what_was_given() -> None:
    holdings = implicit(delivery(0, 3))
    holdings.iterate(holdings.next_records(10, NOW_S))
    holdings.advance()
    holdings.advance()
    holdings.accept_given()
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(0, 1, b"\1")]


def test_a_poll_within_an_iteration_returns_its_rest() -> None:
    holdings = implicit(delivery(0, 3))
    holdings.iterate(holdings.next_records(10, NOW_S))
    holdings.advance()
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 0, b"\1")]
    assert [r.offset for r in holdings.rest()] == [1, 2, 3]
    assert ranges(holdings.settle()) == [AcknowledgedRange(1, 3, b"\1")]


def test_renewed_records_are_all_that_the_next_poll_returns() -> None:
    holdings = explicit(delivery(0, 2), delivery(3, 3))
    records = holdings.next_records(3, NOW_S)
    for record, kind in zip(records, (AckType.ACCEPT, AckType.RENEW, AckType.RENEW), strict=True):
        holdings.decide(record, kind)
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 0, b"\1")]
    assert holdings.take_renewals() == [(WHERE, OffsetRange(1, 2))]
    assert holdings.rest() == records[1:]
    for record in records[1:]:
        holdings.decide(record, AckType.ACCEPT)
    assert ranges(holdings.settle()) == [AcknowledgedRange(1, 2, b"\1")]
    assert holdings.rest() == []


def test_the_end_sends_the_decided_and_releases_the_rest() -> None:
    holdings = explicit(delivery(0, 2), delivery(3, 4))
    records = holdings.next_records(3, NOW_S)
    holdings.decide(records[0], AckType.ACCEPT)
    holdings.decide(records[1], AckType.RENEW)
    assert ranges(holdings.release_all()) == [
        AcknowledgedRange(0, 2, b"\1\2\2"),
        AcknowledgedRange(3, 4, b"\2"),
    ]
    assert not holdings.has_buffered


def test_what_is_said_after_the_locks_are_gone_is_marked_so() -> None:
    lease = Lease()
    holdings = implicit(delivery(0, 0, lease))
    holdings.next_records(1, NOW_S)
    lease.lost = True
    assert [one.lost for one in holdings.settle()] == [True]
