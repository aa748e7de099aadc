"""What a cluster of one node answers about leaders, epochs, reassignments and folders."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.broker.server import Broker
from sharegroup.wire import apis
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.messages import alter_partition_reassignments as altering
from sharegroup.wire.messages import describe_log_dirs as dirs
from sharegroup.wire.messages import elect_leaders as electing
from sharegroup.wire.messages import offset_for_leader_epoch as epochs
from sharegroup.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.broker.running import run
from tests.broker.share_wire import TOPIC, new_topic, produce

UNKNOWN_TOPIC, INVALID_ASSIGNMENT, INVALID_REQUEST = 3, 39, 42
FENCED, UNKNOWN_EPOCH, NOT_NEEDED, NO_REASSIGNMENT = 74, 75, 84, 85


async def ask(port: int, api: apis.Api, request: Any) -> Any:
    """Send one request in its newest version; the response."""
    version = API_TABLE[api.key].versions.last
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.writelines(request_frame(api, version, 1, "plain", request))
        size = int.from_bytes(await reader.readexactly(4), "big")
        frame = await reader.readexactly(size)
        _, body = response_body(api, version, frame)
        return decode(api.response, version, frame, body)
    finally:
        writer.close()


def test_where_an_epoch_ends(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await new_topic(broker, port, 1)
        await produce(port, topic_id, 0, 5)
        asked = [
            (-1, 0, (0, 0, 5)),  # (current epoch, wanted epoch) → (error, epoch, end)
            (0, 0, (0, 0, 5)),
            (0, -1, (0, -1, -1)),
            (0, 1, (0, -1, -1)),
            (0, -5, (0, -5, 0)),
            (-2, 0, (FENCED, -1, -1)),
            (1, 0, (UNKNOWN_EPOCH, -1, -1)),
        ]
        parts = [epochs.OffsetForLeaderPartition(0, now, wanted) for now, wanted, _ in asked]
        topics = [
            epochs.OffsetForLeaderTopic(TOPIC, parts),
            epochs.OffsetForLeaderTopic("none", [epochs.OffsetForLeaderPartition(0, -1, 0)]),
        ]
        answer = await ask(
            port, apis.OFFSET_FOR_LEADER_EPOCH, epochs.OffsetForLeaderEpochRequest(-1, topics)
        )
        first, second = answer.topics
        found = [(part.error_code, part.leader_epoch, part.end_offset) for part in first.partitions]
        assert found == [expected for *_, expected in asked]
        assert [part.error_code for part in second.partitions] == [UNKNOWN_TOPIC]

    run(tmp_path, scenario)


def test_the_folder_and_its_partitions(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await new_topic(broker, port, 2)
        await produce(port, topic_id, 1, 5)
        everything = await ask(port, apis.DESCRIBE_LOG_DIRS, dirs.DescribeLogDirsRequest(None))
        [folder] = everything.results
        assert folder.log_dir == str(tmp_path / "data")
        assert 0 < folder.usable_bytes < folder.total_bytes
        assert TOPIC in [topic.name for topic in folder.topics]
        wanted = dirs.DescribableLogDirTopic(TOPIC, [1, 7])
        one = await ask(port, apis.DESCRIBE_LOG_DIRS, dirs.DescribeLogDirsRequest([wanted]))
        [topic] = one.results[0].topics
        [part] = topic.partitions
        size = (tmp_path / "data" / f"{TOPIC}-1" / f"{0:020d}.log").stat().st_size
        assert (part.partition_index, part.partition_size, part.offset_lag) == (1, size, 0)

    run(tmp_path, scenario)


def test_no_election_is_needed(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await new_topic(broker, port, 1)
        wanted = [electing.TopicPartitions(TOPIC, [0, 1]), electing.TopicPartitions("none", [0])]
        for kind in (0, 1):
            answer = await ask(
                port, apis.ELECT_LEADERS, electing.ElectLeadersRequest(kind, wanted, 1000)
            )
            codes = [
                (topic.topic, part.partition_id, part.error_code)
                for topic in answer.replica_election_results
                for part in topic.partition_result
            ]
            assert codes == [
                (TOPIC, 0, NOT_NEEDED),
                (TOPIC, 1, UNKNOWN_TOPIC),
                ("none", 0, UNKNOWN_TOPIC),
            ]
        answer = await ask(port, apis.ELECT_LEADERS, electing.ElectLeadersRequest(0, None, 1000))
        assert (answer.error_code, answer.replica_election_results) == (0, [])
        answer = await ask(port, apis.ELECT_LEADERS, electing.ElectLeadersRequest(2, None, 1000))
        assert answer.error_code == INVALID_REQUEST

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("topic", "partition", "replicas", "code"),
    [
        (TOPIC, 0, [1], 0),
        (TOPIC, 0, None, NO_REASSIGNMENT),
        (TOPIC, 0, [], INVALID_ASSIGNMENT),
        (TOPIC, 0, [1, 1], INVALID_ASSIGNMENT),
        (TOPIC, 0, [1, 2], INVALID_ASSIGNMENT),
        (TOPIC, 1, [1], UNKNOWN_TOPIC),
        ("none", 0, [1], UNKNOWN_TOPIC),
    ],
)
def test_reassignments(
    topic: str, partition: int, replicas: list[int] | None, code: int, tmp_path: Path
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await new_topic(broker, port, 1)
        wanted = altering.ReassignablePartition(partition, replicas)
        request = altering.AlterPartitionReassignmentsRequest(
            1000, True, [altering.ReassignableTopic(topic, [wanted])]
        )
        answer = await ask(port, apis.ALTER_PARTITION_REASSIGNMENTS, request)
        assert answer.error_code == 0
        assert answer.responses[0].partitions[0].error_code == code
        listed = await ask(
            port, apis.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest()
        )
        assert (listed.error_code, listed.topics) == (0, [])

    run(tmp_path, scenario)
