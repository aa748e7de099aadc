"""What clients are told when leadership moves to another node while the broker runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.handlers.cluster.describe_cluster import describe_cluster
from sharegroup.broker.handlers.groups.find_coordinator import find_coordinator
from sharegroup.broker.handlers.log.fetch import fetch
from sharegroup.broker.handlers.log.produce import produce
from sharegroup.broker.handlers.topics.metadata import metadata
from sharegroup.broker.leadership import Leader, Node
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.server import Broker
from sharegroup.model.errors import NotLeaderOrFollower
from sharegroup.wire.messages.describe_cluster import DescribeClusterRequest
from sharegroup.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.metadata import MetadataRequest
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker.running import run
from tests.broker.share_wire import TOPIC, batch_of, new_topic

NAMES_LEADERS = 16
CONTEXT = RequestContext(4, "", "", None, Access(), ("here", 1))


class TwoNodes:
    """Node 1 is this one; ``leads`` says who leads everything."""

    controller_id = 1
    leads = Leader(1, 3)

    def nodes(self, here: tuple[str, int]) -> Sequence[Node]:
        return [Node(1, *here, None), Node(2, "there", 2, None)]

    def leader(self, topic_id: UUID, partition: int) -> Leader:
        return self.leads

    def coordinator(self, key_type: int, key: str, here: tuple[str, int]) -> Node:
        return self.nodes(here)[self.leads.node_id - 1]

    def check(self, topic_id: UUID, partition: int, current: int = -1) -> None:
        if self.leads.node_id != 1:
            raise NotLeaderOrFollower


def test_clients_are_told_who_leads_now(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await new_topic(broker, port, 2)
        leadership = TwoNodes()
        parts = replace(broker.parts, leadership=leadership)
        data = [PartitionProduceData(0, batch_of(1))]
        request = ProduceRequest(None, -1, 1000, [TopicProduceData(TOPIC, partition_data=data)])
        for leads, address, code in (
            (Leader(1, 3), ("here", 1), 0),
            (Leader(2, 4), ("there", 2), NotLeaderOrFollower.code),
        ):
            leadership.leads = leads
            told = await metadata(parts, MetadataRequest(None), CONTEXT)
            assert [(one.node_id, one.host) for one in told.brokers] == [(1, "here"), (2, "there")]
            (topic,) = told.topics
            assert [(one.leader_id, one.leader_epoch) for one in topic.partitions] == [leads] * 2
            asked = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
            (found,) = (await find_coordinator(parts, asked, CONTEXT)).coordinators
            assert (found.node_id, (found.host, found.port)) == (leads.node_id, address)
            cluster = await describe_cluster(parts, DescribeClusterRequest(), CONTEXT)
            assert len(cluster.brokers) == 2
            answer = await produce(parts, request, CONTEXT)
            assert answer is not None
            assert answer.responses[0].partition_responses[0].error_code == code

    run(tmp_path, scenario)


def test_consumers_are_told_where_a_partition_has_gone(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await new_topic(broker, port, 2)
        leadership = TwoNodes()
        parts = replace(broker.parts, leadership=leadership)
        wanted = [
            FetchPartition(0, partition_max_bytes=1),
            FetchPartition(1, partition_max_bytes=1),
        ]
        request = FetchRequest(max_wait_ms=0, topics=[FetchTopic("", topic_id, wanted)])
        context = CONTEXT._replace(version=NAMES_LEADERS)
        assert (await fetch(parts, request, context)).node_endpoints == []
        leadership.leads = Leader(2, 4)
        answer = await fetch(parts, request, context)
        (topic,) = answer.responses
        for part in topic.partitions:
            assert part.error_code == NotLeaderOrFollower.code
            assert part.current_leader == LeaderIdAndEpoch(2, 4)
        assert answer.node_endpoints == [NodeEndpoint(2, "there", 2)]

    run(tmp_path, scenario)
