"""The heartbeat machine: what is sent when, and what answers and errors do."""

from __future__ import annotations

from uuid import UUID

import pytest

from sharegroup.client.core.membership import UNKNOWN_ERRORS_MAX, MemberState, ShareMembership
from sharegroup.model.errors import (
    CoordinatorLoadInProgress,
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    KafkaError,
    UnknownMemberId,
    UnknownServerError,
)
from sharegroup.model.ids import TopicIdPartition
from sharegroup.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = UUID(int=3)
P0 = TopicIdPartition(TOPIC, 0)


def answer(epoch: int, partitions: list[int] | None = None) -> ShareGroupHeartbeatResponse:
    assignment = None if partitions is None else Assignment([TopicPartitions(TOPIC, partitions)])
    return ShareGroupHeartbeatResponse(
        member_epoch=epoch, heartbeat_interval_ms=5_000, assignment=assignment
    )


def sent(member: ShareMembership, now_ms: int) -> ShareGroupHeartbeatRequest:
    request = member.heartbeat(now_ms)
    assert request is not None
    return request


def joined(**settings: int) -> ShareMembership:
    member = ShareMembership("g", "m", rack_id="r1", **settings)  # type: ignore[arg-type]
    member.subscribe(("t",), 0)
    sent(member, 0)
    member.answered(answer(1, [0]), 0)
    return member


def test_nothing_is_due_before_a_subscription() -> None:
    member = ShareMembership("g", "m")
    assert member.next_deadline_ms() is None
    assert member.heartbeat(10**9) is None


def test_the_first_heartbeat_has_all_fields_and_later_ones_none() -> None:
    member = ShareMembership("g", "m", rack_id="r1")
    member.subscribe(("t",), 0)
    first = sent(member, 0)
    assert (first.member_epoch, first.rack_id, first.subscribed_topic_names) == (0, "r1", ["t"])
    member.answered(answer(1, [0]), 10)
    assert member.state is MemberState.STABLE
    assert member.assignment == {P0}
    assert member.next_deadline_ms() == 5_010
    assert member.heartbeat(5_009) is None
    later = sent(member, 5_010)
    assert (later.member_epoch, later.rack_id, later.subscribed_topic_names) == (1, None, None)


def test_no_assignment_in_an_answer_means_no_change() -> None:
    member = joined()
    sent(member, 5_000)
    member.answered(answer(2), 5_000)
    assert member.assignment == {P0}
    assert member.epoch == 2


def test_a_member_without_partitions_heartbeats_early_for_a_while() -> None:
    member = ShareMembership("g", "m")
    member.subscribe(("t",), 0)
    now, asked = 0, []
    while now < 11_000:
        sent(member, now)
        member.answered(answer(1, []), now)
        deadline = member.next_deadline_ms()
        assert deadline is not None
        asked.append(deadline - now)
        now = deadline
    assert asked[:4] == [100, 200, 400, 500]
    assert asked[-1] == 5_000


@pytest.mark.parametrize("error", [UnknownMemberId(), FencedMemberEpoch(), GroupIdNotFound()])
def test_a_fenced_member_drops_everything_and_rejoins(error: KafkaError) -> None:
    member = joined()
    sent(member, 5_000)
    member.failed(error, 5_001, 100)
    assert member.state is MemberState.JOINING
    assert not member.assignment
    again = sent(member, 5_001)
    assert (again.member_epoch, again.subscribed_topic_names) == (0, ["t"])


def test_a_passing_error_keeps_the_assignment() -> None:
    member = joined()
    sent(member, 5_000)
    member.failed(CoordinatorLoadInProgress(), 5_000, 100)
    assert member.assignment == {P0}
    assert member.next_deadline_ms() == 5_100
    assert sent(member, 5_100).member_epoch == 1


@pytest.mark.parametrize("error", [GroupAuthorizationFailed(), GroupIdNotFound()])
def test_a_fatal_error_ends_it(error: KafkaError) -> None:
    member = ShareMembership("g", "m")
    member.subscribe(("t",), 0)
    sent(member, 0)
    member.failed(error, 0, 100)
    assert member.state is MemberState.FAILED
    assert member.error is error
    assert member.next_deadline_ms() is None


def test_unknown_server_errors_are_retried_a_few_times() -> None:
    member = joined()
    for turn in range(1, UNKNOWN_ERRORS_MAX + 1):
        assert member.state is MemberState.STABLE, turn
        sent(member, turn * 10_000)
        member.failed(UnknownServerError(), turn * 10_000, 100)
    assert member.state is MemberState.FAILED


def test_leaving_is_one_heartbeat() -> None:
    member = joined()
    member.leave(100)
    assert sent(member, 100).member_epoch == -1
    member.answered(answer(-1), 110)
    assert member.state is MemberState.UNSUBSCRIBED
    assert member.next_deadline_ms() is None


def test_leaving_while_the_join_is_under_way_still_leaves() -> None:
    member = ShareMembership("g", "m")
    member.subscribe(("t",), 0)
    sent(member, 0)
    member.leave(5)
    member.answered(answer(1, [0]), 10)
    assert not member.assignment
    assert sent(member, 10).member_epoch == -1
    member.answered(answer(-1), 11)
    assert member.state is MemberState.UNSUBSCRIBED


def test_a_member_fenced_while_leaving_does_not_rejoin() -> None:
    member = joined()
    sent(member, 5_000)
    member.leave(5_001)
    member.failed(FencedMemberEpoch(), 5_002, 100)
    assert member.state is MemberState.LEAVING


def test_a_member_that_does_not_poll_leaves_and_rejoins_with_the_next_poll() -> None:
    member = joined(poll_interval_max_ms=1_000)
    assert member.next_deadline_ms() == 1_000
    assert sent(member, 1_000).member_epoch == -1
    assert member.state is MemberState.STALE
    assert not member.assignment
    member.polled(1_005)  # while the answer is on its way
    member.answered(answer(-1), 1_010)
    assert member.state is MemberState.JOINING
    assert sent(member, 1_010).member_epoch == 0


def test_a_new_subscription_is_sent_at_once() -> None:
    member = joined()
    member.subscribe(("t", "u"), 100)
    request = sent(member, 100)
    assert (request.member_epoch, request.subscribed_topic_names) == (1, ["t", "u"])


def test_a_subscription_changed_during_a_heartbeat_is_sent_next() -> None:
    member = joined()
    sent(member, 5_000)
    member.subscribe(("u",), 5_001)
    member.answered(answer(2), 5_002)
    assert sent(member, 5_002).subscribed_topic_names == ["u"]
