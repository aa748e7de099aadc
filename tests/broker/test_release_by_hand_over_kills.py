"""What an operator has said of a blocked record holds after a kill of the broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.client.admin.admin import Admin
from sharegroup.client.producer.producer import Producer
from sharegroup.client.share_consumer import ShareConsumer
from sharegroup.model.ack_type import AckType
from sharegroup.model.ids import TopicPartition
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

AT = TopicPartition("jobs", 0)
GROUP = "bank"
LIMIT = 2
SECONDS = 240


@pytest.fixture
def server(tmp_path: Path) -> SharegroupServer:
    return SharegroupServer(tmp_path)


async def blocked(bootstrap: str) -> None:
    """A group whose first record has failed at the limit, and one that waits behind it."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics("jobs", partitions=1)
        settings = {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": str(LIMIT),
            "share.ordering": "key",
            "share.ordering.key.max.in.flight": "1",
            "share.ordering.on.failure": "block",
        }
        await admin.alter_configs("group", GROUP, settings)
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for value in ("first", "second"):
            await producer.send("jobs", value, key="ann")
    for count in range(1, LIMIT + 1):
        assert await taken(bootstrap, AckType.RELEASE) == ("first", count)
    assert await seen(bootstrap) == (0, LIMIT, True)


async def taken(bootstrap: str, answer: AckType) -> tuple[str, int]:
    """The next record, after it was answered so."""
    async with ShareConsumer(
        "jobs", bootstrap_servers=bootstrap, group_id=GROUP, acknowledgement_mode="explicit"
    ) as consumer:
        async with asyncio.timeout(SECONDS):
            while not (records := await consumer.poll(timeout_ms=1_000)):
                continue
        for record in records:
            consumer.acknowledge(record, answer)
        await consumer.commit()
        return records[0].value.decode(), records[0].delivery_count


async def seen(bootstrap: str) -> tuple[int, int, bool]:
    """The first unfinished record: its offset, delivery count, and whether it is blocked."""
    async with Admin(bootstrap) as admin:
        found = (await admin.describe_record_states(GROUP))[AT]
        return found.ranges[0].first, found.ranges[0].delivery_count, found.ranges[0].blocked


async def decided(bootstrap: str, *, archive: bool) -> None:
    async with Admin(bootstrap) as admin:
        decide = admin.archive_blocked_record if archive else admin.release_blocked_record
        await decide(GROUP, AT, 0)


def test_a_released_record_is_delivered_after_the_kill(server: SharegroupServer) -> None:
    with server:
        asyncio.run(blocked(server.bootstrap))
        asyncio.run(decided(server.bootstrap, archive=False))
        before = asyncio.run(seen(server.bootstrap))
        server.kill()
        server.start()
        assert asyncio.run(seen(server.bootstrap)) == before == (0, LIMIT - 1, False)
        assert asyncio.run(taken(server.bootstrap, AckType.ACCEPT)) == ("first", LIMIT)
        assert asyncio.run(taken(server.bootstrap, AckType.ACCEPT)) == ("second", 1)


def test_one_that_fails_after_the_release_is_blocked_after_the_kill(
    server: SharegroupServer,
) -> None:
    with server:
        asyncio.run(blocked(server.bootstrap))
        for _ in range(2):
            asyncio.run(decided(server.bootstrap, archive=False))
            assert asyncio.run(taken(server.bootstrap, AckType.RELEASE)) == ("first", LIMIT)
            server.kill()
            server.start()
            assert asyncio.run(seen(server.bootstrap)) == (0, LIMIT, True)
        asyncio.run(decided(server.bootstrap, archive=True))
        server.kill()
        server.start()
        assert asyncio.run(taken(server.bootstrap, AckType.ACCEPT)) == ("second", 1)
