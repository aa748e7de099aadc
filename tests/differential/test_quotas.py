"""What our broker and Apache Kafka say to the same alterations and questions about quotas, and how
long both throttle the same producer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sharegroup.client.network.connection import Connection
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages import alter_client_quotas as alter
from sharegroup.wire.messages import describe_client_quotas as describe
from sharegroup.wire.messages import produce
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.apache_kafka.broker import KafkaBroker
from tests.servers.admin import Admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

TIMEOUT_MS = 120_000
PRODUCED, CONSUMED, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATIONS, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"

Parts = list[tuple[str, str | None]]
Changes = list[tuple[str, float | None]]

USER: Parts = [("user", "u")]
ALTERATIONS: list[tuple[Parts, Changes]] = [
    (USER, [(PRODUCED, 1024.0), (TIME, 50.5), (MUTATIONS, 2.5)]),
    (USER, [(CONSUMED, 5.0000001)]),
    (USER, [(PRODUCED, None)]),
    (USER, [(PRODUCED, None), (CONSUMED, None)]),
    (USER, []),
    ([("user", None)], [(PRODUCED, 7.0)]),
    ([("user", None), ("client-id", None)], [(PRODUCED, 8.0)]),
    ([("client-id", "c"), ("user", "u")], [(CONSUMED, 9.0)]),
    ([("client-id", "c")], [(TIME, 0.001)]),
    ([("ip", "10.0.0.1")], [(CONNECTIONS, 10.0)]),
    ([("ip", None)], [(CONNECTIONS, 2.0**31 - 1)]),
    ([("ip", "::1")], [(CONNECTIONS, 3.0)]),
    # What is refused.
    ([], [(PRODUCED, 1.0)]),
    ([("group", "g")], [(PRODUCED, 1.0)]),
    ([("user", "")], [(PRODUCED, 1.0)]),
    ([("client-id", "")], [(PRODUCED, 1.0)]),
    ([("ip", "10.0.0.1"), ("user", "u")], [(CONNECTIONS, 1.0)]),
    ([("ip", "no such host")], [(CONNECTIONS, 1.0)]),
    ([("ip", "10.0.0.1")], [(PRODUCED, 1.0)]),
    (USER, [(CONNECTIONS, 1.0)]),
    (USER, [("no_such_quota", 1.0)]),
    (USER, [("no_such_quota", None)]),
    (USER, [(PRODUCED, 0.0)]),
    (USER, [(PRODUCED, -1.0)]),
    (USER, [(PRODUCED, 1.5)]),
    (USER, [(PRODUCED, 2.0**64)]),
    ([("ip", None)], [(CONNECTIONS, 2.0**31)]),
    (USER, [(PRODUCED, 1.0), (PRODUCED, 2.0)]),
    (USER, [(CONSUMED, 3.0), (TIME, -1.0)]),
    ([("user", "u"), ("user", "v")], [(PRODUCED, 4.0)]),
]

ANY, DEFAULT, NAMED = 2, 1, 0
QUESTIONS: list[tuple[list[tuple[str, int, str | None]], bool]] = [
    ([], False),
    ([], True),
    ([("user", NAMED, "u")], False),
    ([("user", NAMED, "u")], True),
    ([("user", DEFAULT, None)], True),
    ([("user", ANY, None)], True),
    ([("user", ANY, None)], False),
    ([("user", ANY, None), ("client-id", ANY, None)], True),
    ([("client-id", DEFAULT, None)], False),
    ([("ip", ANY, None)], True),
    ([("ip", NAMED, "10.0.0.1")], True),
    ([("ip", ANY, None), ("user", ANY, None)], False),
    ([("user", NAMED, None)], False),
    ([("user", DEFAULT, "u")], False),
    ([("user", 3, None)], False),
    ([("", NAMED, "u")], False),
    ([("group", NAMED, "g")], False),
    ([("user", NAMED, "u"), ("user", NAMED, "v")], False),
]


async def altered(
    connection: Connection, entries: list[tuple[Parts, Changes]], *, trial: bool = False
) -> list[tuple[Any, ...]]:
    """(entity, error code, its sentence) of each entity."""
    request = alter.AlterClientQuotasRequest(
        [
            alter.AlteredEntry(
                [describe.EntityData(*part) for part in parts],
                [alter.AlteredQuota(key, value or 0.0, value is None) for key, value in changes],
            )
            for parts, changes in entries
        ],
        trial,
    )
    answer = await connection.send(apis.ALTER_CLIENT_QUOTAS, request, timeout_ms=TIMEOUT_MS)
    return sorted(
        (entity_of(entry.entity), entry.error_code, (entry.error_message or "")[:25])
        for entry in answer.entries
    )


def entity_of(parts: Any) -> str:
    return str(sorted((part.entity_type, part.entity_name) for part in parts))


async def described(connection: Connection) -> list[Any]:
    """The answers to all questions."""
    answers = []
    for components, strict in QUESTIONS:
        wanted = [describe.ComponentData(*one) for one in components]
        request = describe.DescribeClientQuotasRequest(wanted, strict)
        answer = await connection.send(apis.DESCRIBE_CLIENT_QUOTAS, request, timeout_ms=TIMEOUT_MS)
        found = answer.entries and {
            entity_of(entry.entity): {value.key: value.value for value in entry.values}
            for entry in answer.entries
        }
        answers.append((components, strict, answer.error_code, answer.error_message, found or {}))
    return answers


async def produced(connection: Connection, size: int) -> int:
    """The throttle time in milliseconds."""
    batch = encode_batch([(b"k", bytes(size))], timestamp_ms=0)
    data = produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(0, batch)])
    request = produce.ProduceRequest(None, -1, 10_000, [data])
    answer = await connection.send(apis.PRODUCE, request, timeout_ms=TIMEOUT_MS)
    assert answer.responses[0].partition_responses[0].error_code == 0
    throttle_ms: int = answer.throttle_time_ms
    return throttle_ms


@asynccontextmanager
async def connected(server: RunningServer, client_id: str) -> AsyncIterator[Connection]:
    port = int(server.bootstrap.rpartition(":")[2])
    connection = await Connection.open(
        "127.0.0.1", port, client_id=client_id, timeout_ms=TIMEOUT_MS
    )
    try:
        yield connection
    finally:
        connection.close()


async def settled(connection: Connection) -> list[Any]:
    """The answers when they are the same twice: Kafka applies alterations a little later."""
    answers = await described(connection)
    while (again := await described(connection)) != answers:
        answers = again
    return answers


async def everything(admin: Connection) -> list[Any]:
    found: list[Any] = []
    found.append(await altered(admin, ALTERATIONS[:1], trial=True))
    found += [await altered(admin, [each]) for each in ALTERATIONS]
    found += await settled(admin)
    twice: tuple[Parts, Changes] = ([("user", "w")], [(PRODUCED, 5.0)])
    found.append([each[:2] for each in await altered(admin, [twice, twice])])
    return found


async def throttles(admin: Connection, connection: Connection) -> list[int]:
    """Of a producer with 10,000 bytes per second that sends 90,000 twice at once."""
    whose: Parts = [("user", "ANONYMOUS"), ("client-id", "p")]
    await altered(admin, [(whose, [(PRODUCED, 10_000.0)])])
    await settled(admin)
    return [await produced(connection, 90_000), await produced(connection, 90_000)]


async def mutations(admin: Connection, connection: Connection) -> list[tuple[int, int]]:
    """(error code, throttle time) of a client with one partition per second that creates 16 and
    then one more."""
    whose: Parts = [("user", "ANONYMOUS"), ("client-id", "m")]
    await altered(admin, [(whose, [(MUTATIONS, 1.0)])])
    await settled(admin)
    found = []
    for name, count in (("t-16", 16), ("t-1", 1)):
        request = CreateTopicsRequest([CreatableTopic(name, count, 1)])
        answer = await connection.send(apis.CREATE_TOPICS, request, timeout_ms=TIMEOUT_MS)
        found.append((answer.topics[0].error_code, answer.throttle_time_ms))
    return found


def test_quotas_are_answered_and_kept_as_by_kafka(tmp_path: Path) -> None:
    async def all_of_it(server: RunningServer) -> tuple[list[Any], list[int], list[Any]]:
        async with (
            connected(server, "admin") as admin,
            connected(server, "p") as producer,
            connected(server, "m") as creator,
        ):
            answers, times = await everything(admin), await throttles(admin, producer)
            return answers, times, await mutations(admin, creator)

    told = []
    for server in (SharegroupServer(tmp_path / "ours"), KafkaBroker(tmp_path / "kafka")):
        with server:
            Admin(server.bootstrap).create_topic("t")
            told.append(asyncio.run(all_of_it(server)))
    (mine, my_times, my_refusals), (theirs, their_times, their_refusals) = told
    assert len(mine) == len(theirs)
    different = [
        (ours, kafkas) for ours, kafkas in zip(mine, theirs, strict=True) if ours != kafkas
    ]
    assert not different, "\n".join(f"ours {ours}\nKafka {kafkas}" for ours, kafkas in different)
    assert my_times[0] == their_times[0] == 0
    assert my_times[1] == pytest.approx(their_times[1], rel=0.15)
    assert [code for code, _ in my_refusals] == [code for code, _ in their_refusals] == [0, 89]
    assert my_refusals[0][1] == their_refusals[0][1] == 0
    assert my_refusals[1][1] == pytest.approx(their_refusals[1][1], rel=0.15)
