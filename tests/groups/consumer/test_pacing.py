"""How soon members of a consumer group are told to come back."""

from __future__ import annotations

from uuid import UUID

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.consumer.heartbeat import ConsumerHeartbeat, ConsumerHeartbeatResult
from sharegroup.groups.consumer.records import ConsumerRecord
from sharegroup.groups.topics import KnownTopic, TopicsImage

TOPICS = TopicsImage({"t": KnownTopic(UUID(int=1), 4)})
SETTINGS = GroupSettings(consumer_assignment_interval_ms=1_000)


class Group:
    def __init__(self) -> None:
        self.groups = ConsumerGroups(lambda _: SETTINGS)
        self.log: list[ConsumerRecord] = []

    def beat(self, member: str, now_ms: int, epoch: int = 0) -> ConsumerHeartbeatResult:
        joins = epoch == 0
        request = ConsumerHeartbeat(
            group_id="g",
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topics=("t",) if joins else None,
            owned={} if joins else None,
        )
        result = self.groups.heartbeat(request, TOPICS, now_ms)
        self.log += result.records
        return result


def test_members_come_back_soon_after_a_change_and_later_at_rest() -> None:
    group = Group()
    joined = group.beat("a", 0)
    now_ms, told = 0, [joined.heartbeat_interval_ms]
    while told[-1] < SETTINGS.consumer_heartbeat_interval_ms:
        now_ms += told[-1]
        told.append(group.beat("a", now_ms, joined.member_epoch).heartbeat_interval_ms)
    assert told == [250, 250, 500, 1_000, 2_000, 4_000, 5_000]


def test_a_change_of_the_group_calls_its_members_back() -> None:
    group = Group()
    epoch = group.beat("a", 0).member_epoch
    assert group.beat("a", 20_000, epoch).heartbeat_interval_ms == 5_000
    assert group.beat("b", 21_000).heartbeat_interval_ms == 250
    assert group.beat("a", 21_100, epoch).heartbeat_interval_ms == 250


def test_a_new_assignment_is_a_change_too() -> None:
    group = Group()
    epoch = group.beat("a", 0).member_epoch
    waiting = group.beat("b", 300)
    assert waiting.heartbeat_interval_ms == 250
    assert group.beat("b", 950, waiting.member_epoch).heartbeat_interval_ms == 50
    assert group.beat("b", 1_000, waiting.member_epoch).heartbeat_interval_ms == 250
    assert group.beat("a", 1_600, epoch).heartbeat_interval_ms == 600


def test_many_members_come_back_less_often() -> None:
    group = Group()
    for number in range(200):
        last = group.beat(f"m{number}", 0)
    assert last.heartbeat_interval_ms == 1_000
    assert group.beat("m0", 1_000, 2).heartbeat_interval_ms == 1_000


def test_a_replay_is_no_change() -> None:
    group = Group()
    epoch = group.beat("a", 0).member_epoch
    again = Group()
    for record in group.log:
        again.groups.table.replay(record)
    again.groups.sessions_restarted(100)
    assert again.beat("a", 200, epoch).heartbeat_interval_ms == 5_000
