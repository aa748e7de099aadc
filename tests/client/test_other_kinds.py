"""A group id that a group of another kind has: what our clients, the command line, Spark and
confluent-kafka are told, and what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as Confluent
from confluent_kafka import KafkaError as ConfluentError

from sharegroup import Consumer, Producer, ShareConsumer
from sharegroup.model.errors import GroupIdNotFound, InconsistentGroupProtocol, KafkaError
from tests.cli.command import Commands
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.readers import Stream

pytestmark = pytest.mark.process

TOPIC = "jobs"
PROTOCOLS = ("classic", "consumer")
TAKE_ANOTHER = ": a group of another kind has this id. Take another group id, or delete that group"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    """With an empty group of each kind, which is called like its kind."""
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        asyncio.run(make_groups(running.bootstrap))
        yield running


async def make_groups(bootstrap: str) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send(TOPIC, b"1")
    place: dict[str, Any] = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
    async with ShareConsumer(TOPIC, group_id="share", **place) as sharing:
        await sharing.poll()
    for protocol in PROTOCOLS:
        async with Consumer(TOPIC, group_id=protocol, group_protocol=protocol, **place) as reading:
            await reading.poll()
            await reading.commit()


def refusal(consumer: ShareConsumer | Consumer) -> KafkaError:
    async def poll() -> None:
        async with consumer as reading:
            await reading.poll()

    with pytest.raises(KafkaError) as refused:
        asyncio.run(poll())
    return refused.value


@pytest.mark.parametrize("group", PROTOCOLS)
def test_a_share_consumer(server: SharegroupServer, group: str) -> None:
    error = refusal(ShareConsumer(TOPIC, group_id=group, bootstrap_servers=server.bootstrap))
    assert isinstance(error, GroupIdNotFound)
    assert error.message.startswith(f"Group {group} is not a share group{TAKE_ANOTHER}")
    assert error.message.endswith(f"(sharegroup groups delete {group})")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer(server: SharegroupServer, protocol: str) -> None:
    error = refusal(
        Consumer(
            TOPIC,
            group_id="share",
            group_protocol=protocol,
            bootstrap_servers=server.bootstrap,
        )
    )
    if protocol == "consumer":
        assert isinstance(error, GroupIdNotFound)
        assert error.message.startswith(f"Group share is not a consumer group{TAKE_ANOTHER}")
    else:
        assert isinstance(error, InconsistentGroupProtocol)
        assert error.message.startswith("the group 'share' is no classic consumer group, or its")
        assert "Take another group id" in error.message


@pytest.mark.parametrize("group", PROTOCOLS)
def test_the_command_line(server: SharegroupServer, group: str) -> None:
    commands = Commands(server.bootstrap)
    taken = commands.run("consume", TOPIC, "--group", group, "--max", "1")
    assert (taken.status, taken.stdout) == (1, "")
    said = f"sharegroup: GROUP_ID_NOT_FOUND: Group {group} is not a share group"
    assert taken.stderr.startswith(f"{said}{TAKE_ANOTHER}")
    assert taken.stderr.count("\n") == 1
    listed = commands.inside("groups", "records", group)
    assert (listed.status, listed.stderr) == (1, f"{said}.\n")
    wrong = commands.inside("groups", "describe", group, "--type", "share")
    assert (wrong.status, wrong.stderr) == (
        2,
        f"sharegroup: group {group} is a consumer group, not a share group\n",
    )


@pytest.mark.parametrize("group", PROTOCOLS)
def test_spark(server: SharegroupServer, group: str) -> None:
    stream = Stream(server, TOPIC, **{"kafka.group.id": group})
    try:
        with pytest.raises(GroupIdNotFound) as refused:
            stream.next()
        assert str(refused.value).startswith(f"Group {group} is not a share group{TAKE_ANOTHER}")
    finally:
        stream.stop()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_confluent_kafka(server: SharegroupServer, protocol: str) -> None:
    consumer = Confluent(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "share",
            "group.protocol": protocol,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        assert error is not None
        if protocol == "classic":
            assert error.code() == ConfluentError.INCONSISTENT_GROUP_PROTOCOL
        else:
            assert error.code() == ConfluentError._FATAL
            assert "The group id does not exist" in error.str()
    finally:
        consumer.close()
