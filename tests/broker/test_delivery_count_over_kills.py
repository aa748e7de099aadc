"""Which crashes count as a delivery: those of consumers do, as in Apache Kafka, those of the broker
do not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.client.admin.admin import Admin
from sharegroup.client.producer.producer import Producer
from tests.servers.sharegroup_server import SOURCE, SharegroupServer

pytestmark = pytest.mark.process

LIMIT = 3
SECONDS = 240

CONSUMER = """
import asyncio, sys
from sharegroup.client.share_consumer import ShareConsumer

async def main():
    consumer = ShareConsumer(
        "jobs", bootstrap_servers=sys.argv[1], group_id="workers", acknowledgement_mode="explicit"
    )
    await consumer.start()
    while True:
        for record in await consumer.poll(timeout_ms=1000):
            print(record.value.decode(), record.delivery_count, flush=True)
            if len(sys.argv) > 2:
                consumer.accept(record)
                await consumer.commit()
                await consumer.close()
                return
            await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path) as running:
        asyncio.run(prepared(running.bootstrap))
        yield running


async def prepared(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics("jobs", partitions=1)
        await admin.alter_configs(
            "group",
            "workers",
            {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": str(LIMIT)},
        )
    await produced(bootstrap, "poison")


async def produced(bootstrap: str, value: str) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send("jobs", value)


class Consumer:
    """A process that takes a record and does nothing more, or accepts it and ends."""

    def __init__(self, server: SharegroupServer, *, accepts: bool = False) -> None:
        words = [sys.executable, "-c", CONSUMER, server.bootstrap, *(["accept"] * accepts)]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(SOURCE)}
        )

    def got(self) -> str:
        """The first record it was given, and how often that was delivered."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        with self.process:
            self.process.kill()


def taken(server: SharegroupServer) -> str:
    """What a consumer is given that is killed with it in hand."""
    consumer = Consumer(server)
    try:
        return consumer.got()
    finally:
        consumer.kill()


def test_a_killed_consumer_uses_up_a_delivery(server: SharegroupServer) -> None:
    """So the limit ends a crash loop of consumers."""
    assert [taken(server) for _ in range(LIMIT)] == ["poison 1", "poison 2", "poison 3"]
    asyncio.run(produced(server.bootstrap, "next"))
    assert taken(server) == "next 1", "the poison is archived"


def test_used_deliveries_survive_a_kill_of_the_broker(server: SharegroupServer) -> None:
    """A delivery that has ended is durable before the next begins."""
    assert [taken(server), taken(server)] == ["poison 1", "poison 2"]
    last = Consumer(server)
    assert last.got() == "poison 3"
    server.kill()
    last.kill()
    server.start()
    assert taken(server) == "poison 3", "that of the broker's crash is not counted"
    asyncio.run(produced(server.bootstrap, "next"))
    assert taken(server) == "next 1"


def test_a_killed_broker_uses_up_no_delivery(server: SharegroupServer) -> None:
    for _ in range(LIMIT + 1):
        consumer = Consumer(server)
        assert consumer.got() == "poison 1"
        server.kill()
        consumer.kill()
        server.start()


def test_a_stopped_broker_uses_up_a_delivery(server: SharegroupServer) -> None:
    """Its sessions end in order, and with them the deliveries."""
    for count in (1, 2):
        consumer = Consumer(server)
        assert consumer.got() == f"poison {count}"
        server.stop()
        consumer.kill()
        server.start()
    accepting = Consumer(server, accepts=True)
    assert accepting.got() == "poison 3"
    assert accepting.process.wait(SECONDS) == 0
    accepting.kill()
