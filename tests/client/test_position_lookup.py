"""A partition whose position cannot be looked up holds up no others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sharegroup import Admin, Consumer, TopicPartition, testing
from sharegroup.model import errors
from sharegroup.wire import apis
from sharegroup.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sharegroup.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_consumers import COMMITTED, GROUP, NODE, TOPIC, ScriptedConsumers
from tests.client.working import run

NO_LEADER = -1
START = 5
WELL, ILL = (TOPIC, 0), (TOPIC, 1)


class Offsets(ScriptedConsumers):
    """Logs that begin at ``START``. ``refused`` are the error codes of partitions."""

    def __init__(self, refused: Mapping[int, int]) -> None:
        super().__init__(partitions=2)
        self.refused = refused
        self.handle(apis.LIST_OFFSETS, self._list, (1, 7))
        self.handle(apis.OFFSET_FOR_LEADER_EPOCH, self._ends, (2, 4))

    async def _list(self, request: Message, version: int) -> Message:
        assert isinstance(request, ListOffsetsRequest)
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    topic.name,
                    [
                        ListOffsetsPartitionResponse(
                            one.partition_index,
                            self.refused.get(one.partition_index, errors.NONE),
                            offset=START,
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    async def _ends(self, request: Message, version: int) -> Message:
        assert isinstance(request, OffsetForLeaderEpochRequest)
        indexes = sorted(one.partition for topic in request.topics for one in topic.partitions)
        ends = [
            EpochEndOffset(self.refused.get(index, errors.NONE), index, 1, COMMITTED - 10)
            for index in reversed(indexes)
        ]
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(TOPIC, ends)])


def consumer_of(server: Offsets, **settings: Any) -> Consumer:
    return Consumer(
        bootstrap_servers=server.address,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=10,
        **settings,
    )


def refused_by_its_leader(server: Offsets) -> None:
    server.refused = {1: errors.NotLeaderOrFollower.code}


def without_a_leader(server: Offsets) -> None:
    server.leaders[1] = NO_LEADER


@pytest.mark.parametrize("spoil", [refused_by_its_leader, without_a_leader])
def test_a_partition_begins_beside_one_that_cannot(spoil: Callable[[Offsets], None]) -> None:
    async def scenario() -> None:
        async with Offsets({}) as server:
            spoil(server)
            await beside(server)

    async def beside(server: Offsets) -> None:
        async with consumer_of(server) as consumer:
            consumer.assign([WELL, ILL])
            assert await consumer.position(*WELL) == START
            with pytest.raises(errors.RetriableError):
                async with Admin(server.address, request_timeout_ms=100) as admin:
                    await admin.list_offsets([TopicPartition(*WELL), TopicPartition(*ILL)])
            server.leaders, server.refused = [NODE] * 2, {}
            assert await consumer.position(*ILL) == START

    run(scenario)


def test_a_partition_that_is_refused_is_told_and_the_others_begin() -> None:
    async def scenario() -> None:
        refused = {1: errors.TopicAuthorizationFailed.code}
        async with Offsets(refused) as server, consumer_of(server) as consumer:
            consumer.assign([WELL, ILL])
            with pytest.raises(errors.TopicAuthorizationFailed):
                await consumer.poll(60_000)
            assert await consumer.position(*WELL) == START
            # An error that passes hides none that stays.
            server.refused = {0: errors.NotLeaderOrFollower.code, **refused}
            consumer.seek_to_beginning()
            with pytest.raises(errors.TopicAuthorizationFailed):
                await consumer.poll(60_000)

    run(scenario)


@pytest.mark.parametrize("ill", ["begins", "is checked"])
def test_a_position_is_checked_beside_one_that_cannot(ill: str) -> None:
    """The log of the one was cut short under a new leader: its consumer goes back."""

    async def scenario() -> None:
        refused = {1: errors.NotLeaderOrFollower.code}
        server = Offsets(refused)
        server.leader_epoch = 2
        async with server, consumer_of(server, group_id=GROUP) as consumer:
            consumer.assign([WELL, ILL])
            if ill == "begins":
                consumer.seek_to_beginning(ILL)
            async with asyncio.timeout(30):
                while await consumer.position(*WELL) != COMMITTED - 10:
                    await consumer.poll(20)

    run(scenario)


def test_records_are_read_beside_a_topic_that_does_not_exist() -> None:
    async def scenario(bootstrap: str) -> None:
        async with Consumer(
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
        ) as consumer:
            consumer.assign([("missing", 0), ("jobs", 0), ("jobs", 7)])
            assert [record.value for record in await consumer.poll(60_000)] == [b"1"]

    with testing.broker(topics={"jobs": 1}) as kafka:
        kafka.produce("jobs", [b"1"])
        run(lambda: scenario(kafka.bootstrap))
