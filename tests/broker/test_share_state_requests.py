"""APIs 83-87 over real sockets: what peers of a cluster ask the share coordinator."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Collection
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.coordination.persister import FleetState
from sharegroup.broker.server import Broker
from sharegroup.client import Admin
from sharegroup.client.network.connection import Connection
from sharegroup.model import errors
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share.record_state import RecordState
from sharegroup.share_state.answers import StateSummary
from sharegroup.wire import apis
from sharegroup.wire.messages import delete_share_group_state as delete
from sharegroup.wire.messages import initialize_share_group_state as initialize
from sharegroup.wire.messages import read_share_group_state as read
from sharegroup.wire.messages import read_share_group_state_summary as summary
from sharegroup.wire.messages import write_share_group_state as write
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.schema import Message
from tests.broker.by_hand import GROUP, TIMEOUT_MS, Member, connect, topic_with_records
from tests.broker.peer import Peer, quads
from tests.broker.running import run
from tests.broker.share_wire import until
from tests.storage.faulty_disk import FaultyDisk

PARTITIONS = 3


async def peer_of(port: int, broker: Broker) -> Peer:
    """With a topic of its own."""
    connection = await connect(port)
    request = CreateTopicsRequest([CreatableTopic("remote", PARTITIONS, -1)])
    await connection.send(apis.CREATE_TOPICS, request, timeout_ms=TIMEOUT_MS)
    found = broker.parts.topics.find("remote")
    assert found is not None
    return Peer(connection, found.topic_id)


def test_the_life_cycle_of_state(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await peer_of(port, broker)
        assert await peer.summary() == (0, 0, 0, -1, -1), "unknown is no error"
        assert await peer.initialize(epoch=3, start=-1) == 0
        assert await peer.summary() == (0, 3, 0, -1, -1)
        state = await peer.read(leader=2)
        assert (state.error_code, state.state_epoch, state.start_offset) == (0, 3, -1)
        assert await peer.summary() == (0, 3, 2, -1, -1), "who has read is the leader"
        assert await peer.write((10, 19, 0, 1), epoch=3, leader=2, start=10, complete=0) == 0
        assert await peer.write((12, 13, 2, 1), epoch=3, leader=2, start=-1, complete=2) == 0
        state = await peer.read(leader=2)
        assert state.start_offset == 10
        assert quads(state.state_batches) == [(10, 11, 0, 1), (12, 13, 2, 1), (14, 19, 0, 1)]
        assert await peer.summary() == (0, 3, 2, 10, 2)
        assert await peer.initialize(epoch=4, start=50) == 0
        assert await peer.summary() == (0, 4, 0, 50, 0)
        assert quads((await peer.read(leader=3)).state_batches) == []
        assert await peer.delete() == 0
        assert await peer.delete() == 0, "deleting is idempotent"
        assert await peer.summary() == (0, 0, 0, -1, -1)

    run(tmp_path, scenario)


class Elsewhere:
    """This broker as another node of a fleet, which has all state."""

    node_count = 2
    owned: Collection[int] = ()
    may_deliver = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def owner_of(self, _key: SharePartitionKey) -> int:
        return 2

    async def ask(self, node_id: int, api: apis.Api, _version: int, request: Message) -> Any:
        assert node_id == self.owner_of(SharePartitionKey("", UUID(int=0), 0))
        return await self._connection.send(api, request, timeout_ms=TIMEOUT_MS)


def test_another_node_knows_whether_a_leader_has_read_the_state(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await peer_of(port, broker)
        state = FleetState(broker.parts.state, 1, Elsewhere(await connect(port)))
        key = SharePartitionKey(peer.group, peer.topic_id, 0)
        assert await state.read_summaries([key]) == {}
        assert await peer.initialize(epoch=3, start=7) == 0
        assert await state.read_summaries([key]) == {key: StateSummary(3, -1, 7, 0)}
        assert (await peer.read(leader=0)).error_code == 0
        assert await state.read_summaries([key]) == {key: StateSummary(3, 0, 7, 0)}

    run(tmp_path, scenario)


def test_old_epochs_are_fenced_and_negative_ones_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await peer_of(port, broker)
        assert await peer.initialize(epoch=3) == 0
        assert (await peer.read(leader=5)).error_code == 0
        leader, state = errors.FencedLeaderEpoch.code, errors.FencedStateEpoch.code
        assert (await peer.read(leader=4)).error_code == leader
        assert await peer.write(epoch=3, leader=4) == leader
        assert await peer.write(epoch=2, leader=4) == leader, "the leader is checked first"
        assert await peer.write(epoch=2, leader=5) == state
        assert await peer.initialize(epoch=2) == state
        negative = errors.InvalidRequest.code
        assert (await peer.read(leader=-1)).error_code == negative
        assert await peer.write(epoch=3, leader=-1) == negative
        assert await peer.write(epoch=-1, leader=5) == negative
        assert await peer.write((0, 4, 2, 1), epoch=3, leader=5) == 0
        assert await peer.summary() == (0, 3, 5, 0, 0)

    run(tmp_path, scenario)


def test_a_write_of_a_later_leader_does_not_make_it_the_leader(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await peer_of(port, broker)
        assert await peer.initialize() == 0
        assert (await peer.read(leader=5)).error_code == 0
        assert await peer.write((0, 4, 2, 1), leader=9) == 0
        assert await peer.write((5, 9, 2, 1), leader=5) == 0
        assert quads((await peer.read(leader=5)).state_batches) == [(0, 9, 2, 1)]

    run(tmp_path, scenario)


def test_unknown_keys_and_invalid_values(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await peer_of(port, broker)
        invalid, unknown = errors.InvalidRequest.code, errors.UnknownTopicOrPartition.code
        # Nothing of it was initialised: for a leader that comes before what the topic is.
        assert (await peer.read()).error_code == invalid
        assert await peer.write() == invalid
        for partition, expected in ((-1, invalid), (PARTITIONS, unknown)):
            assert await peer.initialize(partition=partition) == expected
            assert await peer.delete(partition=partition) == expected
            assert (await peer.summary(partition=partition))[0] == expected
            assert (await peer.read(partition=partition)).error_code == invalid
            assert await peer.write(partition=partition) == invalid
        assert await peer.initialize(epoch=-1) == invalid
        assert await peer.initialize(start=-2) == invalid
        assert await peer.initialize() == 0
        for batch in ((5, 4, 0, 1), (0, 4, 1, 1), (-1, 4, 0, 1)):
            assert await peer.write(batch) == invalid
        peer.topic_id = UUID(int=0)
        assert await peer.initialize() == unknown
        assert await peer.delete() == unknown
        assert (await peer.summary())[0] == unknown

    run(tmp_path, scenario)


def test_state_whose_topic_is_gone_is_not_served(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await peer_of(port, broker)
        assert await peer.initialize() == 0
        topic = broker.parts.topics.find("remote")
        assert topic is not None
        await broker.parts.topics.delete(topic)
        unknown = errors.UnknownTopicOrPartition.code
        assert (await peer.read()).error_code == unknown
        assert await peer.write((0, 0, 2, 1)) == unknown

    run(tmp_path, scenario)


REQUESTS: list[tuple[apis.Api, type[Any], type[Any], type[Any]]] = [
    (
        apis.INITIALIZE_SHARE_GROUP_STATE,
        initialize.InitializeShareGroupStateRequest,
        initialize.InitializeStateData,
        initialize.PartitionData,
    ),
    (
        apis.READ_SHARE_GROUP_STATE,
        read.ReadShareGroupStateRequest,
        read.ReadStateData,
        read.PartitionData,
    ),
    (
        apis.WRITE_SHARE_GROUP_STATE,
        write.WriteShareGroupStateRequest,
        write.WriteStateData,
        write.PartitionData,
    ),
    (
        apis.DELETE_SHARE_GROUP_STATE,
        delete.DeleteShareGroupStateRequest,
        delete.DeleteStateData,
        delete.PartitionData,
    ),
    (
        apis.READ_SHARE_GROUP_STATE_SUMMARY,
        summary.ReadShareGroupStateSummaryRequest,
        summary.ReadStateSummaryData,
        summary.PartitionData,
    ),
]


@pytest.mark.parametrize(
    ("api", "request_kind", "topic_kind", "partition_kind"),
    REQUESTS,
    ids=[api.name for api, *_ in REQUESTS],
)
def test_a_request_for_nothing_gets_an_empty_answer(
    tmp_path: Path,
    api: apis.Api,
    request_kind: type[Any],
    topic_kind: type[Any],
    partition_kind: type[Any],
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await peer_of(port, broker)
        whole = topic_kind(peer.topic_id, [partition_kind(0)])
        for request in (
            request_kind("", [whole]),
            request_kind("peers", []),
            request_kind("peers", [whole, topic_kind(peer.topic_id, [])]),
        ):
            response = await peer.connection.send(api, request, timeout_ms=TIMEOUT_MS)
            assert response.results == []

    run(tmp_path, scenario)


def test_many_partitions_are_answered_individually_in_order(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await peer_of(port, broker)
        partitions = [initialize.PartitionData(p, 0, p) for p in (2, 7, 0)]
        request = initialize.InitializeShareGroupStateRequest(
            "peers",
            [
                initialize.InitializeStateData(peer.topic_id, partitions),
                initialize.InitializeStateData(UUID(int=9), [initialize.PartitionData(0, 0, 0)]),
            ],
        )
        response = await peer.connection.send(
            apis.INITIALIZE_SHARE_GROUP_STATE, request, timeout_ms=TIMEOUT_MS
        )
        unknown = errors.UnknownTopicOrPartition.code
        assert [
            (topic.topic_id, [(p.partition, p.error_code) for p in topic.partitions])
            for topic in response.results
        ] == [(peer.topic_id, [(2, 0), (7, unknown), (0, 0)]), (UUID(int=9), [(0, unknown)])]
        assert [(await peer.summary(partition=p))[3] for p in range(3)] == [0, -1, 2]

    run(tmp_path, scenario, "share.coordinator.state.topic.num.partitions=4")


def test_a_full_disk_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()

    async def scenario(broker: Broker, port: int) -> None:
        peer = await peer_of(port, broker)
        assert await peer.initialize(start=5) == 0
        disk.append_errno = errno.ENOSPC
        refused = errors.NotCoordinator.code
        assert await peer.write((5, 9, 2, 1)) == refused
        assert await peer.initialize(epoch=1, start=0) == refused
        assert await peer.initialize(partition=1) == refused
        assert await peer.delete() == refused
        assert (await peer.read(leader=3)).error_code == refused
        disk.append_errno = 0
        assert await peer.summary() == (0, 0, 0, 5, 0)
        assert await peer.summary(partition=1) == (0, 0, 0, -1, -1)
        state = await peer.read(leader=3)
        assert (state.error_code, state.start_offset, list(state.state_batches)) == (0, 5, [])

    run(tmp_path, scenario, disk=disk)


# -- a leader here and a peer that changes the same state


def test_a_write_by_wire_is_seen_by_the_leader_here(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 10)
        member = await Member.join(port, "first")
        assert await member.fetch(topic_id) == [(0, 9, 1)]
        peer = Peer(await connect(port), topic_id, GROUP)
        epoch = (await peer.summary())[1]
        assert await peer.write((2, 9, 2, 1), epoch=epoch) == 0
        gone = errors.UnknownTopicOrPartition.code
        assert await member.acknowledge(topic_id, 0, 9, kind=1) == gone, "its locks are gone"
        assert await member.fetch(topic_id) == [(0, 1, 1)], "what the peer finished stays finished"
        assert await member.acknowledge(topic_id, 0, 1, kind=1) == 0
        assert (await peer.summary())[3] == 10

    run(tmp_path, scenario)


def test_records_that_a_peer_lets_rest_are_not_delivered(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 10)
        member = await Member.join(port, "first")
        assert await member.fetch(topic_id) == [(0, 9, 1)]
        peer = Peer(await connect(port), topic_id, GROUP)
        epoch = (await peer.summary())[1]
        due_ms = broker.parts.clock.wall_ms() + 3_600_000
        assert await peer.write((2, 3, 0, 4), epoch=epoch, due_ms=due_ms) == 0
        async with Admin(f"127.0.0.1:{port}") as admin:
            (told,) = (await admin.describe_record_states(GROUP)).values()
        rests = [one for one in told.ranges if one.state is RecordState.DELAYED]
        assert [(one.first, one.last, one.delivery_count) for one in rests] == [(2, 3, 4)]
        assert 3_500_000 < (rests[0].lock_ms or 0) <= 3_600_000
        assert await member.fetch(topic_id) == [(0, 1, 1), (4, 9, 1)]

    run(tmp_path, scenario)


def test_a_leader_here_uses_state_initialised_by_wire(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 10)
        member = await Member.join(port, "first")
        assert await member.fetch(topic_id) == [(0, 9, 1)]
        assert await member.acknowledge(topic_id, 0, 9, kind=1) == 0
        waiting = asyncio.ensure_future(member.fetch(topic_id, wait_ms=60_000))
        await until(lambda: len(broker.parts.waiters) == 1)
        peer = Peer(await connect(port), topic_id, GROUP)
        epoch = (await peer.summary())[1]
        assert await peer.initialize(epoch=epoch, start=4) == 0
        assert await waiting == [(4, 9, 1)], "the waiting fetch is woken, and reads from there"

    run(tmp_path, scenario)


def test_a_leader_elsewhere_fences_the_one_here(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 10)
        member = await Member.join(port, "first")
        assert await member.fetch(topic_id) == [(0, 9, 1)]
        key = SharePartitionKey(GROUP, topic_id, 0)
        assert broker.parts.share_partitions.find(key) is not None
        peer = Peer(await connect(port), topic_id, GROUP)
        assert (await peer.read(leader=7)).error_code == 0
        assert broker.parts.share_partitions.find(key) is None
        gone = errors.UnknownTopicOrPartition.code
        assert await member.acknowledge(topic_id, 0, 9, kind=1) == gone
        assert (await peer.summary())[2:4] == (7, 0), "nothing of the old leader was written"

    run(tmp_path, scenario)
