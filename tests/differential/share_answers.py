"""Scenarios about share groups for :mod:`tests.differential.test_answers`: what a member, an
operator or a broker asks by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from sharegroup.model.errors import NotLeaderOrFollower
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages import alter_share_group_offsets as altering
from sharegroup.wire.messages import read_share_group_state as reading
from sharegroup.wire.messages import read_share_group_state_summary as summing
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.transaction_wire import Peer
from tests.differential.acknowledgements import ACCEPT
from tests.differential.wire_member import Batch, WireMember
from tests.servers.share_session import ack_codes

PARTITIONS: Final = 2
WAIT_MS: Final = 500
LATER_LEADER: Final = 7
RECORDS: Final = 5
NO_PARTITION: Final = 8


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
        sharing = cls(peer, name, topic_id, member)
        answer = await sharing.alter(member.partitions)  # otherwise the group begins at the end
        while codes(answer) != {0}:  # Kafka's coordinator hears of a topic later than Metadata
            answer = await sharing.alter(member.partitions)
        asked = ShareGroupHeartbeatRequest(name, "member", 0, None, [name])
        answer = await member.send(apis.SHARE_GROUP_HEARTBEAT, asked)
        while not (answer.assignment and answer.assignment.topic_partitions):
            asked = ShareGroupHeartbeatRequest(name, "member", answer.member_epoch, None, None)
            answer = await member.send(apis.SHARE_GROUP_HEARTBEAT, asked)
        return sharing

    async def alter(self, partitions: Iterable[int]) -> Any:
        """Let the group begin at offset 0."""
        part = altering.AlterShareGroupOffsetsRequestPartition
        begins = [part(index, 0) for index in partitions]
        topic = altering.AlterShareGroupOffsetsRequestTopic(self.name, begins)
        request = altering.AlterShareGroupOffsetsRequest(self.name, [topic])
        return await self.member.send(apis.ALTER_SHARE_GROUP_OFFSETS, request)

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
    said = [await summaries(sharing)]
    every = [reading.PartitionData(index, LATER_LEADER) for index in range(PARTITIONS)]
    data = reading.ReadStateData(sharing.topic_id, every)
    request = reading.ReadShareGroupStateRequest("moved", [data])
    await sharing.peer.ask(apis.READ_SHARE_GROUP_STATE, 0, request)
    said.append(await summaries(sharing))
    response = await sharing.member.fetch(1, 1, 0, WAIT_MS)
    while codes(response) != {NotLeaderOrFollower.code}:
        response = await sharing.member.fetch(1, 1, 0, WAIT_MS)
    sharing.member.disconnect()
    return [*said, places(response, port)]


async def summaries(sharing: Sharing) -> object:
    """What is told to a broker of the state of partition 0."""
    asked = summing.ReadStateSummaryData(sharing.topic_id, [summing.PartitionData(0, 0)])
    request = summing.ReadShareGroupStateSummaryRequest(sharing.name, [asked])
    answer = await sharing.peer.ask(apis.READ_SHARE_GROUP_STATE_SUMMARY, 1, request)
    [found] = answer.results[0].partitions
    return found.error_code, found.leader_epoch, found.start_offset, found.delivery_complete_count


async def odd_acknowledgements(port: int) -> object:
    """Acknowledged ranges that have an offset in common, or more, of records that the member has
    and of such that are finished. And partitions of which nothing is acknowledged, that are there
    and that are not."""
    sharing = await Sharing.begin(port, "odd")
    member = sharing.member
    await sharing.produce(RECORDS)
    while len(member.held[0]) < RECORDS:
        await member.fetch(RECORDS, RECORDS, 0, WAIT_MS)
    said: list[object] = []
    for ranges in (
        [(0, 1), (1, 2)],
        [(0, 2), (1, 2)],
        [(0, 1)],
        [(0, 1), (1, 2)],
        [(2, 3), (3, 4)],
    ):
        response = await member.acknowledge({0: [(*one, [ACCEPT]) for one in ranges]})
        said.append((ranges, places(response, port)))
    accept: list[Batch] = [(2, 2, [ACCEPT])]
    for some in ([], accept):
        response = await member.acknowledge({0: some, 1: [], NO_PARTITION: []})
        said.append((some, places(response, port)))
    response = await member.acknowledge_by_fetch({0: accept, 1: [], NO_PARTITION: []})
    said.append(ack_codes(response))
    member.disconnect()
    return said
