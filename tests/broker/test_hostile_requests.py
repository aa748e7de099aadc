"""Requests that no honest client sends: each is answered, or closes its own connection.

Whatever a request says, no handler fails by it, nothing of it stays in memory, and others are
served as before.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.broker.server import Broker
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import response_body
from tests.broker.by_hand import topic_with_records
from tests.broker.greedy import Greedy, metadata
from tests.broker.hostile import Maker
from tests.broker.running import run
from tests.broker.share_wire import until

FRAMES = 15
"""Whole requests of each version, and as many spoiled ones."""
ANSWER_S = 120

GROUPS_AND_TRANSACTIONS = (
    *(apis.OFFSET_COMMIT, apis.OFFSET_FETCH, apis.JOIN_GROUP, apis.HEARTBEAT, apis.LEAVE_GROUP),
    *(apis.SYNC_GROUP, apis.DESCRIBE_GROUPS, apis.LIST_GROUPS, apis.INIT_PRODUCER_ID),
    *(apis.OFFSET_FOR_LEADER_EPOCH, apis.ADD_PARTITIONS_TO_TXN, apis.ADD_OFFSETS_TO_TXN),
    *(apis.END_TXN, apis.WRITE_TXN_MARKERS, apis.TXN_OFFSET_COMMIT, apis.DELETE_GROUPS),
    *(apis.OFFSET_DELETE, apis.DESCRIBE_PRODUCERS, apis.DESCRIBE_TRANSACTIONS),
    *(apis.LIST_TRANSACTIONS, apis.CONSUMER_GROUP_HEARTBEAT, apis.CONSUMER_GROUP_DESCRIBE),
)
ADMINISTRATION = (
    *(apis.DESCRIBE_ACLS, apis.DESCRIBE_CLIENT_QUOTAS, apis.LIST_CONFIG_RESOURCES),
    *(apis.ELECT_LEADERS, apis.ALTER_PARTITION_REASSIGNMENTS, apis.LIST_PARTITION_REASSIGNMENTS),
    *(apis.FETCH, apis.LIST_OFFSETS, apis.FIND_COORDINATOR, apis.DESCRIBE_CONFIGS),
    *(apis.METADATA, apis.DESCRIBE_TOPIC_PARTITIONS, apis.DESCRIBE_LOG_DIRS),
    *(apis.ALTER_CLIENT_QUOTAS, apis.UPDATE_FEATURES, apis.UNREGISTER_BROKER),
)


class Attacker:
    """Sends frame after frame, over a new connection whenever the broker has closed the old one."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._peer: Greedy | None = None
        self.answered = 0
        self.closed = 0

    async def send(self, frame: bytes) -> bytes | None:
        """The answer; None if the broker closed the connection."""
        if self._peer is None:
            self._peer = await Greedy.connect(self._port)
        self._peer.send(frame)
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self._peer.answer()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.leave()
            self.closed += 1
            return None
        self.answered += 1
        return answer

    def leave(self) -> None:
        """Close the connection, if there is one."""
        if self._peer is not None:
            self._peer.close()
            self._peer = None


@pytest.mark.parametrize(
    "api", [*GROUPS_AND_TRANSACTIONS, *ADMINISTRATION], ids=lambda api: api.name
)
def test_hostile_requests_harm_nobody(api: Api, tmp_path: Path) -> None:
    versions = API_TABLE[api.key].versions

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 3)
        maker, attacker = Maker(api.name, (topic_id,)), Attacker(port)
        neighbour = await Greedy.connect(port, begun=True)
        for version in range(versions.first, versions.last + 1):
            for frame in maker.frames(api, version, FRAMES):
                answer = await attacker.send(frame)
                if answer is not None:
                    _, at = response_body(api, version, answer)
                    decode(api.response, version, answer, at)
            neighbour.send(metadata())
            assert await neighbour.answer()
        counted = broker.parts.counters.statistics()
        assert [name for name in counted if name[0] == "handler_failures"] == []
        assert attacker.answered > FRAMES // 2, "whole requests are answered"
        attacker.leave()
        neighbour.close()
        await until(lambda: broker.connections.requests.used == 0)
        assert not len(broker.parts.waiters)

    run(tmp_path, scenario, "group.initial.rebalance.delay.ms=0")
