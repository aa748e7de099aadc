"""A request that names very much is answered in slices, or refused: others are served meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.server import Broker
from sharegroup.broker.time_slices import sliced
from sharegroup.model.limits import COMMITTED_TOPICS_MAX, NAMED_MEMBERS_MAX, SLICE_S
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages import (
    alter_partition_reassignments,
    describe_configs,
    describe_producers,
    elect_leaders,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    write_txn_markers,
)
from sharegroup.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sharegroup.wire.messages.delete_groups import DeleteGroupsRequest
from sharegroup.wire.messages.describe_groups import DescribeGroupsRequest
from sharegroup.wire.messages.describe_transactions import DescribeTransactionsRequest
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from sharegroup.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sharegroup.wire.messages.share_group_describe import ShareGroupDescribeRequest
from sharegroup.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sharegroup.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.by_hand import topic_with_records
from tests.broker.greedy import Greedy, frame, metadata
from tests.broker.running import run
from tests.broker.share_wire import until

MANY = 20_000
NAMES = [f"{number:x}" for number in range(MANY)]
NUMBERS = list(range(MANY))


def long_requests() -> list[tuple[Api, int, Any]]:
    """(API, version, a request that names twenty thousand things), one for each API in slices."""
    offsets = [list_offsets.ListOffsetsPartition(0, -1, -1)] * MANY
    epochs = [offset_for_leader_epoch.OffsetForLeaderPartition(0, 0, 0)] * MANY
    read = [fetch.FetchPartition(number, -1, 0, -1, -1, 1 << 20) for number in NUMBERS]
    moved = [alter_partition_reassignments.ReassignablePartition(0, [1])] * MANY
    resources = [describe_configs.DescribeConfigsResource(2, "none", None)] * MANY
    marked = [write_txn_markers.WritableTxnMarkerTopic("none", NUMBERS)]
    return [
        (
            apis.LIST_OFFSETS,
            10,
            list_offsets.ListOffsetsRequest(
                -1, 0, [list_offsets.ListOffsetsTopic("jobs", offsets)]
            ),
        ),
        (
            apis.METADATA,
            9,
            MetadataRequest([MetadataRequestTopic(name=name) for name in NAMES], False),
        ),
        (apis.FETCH, 12, fetch.FetchRequest(topics=[fetch.FetchTopic("jobs", partitions=read)])),
        (apis.FIND_COORDINATOR, 6, FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES)),
        (apis.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(NAMES)),
        (apis.DELETE_GROUPS, 2, DeleteGroupsRequest(NAMES)),
        (apis.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(NAMES)),
        (apis.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(NAMES)),
        (apis.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest(NAMES)),
        (
            apis.ELECT_LEADERS,
            2,
            elect_leaders.ElectLeadersRequest(0, [elect_leaders.TopicPartitions("jobs", NUMBERS)]),
        ),
        (
            apis.OFFSET_FOR_LEADER_EPOCH,
            4,
            offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                -1, [offset_for_leader_epoch.OffsetForLeaderTopic("jobs", epochs)]
            ),
        ),
        (
            apis.DESCRIBE_PRODUCERS,
            0,
            describe_producers.DescribeProducersRequest(
                [describe_producers.TopicRequest("jobs", NUMBERS)]
            ),
        ),
        (
            apis.ALTER_PARTITION_REASSIGNMENTS,
            1,
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                1000,
                True,
                [alter_partition_reassignments.ReassignableTopic("jobs", moved)],
            ),
        ),
        (apis.DESCRIBE_CONFIGS, 4, describe_configs.DescribeConfigsRequest(resources)),
        (
            apis.WRITE_TXN_MARKERS,
            1,
            write_txn_markers.WriteTxnMarkersRequest(
                [write_txn_markers.WritableTxnMarker(7, 0, True, marked, 0)]
            ),
        ),
    ]


@pytest.mark.parametrize(
    ("api", "version", "request_"), long_requests(), ids=[row[0].name for row in long_requests()]
)
def test_others_are_answered_meanwhile(
    api: Api, version: int, request_: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A turn after each item: how fast the machine is makes no difference.
    monkeypatch.setattr("sharegroup.broker.time_slices.SLICE_S", 0)

    async def scenario(broker: Broker, port: int) -> None:
        await topic_with_records(broker, port, 1)
        long, neighbour = await Greedy.connect(port), await Greedy.connect(port, begun=True)
        served = broker.parts.meters.request(api.name).seconds
        before = served.count
        long.send(frame(api, version, request_))
        await until(lambda: any(c.open_requests for c in broker.connections.all()))
        neighbour.send(frame(apis.API_VERSIONS, 0, apis.API_VERSIONS.request()))
        await neighbour.answer()
        assert served.count == before, "the long one is still under way"
        assert await long.answer()
        long.close()
        neighbour.close()

    run(tmp_path, scenario)


def test_slices_end_by_time() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            again.append(loop.call_soon(turn))

        again = [loop.call_soon(turn)]
        end = loop.time() + 10 * SLICE_S
        seen = [item async for item in sliced(iter(lambda: loop.time() < end, False))]
        again[-1].cancel()
        assert len(seen) > 3 * turns > 0, "not after each item"

    asyncio.run(scenario())


@pytest.mark.parametrize("api", [apis.FIND_COORDINATOR, apis.DESCRIBE_GROUPS, apis.LIST_GROUPS])
def test_a_request_with_too_long_an_array_closes_its_connection(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 5_000
    monkeypatch.setattr("sharegroup.broker.network.dispatch.REQUEST_ARRAY_MAX", most)
    names = {
        apis.FIND_COORDINATOR: "coordinator_keys",
        apis.DESCRIBE_GROUPS: "groups",
        apis.LIST_GROUPS: "states_filter",
    }

    async def scenario(broker: Broker, port: int) -> None:
        inside, outside = await Greedy.connect(port), await Greedy.connect(port)
        inside.send(frame(api, 5, api.request(**{names[api]: ["g"] * most})))
        assert await inside.answer()
        outside.send(frame(api, 5, api.request(**{names[api]: ["g"] * (most + 1)})))
        assert await outside.closed()
        inside.send(metadata())
        assert await inside.answer()
        inside.close()
        outside.close()

    run(tmp_path, scenario)


def asking(api: Api, count: int) -> Any:
    """A request of a group that names ``count`` things, each of no more than it must have."""
    if api == apis.OFFSET_COMMIT:
        return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("none")] * count)
    if api == apis.TXN_OFFSET_COMMIT:
        none = TxnOffsetCommitRequestTopic("none")
        return TxnOffsetCommitRequest("t", "g", topics=[none] * count)
    if api == apis.SYNC_GROUP:
        return SyncGroupRequest("g", 1, "m", assignments=[SyncGroupRequestAssignment("m")] * count)
    return LeaveGroupRequest("g", members=[MemberIdentity("m")] * count)


@pytest.mark.parametrize(
    ("api", "most"),
    [
        (apis.OFFSET_COMMIT, COMMITTED_TOPICS_MAX),
        (apis.TXN_OFFSET_COMMIT, COMMITTED_TOPICS_MAX),
        (apis.SYNC_GROUP, NAMED_MEMBERS_MAX),
        (apis.LEAVE_GROUP, NAMED_MEMBERS_MAX),
    ],
    ids=lambda value: value.name if isinstance(value, Api) else "",
)
def test_a_request_of_a_group_is_refused_before_its_many_parts_are_read(
    api: Api, most: int, tmp_path: Path
) -> None:
    version = 4

    async def scenario(broker: Broker, port: int) -> None:
        inside, outside = await Greedy.connect(port), await Greedy.connect(port)
        inside.send(frame(api, version, asking(api, most)))
        assert await inside.answer()
        outside.send(frame(api, version, asking(api, most + 1)))
        assert await outside.closed()
        inside.close()
        outside.close()

    run(tmp_path, scenario)


def test_a_produce_request_with_too_many_partitions_closes_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharegroup.broker.handlers.log.produce.PRODUCED_PARTITIONS_MAX", 10)

    def asked(topic_id: Any, topics: int, partitions: int) -> bytes:
        parts = [PartitionProduceData(number, None) for number in range(partitions)]
        one = TopicProduceData("jobs", topic_id, parts)
        return frame(apis.PRODUCE, 13, ProduceRequest(None, -1, 1000, [one] * topics))

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        for topics, partitions in ((1, 9), (5, 1), (10, 0)):
            peer = await Greedy.connect(port)
            peer.send(asked(topic_id, topics, partitions))
            assert await peer.answer()
            peer.close()
        for topics, partitions in ((1, 10), (6, 1), (11, 0)):
            peer = await Greedy.connect(port)
            peer.send(asked(topic_id, topics, partitions))
            assert await peer.closed()
            peer.close()

    run(tmp_path, scenario)
