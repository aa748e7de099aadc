"""The same requests for committed offsets to Apache Kafka and to us: the answers are the same."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, TopicPartition

from sharegroup.client.network.connection import Connection
from sharegroup.wire import apis
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.apache_kafka.broker import KafkaBroker
from tests.broker.offset_wire import OffsetClient, Target
from tests.servers.admin import Admin
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

A, B, NONE, GONE = ("jobs", 0), ("jobs", 1), ("jobs", 7), ("gone", 0)
TIMEOUT_MS = 120_000

Said = list[tuple[Any, ...]]


async def committing(target: Target, said: Said) -> None:
    for version in (2, 4, 5, 7, 8, 9, 10):
        client = OffsetClient(target, f"readers-{version}", offset_commit=version)
        said.append((version, "unknown group", await client.commit({A: 1}, epoch=3, member="m")))
        said.append((version, "epoch 0", await client.commit({A: 1}, epoch=0)))
        said.append((version, "some", await client.commit({A: 5, NONE: 6, GONE: 7})))
        said.append((version, "a member", await client.commit({B: 5}, epoch=-1, member="m")))
        said.append((version, "an epoch", await client.commit({B: 6}, epoch=3, member="m")))
        said.append((version, "an epoch only", await client.commit({B: 6}, epoch=3)))
        client.metadata = "x" * 4096
        said.append((version, "long", await client.commit({A: 9})))
        client.metadata = "x" * 4097
        said.append((version, "too long", await client.commit({A: 10, B: 10})))
        client.metadata = None
        said.append((version, "no text", await client.commit({A: -1})))
        said.append((version, "found", await client.fetch(A, B), (await client.answer(A)).topics))
        client.group = "sharers"
        said.append((version, "share group", await client.commit({A: 5})))
        client.group = ""
        said.append((version, "no group", await client.commit({A: 5}), await client.fetch(A)))


async def fetching(target: Target, said: Said) -> None:
    client = OffsetClient(target, "readers")
    await client.commit({A: 5, B: 6})
    for version in range(1, 11):
        client = OffsetClient(target, "readers", offset_fetch=version)
        for group in ("readers", "nobody", "sharers"):
            client.group = group
            said.append((version, group, await client.fetch(A, B, NONE, GONE)))
            answer = await client.answer(A)
            said.append((answer.error_code, answer.topics))
            if version >= 2:
                said.append((version, group, await client.fetch()))
            if version >= 7:
                said.append((version, group, await client.fetch(A, stable=True)))


async def deleting(target: Target, said: Said) -> None:
    client = OffsetClient(target, "readers")
    await client.commit({A: 5, B: 6})
    for group in ("readers", "nobody", "sharers", ""):
        client.group = group
        said.append((group, await client.delete(A, NONE, GONE), await client.fetch(A, B)))


async def answers(bootstrap: str, play: Callable[[Target, Said], Awaitable[None]]) -> Said:
    """What the broker says."""
    port = int(bootstrap.rpartition(":")[2])
    connection = await Connection.open("127.0.0.1", port, client_id="script", timeout_ms=TIMEOUT_MS)
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="jobs")])
    (topic,) = (await connection.send(apis.METADATA, wanted, timeout_ms=TIMEOUT_MS)).topics
    ids: dict[str, UUID] = {"jobs": topic.topic_id}
    heartbeat = ShareGroupHeartbeatRequest("sharers", "a-member", 0, None, ["jobs"])
    joined = await connection.send(apis.SHARE_GROUP_HEARTBEAT, heartbeat, timeout_ms=TIMEOUT_MS)
    assert joined.error_code == 0, joined
    said: Said = []
    await play(Target(lambda: port, ids.get), said)
    connection.close()
    return said


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("both")
    with KafkaBroker(folder / "kafka") as kafka, SharegroupServer(folder / "ours") as ours:
        for server in (kafka, ours):
            Admin(server.bootstrap).create_topic("jobs", 2)
            consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "first"})
            place = TopicPartition("jobs", 0, 1)
            consumer.commit(offsets=[place], asynchronous=False)  # Kafka loads its coordinator
            consumer.close()
        yield kafka, ours


@pytest.mark.parametrize("play", [committing, fetching, deleting])
def test_answers_are_the_same(
    servers: tuple[KafkaBroker, SharegroupServer],
    play: Callable[[Target, Said], Awaitable[None]],
) -> None:
    kafkas, ours = (asyncio.run(answers(server.bootstrap, play)) for server in servers)
    assert len(kafkas) == len(ours) > 0
    differences = [
        (theirs, own)
        for theirs, own in zip(map(_comparable, kafkas), map(_comparable, ours), strict=True)
        if theirs != own
    ]
    assert differences == []


def _comparable(said: tuple[Any, ...]) -> str:
    """Without the ids of topics, and whatever the order of partitions."""
    parts = [sorted(part.items()) if isinstance(part, dict) else part for part in said]
    return re.sub(r"UUID\('[^']+'\)", "ID", repr(parts))
