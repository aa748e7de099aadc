"""A broker in front of a cluster has few logs of its own, and many partitions."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup import Admin
from sharegroup.client.network.connection import Connection
from sharegroup.model.limits import ACKNOWLEDGING_BYTES_FREE
from sharegroup.wire import apis
from sharegroup.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.greedy import frame
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
PARTITIONS = 4_500
TIMEOUT_MS = 120_000


def test_a_session_of_many_partitions_may_be_opened(node: SharegroupServer) -> None:
    """Without any record in flight: what adds partitions is no acknowledgement."""

    async def scenario() -> int:
        async with Admin(node.bootstrap) as ours:
            await ours.create_topics("wide", partitions=PARTITIONS)
            [topic] = (await ours.describe_topics("wide")).values()
        host, _, port = node.bootstrap.partition(":")
        connection = await Connection.open(host, int(port), client_id="wide", timeout_ms=TIMEOUT_MS)
        joins = ShareGroupHeartbeatRequest("wide", "m-1", 0, subscribed_topic_names=["wide"])
        await connection.send(apis.SHARE_GROUP_HEARTBEAT, joins, timeout_ms=TIMEOUT_MS)
        named = [FetchPartition(number) for number in range(PARTITIONS)]
        request = ShareFetchRequest("wide", "m-1", 0, topics=[FetchTopic(topic.topic_id, named)])
        assert len(frame(apis.SHARE_FETCH, 1, request)) > ACKNOWLEDGING_BYTES_FREE + 64 * 100
        answer = await connection.send(apis.SHARE_FETCH, request, timeout_ms=TIMEOUT_MS)
        connection.close()
        return int(answer.error_code)

    assert asyncio.run(scenario()) == 0
