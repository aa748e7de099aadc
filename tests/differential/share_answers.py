"""Scenarios about share groups for :mod:`tests.differential.test_answers`: what a member, an
operator or a broker asks by hand."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from sharegroup.model.errors import NotLeaderOrFollower
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages import read_share_group_state as reading
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.transaction_wire import Peer
from tests.differential.wire_member import WireMember

PARTITIONS: Final = 2
WAIT_MS: Final = 500
LATER_LEADER: Final = 7


class Sharing:
    """A topic, and a share group with one member that has both partitions."""

    def __init__(self, peer: Peer, name: str, topic_id: UUID, member: WireMember) -> None:
        self.peer = peer
        self.name = name
        self.topic_id = topic_id
        self.member = member

    @classmethod
    async def begin(cls, port: int, name: str) -> Sharing:
        peer = await Peer.connect(port)
        await peer.new_topic(PARTITIONS, name)
        wanted = MetadataRequest([MetadataRequestTopic(name=name)])
        topics: Sequence[Any] = ()
        while not topics or topics[0].error_code:  # a new topic of Kafka's is not there at once
            topics = (await peer.ask(apis.METADATA, 12, wanted)).topics
        topic_id = topics[0].topic_id
        coordinator = FindCoordinatorRequest(key_type=0, coordinator_keys=[name])
        await peer.ask(apis.FIND_COORDINATOR, 4, coordinator)  # Kafka makes its topic now
        member = WireMember(port, name, "member", topic_id, PARTITIONS)
        asked = ShareGroupHeartbeatRequest(name, "member", 0, None, [name])
        answer = await member.send(apis.SHARE_GROUP_HEARTBEAT, asked)
        while not (answer.assignment and answer.assignment.topic_partitions):
            asked = ShareGroupHeartbeatRequest(name, "member", answer.member_epoch, None, None)
            answer = await member.send(apis.SHARE_GROUP_HEARTBEAT, asked)
        return cls(peer, name, topic_id, member)

    async def produce(self, records: int) -> None:
        """Into partition 0."""
        batch = encode_batch([(None, b"v")] * records, timestamp_ms=0)
        topic = TopicProduceData(self.name, partition_data=[PartitionProduceData(0, batch)])
        answer = await self.peer.ask(apis.PRODUCE, 11, ProduceRequest(None, -1, 10_000, [topic]))
        assert answer.responses[0].partition_responses[0].error_code == 0, answer


def places(response: Any, port: int) -> object:
    """What a response says of its partitions, and of the leaders that it names."""
    parts = [
        (part.partition_index, part.error_code, part.current_leader)
        for topic in response.responses
        for part in topic.partitions
    ]
    nodes = [(node.node_id, node.host, node.port == port) for node in response.node_endpoints]
    return sorted(parts, key=itemgetter(0)), nodes


def codes(response: Any) -> set[int]:
    """The errors of all partitions."""
    return {part.error_code for topic in response.responses for part in topic.partitions}


async def leaders_that_have_moved(port: int) -> object:
    """A broker that leads the share partitions later has read their state."""
    sharing = await Sharing.begin(port, "moved")
    every = [reading.PartitionData(index, LATER_LEADER) for index in range(PARTITIONS)]
    data = reading.ReadStateData(sharing.topic_id, every)
    request = reading.ReadShareGroupStateRequest("moved", [data])
    await sharing.peer.ask(apis.READ_SHARE_GROUP_STATE, 0, request)
    response = await sharing.member.fetch(1, 1, 0, WAIT_MS)
    while codes(response) != {NotLeaderOrFollower.code}:
        response = await sharing.member.fetch(1, 1, 0, WAIT_MS)
    sharing.member.disconnect()
    return places(response, port)
