"""How long our consumer of plain fetches waits for records that are there, in virtual time."""

from __future__ import annotations

import asyncio
import math
from uuid import UUID

import pytest

from sharegroup.broker.server import Broker
from sharegroup.client import Consumer, ConsumerRecord
from sharegroup.sim import MemoryDisk
from tests.broker.share_wire import GROUP, TOPIC, new_topic, produce
from tests.sim.test_broker_in_virtual_time import simulate, start

SHORT, LONG, A_BATCH = 10, 20_000, 100
WAIT_MS = 600_000
SLOW_S, A_POLL = 20, 10


async def two_partitions(disk: MemoryDisk) -> tuple[Broker, int, UUID]:
    """One partition is soon read to its end, the other one is not."""
    broker, port = await start(disk, "log.retention.ms=-1")  # the records are of 1970
    topic_id = await new_topic(broker, port, partitions=2)
    await produce(port, topic_id, 0, SHORT)
    await produce(port, topic_id, 1, *[A_BATCH] * (LONG // A_BATCH))
    return broker, port, topic_id


def consumer_of(port: int) -> Consumer:
    """It gets two thousand records with a fetch, and less than that with a poll."""
    return Consumer(
        group_id=GROUP,
        bootstrap_servers=f"127.0.0.1:{port}",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=WAIT_MS,
        request_timeout_ms=2 * WAIT_MS,
        max_partition_fetch_bytes=40_000,
        max_poll_records=A_POLL,
    )


@pytest.mark.parametrize("form", ["poll", "loop"])
def test_a_partition_at_its_end_does_not_hold_up_one_that_is_not(form: str) -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port, _ = await two_partitions(disk)
        async with consumer_of(port) as consumer:
            consumer.assign([(TOPIC, 0), (TOPIC, 1)])
            began = asyncio.get_running_loop().time()
            read = 0
            while form == "poll" and read < SHORT + LONG:
                read += len(await consumer.poll(timeout_ms=2 * WAIT_MS))
            while form == "loop" and read < SHORT + LONG:
                async for _ in consumer:
                    read += 1
                    if read == SHORT + LONG:
                        break
            assert asyncio.get_running_loop().time() - began < WAIT_MS / 1000
        await broker.close()

    simulate(scenario)


def test_a_partition_at_its_end_is_asked_for_beside_one_that_is_worked_on() -> None:
    """As often as a fetch that waits would have been sent: a pool takes from partitions in turn."""

    async def scenario(disk: MemoryDisk) -> None:
        broker, port, topic_id = await two_partitions(disk)
        now_s = asyncio.get_running_loop().time
        read = 0
        sent_s = arrived_s = math.nan
        async with consumer_of(port) as consumer, consumer.by_key(workers=1) as pool:

            async def handle(record: ConsumerRecord) -> None:
                nonlocal read, sent_s, arrived_s
                read += 1
                if record.partition == 0 and record.offset == SHORT:
                    arrived_s = now_s()
                    pool.stop()
                if read == SHORT + A_BATCH:
                    await produce(port, topic_id, 0, 1)
                    sent_s = now_s()
                if read > SHORT + A_BATCH:
                    await asyncio.sleep(SLOW_S)  # all that came lasts for hours

            consumer.assign([(TOPIC, 0), (TOPIC, 1)])
            await pool.run(handle)
        assert arrived_s - sent_s <= WAIT_MS / 1000 + 3 * A_POLL * SLOW_S
        await broker.close()

    simulate(scenario)
