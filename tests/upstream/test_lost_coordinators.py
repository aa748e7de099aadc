"""Coordinators in the cluster that move, or do not answer."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.passing.passing import Passing
from sharegroup.broker.passing.ways import WAYS
from sharegroup.broker.request_context import RequestContext
from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from sharegroup.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sharegroup.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sharegroup.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.process
MOVED = errors.NotCoordinator.code
GROUP = "g"

ANSWERS: list[tuple[Api, int, Message, Message]] = [
    (
        apis.OFFSET_COMMIT,
        8,
        OffsetCommitRequest(group_id=GROUP),
        OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic("t", partitions=[OffsetCommitResponsePartition(0, MOVED)])
            ]
        ),
    ),
    (
        apis.OFFSET_FETCH,
        8,
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP)]),
        OffsetFetchResponse(groups=[OffsetFetchResponseGroup(GROUP, error_code=MOVED)]),
    ),
    (
        apis.ADD_PARTITIONS_TO_TXN,
        3,
        AddPartitionsToTxnRequest(v3_and_below_transactional_id=GROUP),
        AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult("t", [AddPartitionsToTxnPartitionResult(0, MOVED)])
            ]
        ),
    ),
    (apis.HEARTBEAT, 4, HeartbeatRequest(GROUP, 1, "m"), HeartbeatResponse(error_code=MOVED)),
]


class Coordinating(ScriptedServer):
    """Says that it coordinates everything.

    Attributes:
        found: how often it was asked who does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = 0
        self.handle(apis.FIND_COORDINATOR, self._find, (0, 4))

    async def _find(self, request: Message, version: int) -> Message:
        assert isinstance(request, FindCoordinatorRequest)
        self.found += 1
        here = Coordinator(request.coordinator_keys[0], 1, "127.0.0.1", self.port)
        return FindCoordinatorResponse(
            node_id=1, host=here.host, port=here.port, coordinators=[here]
        )


async def seen(_created: object) -> None: ...


async def here(_request: object) -> None: ...


@pytest.mark.parametrize(("api", "version", "request_", "answer"), ANSWERS)
def test_who_says_that_it_coordinates_no_more_is_asked_no_more(
    api: Api, version: int, request_: Message, answer: Message
) -> None:
    async def moved(_request: Message, _version: int) -> Message:
        return answer

    async def scenario() -> None:
        async with Coordinating() as server, Cluster(server.address) as cluster:
            server.handle(api, moved, (0, version))
            context = RequestContext(version, "", "", object(), Access(), ("", 0))
            passing = Passing(cluster, WAYS, seen)
            for turn in range(1, 3):
                await passing.answer(api, request_, context, here)
                assert server.found == turn

    asyncio.run(scenario())


@pytest.mark.parametrize(("api", "version", "request_", "answer"), ANSWERS)
def test_who_does_not_answer_is_looked_for_again(
    api: Api, version: int, request_: Message, answer: Message
) -> None:
    async def scenario() -> None:
        async with Coordinating() as server, Cluster(server.address) as cluster:

            async def gone(_request: Message, _version: int) -> None:
                server.drop_connections()

            server.handle(api, gone, (0, version))
            context = RequestContext(version, "", "", object(), Access(), ("", 0))
            passing = Passing(cluster, WAYS, seen)
            with pytest.raises(errors.CoordinatorNotAvailable):
                await passing.answer(api, request_, context, here)

    asyncio.run(scenario())
