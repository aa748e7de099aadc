"""Positions that are checked after their leader has changed (KIP-320)."""

from __future__ import annotations

from sharegroup import Consumer
from sharegroup.model.errors import NotLeaderOrFollower
from sharegroup.wire import apis
from sharegroup.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_consumers import COMMITTED, GROUP, NODE, TOPIC, ScriptedConsumers
from tests.client.working import run

NO_LEADER = -1
LOOKS_MAX = 12
"""Far more than the pauses leave room for, far fewer than without any."""


def test_the_leader_of_a_position_is_looked_for_with_pauses() -> None:
    async def scenario() -> None:
        server, answers = ScriptedConsumers(partitions=1), [NotLeaderOrFollower.code, 0]
        server.leader_epoch = 2

        async def check(request: Message, version: int) -> Message:
            server.leaders = [NO_LEADER]
            end = EpochEndOffset(answers.pop(0), 0, 1, COMMITTED)
            return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(TOPIC, [end])])

        server.handle(apis.OFFSET_FOR_LEADER_EPOCH, check, (2, 4))
        async with (
            server,
            Consumer(
                group_id=GROUP,
                bootstrap_servers=server.address,
                enable_auto_commit=False,
                fetch_max_wait_ms=10,
            ) as consumer,
        ):
            consumer.assign([(TOPIC, 0)])
            while len(answers) > 1:
                await consumer.poll(20)
            await consumer.poll(500)
            assert [name for name, _ in server.requests].count("Metadata") <= LOOKS_MAX
            server.leaders = [NODE]
            while answers:
                await consumer.poll(20)

    run(scenario)
