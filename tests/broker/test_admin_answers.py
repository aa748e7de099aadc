"""Answers to administration that Java's Admin got from Apache Kafka 4.4, and once not from us."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.broker.server import Broker
from sharegroup.client import Admin
from sharegroup.model import errors
from sharegroup.wire import apis
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.messages import alter_configs as replacing
from sharegroup.wire.messages import create_partitions as growing
from sharegroup.wire.messages import create_topics as creating
from sharegroup.wire.messages import incremental_alter_configs as altering
from sharegroup.wire.messages import list_offsets as offsets
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.running import run, running
from tests.broker.share_wire import TOPIC, new_group, new_topic, produce

BROKER, SET = 4, 0


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


def test_new_partitions_have_one_assignment_each(tmp_path: Path) -> None:
    async def grow(port: int, count: int, assignments: int) -> tuple[int, str | None]:
        placed = [growing.CreatePartitionsAssignment([1]) for _ in range(assignments)]
        topic = growing.CreatePartitionsTopic(TOPIC, count, placed)
        request = growing.CreatePartitionsRequest([topic], 1000)
        [result] = (await ask(port, apis.CREATE_PARTITIONS, request)).results
        return result.error_code, result.error_message

    async def scenario(broker: Broker, port: int) -> None:
        await new_topic(broker, port, 2)
        code, message = await grow(port, 4, 1)
        assert code == errors.InvalidReplicaAssignment.code
        assert message == (
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
        )
        topic = broker.parts.topics.find(TOPIC)
        assert topic is not None
        assert topic.partition_count == 2
        assert (await grow(port, 2, 1))[0] == errors.InvalidPartitions.code
        assert (await grow(port, 4, 2))[0] == 0

    run(tmp_path, scenario)


def test_a_hole_in_a_new_topics_assignments(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        placed = [creating.CreatableReplicaAssignment(index, [1]) for index in (0, 2)]
        topic = creating.CreatableTopic("gap", -1, -1, placed)
        [made] = (
            await ask(port, apis.CREATE_TOPICS, creating.CreateTopicsRequest([topic], 1000))
        ).topics
        assert made.error_code == errors.InvalidReplicaAssignment.code

    run(tmp_path, scenario)


def test_a_topic_for_tiered_storage_is_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        for value, code in (("true", errors.InvalidConfig.code), ("false", 0)):
            config = creating.CreatableTopicConfig("remote.storage.enable", value)
            topic = creating.CreatableTopic("tiered", 1, 1, configs=[config])
            request = creating.CreateTopicsRequest([topic], 1000)
            [made] = (await ask(port, apis.CREATE_TOPICS, request)).topics
            assert made.error_code == code

    run(tmp_path, scenario)


def test_where_no_offset_is_there_is_no_epoch(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await new_topic(broker, port, 1)
        await produce(port, topic_id, 0, 5)
        for timestamp, found in ((-1, (5, 0)), (-2, (0, 0)), (-5, (-1, -1)), (-6, (-1, -1))):
            asked = offsets.ListOffsetsPartition(0, -1, timestamp)
            request = offsets.ListOffsetsRequest(-1, 0, [offsets.ListOffsetsTopic(TOPIC, [asked])])
            [part] = (await ask(port, apis.LIST_OFFSETS, request)).topics[0].partitions
            assert (part.error_code, part.offset, part.leader_epoch) == (0, *found)
        asked = offsets.ListOffsetsPartition(0, -1, 1 << 60)
        request = offsets.ListOffsetsRequest(-1, 0, [offsets.ListOffsetsTopic(TOPIC, [asked])])
        [part] = (await ask(port, apis.LIST_OFFSETS, request)).topics[0].partitions
        assert (part.error_code, part.offset, part.leader_epoch) == (0, -1, -1)

    run(tmp_path, scenario)


def test_a_setting_that_needs_a_restart(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        change = altering.AlterableConfig("node.id", SET, "3")
        resource = altering.AlterConfigsResource(BROKER, "1", [change])
        request = altering.IncrementalAlterConfigsRequest([resource])
        [answer] = (await ask(port, apis.INCREMENTAL_ALTER_CONFIGS, request)).responses
        assert answer.error_code == errors.InvalidRequest.code
        assert answer.error_message == "Cannot update these configs dynamically: [node.id]"

    run(tmp_path, scenario)


def test_the_nameless_group_has_a_coordinator(tmp_path: Path) -> None:
    """Kafka keeps offsets for the empty group id, for old clients."""

    async def scenario(broker: Broker, port: int) -> None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[""])
        [found] = (await ask(port, apis.FIND_COORDINATOR, request)).coordinators
        assert (found.error_code, found.node_id) == (0, 1)

    run(tmp_path, scenario)


def test_a_resource_that_is_named_twice_changes_nothing(tmp_path: Path) -> None:
    """Apache Kafka 4.4 means to answer so, and does not answer at all."""

    async def scenario(broker: Broker, port: int) -> None:
        await new_topic(broker, port, 1)
        own = altering.AlterableConfig("retention.ms", SET, "99999")
        replaced = replacing.AlterableConfig("retention.ms", "99999")
        for api, request in (
            (
                apis.INCREMENTAL_ALTER_CONFIGS,
                altering.IncrementalAlterConfigsRequest(
                    [altering.AlterConfigsResource(2, TOPIC, [own])] * 2
                ),
            ),
            (
                apis.ALTER_CONFIGS,
                replacing.AlterConfigsRequest(
                    [replacing.AlterConfigsResource(2, TOPIC, [replaced])] * 2
                ),
            ),
        ):
            answer = await ask(port, api, request)
            codes = [result.error_code for result in answer.responses]
            assert codes == [errors.InvalidRequest.code] * 2
        assert broker.parts.configs.of_topic(TOPIC) == {}

    run(tmp_path, scenario)


def test_topics_of_the_broker_that_a_client_makes(tmp_path: Path) -> None:
    """Kafka's test harnesses make __consumer_offsets first."""
    internal = ("__consumer_offsets", "__share_group_state")

    async def main() -> None:
        async with running(tmp_path) as (broker, port):
            async with Admin(f"127.0.0.1:{port}") as admin:
                for name in internal:
                    with pytest.raises(errors.InvalidPartitions, match="by a setting"):
                        await admin.create_topics(name, partitions=2)
                    await admin.create_topics(name, partitions=1)
                    with pytest.raises(errors.TopicAlreadyExists):
                        await admin.create_topics(name)
                with pytest.raises(errors.InvalidRequest):
                    await admin.create_topics("__cluster_metadata")
                with pytest.raises(errors.InvalidTopic):
                    await admin.create_topics("__sharegroup_security")
            await new_topic(broker, port, 1)
            await new_group(broker, port)
        async with running(tmp_path) as (_, port), Admin(f"127.0.0.1:{port}") as admin:
            described = await admin.describe_share_groups(["workers"])
            assert [member.member_id for member in described["workers"].members] == ["starter"]

    asyncio.run(main())


def test_a_setting_without_effect_here_is_named_as_such(tmp_path: Path) -> None:
    name = "sasl.kerberos.min.time.before.relogin"

    async def scenario(_: Broker, port: int) -> None:
        async with Admin(f"127.0.0.1:{port}") as admin:
            with pytest.raises(errors.InvalidRequest, match=f"{name} does nothing here: "):
                await admin.alter_configs("broker", "1", {name: 5000})

    run(tmp_path, scenario)
