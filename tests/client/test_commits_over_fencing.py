"""A commit that is tried again for so long that its member is fenced meanwhile, and joins again:
another member may have committed in the partitions that it has lost."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup import Consumer, TopicPartition
from sharegroup.model.errors import (
    CoordinatorLoadInProgress,
    RebalanceInProgress,
    UnknownMemberId,
)
from sharegroup.wire import apis
from sharegroup.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_consumers import GROUP, TOPIC, TOPIC_ID, ScriptedConsumers
from tests.client.working import run, until

FIRST_EPOCH, SECOND_EPOCH = 1, 2


class Fencing(ScriptedConsumers):
    """Fences its member when that commits for the first time, and refuses its commits until it has
    joined again. Then it takes them.

    Args:
        again: the partitions that the member gets when it joins again.
    """

    def __init__(self, again: list[int]) -> None:
        super().__init__(partitions=2)
        self.again = again
        self.fenced = False
        self.joined_again = False
        self.taken: list[tuple[int, int, int]] = []
        """The epoch, the partition and the offset of each commit."""
        self.handle(apis.CONSUMER_GROUP_HEARTBEAT, self._beat, (1, 1))
        self.handle(apis.OFFSET_COMMIT, self._commit, (8, 9))

    async def _beat(self, request: Message, version: int) -> Message:
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        epoch = request.member_epoch
        if epoch < 0:
            return ConsumerGroupHeartbeatResponse(member_epoch=epoch)
        if self.fenced and epoch == FIRST_EPOCH:
            return ConsumerGroupHeartbeatResponse(error_code=UnknownMemberId.code)
        self.joined_again = epoch == SECOND_EPOCH
        partitions = self.again if self.fenced else [0, 1]
        return ConsumerGroupHeartbeatResponse(
            member_epoch=SECOND_EPOCH if self.fenced else FIRST_EPOCH,
            heartbeat_interval_ms=20,
            assignment=Assignment([TopicPartitions(TOPIC_ID, partitions)]),
        )

    async def _commit(self, request: Message, version: int) -> Message:
        assert isinstance(request, OffsetCommitRequest)
        self.fenced = True
        if self.joined_again:
            epoch = request.generation_id_or_member_epoch
            self.taken += [
                (epoch, one.partition_index, one.committed_offset)
                for topic in request.topics
                for one in topic.partitions
            ]
        code = 0 if self.joined_again else CoordinatorLoadInProgress.code
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(one.partition_index, code)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


async def polling(consumer: Consumer[bytes, bytes]) -> None:
    while True:
        await consumer.poll(20)


@pytest.mark.parametrize("again", [[1], [0, 1]], ids=["lost", "lost and given back"])
def test_a_retry_leaves_out_what_was_lost(again: list[int]) -> None:
    async def scenario() -> None:
        async with (
            Fencing(again) as server,
            Consumer(
                TOPIC,
                group_id=GROUP,
                bootstrap_servers=server.address,
                enable_auto_commit=False,
            ) as consumer,
        ):
            while not consumer.assignment:
                await consumer.poll(20)
            polls = asyncio.create_task(polling(consumer))
            with pytest.raises(RebalanceInProgress):
                await consumer.commit({TopicPartition(TOPIC, 0): 100})
            assert server.taken == []
            await until(lambda: [where.partition for where in consumer.assignment] == again)
            await consumer.commit({TopicPartition(TOPIC, 1): 70})
            assert server.taken == [(SECOND_EPOCH, 1, 70)]
            polls.cancel()

    run(scenario)
