"""Several scripted brokers with one topic and one share group: each answers fetches with one batch
of records after another, and everything else as the test says.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self
from uuid import UUID

from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from sharegroup.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.messages.share_acknowledge import (
    PartitionData as AcknowledgedPartition,
)
from sharegroup.wire.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from sharegroup.wire.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from sharegroup.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import Handler, ScriptedServer

TOPIC = "t"
TOPIC_ID = UUID(int=7)


class ScriptedGroup:
    """``leaders[i]`` is the node that leads partition ``i``; a test may change it.

    Attributes:
        left: how many records a node has still to give, by node; it gives ``at_once`` per fetch,
            from the first of its partitions.
        refusals: error codes, one per ShareAcknowledge, of all its partitions; then there is none.
        carried_refusals: the same of acknowledgements that ride on fetches.
        session_errors: error codes of whole ShareAcknowledge responses; then there is none.
        fetch_errors: the same of ShareFetch responses.
        silent: ShareAcknowledge responses speak of no partition.
        fetches, acknowledged: (node, request) in the order of coming.
    """

    def __init__(self, leaders: list[int], *, records: int, at_once: int) -> None:
        self.leaders = leaders
        self.nodes = {node: ScriptedServer() for node in sorted(set(leaders))}
        self.left = dict.fromkeys(self.nodes, records)
        self.at_once = at_once
        self.refusals: list[int] = []
        self.session_errors: list[int] = []
        self.fetch_errors: list[int] = []
        self.carried_refusals: list[int] = []
        self.silent = False
        self.fetches: list[tuple[int, ShareFetchRequest]] = []
        self.acknowledged: list[tuple[int, ShareAcknowledgeRequest]] = []
        self._given = dict.fromkeys(self.nodes, 0)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for node, server in self.nodes.items():
            server.handle(apis.METADATA, self._metadata, (1, 12))
            server.handle(apis.FIND_COORDINATOR, self._coordinator, (4, 6))
            server.handle(apis.SHARE_GROUP_HEARTBEAT, self._heartbeat, (1, 1))
            server.handle(apis.SHARE_FETCH, self._on(node, self._fetch), (1, 2))
            server.handle(apis.SHARE_ACKNOWLEDGE, self._on(node, self._acknowledge), (1, 2))
            await self._stack.enter_async_context(server)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    @property
    def bootstrap(self) -> str:
        return ",".join(server.address for server in self.nodes.values())

    @staticmethod
    def _on(node: int, answer: Callable[[int, Message], Message]) -> Handler:
        async def handle(request: Message, version: int) -> Message:
            return answer(node, request)

        return handle

    async def _metadata(self, request: Message, version: int) -> Message:
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=leader)
            for index, leader in enumerate(self.leaders)
        ]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node, "127.0.0.1", server.port)
                for node, server in self.nodes.items()
            ],
            cluster_id="c",
            controller_id=min(self.nodes),
            topics=[MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=partitions)],
        )

    async def _coordinator(self, request: Message, version: int) -> Message:
        node = min(self.nodes)
        return FindCoordinatorResponse(
            coordinators=[Coordinator("g", node, "127.0.0.1", self.nodes[node].port)]
        )

    async def _heartbeat(self, request: Message, version: int) -> Message:
        partitions = list(range(len(self.leaders)))
        return ShareGroupHeartbeatResponse(
            member_epoch=1,
            heartbeat_interval_ms=5_000,
            assignment=Assignment([TopicPartitions(TOPIC_ID, partitions)]),
        )

    def _fetch(self, node: int, request: Message) -> Message:
        assert isinstance(request, ShareFetchRequest)
        self.fetches.append((node, request))
        if self.fetch_errors:
            return ShareFetchResponse(error_code=self.fetch_errors.pop(0))
        data = PartitionData(partition_index=self.leaders.index(node))
        if any(part.acknowledgement_batches for t in request.topics for part in t.partitions):
            data.acknowledge_error_code = (self.carried_refusals or [0]).pop(0)
        count = min(self.at_once, self.left[node], request.max_records)
        if count:
            first = self._given[node]
            records = [(None, b"%d" % n) for n in range(first, first + count)]
            data.records = encode_batch(records, timestamp_ms=0, base_offset=first)
            data.acquired_records = [AcquiredRecords(first, first + count - 1, 1)]
            self._given[node] += count
            self.left[node] -= count
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=30_000,
            responses=[ShareFetchableTopicResponse(TOPIC_ID, [data])],
        )

    def _acknowledge(self, node: int, request: Message) -> Message:
        assert isinstance(request, ShareAcknowledgeRequest)
        self.acknowledged.append((node, request))
        if self.session_errors:
            return ShareAcknowledgeResponse(error_code=self.session_errors.pop(0))
        code = self.refusals.pop(0) if self.refusals and request.topics else 0
        return ShareAcknowledgeResponse(
            responses=[
                ShareAcknowledgeTopicResponse(
                    topic.topic_id,
                    [AcknowledgedPartition(one.partition_index, code) for one in topic.partitions],
                )
                for topic in request.topics
                if not self.silent
            ]
        )
