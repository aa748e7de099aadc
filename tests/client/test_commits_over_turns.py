"""A commit that is under way while a member gets its next turn (KIP-X, "Cooperative Fetch"): a
scripted broker says when each is answered."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup import Consumer
from sharegroup.client.core.key_ranges import FEATURE, GIVES_TURNS
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from sharegroup.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sharegroup.wire.messages.ranges import Range
from sharegroup.wire.schema import Message
from tests.client.scripted_consumers import COMMITTED, GROUP, TOPIC, TOPIC_ID, ScriptedConsumers
from tests.client.working import run, until

END = COMMITTED + 3
TURNS = [(COMMITTED + 1, END - 1), (COMMITTED, COMMITTED)]
"""The first and last offset of each turn: the second is of a member that has left."""


class Turns(ScriptedConsumers):
    """Gives the second turn when ``left`` is set, and answers commits when ``answers`` is set."""

    def __init__(self) -> None:
        super().__init__(partitions=1)
        self.features, self.feature_level = [FEATURE], GIVES_TURNS
        self.leader_epoch = 0  # that of the batches
        self.left, self.asked, self.answers = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.taken: list[tuple[int, int]] = []
        """The ranges of all commits."""
        self.handle(apis.CONSUMER_GROUP_HEARTBEAT, self._beat, (1, 1))
        self.handle(apis.FETCH, self._turn, (12, 12))
        self.handle(apis.OFFSET_COMMIT, self._commit, (8, 9))

    async def _beat(self, request: Message, version: int) -> Message:
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        return ConsumerGroupHeartbeatResponse(
            member_epoch=-1 if request.member_epoch < 0 else 1,
            heartbeat_interval_ms=5_000,
            assignment=Assignment([TopicPartitions(TOPIC_ID, [0])]),
        )

    async def _turn(self, request: Message, version: int) -> Message:
        assert isinstance(request, FetchRequest)
        turn = request.topics[0].partitions[0].turn
        if turn > len(TURNS):
            return await self._no_records(request, version)
        if turn > 1:
            await self.left.wait()
        first, last = TURNS[turn - 1]
        records = [(None, b"%d" % at) for at in range(first, last + 1)]
        part = PartitionData(
            partition_index=0,
            high_watermark=END,
            last_stable_offset=END,
            records=encode_batch(records, timestamp_ms=0, base_offset=first),
            read_up_to=last + 1,
            given=[Range(first, last)],
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[part])])

    async def _commit(self, request: Message, version: int) -> Message:
        assert isinstance(request, OffsetCommitRequest)
        [topic] = request.topics
        [part] = topic.partitions
        self.taken += [(one.first, one.last) for one in part.offset_ranges]
        self.asked.set()
        await self.answers.wait()
        answer = OffsetCommitResponsePartition(part.partition_index, 0)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(topic.name, [answer])])


def test_a_commit_that_ends_after_a_poll_makes_no_record_of_that_poll_done() -> None:
    """The poll gives a lower offset: another member has given it back."""

    async def scenario() -> None:
        async with Turns() as server:
            with pytest.raises(LookupError):
                await fail_in_second_turn(server)
            assert server.taken == [(51, 52)]

    run(scenario)


async def fail_in_second_turn(server: Turns) -> None:
    """A commit of the first turn begins before it and ends in it."""
    async with Consumer(
        TOPIC,
        group_id=GROUP,
        bootstrap_servers=server.address,
        cooperative=True,
        auto_commit_interval_ms=3_600_000,
    ) as consumer:
        assert [one.offset for one in await consumer.poll(5_000)] == [51, 52]
        assert not await consumer.poll(0)
        server.left.set()
        await until(lambda: bool(consumer._parts.fetcher.arrived))
        commit = asyncio.create_task(consumer.commit())
        await server.asked.wait()
        assert [one.offset for one in await consumer.poll(5_000)] == [50]
        assert not commit.done()
        server.answers.set()
        await commit
        raise LookupError("while it works on the record")
