"""Kafka's acknowledgement rules, on records that nobody fetched."""

from __future__ import annotations

from uuid import UUID

import pytest

from sharegroup.client.core.acknowledgements import UNDECIDED, AcknowledgedRange, AckType
from sharegroup.client.core.fetched import Acknowledged, Lease
from sharegroup.client.core.held_deliveries import AcknowledgementMode, Decided, Holdings, Iteration
from sharegroup.client.core.record import HeldDelivery, Record
from sharegroup.client.errors import CorruptRecordBatch, IllegalState
from sharegroup.model.errors import InvalidRecordState
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange

WHERE = TopicIdPartition(UUID(int=1), 0)
NAME = TopicPartition("t", 0)
NOW_S = 0.0
LATE_S = 100.0


def delivery(first: int, last: int, lease: Lease | None = None) -> HeldDelivery:
    one = HeldDelivery(WHERE, NAME, OffsetRange(first, last), 1, lease or Lease(), deadline=30.0)
    one.mark(first, last, UNDECIDED)
    one.records = [Record((offset, 0, None, b"", []), one) for offset in range(first, last + 1)]
    return one


def keyed(first: int, keys: str, request: int = 1) -> HeldDelivery:
    """With order per key: a record for each letter."""
    one = delivery(first, first + len(keys) - 1)
    one.request = request
    one.keys = {first + at: key.encode() for at, key in enumerate(keys)}
    return one


def holding(mode: AcknowledgementMode, *deliveries: HeldDelivery) -> Holdings:
    holdings = Holdings(mode)
    holdings.buffer(list(deliveries))
    return holdings


def implicit(*deliveries: HeldDelivery) -> Holdings:
    return holding(AcknowledgementMode.IMPLICIT, *deliveries)


def explicit(*deliveries: HeldDelivery) -> Holdings:
    return holding(AcknowledgementMode.EXPLICIT, *deliveries)


def ranges(decided: list[Decided]) -> list[AcknowledgedRange]:
    return [one for each in decided for one in each.ranges]


def test_the_next_poll_accepts_in_implicit_mode() -> None:
    holdings = implicit(delivery(0, 2))
    assert [r.offset for r in holdings.next_records(10, NOW_S)] == [0, 1, 2]
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 2, b"\1")]
    assert holdings.settle() == []


def test_acknowledge_is_refused_in_implicit_mode() -> None:
    holdings = implicit(delivery(0, 0))
    [record] = holdings.next_records(10, NOW_S)
    with pytest.raises(IllegalState, match="explicit"):
        holdings.decide([record], AckType.ACCEPT)


def test_explicit_mode_requires_an_answer_for_every_record() -> None:
    holdings = explicit(delivery(0, 2))
    first, second, third = holdings.next_records(10, NOW_S)
    holdings.decide([first], AckType.ACCEPT)
    holdings.decide([third], AckType.REJECT)
    with pytest.raises(IllegalState, match="All records must be acknowledged"):
        holdings.settle()
    holdings.decide([second], AckType.RELEASE)
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 2, b"\1\2\3")]


def test_answers_can_change_until_they_are_sent() -> None:
    holdings = explicit(delivery(0, 0))
    [record] = holdings.next_records(10, NOW_S)
    holdings.decide([record], AckType.REJECT)
    holdings.decide([record], AckType.ACCEPT)
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(0, 0, b"\1")]
    with pytest.raises(IllegalState, match="before"):
        holdings.decide([record], AckType.ACCEPT)


def test_a_commit_sends_decided_records_only() -> None:
    holdings = explicit(delivery(0, 2))
    records = holdings.next_records(10, NOW_S)
    holdings.decide([records[1]], AckType.ACCEPT)
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(1, 1, b"\1")]
    holdings.decide([records[0]], AckType.ACCEPT)
    holdings.decide([records[2]], AckType.ACCEPT)
    assert ranges(holdings.settle()) == [
        AcknowledgedRange(0, 0, b"\1"),
        AcknowledgedRange(2, 2, b"\1"),
    ]


def test_gaps_are_sent_with_other_answers_and_a_range_of_gaps_at_once() -> None:
    with_gap = delivery(0, 2)
    with_gap.mark(1, 1, AckType.GAP)
    with_gap.records.pop(1)
    gaps_only = HeldDelivery(WHERE, NAME, OffsetRange(3, 5), 1, Lease(), 30.0)
    holdings = Holdings(AcknowledgementMode.IMPLICIT)
    assert ranges(holdings.buffer([with_gap, gaps_only])) == [AcknowledgedRange(3, 5, b"\0")]
    holdings.next_records(10, NOW_S)
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 2, b"\1\0\1")]


def test_a_poll_returns_whole_ranges_near_its_limit() -> None:
    holdings = implicit(delivery(0, 3), delivery(4, 7), delivery(8, 8))
    assert len(holdings.next_records(2, NOW_S)) == 4
    assert len(holdings.next_records(5, NOW_S)) == 5


def test_records_that_waited_longer_than_their_lock_are_dropped() -> None:
    lost = Lease()
    holdings = implicit(delivery(0, 1, lost), delivery(2, 3))
    lost.lost = True
    assert [r.offset for r in holdings.next_records(10, NOW_S)] == [2, 3]
    holdings.buffer([delivery(4, 5)])
    assert holdings.next_records(10, LATE_S) == []


def iterating(holdings: Holdings, *, given: int, done: int) -> Iteration:
    """A loop that was given so many records of the first ten, and has asked for the next one after
    ``done``.
    """
    iteration = Iteration()
    holdings.settle(iteration)
    iteration.hand_out(holdings.rest() or holdings.next_records(10, NOW_S))
    iteration.given, iteration.done = given, done
    return iteration


def test_a_loop_that_ends_accepts_finished_records_and_releases_the_one_in_work() -> None:
    holdings = implicit(delivery(0, 5))
    iterating(holdings, given=3, done=2)
    holdings.end_iteration()
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(0, 2, b"\1\1\2")]
    again = iterating(holdings, given=3, done=3)
    assert [record.offset for record in again.records] == [3, 4, 5], "not given: not delivered anew"
    assert ranges(holdings.settle(again)) == [AcknowledgedRange(3, 5, b"\1")]


def test_a_loop_that_ends_while_it_waits_for_the_next_record_has_nothing_in_work() -> None:
    holdings = implicit(delivery(0, 1))
    iterating(holdings, given=2, done=2)
    holdings.end_iteration()
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(0, 1, b"\1")]


def test_a_batch_in_work_is_released_when_the_loop_ends() -> None:
    holdings = implicit(delivery(0, 2), delivery(3, 4))
    loop = Iteration()
    holdings.settle(loop)
    holdings.next_records(3, NOW_S)
    assert ranges(holdings.settle(loop)) == [AcknowledgedRange(0, 2, b"\1")]
    holdings.next_records(3, NOW_S)
    assert ranges(holdings.settle()) == [AcknowledgedRange(3, 4, b"\2")], "a poll takes its place"
    assert loop.replaced


def test_closing_within_a_loop_accepts_all_but_the_record_in_work() -> None:
    holdings = implicit(delivery(0, 3))
    iterating(holdings, given=3, done=2)
    assert ranges(holdings.release_all()) == [AcknowledgedRange(0, 3, b"\1\1\2\2")]


def test_a_commit_within_a_loop_may_include_the_record_in_work() -> None:
    holdings = implicit(delivery(0, 1), delivery(2, 5))
    iteration = iterating(holdings, given=4, done=3)
    holdings.accept_given(in_work=False)
    assert ranges(holdings.take_decided()) == [
        AcknowledgedRange(0, 1, b"\1"),
        AcknowledgedRange(2, 2, b"\1"),
    ]
    holdings.accept_given()
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(3, 3, b"\1")]
    iteration.given = iteration.done = 6
    holdings.accept_given()
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(4, 5, b"\1")]


def test_a_commit_from_elsewhere_does_not_accept_the_batch_in_work() -> None:
    holdings = implicit(delivery(0, 2))
    holdings.settle(Iteration())
    holdings.next_records(3, NOW_S)
    holdings.accept_given(in_work=False)
    assert holdings.take_decided() == []
    holdings.accept_given()
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(0, 2, b"\1")]


def test_a_poll_after_a_loop_returns_the_records_the_loop_did_not_reach() -> None:
    holdings = implicit(delivery(0, 1), delivery(2, 3))
    iterating(holdings, given=1, done=0)
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 0, b"\2")]
    assert holdings.settle() == [], "what nobody was given is not accepted"
    assert holdings.undecided() == [(WHERE, OffsetRange(1, 1)), (WHERE, OffsetRange(2, 3))]
    assert [r.offset for r in holdings.rest()] == [1, 2, 3]
    assert ranges(holdings.settle()) == [
        AcknowledgedRange(1, 1, b"\1"),
        AcknowledgedRange(2, 3, b"\1"),
    ]


def test_a_loop_accepts_the_records_of_the_poll_before_it() -> None:
    holdings = implicit(delivery(0, 1))
    holdings.next_records(10, NOW_S)
    assert ranges(holdings.settle(Iteration())) == [AcknowledgedRange(0, 1, b"\1")]


def test_undelivered_records_are_released_and_damage_is_raised_later() -> None:
    holdings = implicit(delivery(0, 2), unreadable(3, 4, AckType.REJECT), delivery(5, 6))
    iterating(holdings, given=1, done=0)
    holdings.end_iteration()
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(0, 0, b"\2")]
    assert ranges(holdings.give_back()) == [
        AcknowledgedRange(1, 2, b"\2"),
        AcknowledgedRange(5, 6, b"\2"),
    ]
    assert holdings.rest() == []
    with pytest.raises(CorruptRecordBatch):
        holdings.next_records(10, NOW_S)
    assert ranges(holdings.settle()) == [AcknowledgedRange(3, 4, b"\3")]


def test_in_explicit_mode_a_loop_requires_an_answer_for_every_record() -> None:
    holdings = explicit(delivery(0, 1))
    loop = iterating(holdings, given=2, done=2)
    with pytest.raises(IllegalState, match="All records must be acknowledged"):
        holdings.settle(loop)


def test_in_explicit_mode_undecided_records_of_a_loop_are_released_by_the_next_poll() -> None:
    holdings = explicit(delivery(0, 4))
    first, second, third = iterating(holdings, given=3, done=2).records[:3]
    holdings.decide([first], AckType.ACCEPT)
    holdings.end_iteration()
    assert ranges(holdings.take_decided()) == [AcknowledgedRange(0, 0, b"\1")]
    holdings.decide([second], AckType.REJECT)
    assert ranges(holdings.settle()) == [AcknowledgedRange(1, 2, b"\3\2")]
    with pytest.raises(IllegalState, match="before"):
        holdings.decide([third], AckType.ACCEPT)
    assert [r.offset for r in holdings.rest()] == [3, 4]
    with pytest.raises(IllegalState, match="All records must be acknowledged"):
        holdings.settle()


def test_the_next_poll_returns_only_the_renewed_records() -> None:
    holdings = explicit(delivery(0, 2), delivery(3, 3))
    records = holdings.next_records(3, NOW_S)
    for record, kind in zip(records, (AckType.ACCEPT, AckType.RENEW, AckType.RENEW), strict=True):
        holdings.decide([record], kind)
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 0, b"\1")]
    [renewals] = holdings.take_renewals()
    assert renewals.offsets == OffsetRange(1, 2)
    assert holdings.rest() == []
    with pytest.raises(IllegalState, match="must be returned again first"):
        holdings.decide([records[1]], AckType.ACCEPT)
    assert holdings.settle() == [], "what is being renewed needs no word"
    holdings.renewed(renewals, None, LATE_S)
    assert renewals.delivery.deadline == LATE_S
    assert holdings.rest() == records[1:]
    for record in records[1:]:
        holdings.decide([record], AckType.ACCEPT)
    assert ranges(holdings.settle()) == [AcknowledgedRange(1, 2, b"\1")]
    assert holdings.rest() == []


def test_a_record_whose_renewal_failed_is_not_returned_again() -> None:
    holdings = explicit(delivery(0, 0))
    [record] = holdings.next_records(1, NOW_S)
    holdings.decide([record], AckType.RENEW)
    [renewals] = holdings.take_renewals()
    holdings.renewed(renewals, InvalidRecordState(), LATE_S)
    assert holdings.rest() == []
    assert holdings.settle() == []
    with pytest.raises(IllegalState, match="before"):
        holdings.decide([record], AckType.ACCEPT)


def test_a_record_that_is_being_renewed_is_released_on_close() -> None:
    holdings = explicit(delivery(0, 1))
    for record in holdings.next_records(2, NOW_S):
        holdings.decide([record], AckType.RENEW)
    holdings.take_renewals()
    assert holdings.undecided() == [(WHERE, OffsetRange(0, 1))]
    assert ranges(holdings.release_all()) == [AcknowledgedRange(0, 1, b"\2")]


def test_a_later_delivery_of_a_record_does_not_keep_the_one_before_it() -> None:
    """This consumer may itself get a record whose lock it has lost."""
    before, later = delivery(0, 1), delivery(0, 1)
    later.deadline = LATE_S
    holdings = implicit(before, later)
    held = [offsets for _, offsets in holdings.undecided(LATE_S - 1)]
    assert held == [OffsetRange(0, 1)]
    holdings.partition_locked_until(WHERE, held, 2 * LATE_S, LATE_S - 1)
    assert (before.deadline, later.deadline) == (30.0, 2 * LATE_S)


def unreadable(first: int, last: int, kind: AckType) -> HeldDelivery:
    one = HeldDelivery(WHERE, NAME, OffsetRange(first, last), 1, Lease(), 30.0)
    one.mark(first, last, kind)
    one.error = CorruptRecordBatch(NAME, first, "damaged")
    return one


def test_unreadable_records_are_raised_in_order_between_readable_ones() -> None:
    holdings = implicit(delivery(0, 1), unreadable(2, 3, AckType.REJECT), delivery(4, 4))
    assert [r.offset for r in holdings.next_records(10, NOW_S)] == [0, 1]
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 1, b"\1")]
    with pytest.raises(CorruptRecordBatch):
        holdings.next_records(10, NOW_S)
    assert ranges(holdings.settle()) == [AcknowledgedRange(2, 3, b"\3")]
    assert [r.offset for r in holdings.next_records(10, NOW_S)] == [4]


def test_an_unreadable_record_can_be_acknowledged_by_offset() -> None:
    holdings = explicit(unreadable(2, 3, AckType.RELEASE))
    with pytest.raises(CorruptRecordBatch):
        holdings.next_records(10, NOW_S)
    holdings.decide_offset(NAME, 3, AckType.ACCEPT)
    with pytest.raises(IllegalState, match="cannot be renewed"):
        holdings.decide_offset(NAME, 2, AckType.RENEW)
    for where, offset in ((NAME, 4), (TopicPartition("t", 1), 2)):
        with pytest.raises(IllegalState, match="is not waiting"):
            holdings.decide_offset(where, offset, AckType.ACCEPT)
    assert ranges(holdings.settle()) == [AcknowledgedRange(2, 3, b"\2\1")]


def test_records_of_another_consumer_are_refused() -> None:
    [record] = explicit(delivery(0, 0)).next_records(1, NOW_S)
    with pytest.raises(IllegalState, match="not returned by this consumer"):
        explicit(delivery(0, 0)).decide([record], AckType.ACCEPT)


def test_close_sends_decided_records_and_releases_the_rest() -> None:
    holdings = explicit(delivery(0, 2), delivery(3, 4))
    records = holdings.next_records(3, NOW_S)
    holdings.decide([records[0]], AckType.ACCEPT)
    holdings.decide([records[1]], AckType.RENEW)
    assert ranges(holdings.release_all()) == [
        AcknowledgedRange(0, 2, b"\1\2\2"),
        AcknowledgedRange(3, 4, b"\2"),
    ]
    assert not holdings.has_buffered


def test_answers_after_the_locks_are_lost_are_marked() -> None:
    lease = Lease()
    holdings = implicit(delivery(0, 0, lease))
    holdings.next_records(1, NOW_S)
    lease.lost = True
    assert [one.lease.lost for one in holdings.settle()] == [True]


def test_a_release_takes_the_later_ones_of_its_key_with_it() -> None:
    """Those of the loop and of the buffer, in the same request."""
    holdings = explicit(keyed(0, "xyx"), keyed(3, "xyx"))
    loop = Iteration()
    holdings.settle(loop)
    loop.hand_out(holdings.next_records(3, NOW_S))
    loop.given = 1
    holdings.decide([loop.records[0]], AckType.RELEASE)
    assert [one.offset for one in loop.records] == [0, 1]
    holdings.decide([loop.records[1]], AckType.ACCEPT)
    said = {one.first: one.types for one in ranges(holdings.settle(loop))}
    assert said == {0: b"\2\1\2", 3: b"\2", 5: b"\2"}
    assert [one.offset for one in holdings.next_records(10, NOW_S)] == [4]


def test_what_was_fetched_before_a_release_took_effect_is_not_given() -> None:
    holdings = explicit(keyed(0, "x", request=1))
    [first] = holdings.next_records(10, NOW_S)
    holdings.decide([first], AckType.RELEASE)
    decided = holdings.settle()
    assert ranges(holdings.buffer([keyed(1, "xy", request=2)])) == []
    assert [one.offset for one in holdings.next_records(10, NOW_S)] == [2]
    holdings.answered(Acknowledged(WHERE, ranges(decided), None, request=3))
    assert holdings.buffer([keyed(3, "x", request=2)]) == []
    assert holdings.next_records(10, NOW_S) == []
    holdings.buffer([keyed(0, "xx", request=3)])
    assert [one.offset for one in holdings.next_records(10, NOW_S)] == [0, 1]


def test_a_release_that_was_withdrawn_takes_no_later_record_back() -> None:
    holdings = explicit(keyed(0, "x", request=1))
    [first] = holdings.next_records(10, NOW_S)
    holdings.decide([first], AckType.RELEASE)
    holdings.decide([first], AckType.ACCEPT)
    holdings.buffer([keyed(1, "x", request=1)])
    assert [one.offset for one in holdings.next_records(10, NOW_S)] == [1]


def test_records_of_another_partition_or_without_a_key_stay() -> None:
    other = keyed(1, "x")
    other.partition = TopicIdPartition(UUID(int=1), 1)
    without = keyed(1, "x")
    without.keys = {}
    holdings = explicit(keyed(0, "x"), other, without)
    holdings.decide(holdings.next_records(1, NOW_S), AckType.RELEASE)
    assert len(holdings.next_records(10, NOW_S)) == 2


def test_a_loop_that_ends_does_not_keep_what_is_behind_its_record_in_work() -> None:
    holdings = implicit(keyed(0, "yxyxy"))
    loop = Iteration()
    holdings.settle(loop)
    loop.hand_out(holdings.next_records(10, NOW_S))
    loop.given, loop.done = 2, 1
    holdings.end_iteration()
    again = Iteration()
    assert ranges(holdings.settle(again)) == [
        AcknowledgedRange(0, 1, b"\1\2"),
        AcknowledgedRange(3, 3, b"\2"),
    ]
    again.hand_out(holdings.rest())
    assert [one.offset for one in again.records] == [2, 4]
    again.given = again.done = 1
    assert ranges(holdings.settle(again)) == [AcknowledgedRange(2, 2, b"\1")]


def test_late_records_are_dropped_without_a_word() -> None:
    holdings = implicit(delivery(0, 2))
    assert holdings.next_records(10, LATE_S) == []
    assert holdings.settle() == []
