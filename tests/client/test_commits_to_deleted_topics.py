"""Commits of offsets in several topics, one of which is deleted: the others are committed once, and
nobody waits for the deleted one. All time-outs are longer than a test may take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from sharegroup import Consumer, TopicPartition
from sharegroup.model.errors import UnknownTopicId, UnknownTopicOrPartition
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker
from sharegroup.wire import apis
from sharegroup.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_consumers import GROUP, TOPIC, TOPIC_ID, ScriptedConsumers
from tests.client.test_cooperative_fetch import FAST_GROUPS, IN_TURNS
from tests.client.test_topics_made_anew import BY_KEY, committed, delete, make, read, values
from tests.client.working import eventually, fresh, run

OTHER, OTHER_ID = "other", UUID(int=8)
NAMES = {TOPIC_ID: TOPIC, OTHER_ID: OTHER}
FOR_EVER = 1_000_000


class Forgetful(ScriptedConsumers):
    """Refuses so many commits to the other topic, and says as often that there is none.

    Args:
        by_id: it knows topics by id in commits.
    """

    def __init__(self, *, by_id: bool) -> None:
        super().__init__(partitions=1)
        self.refuses = self.hides = 0
        self.asked: list[str] = []
        """The topics of each commit."""
        self.handle(apis.OFFSET_COMMIT, self._commit, (8, 10 if by_id else 9))

    async def _topic(self, request: Message, version: int) -> Message:
        found = await super()._topic(request, version)
        assert isinstance(found, MetadataResponse)
        code = UnknownTopicOrPartition.code if self.hides else 0
        self.hides -= 1 if code else 0
        partitions = [MetadataResponsePartition(partition_index=0, leader_id=self.leaders[0])]
        found.topics.append(
            MetadataResponseTopic(code, OTHER, topic_id=OTHER_ID, partitions=partitions)
        )
        return found

    async def _commit(self, request: Message, version: int) -> Message:
        assert isinstance(request, OffsetCommitRequest)
        names = {topic.name or NAMES[topic.topic_id] for topic in request.topics}
        self.asked.append(" ".join(sorted(names)))
        unknown = 0
        if OTHER in names and self.refuses:
            self.refuses -= 1
            unknown = (UnknownTopicId if version >= 10 else UnknownTopicOrPartition).code
        topics = [
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    OffsetCommitResponsePartition(
                        0, unknown if OTHER in (topic.name, NAMES.get(topic.topic_id)) else 0
                    )
                ],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(topics=topics)


@pytest.fixture(scope="module")
def local() -> Iterator[LocalBroker]:
    with local_broker(configs=FAST_GROUPS) as broker:
        yield broker


async def reader_of(server: Forgetful) -> Consumer:
    consumer = Consumer(
        group_id=GROUP,
        bootstrap_servers=server.address,
        enable_auto_commit=False,
        request_timeout_ms=FOR_EVER,
        fetch_max_wait_ms=20,
    )
    consumer.assign([(TOPIC, 0), (OTHER, 0)])
    for topic in (TOPIC, OTHER):
        assert await consumer.position(topic, 0) == 50
    await consumer.poll(0)
    return consumer


by_id_too = pytest.mark.parametrize("by_id", [False, True], ids=["by name", "by id"])


@by_id_too
def test_a_topic_that_is_refused_twice_and_absent_is_not_asked_again(by_id: bool) -> None:
    async def scenario() -> None:
        async with Forgetful(by_id=by_id) as server, await reader_of(server) as consumer:
            server.refuses = server.hides = FOR_EVER
            with pytest.raises(UnknownTopicOrPartition, match="no such topic: other-0"):
                await consumer.commit()
            assert server.asked == [f"{OTHER} {TOPIC}", OTHER]

    run(scenario)


@by_id_too
@pytest.mark.parametrize(("refuses", "hides"), [(1, 1), (4, 0), (4, 1)])
def test_a_broker_that_does_not_know_a_topic_yet_is_asked_again(
    by_id: bool, refuses: int, hides: int
) -> None:
    async def scenario() -> None:
        async with Forgetful(by_id=by_id) as server, await reader_of(server) as consumer:
            server.refuses, server.hides = refuses, hides
            await consumer.commit()
            assert server.asked == [f"{OTHER} {TOPIC}", *[OTHER] * refuses]

    run(scenario)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_rebalance_does_not_wait_for_a_deleted_topic(local: LocalBroker, protocol: Any) -> None:
    async def scenario() -> None:
        address, group = local.bootstrap, fresh("group")
        stays, goes = fresh("topic"), fresh("topic")
        for topic in (stays, goes):
            await make(address, topic, [topic])
        async with Consumer(
            stays,
            goes,
            group_id=group,
            bootstrap_servers=address,
            auto_offset_reset="earliest",
            group_protocol=protocol,
            request_timeout_ms=FOR_EVER,
            allow_auto_create_topics=False,
        ) as consumer:
            found: list[str] = []
            while len(found) < 2:
                found += values(await consumer.poll())
            await delete(address, goes)
            while TopicPartition(goes, 0) in consumer.assignment:
                await consumer.poll(50)
            local.produce(stays, ["last"])
            assert values(await read(consumer, "last")) == ["last"]
        assert await committed(address, stays, group) == 2

    run(scenario)


@pytest.mark.parametrize("how", [IN_TURNS, BY_KEY], ids=["in turns", "by key"])
def test_single_records_of_a_deleted_topic(local: LocalBroker, how: dict[str, Any]) -> None:
    async def scenario() -> None:
        address, group, configs = local.bootstrap, fresh("group"), {"accept.range.fetch": "true"}
        stays, goes = fresh("topic"), fresh("topic")
        for topic in (stays, goes):
            await make(address, topic, [topic], **configs)
        async with Consumer(
            stays,
            goes,
            group_id=group,
            bootstrap_servers=address,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            request_timeout_ms=FOR_EVER,
            allow_auto_create_topics=False,
            **how,
        ) as consumer:
            held: list[Any] = []
            while len(held) < 2:
                held += await consumer.poll()
            await delete(address, goes)
            with pytest.raises(UnknownTopicOrPartition, match=f"no such topic: {goes}-0"):
                await consumer.commit(held)

        async def at() -> int | None:
            return await committed(address, stays, group)

        assert await eventually(at, lambda offset: offset == 1) == 1

    run(scenario)
