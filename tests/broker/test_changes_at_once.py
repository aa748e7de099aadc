"""Several clients that make, grow, configure or delete one thing at once: one does it, and each
other is told what it would be told a moment later."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from sharegroup.broker.server import Broker
from sharegroup.client import Acl, AclOperation, AclResource, Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.worker.dead_letters import DeadLetters
from sharegroup.model.errors import KafkaError, UnknownTopicId
from sharegroup.wire import apis
from sharegroup.wire.messages import delete_topics as deleting
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.running import run
from tests.broker.share_wire import TIMEOUT_MS, connect

CLIENTS = 8
TOPIC = "jobs.of-today"
COLLIDING = "jobs_of-today"
ONE_OF_THEM = {"done": 1, "RESOURCE_NOT_FOUND": CLIENTS - 1}

Deed: TypeAlias = Callable[[Admin], Awaitable[object]]


async def outcomes(port: int, deeds: Iterable[Deed]) -> Counter[str]:
    """What became of each deed, all begun at once, each by a client of its own."""

    async def one(admin: Admin, deed: Deed) -> str:
        try:
            await deed(admin)
        except KafkaError as error:
            return error.name
        return "done"

    async with AsyncExitStack() as stack:
        work = []
        for deed in deeds:
            admin = await stack.enter_async_context(Admin(f"127.0.0.1:{port}"))
            await admin.list_topics()  # connected: the deeds come together
            work.append(one(admin, deed))
        return Counter(await asyncio.gather(*work))


def create(admin: Admin) -> Awaitable[object]:
    return admin.create_topics(TOPIC, partitions=4)


def collide(admin: Admin) -> Awaitable[object]:
    return admin.create_topics(COLLIDING)


def delete(admin: Admin) -> Awaitable[object]:
    return admin.delete_topics(TOPIC)


@pytest.mark.parametrize(
    ("before", "deed", "others"),
    [
        (None, create, "TOPIC_ALREADY_EXISTS"),
        (create, lambda admin: admin.create_partitions(TOPIC, 9), "INVALID_PARTITIONS"),
        (create, delete, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
    ids=["create", "grow", "delete"],
)
def test_one_topic_at_once(tmp_path: Path, before: Deed | None, deed: Deed, others: str) -> None:
    async def scenario(_broker: Broker, port: int) -> None:
        if before is not None:
            await outcomes(port, [before])
        assert await outcomes(port, [deed] * CLIENTS) == {"done": 1, others: CLIENTS - 1}

    run(tmp_path, scenario)


def test_an_own_setting_and_more_partitions_at_once(tmp_path: Path) -> None:
    def configure(number: int) -> Deed:
        name = ("retention.ms", "segment.ms", "max.message.bytes", "flush.messages")[number % 4]
        return lambda admin: admin.alter_configs("topic", TOPIC, {name: 99_999 + number})

    async def scenario(broker: Broker, port: int) -> None:
        await outcomes(port, [create])
        deeds = [*map(configure, range(4)), lambda admin: admin.create_partitions(TOPIC, 9)]
        assert await outcomes(port, deeds) == {"done": 5}
        topic = broker.parts.topics.find(TOPIC)
        assert topic is not None
        assert (topic.partition_count, len(topic.configs)) == (9, 4)

    run(tmp_path, scenario)


def test_names_that_collide_at_once(tmp_path: Path) -> None:
    """Also when the first of them waits for a deletion."""

    async def scenario(_broker: Broker, port: int) -> None:
        await outcomes(port, [create])
        found = await outcomes(port, [delete, *[create, collide] * 3])
        assert found["done"] == 2, found  # the deletion and one creation
        async with Admin(f"127.0.0.1:{port}") as admin:
            assert len(await admin.list_topics()) == 1

    run(tmp_path, scenario)


def test_a_deletion_that_waited_spares_the_topic_made_anew(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await outcomes(port, [create])
        old = broker.parts.topics.find(TOPIC)
        assert old is not None
        by_id = deleting.DeleteTopicsRequest(
            topics=[deleting.DeleteTopicState(name=None, topic_id=old.topic_id)]
        )
        again = CreateTopicsRequest([CreatableTopic(TOPIC, 1, -1)])
        requests = [(apis.DELETE_TOPICS, by_id), (apis.CREATE_TOPICS, again)] * 3
        connections = [await connect(port) for _ in requests]
        answers = await asyncio.gather(
            *(
                connection.send(api, request, timeout_ms=TIMEOUT_MS)
                for connection, (api, request) in zip(connections, requests, strict=True)
            )
        )
        deletions = Counter(answer.responses[0].error_code for answer in answers[::2])
        assert deletions == {0: 1, UnknownTopicId.code: 2}
        made = Counter(answer.topics[0].error_code for answer in answers[1::2])
        found = broker.parts.topics.find(TOPIC)
        assert (found is not None) == (made[0] == 1)
        assert found is None or found.topic_id != old.topic_id
        for connection in connections:
            connection.close()

    run(tmp_path, scenario)


def test_metadata_that_creates_it_at_once(tmp_path: Path) -> None:
    """A stock producer takes INVALID_TOPIC_EXCEPTION as permanent and drops its first messages."""

    async def scenario(_broker: Broker, port: int) -> None:
        asked = MetadataRequest([MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=True)
        connections = [await connect(port) for _ in range(CLIENTS)]
        answers = await asyncio.gather(
            *(c.send(apis.METADATA, asked, timeout_ms=TIMEOUT_MS) for c in connections)
        )
        for answer in answers:
            [topic] = answer.topics
            assert topic.error_code == 0
            assert [part.leader_id for part in topic.partitions] == [1]
        for connection in connections:
            connection.close()

    run(tmp_path, scenario)


def test_one_group_at_once(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await outcomes(port, [create])
        connections = [await connect(port) for _ in range(CLIENTS)]
        joins = [
            ShareGroupHeartbeatRequest("workers", f"member-{index}", 0, None, [TOPIC])
            for index in range(CLIENTS)
        ]
        answers = await asyncio.gather(
            *(
                c.send(apis.SHARE_GROUP_HEARTBEAT, join, timeout_ms=TIMEOUT_MS)
                for c, join in zip(connections, joins, strict=True)
            )
        )
        assert {answer.error_code for answer in answers} == {0}
        for connection in connections:
            connection.close()
        async with Admin(f"127.0.0.1:{port}") as admin:
            described = await admin.describe_share_groups(["workers"])
            assert len(described["workers"].members) == CLIENTS

    run(tmp_path, scenario)


def test_one_user_and_one_acl_at_once(tmp_path: Path) -> None:
    acl = Acl(
        principal="User:alice",
        operation=AclOperation.READ,
        resource=AclResource.TOPIC,
        name=TOPIC,
    )

    async def scenario(_broker: Broker, port: int) -> None:
        deeds: list[tuple[Deed, dict[str, int]]] = [
            (lambda a: a.upsert_scram_user("alice", "pw", iterations=4096), {"done": CLIENTS}),
            (lambda a: a.create_acls(acl), {"done": CLIENTS}),
            (lambda a: a.delete_scram_user("alice", "SCRAM-SHA-512"), ONE_OF_THEM),
        ]
        for deed, expected in deeds:
            assert await outcomes(port, [deed] * CLIENTS) == expected
        async with Admin(f"127.0.0.1:{port}") as admin:
            assert await admin.describe_acls() == [acl]

    run(
        tmp_path,
        scenario,
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
    )


def test_workers_that_create_their_dead_letter_topic_at_once(tmp_path: Path) -> None:
    async def scenario(_broker: Broker, port: int) -> None:
        await outcomes(port, [create])
        async with AsyncExitStack() as stack:
            letters = []
            for _ in range(CLIENTS):
                cluster = Cluster([f"127.0.0.1:{port}"])
                await cluster.start()
                stack.push_async_callback(cluster.close)
                letters.append(DeadLetters(cluster, "dead", "workers"))
                stack.push_async_callback(letters[-1].close)
            await asyncio.gather(*(each.start(create=True) for each in letters))

    run(tmp_path, scenario)
