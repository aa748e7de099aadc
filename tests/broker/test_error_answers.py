"""Fields of error answers that Apache Kafka fills in, as the differential test has found them."""

from __future__ import annotations

from sharegroup.model.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    OffsetOutOfRange,
    UnknownTopicId,
)
from sharegroup.wire import apis
from sharegroup.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sharegroup.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sharegroup.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.group_wire import World, simulate
from tests.broker.offset_wire import OffsetClient


def test_init_producer_id_gives_neither_id_nor_epoch() -> None:
    async def scenario(world: World) -> None:
        answer = await world.send(apis.INIT_PRODUCER_ID, InitProducerIdRequest("", 1000))
        assert answer.error_code == InvalidRequest.code
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)

    simulate(scenario)


def test_a_fetch_beyond_the_end_says_nothing_of_the_log() -> None:
    async def scenario(world: World) -> None:
        topic_id = await world.create_topic("jobs", 1)
        wanted = FetchTopic("jobs", topic_id, [FetchPartition(0, fetch_offset=5)])
        answer = await world.send(apis.FETCH, FetchRequest(isolation_level=1, topics=[wanted]))
        (part,) = answer.responses[0].partitions
        assert part.error_code == OffsetOutOfRange.code
        assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (-1, -1, -1)
        assert part.aborted_transactions is None

    simulate(scenario)


def test_offsets_of_no_producer() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 1)
        client, place, nowhere = OffsetClient(world), ("jobs", 0), ("gone", 0)
        assert await client.commit_in_transaction({place: 1, nowhere: 1}, (-1, 0)) == {
            place: InvalidProducerIdMapping.code,
            nowhere: UnknownTopicId.code,
        }
        codes = await client.commit_in_transaction({place: 1}, (7, -1))
        assert codes == {place: InvalidProducerEpoch.code}

    simulate(scenario)


def test_a_member_without_a_regular_expression_is_described_with_an_empty_one() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 1)
        join = ConsumerGroupHeartbeatRequest(
            "readers",
            "member-1",
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["jobs"],
            topic_partitions=[],
        )
        assert (await world.send(apis.CONSUMER_GROUP_HEARTBEAT, join)).error_code == 0
        request = ConsumerGroupDescribeRequest(["readers"], include_authorized_operations=False)
        (group,) = (await world.send(apis.CONSUMER_GROUP_DESCRIBE, request)).groups
        assert [member.subscribed_topic_regex for member in group.members] == [""]

    simulate(scenario)
