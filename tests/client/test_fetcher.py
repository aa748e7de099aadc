"""Fetching ahead: the broker works while what came is decoded; a cancelled poll loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from sharegroup.client import ShareConsumer
from sharegroup.client.core.fetched import FetchedPartition
from sharegroup.client.core.record import HeldDelivery
from sharegroup.testing import broker
from sharegroup.wire.apis import SHARE_FETCH

RECORDS = 10


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with broker(topics={"jobs": 1}) as kafka:
        kafka.produce("jobs", [b"%d" % number for number in range(RECORDS)])
        for group in ("ahead", "cancelled"):
            kafka.configure_group(group, share_auto_offset_reset="earliest")
        yield kafka.bootstrap


def consumer_of(bootstrap: str, group: str) -> ShareConsumer:
    """What comes is always plenty for it, so that it always fetches ahead."""
    return ShareConsumer("jobs", group_id=group, bootstrap_servers=bootstrap, max_poll_records=1)


def test_the_next_fetch_is_sent_before_the_last_one_is_decoded(bootstrap: str) -> None:
    async def scenario() -> None:
        async with consumer_of(bootstrap, "ahead") as consumer:
            [node_id] = consumer._parts.cluster.metadata.nodes
            connection = await consumer._parts.cluster.connection(node_id)
            settings = consumer._parts.fetcher.settings
            waiting: list[object] = []

            def decode(fetched: Sequence[FetchedPartition]) -> Sequence[HeldDelivery]:
                waiting.extend(one.api for one in connection._protocol._waiting)
                return settings.decode(fetched)

            consumer._parts.fetcher.settings = replace(settings, decode=decode)
            while not await consumer.poll():
                waiting.clear()
            assert SHARE_FETCH in waiting

    asyncio.run(scenario())


def test_records_of_a_cancelled_poll_are_returned_by_the_next(bootstrap: str) -> None:
    async def scenario() -> None:
        async with consumer_of(bootstrap, "cancelled") as consumer:
            polling = asyncio.create_task(consumer.poll(timeout_ms=60_000))
            while not consumer._parts.fetcher._arrived:
                assert not polling.done()
                await asyncio.sleep(0)
            polling.cancel()
            with suppress(asyncio.CancelledError):
                await polling
            assert polling.cancelled()
            offsets: list[int] = []
            while len(offsets) < RECORDS:
                records = await consumer.poll()
                offsets += [record.offset for record in records if record.delivery_count == 1]
            assert offsets == list(range(RECORDS))

    asyncio.run(scenario())
