"""A consumer that gives up partitions just when it is about to fetch them."""

from __future__ import annotations

import asyncio

from sharegroup.client import Consumer
from sharegroup.testing import broker
from tests.client.working import WAIT_S, run


def test_a_partition_is_given_up_before_its_fetch_is_sent() -> None:
    with broker(topics={"t": 2}) as kafka:
        for number in (0, 1):
            kafka.produce("t", ["a", "b"], partition=number)

        async def scenario() -> None:
            async with Consumer(
                bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
            ) as consumer:
                consumer.assign([("t", 0), ("t", 1)])
                found = 0
                async with asyncio.timeout(WAIT_S):
                    while found < 4:
                        found += len(await consumer.poll())
                    consumer.assign([("t", 1)])  # the next fetch, of both, has not begun
                    kafka.produce("t", ["c"], partition=1)
                    while found < 5:
                        found += len(await consumer.poll())

        run(scenario)
