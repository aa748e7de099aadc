"""What ``renew_locks=True`` keeps, and what not, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharegroup.broker.server import Broker
from sharegroup.client import ShareConsumer
from sharegroup.sim import MemoryDisk, SimulatedLoop
from tests.broker.share_wire import GROUP, TOPIC, new_topic, produce
from tests.client.working import poll_until
from tests.sim.test_broker_in_virtual_time import simulate, start

LOCK_S, A_POLL = 4, 5


async def batches(disk: MemoryDisk, count: int) -> tuple[Broker, int]:
    """A broker whose locks are short, and ``count`` batches of as many records as a poll gives."""
    lock = f"group.share.record.lock.duration.ms={LOCK_S * 1000}"
    broker, port = await start(disk, lock, "log.retention.ms=-1")  # the records are of 1970
    topic_id = await new_topic(broker, port, partitions=1)
    await produce(port, topic_id, 0, *[A_POLL] * count)
    return broker, port


def consumer_of(port: int, **settings: Any) -> ShareConsumer:
    return ShareConsumer(
        TOPIC,
        group_id=GROUP,
        bootstrap_servers=f"127.0.0.1:{port}",
        auto_offset_reset="earliest",
        **{"max_poll_records": A_POLL, "renew_locks": True, **settings},
    )


def held_up(seconds: float) -> None:
    """A body that blocks the event loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    loop.held_up(seconds)


@pytest.mark.parametrize("renewals", ["come too late", "are not allowed"])
def test_a_record_whose_renewal_is_refused_is_not_given_to_the_application(renewals: str) -> None:
    """It is another member's."""
    late = renewals == "come too late"

    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await batches(disk, 8)
        allowed = {"share.renew.acknowledge.enable": str(late).lower()}
        broker.parts.configs.set_group(GROUP, allowed, validate_only=False)
        async with consumer_of(port) as slow, consumer_of(port, max_poll_records=500) as other:
            while not slow._parts.holdings.has_buffered:
                assert await slow.poll()
            await asyncio.sleep(LOCK_S / 4)  # what is fetched ahead comes
            if late:
                held_up(LOCK_S + 1)
            taken = {record.offset for record in await poll_until(other, 1)}
            assert 8 * A_POLL - 1 in taken
            await asyncio.sleep(LOCK_S / 2)  # a round of renewals
            assert not taken & {record.offset for record in await slow.poll(300)}
        await broker.close()

    simulate(scenario)


def test_an_application_that_hangs_keeps_its_records_for_max_poll_interval_ms() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await batches(disk, 1)
        async with (
            consumer_of(port, max_poll_interval_ms=20_000) as hangs,
            consumer_of(port) as other,
        ):
            now_s = asyncio.get_running_loop().time
            await poll_until(hangs, A_POLL)
            began_s = now_s()
            assert {one.delivery_count for one in await poll_until(other, A_POLL)} == {2}
            assert 20 < now_s() - began_s <= 20 + LOCK_S + 1
            assert await hangs.poll(300) == [], "it polls again, and has nothing"
        await broker.close()

    simulate(scenario)


@pytest.mark.parametrize("body_s", [LOCK_S * 1.5, LOCK_S * 10])
def test_what_was_fetched_ahead_is_kept_as_well(body_s: float) -> None:
    """However long the application works on what it has."""

    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await batches(disk, 12)
        deliveries: list[tuple[int, int]] = []
        async with consumer_of(port) as slow:
            while len(deliveries) < 12 * A_POLL:
                records = await slow.poll()
                deliveries += [(record.offset, record.delivery_count) for record in records]
                await asyncio.sleep(body_s)
        assert deliveries == [(offset, 1) for offset in range(12 * A_POLL)]
        await broker.close()

    simulate(scenario)


def test_a_lock_does_not_begin_when_its_answer_is_read() -> None:
    """A body that blocks the loop leaves the answer of what is fetched ahead unread."""

    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await batches(disk, 2)
        async with (
            consumer_of(port, renew_locks=False) as slow,
            consumer_of(port, renew_locks=False) as other,
        ):
            await poll_until(slow, A_POLL)
            [node_id] = slow._parts.cluster.metadata.nodes
            connection = await slow._parts.cluster.connection(node_id)
            read = connection.data_received

            def late(data: bytes) -> None:
                connection.data_received = read  # type: ignore[method-assign]
                held_up(LOCK_S + 1)
                read(data)

            connection.data_received = late  # type: ignore[method-assign]
            taken = {record.offset for record in await poll_until(other, 2 * A_POLL)}
            assert taken == {*range(2 * A_POLL)}
            assert await slow.poll(300) == []
        await broker.close()

    simulate(scenario)
