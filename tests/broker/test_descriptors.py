"""As many connections and partitions as there are file descriptors for."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sharegroup.app.descriptors import QuietAccepting, descriptor_limit
from sharegroup.app.environment import local_environment
from sharegroup.broker.configs.broker import load
from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.broker.network.descriptors import DescriptorBudget
from sharegroup.broker.server import Broker
from sharegroup.model.environment import NO_LIMIT
from sharegroup.model.errors import ConfigError, PolicyViolation
from sharegroup.model.limits import CONNECTIONS_RESERVED, DESCRIPTORS_RESERVED
from sharegroup.storage.descriptors import cached_files
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.metadata import MetadataRequest
from tests.broker.by_hand import TIMEOUT_MS, connect, produce
from tests.broker.test_connections import is_refused
from tests.broker.test_full_disk import Client
from tests.servers.process import ServerProcess
from tests.servers.sharegroup_server import SharegroupServer
from tests.storage.lacks import no_descriptors

POLICY_VIOLATION = 44


def others(limit: int) -> int:
    return DESCRIPTORS_RESERVED + cached_files(limit)


@pytest.mark.parametrize("limit", [200, 1024, 20_000])
def test_a_start_needs_a_descriptor_per_partition_and_some_more(limit: int) -> None:
    budget = DescriptorBudget(lambda: limit)
    most = limit - others(limit) - CONNECTIONS_RESERVED
    budget.check_start(most)
    with pytest.raises(ConfigError, match=rf"ulimit -n {limit + 1}.*LimitNOFILE={limit + 1}"):
        budget.check_start(most + 1)


def test_partitions_are_created_while_descriptors_remain_for_connections() -> None:
    budget = DescriptorBudget(lambda: 1024)
    free = 1024 - others(1024)
    budget.partitions = lambda: 300
    assert budget.connections() == free - 300
    budget.check_more(free - 300 - CONNECTIONS_RESERVED)
    with pytest.raises(PolicyViolation, match="may have 1024: raise the limit to 1025 or more"):
        budget.check_more(free - 300 - CONNECTIONS_RESERVED + 1)
    budget.partitions = lambda: 5_000  # of a limit that was higher once
    assert budget.connections() == CONNECTIONS_RESERVED


def test_without_a_system_limit_there_is_no_bound() -> None:
    budget = DescriptorBudget(lambda: NO_LIMIT)
    budget.check_start(10**6)
    budget.check_more(10**6)
    assert budget.connections() > 10**9


def test_connections_and_partitions_share_the_descriptors(tmp_path: Path) -> None:
    async def main() -> None:
        limit = 128
        environment = replace(local_environment(), descriptors=lambda: limit)
        broker = await Broker.open(load("", []), environment, str(tmp_path / "data"))
        try:
            _, port = await broker.listen("127.0.0.1", 0)
            free = limit - others(limit)
            first = await connect(port)
            client = Client(first)
            assert await client.create("few", 20) == 0
            assert await client.create("many", free) == POLICY_VIOLATION
            assert await client.grow("few", free) == POLICY_VIOLATION
            assert await client.topics() == ["few"]
            held = [await connect(port) for _ in range(free - 20 - 1)]
            assert await is_refused(port)
            assert len(await client.topics()) == 1, "those that are open are not disturbed"
            assert await client.delete("few") == 0
            held += [await connect(port) for _ in range(20)]
            assert await is_refused(port)
        finally:
            await broker.close()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_connections_that_cannot_be_accepted_are_logged_once_without_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused: list[None] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(QuietAccepting(lambda: refused.append(None)))
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        with ExitStack() as stack:
            peers = [stack.enter_context(socket.socket()) for _ in range(3)]
            accepted = loop.create_future()
            with no_descriptors():
                for peer in peers:
                    peer.setblocking(False)
                    await loop.sock_connect(peer, address)
                while not refused:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            loop.call_exception_handler({"message": "another", "exception": ValueError("x")})
            accepted.cancel()
            server.close()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(asyncio.wait_for(main(), 120))
    said = [record for record in caplog.records if "cannot be accepted" in record.getMessage()]
    assert len(said) == 1
    assert said[0].exc_info is None
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == ["another"]


def limited(process: ServerProcess, limit: int) -> None:
    """Start the server with a soft and a hard limit of descriptors."""
    script = f"ulimit -n {limit} && exec " + '"$@"'
    process.command = ["sh", "-c", script, "sh", *process.command]


@pytest.mark.process
def test_too_few_descriptors_are_reported_at_the_start(tmp_path: Path) -> None:
    server = SharegroupServer(tmp_path)
    with server:
        asyncio.run(create(server.port, "jobs", 60))
    command = list(server.process.command)
    limited(server.process, 100)
    server.process.start()
    with pytest.raises(Exception, match="ended with status 2") as raised:
        server.process.wait_until(lambda: False, timeout_s=120)
    assert "sharegroup serve: too few file descriptors" in str(raised.value)
    assert "60 partitions" in str(raised.value)
    assert "may have 100" in str(raised.value)
    assert "Traceback" not in server.output()
    server.process.command = command
    with server:
        assert "60 partitions recovered" in server.output()


async def create(port: int, name: str, partitions: int, **configs: str) -> None:
    connection = await connect(port)
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)])
    response = await connection.send(apis.CREATE_TOPICS, request, timeout_ms=TIMEOUT_MS)
    assert response.topics[0].error_code == 0, response
    for setting, value in configs.items():
        assert await Client(connection).alter(2, name, setting.replace("_", "."), value) == 0
    connection.close()


@pytest.mark.process
def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    server = SharegroupServer(tmp_path)
    server.process.command = [
        "sh", "-c", 'ulimit -S -n 64 && exec "$@"', "sh", *server.process.command,
    ]  # fmt: skip
    with server:
        soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        assert soft == hard > 64


@pytest.mark.process
def test_many_connections_leave_descriptors_for_files(tmp_path: Path) -> None:
    """Segments are rolled while as many connections are open as are let in."""
    server = SharegroupServer(tmp_path)
    limited(server.process, 150)

    async def main() -> None:
        await create(server.port, "jobs", 4, segment_bytes="1048576")
        producer = await connect(server.port)
        topic_id = await id_of(producer, "jobs")
        with ExitStack() as stack:
            for _ in range(300):
                peer = stack.enter_context(socket.socket())
                peer.connect(("127.0.0.1", server.port))
            batch = encode_batch([(b"k", bytes(400_000))], timestamp_ms=0)
            for number in range(24):
                assert await produce(producer, topic_id, batch, number % 4) == 0
        producer.close()

    with server:
        asyncio.run(asyncio.wait_for(main(), 240))
        assert len(list(server.data.glob("jobs-*/*.log"))) >= 8
        assert "Traceback" not in server.output()
        assert "out of service" not in server.output()


async def id_of(connection: object, name: str) -> object:
    response = await connection.send(  # type: ignore[attr-defined]
        apis.METADATA, MetadataRequest(None), timeout_ms=TIMEOUT_MS
    )
    return next(topic.topic_id for topic in response.topics if topic.name == name)


@pytest.mark.process
def test_a_process_recovers_when_it_has_descriptors_again(
    tmp_path: Path,
) -> None:
    """The limit is taken from under a running broker, below what it holds."""

    async def main(pid: int) -> None:
        await create(server.port, "jobs", 4, segment_bytes="1048576")
        producer = await connect(server.port)
        topic_id = await id_of(producer, "jobs")
        batch = encode_batch([(b"k", bytes(400_000))], timestamp_ms=0)
        for partition in range(4):
            assert await produce(producer, topic_id, batch, partition) == 0
        beside = await connect(server.port)
        client, other = Client(producer), Client(beside)
        for _ in range(2 * len(API_TABLE)):  # a module is loaded with each turn of its loop
            assert await other.topics() == ["jobs"]
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
        codes = {
            await other.create("more", 3),
            await other.producer_id(),
            await other.alter(32, "workers", "share.auto.offset.reset", "earliest"),
            await other.heartbeat("m1"),
        }
        assert codes <= {56, 15, POLICY_VIOLATION}, codes
        asked = [
            asyncio.ensure_future(produce(producer, topic_id, batch, number % 4))
            for number in range(24)
        ]
        for _ in range(20):  # a sync that cannot begin keeps its producer waiting, nobody else
            assert await other.topics() == ["jobs"]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
        assert set(await asyncio.gather(*asked)) <= {0, 56}
        for number in range(24):
            assert await produce(producer, topic_id, batch, number % 4) == 0
        assert await client.create("others", 3) == 0
        assert await client.producer_id() == 0
        assert await client.heartbeat("m1") == 0
        producer.close()
        beside.close()

    with SharegroupServer(tmp_path) as server:
        asyncio.run(asyncio.wait_for(main(server.process.pid), 240))
        assert "Traceback" not in server.output()
        assert "out of service" not in server.output()


def test_the_limit_is_the_systems() -> None:
    assert descriptor_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert sys.platform == "linux"
    assert os.sysconf("SC_OPEN_MAX") == descriptor_limit()
