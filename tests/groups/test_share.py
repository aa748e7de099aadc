"""What each call of ShareGroups does, one rule at a time."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.records import Tombstone
from sharegroup.groups.share.group import ShareGroupState
from sharegroup.groups.share.groups import LATE_MS, ShareGroupListing, ShareGroups
from sharegroup.groups.share.heartbeat import ShareHeartbeat, ShareHeartbeatResult, ToInitialize
from sharegroup.groups.share.records import (
    ShareMemberMetadata,
    ShareRecord,
    ShareTargetAssignmentMetadata,
    TopicPartitions,
)
from sharegroup.groups.topics import KnownTopic, TopicsImage
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
TOPICS = TopicsImage({"flights": KnownTopic(FLIGHTS, 4), "delays": KnownTopic(DELAYS, 1)})
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
        self.log: list[ShareRecord] = []

    def do(
        self, request: ShareHeartbeat, now_ms: int = 0, topics: TopicsImage = TOPICS
    ) -> ShareHeartbeatResult:
        missing = self.uninitialized(request, topics)
        self.log += self.initializing(request.group_id, missing)
        self.log += self.initialized(request.group_id, missing)
        result = self.heartbeat(request, topics, now_ms)
        self.log += result.records
        self.check_invariants()
        return result


def rebuilt(log: list[ShareRecord]) -> ShareGroups:
    groups = ShareGroups(lambda _: SETTINGS)
    for record in log:
        groups.table.replay(record)
    groups.sessions_restarted(0)
    groups.check_invariants()
    return groups


def to_initialize(topic_id: UUID, name: str, *partitions: int, start: int = -1) -> ToInitialize:
    return ToInitialize(TopicPartitions(topic_id, name, partitions), start)


def test_the_first_heartbeat_answers_with_the_assignment() -> None:
    groups = Coordinator()
    assert groups.do(join()) == ShareHeartbeatResult(
        member_id="a",
        member_epoch=2,
        heartbeat_interval_ms=5_000,
        assignment={FLIGHTS: (0, 1, 2, 3)},
        records=tuple(groups.log[2:]),
    )


def test_an_unchanged_assignment_is_not_repeated() -> None:
    groups = Coordinator()
    epoch = groups.do(join()).member_epoch
    result = groups.do(beat("a", epoch), 5_000)
    assert (result.assignment, result.records) == (None, ())
    assert groups.do(beat("a", epoch, "flights"), 9_000).assignment == {FLIGHTS: (0, 1, 2, 3)}


def test_the_metadata_of_a_member_is_recorded() -> None:
    groups = Coordinator()
    groups.do(replace(join(), rack_id="east", client_id="c", client_host="/1"))
    result = groups.do(replace(beat("a", 2), client_id="d", client_host="/2"), 1)
    assert [type(record) for record in result.records] == [ShareMemberMetadata]
    (member,) = groups.describe("g").members
    assert (member.rack_id, member.client_id, member.client_host) == ("east", "d", "/2")
    assert groups.do(replace(beat("a", 2), client_id="d", client_host="/2"), 2).records == ()


def test_only_initialised_partitions_are_assigned() -> None:
    groups = Coordinator()
    assert groups.heartbeat(join(), TOPICS, 0).assignment == {}
    missing = (to_initialize(FLIGHTS, "flights", 2),)
    groups.initializing("g", missing)
    groups.initialized("g", missing)
    assert groups.heartbeat(beat("a", 2), TOPICS, 1_000).assignment == {FLIGHTS: (2,)}


def test_failed_initialisation_is_retried() -> None:
    groups = Coordinator()
    missing = groups.uninitialized(join(), TOPICS)
    groups.log += groups.initializing("g", missing)
    groups.log += groups.not_initialized("g", missing)
    assert groups.heartbeat(join(), TOPICS, 0).assignment == {}
    assert groups.uninitialized(beat("a", 2), TOPICS) == missing
    assert groups.do(beat("a", 2), 1_000).assignment == {FLIGHTS: (0, 1, 2, 3)}


def test_an_initialisation_interrupted_by_a_crash_is_retried() -> None:
    groups = Coordinator()
    missing = groups.uninitialized(join(), TOPICS)
    groups.log += groups.initializing("g", missing)
    restored = rebuilt(groups.log)
    assert restored.uninitialized(join(), TOPICS) == missing


def test_new_topics_start_by_the_reset_policy_and_added_partitions_at_zero() -> None:
    groups = Coordinator()
    assert groups.initialization_epoch("g") == 1
    missing = groups.uninitialized(join("a", "delays", "nowhere"), TOPICS)
    assert missing == (to_initialize(DELAYS, "delays", 0),)
    epoch = groups.do(join("a", "delays")).member_epoch
    grown = TopicsImage({"delays": KnownTopic(DELAYS, 2)})
    missing = groups.uninitialized(beat("a", epoch), grown)
    assert missing == (to_initialize(DELAYS, "delays", 1, start=0),)
    assert groups.initialization_epoch("g") == 2
    result = groups.do(beat("a", epoch), 5_000, grown)
    assert (result.member_epoch, result.assignment) == (3, {DELAYS: (0, 1)})
    assert groups.state_partitions("g") == (TopicPartitions(DELAYS, "delays", (0, 1)),)


def test_joins_within_the_interval_share_one_computation() -> None:
    groups = Coordinator()
    groups.do(join("a"), 0)
    second = groups.do(join("b"), 400)
    assert (second.member_epoch, second.assignment, second.heartbeat_interval_ms) == (2, {}, 600)
    third = groups.do(join("c"), 990)
    assert (third.assignment, third.heartbeat_interval_ms) == ({}, 50)
    shares = [groups.do(beat(name, 2), 1_000 + at) for at, name in enumerate("bca")]
    assert {share.member_epoch for share in shares} == {4}
    assert {share.heartbeat_interval_ms for share in shares} == {5_000}
    assert sorted(len((share.assignment or {})[FLIGHTS]) for share in shares) == [1, 1, 2]
    assert sum(isinstance(r, ShareTargetAssignmentMetadata) for r in groups.log) == 2


def test_a_join_after_the_interval_is_answered_at_once() -> None:
    groups = Coordinator()
    groups.do(join("a"))
    second = groups.do(join("b"), 1_000)
    assert second.assignment is not None
    assert len(second.assignment[FLIGHTS]) == 2
    first = groups.do(beat("a", 2), 1_001)
    assert (first.member_epoch, len((first.assignment or {})[FLIGHTS])) == (3, 2)


def test_without_an_interval_every_join_is_answered_at_once() -> None:
    groups = Coordinator(replace(SETTINGS, assignment_interval_ms=0))
    assert [len(groups.do(join(name)).assignment or {}) for name in "abc"] == [1, 1, 1]


def test_a_leave_waits_for_the_interval() -> None:
    groups = Coordinator()
    groups.do(join("a"))
    groups.do(join("b"), 1_000)
    groups.do(replace(join("b"), member_epoch=-1), 1_200)
    waiting = groups.do(beat("a", 2), 1_999)
    assert len((waiting.assignment or {})[FLIGHTS]) == 2
    assert waiting.heartbeat_interval_ms == 50
    assert groups.do(beat("a", 3), 2_000).assignment == {FLIGHTS: (0, 1, 2, 3)}


def test_a_changed_subscription() -> None:
    groups = Coordinator()
    groups.do(join())
    result = groups.do(beat("a", 2, "flights", "delays"), 1_000)
    assert result.assignment == {FLIGHTS: (0, 1, 2, 3), DELAYS: (0,)}
    # What a member gave up is taken at once, even while the next computation waits.
    assert groups.do(beat("a", 3, "delays"), 1_001).assignment == {DELAYS: (0,)}
    assert groups.do(beat("a", 3, "delays", "delays"), 2_100).member_epoch == 4
    assert groups.do(beat("a", 4, "delays"), 2_101).records == ()


def test_a_deleted_topic_is_removed_from_state_and_assignment() -> None:
    groups = Coordinator()
    groups.do(join("a", "flights", "delays"))
    assert groups.holds(DELAYS) == [("g", TopicPartitions(DELAYS, "delays", (0,)))]
    groups.log += groups.topics_deleted({DELAYS})
    assert groups.holds(DELAYS) == []
    left = TopicsImage({"flights": KnownTopic(FLIGHTS, 4)})
    assert groups.do(beat("a", 2), 5_000, left).assignment == {FLIGHTS: (0, 1, 2, 3)}
    assert groups.topic_ids() == {FLIGHTS}
    again = TopicsImage({**left.topics, "delays": KnownTopic(UUID(int=9), 1)})
    assert groups.uninitialized(beat("a", 3), again) == (to_initialize(UUID(int=9), "delays", 0),)
    result = groups.do(beat("a", 3), 6_000, again)
    assert result.assignment == {FLIGHTS: (0, 1, 2, 3), UUID(int=9): (0,)}


def test_a_topic_deleted_while_it_is_initialised_is_not_taken_in() -> None:
    groups = Coordinator()
    missing = groups.uninitialized(join("a", "delays"), TOPICS)
    groups.initializing("g", missing)
    assert groups.holds(DELAYS) == [("g", TopicPartitions(DELAYS, "delays", (0,)))]
    groups.topics_deleted({DELAYS})
    assert groups.initialized("g", missing) == ()
    assert groups.state_partitions("g") == ()


def test_a_lost_answer_may_be_asked_for_again_with_the_previous_epoch() -> None:
    groups = Coordinator()
    groups.do(join("a"))
    groups.do(join("b"), 1_000)
    lost = groups.do(beat("a", 2), 1_001)
    again = groups.do(beat("a", 2), 1_002)
    assert (again.member_epoch, again.assignment) == (3, lost.assignment)
    assert groups.do(join("a"), 1_003).member_epoch == 3


def test_who_has_missed_a_heartbeat_is_silent() -> None:
    groups = Coordinator()
    groups.do(join("a"), 0)
    groups.do(join("b"), 10_000)
    late_ms = 2 * SETTINGS.heartbeat_interval_ms + LATE_MS
    assert groups.silent("g", late_ms) == {}
    assert groups.silent("g", late_ms + 1) == {"a": (late_ms + 1, 45_000 - late_ms - 1)}
    assert groups.silent("g", 45_001)["a"].left_ms == 0, "its session is about to be ended"
    assert groups.member_count("g") == 2
    with pytest.raises(GroupIdNotFound):
        groups.silent("none", 0)


def test_a_silent_member_is_removed() -> None:
    groups = Coordinator()
    groups.do(join("a"), 0)
    groups.do(join("b"), 10_000)
    groups.do(beat("a", 2), 20_000)
    assert groups.next_deadline_ms() == 55_000
    assert groups.tick(TOPICS, 54_999) == ()
    groups.log += groups.tick(TOPICS, 55_000)
    assert [member.member_id for member in groups.describe("g").members] == ["a"]
    assert groups.next_deadline_ms() == 65_000
    with pytest.raises(UnknownMemberId):
        groups.do(beat("b", 3), 55_001)


def test_leaving_empties_a_group_which_stays_until_it_is_deleted() -> None:
    groups = Coordinator()
    groups.do(join())
    for call in (
        lambda: groups.delete("g"),
        lambda: groups.begin_deletion("g", TOPICS),
        lambda: groups.begin_offsets_deletion("g", ["flights"], TOPICS),
        lambda: groups.check_empty("g"),
    ):
        with pytest.raises(NonEmptyGroup):
            call()
    left = groups.do(beat("a", -1))
    assert (left.member_epoch, left.assignment) == (-1, None)
    assert groups.list_groups() == (ShareGroupListing("g", ShareGroupState.EMPTY),)
    described = groups.describe("g")
    assert (described.epoch, described.assignment_epoch) == (3, 3)
    begun = groups.begin_deletion("g", TOPICS)
    assert begun.topics == (TopicPartitions(FLIGHTS, "flights", (0, 1, 2, 3)),)
    groups.log += begun.records
    groups.log += groups.delete("g")
    assert groups.list_groups() == ()
    assert not groups.exists("g")
    assert rebuilt(groups.log).list_groups() == ()
    for missing in (
        lambda: groups.describe("g"),
        lambda: groups.delete("g"),
        lambda: groups.begin_deletion("g", TOPICS),
        lambda: groups.begin_offsets_deletion("g", [], TOPICS),
    ):
        with pytest.raises(GroupIdNotFound):
            missing()


def test_a_deletion_interrupted_by_a_crash_is_retried() -> None:
    groups = Coordinator()
    groups.do(join("a", "flights", "delays"))
    groups.do(beat("a", -1))
    begun = groups.begin_deletion("g", TOPICS)
    groups.log += begun.records
    restored = rebuilt(groups.log)
    assert restored.state_partitions("g") == ()
    only_flights = TopicsImage({"flights": KnownTopic(FLIGHTS, 4)})
    assert restored.begin_deletion("g", only_flights).topics == (
        TopicPartitions(FLIGHTS, "flights", (0, 1, 2, 3)),
    )


def test_offsets_are_deleted_topic_by_topic() -> None:
    groups = Coordinator()
    groups.do(join("a", "flights", "delays"))
    groups.do(beat("a", -1))
    begun = groups.begin_offsets_deletion("g", ["delays", "delays", "nowhere"], TOPICS)
    assert begun.topics == (TopicPartitions(DELAYS, "delays", (0,)),)
    assert {name: error.code for name, error in begun.refused.items()} == {"nowhere": 3}
    groups.log += begun.records
    # Until the second half, the deletion may be asked for again.
    again = groups.begin_offsets_deletion("g", ["delays"], TOPICS)
    assert (again.topics, again.records) == (begun.topics, ())
    groups.log += groups.offsets_deleted("g", [DELAYS])
    refused = groups.begin_offsets_deletion("g", ["delays"], TOPICS).refused
    assert refused["delays"].message == "There is no offset information to delete."
    assert groups.topic_ids() == {FLIGHTS}
    # The topic is new to the group again.
    assert groups.uninitialized(join("a", "flights", "delays"), TOPICS) == (
        to_initialize(DELAYS, "delays", 0),
    )


def test_a_join_takes_back_a_topic_whose_deletion_has_begun() -> None:
    groups = Coordinator()
    groups.do(join("a", "delays"))
    groups.do(beat("a", -1))
    groups.log += groups.begin_offsets_deletion("g", ["delays"], TOPICS).records
    groups.do(join("a", "delays"))
    assert groups.offsets_deleted("g", [DELAYS]) == ()
    assert groups.state_partitions("g") == (TopicPartitions(DELAYS, "delays", (0,)),)


def test_offsets_may_be_set_for_a_group_that_does_not_exist() -> None:
    groups = Coordinator()
    groups.check_empty("g")
    item = (to_initialize(FLIGHTS, "flights", 1, start=7),)
    groups.log += groups.initializing("g", item)
    groups.log += groups.initialized("g", item)
    described = groups.describe("g")
    assert (described.epoch, described.assignment_epoch) == (1, 0)
    assert rebuilt(groups.log).describe("g") == described
    assert groups.uninitialized(join(), TOPICS) == (
        to_initialize(FLIGHTS, "flights", 0, 2, 3, start=0),
    )
    assert groups.do(join()).assignment == {FLIGHTS: (0, 1, 2, 3)}


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
    groups.do(beat("a", 2), 1_000)
    groups.do(beat("b", -1), 1_001)
    restored = rebuilt(groups.log)
    assert restored.describe("g") == groups.describe("g")
    assert restored.next_deadline_ms() == SETTINGS.session_timeout_ms
    again = restored.heartbeat(beat("a", 3), TOPICS, 0)
    assert again.assignment == {FLIGHTS: (0, 1, 2, 3)}


def test_a_rewritten_group_is_the_same_group() -> None:
    groups = Coordinator()
    groups.do(join("a"))
    groups.do(join("b", "flights", "delays"), 1_000)
    anew = rebuilt(list(groups.table.records("g")))
    assert anew.describe("g") == groups.describe("g")
    assert list(anew.table.records("g")) == list(groups.table.records("g"))
    assert list(groups.table.records("other")) == []
    assert groups.group_ids() == ["g"]


def test_tombstones_of_unknown_keys_are_skipped() -> None:
    groups = rebuilt(
        [Tombstone(key_type=kind, group_id="g", member_id="a") for kind in range(10, 16)]
    )
    assert groups.list_groups() == ()


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (replace(join(), member_id=""), InvalidRequest, "Invalid member id"),
        (replace(join(), member_id="x" * 37), InvalidRequest, "Invalid member id"),
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
        (beat("a", 4), FencedMemberEpoch, "greater member epoch"),
        (beat("b", 1), FencedMemberEpoch, r"does not match the previous member epoch \(0\)"),
    ],
)
def test_refusals(request_: ShareHeartbeat, error: type[KafkaError], words: str) -> None:
    groups = Coordinator(group_size_max=2)
    groups.do(join("a"))
    groups.do(join("b"), 1_000)
    before = groups.describe("g")
    with pytest.raises(error, match=words):
        groups.uninitialized(request_, TOPICS)
    with pytest.raises(error, match=words):
        groups.heartbeat(request_, TOPICS, 1_001)
    assert groups.describe("g") == before
    assert groups.list_groups() == (ShareGroupListing("g", ShareGroupState.STABLE),)


def test_a_broken_state_is_detected() -> None:
    groups = ShareGroups(lambda _: SETTINGS)
    groups.heartbeat(join(), TOPICS, 0)
    groups.table.replay(Tombstone(key_type=12, group_id="g"))
    with pytest.raises(AssertionError, match="epochs 0 and 2"):
        groups.check_invariants()
