"""A regular expression that an earlier release took, and that is over this one's bounds."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from sharegroup.groups.classic.records import ClassicRecord
from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.consumer.heartbeat import ConsumerHeartbeat
from sharegroup.groups.consumer.records import ConsumerMemberMetadata, ResolvedRegex
from sharegroup.groups.topics import KnownTopic, TopicsImage

ORDERS = UUID(int=1)
TOPICS = TopicsImage({"orders": KnownTopic(ORDERS, 4)})
TOO_LARGE = "(.{0,1000})*" * 50


def test_its_members_keep_their_topics_and_the_group_goes_on() -> None:
    first = ConsumerGroups(lambda _: GroupSettings())
    join = ConsumerHeartbeat(
        group_id="g",
        member_id="old",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_regex="orders.*",
        owned={},
    )
    records = first.heartbeat(join, TOPICS, 0).records
    later = ConsumerGroups(lambda _: GroupSettings())
    for record in records:
        assert not isinstance(record, ClassicRecord)
        if isinstance(record, ConsumerMemberMetadata):
            record = replace(record, subscribed_regex=TOO_LARGE)
        elif isinstance(record, ResolvedRegex):
            record = replace(record, regex=TOO_LARGE)
        later.table.replay(record)
    later.sessions_restarted(0)
    new = replace(join, member_id="new")
    assert later.heartbeat(new, TOPICS, 700_000).member_epoch > 0
    targets = later.describe("g").targets
    assert {name: len(target[ORDERS]) for name, target in targets.items()} == {"old": 2, "new": 2}
