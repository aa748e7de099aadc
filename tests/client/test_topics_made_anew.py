"""A topic is deleted and made anew while members of a consumer group read it: offsets of the old
topic mean nothing in the new one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

import pytest

from sharegroup import Admin, Consumer, Producer
from sharegroup.client.core.offset_notes import OffsetNotes
from sharegroup.client.core.record import ConsumerRecord
from sharegroup.client.errors import NoOffsetForPartition
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.share.metrics import ShareConsumerMetrics
from sharegroup.client.share.node_sessions import NodeSessions
from sharegroup.model.errors import KafkaError, RebalanceInProgress, RequestTimedOut
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker
from sharegroup.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.test_cooperative_fetch import FAST_GROUPS, IN_TURNS
from tests.client.working import eventually, fresh, run
from tests.servers.running import RunningServer

BY_KEY = {"key_ranges": True}


@pytest.fixture(scope="module")
def local() -> Iterator[LocalBroker]:
    with local_broker(configs=FAST_GROUPS) as broker:
        yield broker


async def write(bootstrap: str, topic: str, values: Iterable[str]) -> None:
    async with Producer(bootstrap) as producer:
        for value in values:
            await producer.send(topic, value.encode(), partition=0)


def of_old(count: int) -> list[str]:
    return [f"old {number}" for number in range(count)]


def of_new(count: int) -> list[str]:
    return [f"new {number}" for number in range(count)]


async def make(
    bootstrap: str, topic: str, values: list[str], *, partitions: int = 1, **configs: str
) -> None:
    """Make the topic, when the broker has forgotten the one before it."""

    async def once() -> bool:
        async with Admin(bootstrap) as admin:
            try:
                await admin.create_topics(topic, partitions=partitions, configs=configs)
            except KafkaError as error:
                if error.name not in ("TOPIC_ALREADY_EXISTS", "UNKNOWN_TOPIC_OR_PARTITION"):
                    raise
                return False
        return True

    await eventually(once, bool)
    await write(bootstrap, topic, values)


async def delete(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.delete_topics(topic)


def consumer_of(bootstrap: str, topic: str, group: str | None, **settings: Any) -> Consumer:
    consumer = Consumer(
        group_id=group,
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
        allow_auto_create_topics=False,
        **{"auto_offset_reset": "earliest"} | settings,
    )
    if group is None:
        consumer.assign([(topic, 0)])
    else:
        consumer.subscribe(topic)
    return consumer


async def read(consumer: Consumer, last: str) -> list[ConsumerRecord]:
    """All records up to the one with this value."""
    found: list[ConsumerRecord] = []

    async def more() -> bool:
        found.extend(await consumer.poll(100))
        return any(one.value == last.encode() for one in found)

    await eventually(more, bool)
    return found


def values(records: Iterable[ConsumerRecord]) -> list[str]:
    return [(one.value or b"").decode() for one in records]


async def committed(bootstrap: str, topic: str, group: str) -> int | None:
    async with Admin(bootstrap) as admin:
        offsets = await admin.list_consumer_group_offsets(group)
    found = offsets.get(TopicPartition(topic, 0))
    return None if found is None else found.offset


def test_all_records_of_the_new_topic_are_read(group_broker: RunningServer) -> None:
    """The new topic has more records than were read of the old one: no offset is out of range."""

    async def scenario() -> None:
        address, topic, group = group_broker.bootstrap, fresh("topic"), fresh("group")
        await make(address, topic, of_old(5))
        async with consumer_of(address, topic, group) as consumer:
            assert values(await read(consumer, "old 4")) == of_old(5)
            await consumer.commit()
            await delete(address, topic)
            await make(address, topic, of_new(9))
            assert values(await read(consumer, "new 8")) == of_new(9)
            await consumer.commit()
        assert await committed(address, topic, group) == 9

    run(scenario)


def test_without_a_group(local: LocalBroker) -> None:
    async def scenario() -> None:
        topic = fresh("topic")
        await make(local.bootstrap, topic, of_old(5))
        async with consumer_of(local.bootstrap, topic, None) as consumer:
            assert values(await read(consumer, "old 4")) == of_old(5)
            await delete(local.bootstrap, topic)
            await make(local.bootstrap, topic, of_new(9))
            assert values(await read(consumer, "new 8")) == of_new(9)

    run(scenario)


def test_without_a_place_to_begin_it_is_an_error(local: LocalBroker) -> None:
    async def scenario() -> None:
        topic = fresh("topic")
        await make(local.bootstrap, topic, of_old(5))
        async with consumer_of(local.bootstrap, topic, None, auto_offset_reset="none") as consumer:
            consumer.seek(topic, 0, 0)
            assert values(await read(consumer, "old 4")) == of_old(5)
            await delete(local.bootstrap, topic)
            await make(local.bootstrap, topic, of_new(9))
            with pytest.raises(NoOffsetForPartition, match=topic):
                await read(consumer, "new 8")
            consumer.seek(topic, 0, 3)
            assert values(await read(consumer, "new 8")) == of_new(9)[3:]

    run(scenario)


def test_a_member_that_begins_at_the_end_reads_the_whole_new_topic(local: LocalBroker) -> None:
    """All of its records are newer than the subscription."""

    async def scenario() -> None:
        topic, group = fresh("topic"), fresh("group")
        await make(local.bootstrap, topic, of_old(5))
        async with consumer_of(
            local.bootstrap, topic, group, auto_offset_reset="latest"
        ) as consumer:
            while not consumer.assignment:
                await consumer.poll(50)
            assert await consumer.position(topic, 0) == 5
            await write(local.bootstrap, topic, ["old 5"])
            assert values(await read(consumer, "old 5")) == ["old 5"]
            await delete(local.bootstrap, topic)
            await make(local.bootstrap, topic, of_new(9))
            assert values(await read(consumer, "new 8")) == of_new(9)

    run(scenario)


def test_a_position_in_the_old_topic_is_not_committed_in_the_new_one(local: LocalBroker) -> None:
    """The member has not polled since: it does not know yet that there is a new topic."""

    async def scenario() -> None:
        topic, other, group = fresh("topic"), fresh("topic"), fresh("group")
        for each in (topic, other):
            await make(local.bootstrap, each, of_old(5))
        async with consumer_of(local.bootstrap, topic, group) as consumer:
            consumer.subscribe(topic, other)
            assert sorted(values(await read_all(consumer, 10))) == sorted(of_old(5) * 2)
            await delete(local.bootstrap, topic)
            await make(local.bootstrap, topic, of_new(9))
            with pytest.raises(RebalanceInProgress, match=f"made anew: {topic}-0"):
                await consumer.commit()
            assert await committed(local.bootstrap, topic, group) is None
            assert await committed(local.bootstrap, other, group) == 5
            assert values(await read(consumer, "new 8")) == of_new(9)

    run(scenario)


async def read_all(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []

    async def more() -> int:
        found.extend(await consumer.poll(100))
        return len(found)

    await eventually(more, lambda so_far: so_far >= count)
    return found


@pytest.mark.parametrize("noticed", [False, True])
@pytest.mark.parametrize("how", [IN_TURNS, BY_KEY], ids=["in turns", "by key"])
def test_single_records_of_the_old_topic_are_left_out(
    local: LocalBroker, how: dict[str, Any], noticed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Seed 8738: a record of the old topic was committed by the name of the topic, and the record
    of the new one with its offset was given to nobody."""

    async def scenario() -> None:
        topic, group, configs = fresh("topic"), fresh("group"), {"accept.range.fetch": "true"}
        await make(local.bootstrap, topic, of_old(5), **configs)
        async with consumer_of(local.bootstrap, topic, group, **how) as consumer:
            held = await read(consumer, "old 4")
            await consumer.commit(held[:2])
            await delete(local.bootstrap, topic)
            await make(local.bootstrap, topic, of_new(9), **configs)
            fresh_ones = await read(consumer, "new 8") if noticed else []
            await consumer.commit(held[2:] + fresh_ones[:1])
            assert await committed(local.bootstrap, topic, group) == (1 if noticed else None)
            fresh_ones = fresh_ones or await read(consumer, "new 8")
            assert values(fresh_ones) == of_new(9)
            assert {one.topic_id for one in held}.isdisjoint(one.topic_id for one in fresh_ones)
            await consumer.commit(fresh_ones)

            async def at() -> int | None:
                return await committed(local.bootstrap, topic, group)

            assert await eventually(at, lambda offset: offset == 9) == 9

    run(scenario)
    assert "left out of a commit, because their topic was deleted and made anew" in caplog.text


def test_a_fetch_that_waits_ends_with_its_topic(local: LocalBroker) -> None:
    """The reader waits at the end of the old topic, which has as many records as the new one."""

    async def scenario() -> None:
        topic, group = fresh("topic"), fresh("group")
        await make(local.bootstrap, topic, of_old(3))
        async with consumer_of(local.bootstrap, topic, group) as consumer:
            await read(consumer, "old 2")
            waiting = asyncio.create_task(read(consumer, "new 2"))
            await delete(local.bootstrap, topic)
            await make(local.bootstrap, topic, of_new(3))
            assert values(await waiting) == of_new(3)

    run(scenario)


def test_a_producer_knows_that_the_new_topic_has_fewer_partitions(local: LocalBroker) -> None:
    """Its keys go to partitions that are there, once it was told that one is not there."""

    async def scenario() -> None:
        topic = fresh("topic")
        await make(local.bootstrap, topic, [], partitions=8)
        async with Producer(local.bootstrap, delivery_timeout_ms=5_000) as producer:
            for number in range(16):
                await producer.send(topic, b"old", key=f"{number}")
            await delete(local.bootstrap, topic)
            await make(local.bootstrap, topic, [], partitions=2)
            with pytest.raises(RequestTimedOut):
                await producer.send(topic, b"new", partition=7)
            found = [await producer.send(topic, b"new", key=f"{number}") for number in range(16)]
            assert {one.partition for one in found} == {0, 1}
            unkeyed = [await producer.send(topic, b"new") for _ in range(4)]
            assert {one.partition for one in unkeyed} <= {0, 1}

    run(scenario)


def test_what_a_deleted_topic_would_bring_is_not_waited_for() -> None:
    """Results that a worker has kept for its records are dropped after a while."""

    async def scenario() -> None:
        cluster = Cluster("127.0.0.1:9")
        metrics = ShareConsumerMetrics(lambda: 0.0)
        reasons, pauses = OffsetNotes[str](), OffsetNotes[int]()
        sessions = NodeSessions(cluster, "group", "me", metrics, lambda: None, reasons, pauses)
        topic = MetadataResponseTopic(
            name="jobs", topic_id=UUID(int=1), partitions=[MetadataResponsePartition(leader_id=1)]
        )
        brokers = [MetadataResponseBroker(1, "127.0.0.1", 9)]
        cluster.metadata.apply(MetadataResponse(brokers=brokers, topics=[topic]))
        where = TopicIdPartition(UUID(int=1), 0)
        assert not sessions.is_served(where)  # the broker may bring them later
        topic.topic_id = UUID(int=2)
        cluster.metadata.apply(MetadataResponse(brokers=brokers, topics=[topic]))
        assert sessions.is_served(where)

    run(scenario)
