"""Offsets of a time: a broker in front of a cluster answers what the cluster does."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Producer

from sharegroup import Admin
from sharegroup.client import OffsetSpec
from sharegroup.model.ids import TopicPartition
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

FIRST_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
TIMES_MS = (FIRST_MS, FIRST_MS + 2 * HOUR_MS, FIRST_MS + HOUR_MS)


def test_an_offset_has_the_time_of_its_record(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    admin.Admin(node.bootstrap).create_topic("timed")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **admin.SILENT})
    for time_ms in TIMES_MS:
        producer.produce("timed", b"v", timestamp=time_ms)
        assert producer.flush(60) == 0
    where = TopicPartition("timed", 0)

    async def told(bootstrap: str, at: int) -> tuple[int, int | None]:
        async with Admin(bootstrap) as one:
            found = (await one.list_offsets([where], at))[where]
        return found.offset, found.timestamp

    async def scenario() -> None:
        for at, expected in (
            (OffsetSpec.MAX_TIMESTAMP, (1, TIMES_MS[1])),
            (FIRST_MS - HOUR_MS, (0, FIRST_MS)),
            (FIRST_MS + 1, (1, TIMES_MS[1])),
            (FIRST_MS + 3 * HOUR_MS, (-1, None)),
        ):
            assert await told(cluster.bootstrap, at) == expected
            assert await told(node.bootstrap, at) == expected

    asyncio.run(scenario())
