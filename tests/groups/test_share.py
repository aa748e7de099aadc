"""What each call of ShareGroups does, one rule at a time."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.group import GroupState
from sharegroup.groups.heartbeat import HeartbeatResult, ShareHeartbeat, ToInitialize
from sharegroup.groups.records import CoordinatorRecord, Tombstone, TopicPartitions
from sharegroup.groups.share import GroupListing, ShareGroups
from sharegroup.groups.topics import TopicInfo, TopicsImage
from sharegroup.model.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    KafkaError,
    NonEmptyGroup,
    UnknownMemberId,
)

FLIGHTS, DELAYS = UUID(int=1), UUID(int=2)
TOPICS = TopicsImage({"flights": TopicInfo(FLIGHTS, 4), "delays": TopicInfo(DELAYS, 1)})
SETTINGS = GroupSettings()


def join(member: str = "a", *topics: str) -> ShareHeartbeat:
    return ShareHeartbeat(
        group_id="g", member_id=member, member_epoch=0, subscribed_topics=topics or ("flights",)
    )


def beat(member: str, epoch: int, *topics: str) -> ShareHeartbeat:
    return ShareHeartbeat(
        group_id="g", member_id=member, member_epoch=epoch, subscribed_topics=topics or None
    )


class Coordinator(ShareGroups):
    """A coordinator whose caller does its duty; ``log`` is what it has made durable."""

    def __init__(self, settings: GroupSettings = SETTINGS, group_size_max: int = 200) -> None:
        super().__init__(lambda _: settings, group_size_max=group_size_max)
        self.log: list[CoordinatorRecord] = []

    def do(
        self, request: ShareHeartbeat, now_ms: int = 0, topics: TopicsImage = TOPICS
    ) -> HeartbeatResult:
        self.log += self.initialized(request.group_id, self.uninitialized(request, topics))
        result = self.heartbeat(request, topics, now_ms)
        self.log += result.records
        self.check_invariants()
        return result


def rebuilt(log: list[CoordinatorRecord]) -> ShareGroups:
    groups = ShareGroups(lambda _: SETTINGS)
    for record in log:
        groups.replay(record)
    groups.sessions_restarted(0)
    groups.check_invariants()
    return groups


def test_the_first_heartbeat_answers_with_the_assignment() -> None:
    groups = Coordinator()
    assert groups.do(join()) == HeartbeatResult(
        member_id="a",
        member_epoch=1,
        heartbeat_interval_ms=5_000,
        assignment={FLIGHTS: (0, 1, 2, 3)},
        records=tuple(groups.log[1:]),
    )


def test_nothing_is_said_twice() -> None:
    groups = Coordinator()
    epoch = groups.do(join()).member_epoch
    result = groups.do(beat("a", epoch), 5_000)
    assert (result.assignment, result.records) == (None, ())
    assert groups.do(beat("a", epoch, "flights"), 9_000).assignment == {FLIGHTS: (0, 1, 2, 3)}


def test_only_initialised_partitions_are_assigned() -> None:
    groups = Coordinator()
    assert groups.heartbeat(join(), TOPICS, 0).assignment == {}
    groups.initialized("g", [ToInitialize(FLIGHTS, "flights", 2, -1)])
    assert groups.heartbeat(beat("a", 1), TOPICS, 1_000).assignment == {FLIGHTS: (2,)}


def test_new_topics_start_by_the_reset_policy_and_added_partitions_at_zero() -> None:
    groups = Coordinator()
    assert groups.initialization_epoch("g") == 1
    missing = groups.uninitialized(join("a", "delays", "nowhere"), TOPICS)
    assert missing == (ToInitialize(DELAYS, "delays", 0, -1),)
    epoch = groups.do(join("a", "delays")).member_epoch
    grown = TopicsImage({"delays": TopicInfo(DELAYS, 2)})
    missing = groups.uninitialized(beat("a", epoch), grown)
    assert missing == (ToInitialize(DELAYS, "delays", 1, 0),)
    assert groups.initialization_epoch("g") == 1
    result = groups.do(beat("a", epoch), 5_000, grown)
    assert (result.member_epoch, result.assignment) == (2, {DELAYS: (0, 1)})
    assert groups.initialized_partitions("g") == (TopicPartitions(DELAYS, "delays", (0, 1)),)


def test_a_second_member_does_not_wait_and_the_first_hears_of_it_in_its_next_heartbeat() -> None:
    groups = Coordinator()
    groups.do(join("a"))
    second = groups.do(join("b"), 1)
    assert second.assignment is not None
    assert len(second.assignment[FLIGHTS]) == 2
    first = groups.do(beat("a", 1), 2)
    assert (first.member_epoch, len((first.assignment or {})[FLIGHTS])) == (2, 2)


def test_what_is_nobodys_wish_waits_for_the_assignment_interval() -> None:
    groups = Coordinator()
    groups.do(join("a"))
    groups.do(join("b"), 100)
    groups.do(replace(join("b"), member_epoch=-1), 200)
    waiting = groups.do(beat("a", 1), 1_099)
    assert waiting.assignment is not None
    assert len(waiting.assignment[FLIGHTS]) == 2
    assert groups.do(beat("a", 2), 1_100).assignment == {FLIGHTS: (0, 1, 2, 3)}


def test_a_changed_subscription_is_answered_at_once() -> None:
    groups = Coordinator()
    groups.do(join())
    result = groups.do(beat("a", 1, "flights", "delays"), 1)
    assert result.assignment == {FLIGHTS: (0, 1, 2, 3), DELAYS: (0,)}
    assert groups.do(beat("a", 2, "delays"), 2).assignment == {DELAYS: (0,)}


def test_a_deleted_topic_goes_from_state_and_assignment() -> None:
    groups = Coordinator()
    groups.do(join("a", "flights", "delays"))
    groups.log += groups.topics_deleted({DELAYS})
    left = TopicsImage({"flights": TopicInfo(FLIGHTS, 4)})
    assert groups.do(beat("a", 1), 5_000, left).assignment == {FLIGHTS: (0, 1, 2, 3)}
    assert [topic.name for topic in groups.initialized_partitions("g")] == ["flights"]
    again = TopicsImage({**left.topics, "delays": TopicInfo(UUID(int=9), 1)})
    assert groups.uninitialized(beat("a", 2), again) == (
        ToInitialize(UUID(int=9), "delays", 0, -1),
    )


def test_a_lost_answer_may_be_asked_for_again_with_the_previous_epoch() -> None:
    groups = Coordinator()
    groups.do(join("a"))
    groups.do(join("b"), 1)
    lost = groups.do(beat("a", 1), 2)
    again = groups.do(beat("a", 1), 3)
    assert (again.member_epoch, again.assignment) == (2, lost.assignment)
    assert groups.do(join("a"), 4).member_epoch == 2


def test_a_member_that_is_not_heard_of_leaves() -> None:
    groups = Coordinator()
    groups.do(join("a"), 0)
    groups.do(join("b"), 10_000)
    groups.do(beat("a", 1), 20_000)
    assert groups.next_deadline_ms() == 55_000
    assert groups.tick(54_999) == ()
    groups.log += groups.tick(55_000)
    assert [member.member_id for member in groups.describe("g").members] == ["a"]
    assert groups.next_deadline_ms() == 65_000
    with pytest.raises(UnknownMemberId):
        groups.do(beat("b", 2), 55_001)


def test_leaving_empties_a_group_which_stays_until_it_is_deleted() -> None:
    groups = Coordinator()
    groups.do(join())
    with pytest.raises(NonEmptyGroup):
        groups.delete("g")
    left = groups.do(beat("a", -1))
    assert (left.member_epoch, left.assignment) == (-1, None)
    assert groups.list_groups() == (GroupListing("g", GroupState.EMPTY),)
    described = groups.describe("g")
    assert (described.epoch, described.assignment_epoch) == (2, 2)
    groups.log += groups.delete("g")
    assert groups.list_groups() == ()
    assert rebuilt(groups.log).list_groups() == ()
    for call in (groups.describe, groups.delete):
        with pytest.raises(GroupIdNotFound):
            call("g")


def test_a_rejoin_to_an_emptied_group_is_assigned_at_once_and_state_is_kept() -> None:
    groups = Coordinator()
    groups.do(join())
    groups.do(beat("a", -1), 1)
    assert groups.uninitialized(join("b"), TOPICS) == ()
    assert groups.do(join("b"), 2).assignment == {FLIGHTS: (0, 1, 2, 3)}


def test_replay_gives_the_state_that_was_there() -> None:
    groups = Coordinator()
    groups.do(join("a"))
    groups.do(join("b", "flights", "delays"), 1)
    groups.do(beat("a", 1), 2)
    groups.do(beat("b", -1), 3)
    restored = rebuilt(groups.log)
    assert restored.describe("g") == groups.describe("g")
    assert restored.next_deadline_ms() == SETTINGS.session_timeout_ms
    again = restored.heartbeat(beat("a", 2), TOPICS, 0)
    assert again.assignment == {FLIGHTS: (0, 1, 2, 3)}


def test_tombstones_of_what_is_not_there_are_passed_over() -> None:
    groups = rebuilt(
        [Tombstone(key_type=kind, group_id="g", member_id="a") for kind in range(10, 16)]
    )
    assert groups.list_groups() == ()


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (replace(join(), member_id=""), InvalidRequest, "MemberId can't be empty"),
        (replace(join(), member_id="x" * 37), InvalidRequest, "36 characters"),
        (replace(join(), group_id=""), InvalidRequest, "GroupId can't be empty"),
        (replace(join(), rack_id=""), InvalidRequest, "RackId can't be empty"),
        (replace(join(), member_epoch=-2), InvalidRequest, "MemberEpoch is invalid"),
        (replace(join(), subscribed_topics=()), InvalidRequest, "SubscribedTopicNames must be set"),
        (replace(join(), subscribed_topics=None), InvalidRequest, "SubscribedTopicNames must be"),
        (replace(beat("a", 1), group_id="other"), GroupIdNotFound, "other not found"),
        (replace(beat("a", -1), group_id="other"), GroupIdNotFound, "other not found"),
        (join("c"), GroupMaxSizeReached, "capacity of 2 members"),
        (beat("c", 1), GroupMaxSizeReached, "capacity of 2 members"),
        (beat("c", -1), UnknownMemberId, "c is not a member"),
        (beat("a", 3), FencedMemberEpoch, "greater member epoch"),
        (beat("b", 1), FencedMemberEpoch, r"does not match the previous member epoch \(0\)"),
    ],
)
def test_refusals(request_: ShareHeartbeat, error: type[KafkaError], words: str) -> None:
    groups = Coordinator(group_size_max=2)
    groups.do(join("a"))
    groups.do(join("b"), 1)
    before = groups.describe("g")
    with pytest.raises(error, match=words):
        groups.uninitialized(request_, TOPICS)
    with pytest.raises(error, match=words):
        groups.heartbeat(request_, TOPICS, 2)
    assert groups.describe("g") == before
    assert groups.list_groups() == (GroupListing("g", GroupState.STABLE),)


def test_a_broken_state_is_noticed() -> None:
    groups = ShareGroups(lambda _: SETTINGS)
    groups.heartbeat(join(), TOPICS, 0)
    groups.replay(Tombstone(key_type=12, group_id="g"))
    with pytest.raises(AssertionError, match="epochs 0 and 1"):
        groups.check_invariants()
