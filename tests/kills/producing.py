"""A producer with ``acks=all``: notes each record before it is sent and when it is confirmed.

Variants: ``confluent`` (idempotent), ``plain`` (librdkafka without idempotence), ``ours``.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Any

from confluent_kafka import Producer

from sharegroup import Producer as OurProducer
from sharegroup.client.producer.delivery import Delivery
from tests.kills.working import INPUT, PARTITIONS, PATIENCE_S, PAUSE_S, Work


def _sending(work: Work, number: int) -> tuple[int, bytes]:
    partition = number % PARTITIONS
    value = f"{work.journal.name}.{number}"
    work.journal.note("sending", partition=partition, number=number)
    return partition, value.encode()


def confluent(work: Work) -> None:
    def delivered(number: int, error: Any, message: Any) -> None:
        if error is None:
            work.journal.note(
                "acked", partition=message.partition(), number=number, offset=message.offset()
            )

    idempotent = work.variant != "plain"
    more = {} if idempotent else {"max_in_flight_requests_per_connection": 1}
    producer = Producer(
        work.settings(acks="all", enable_idempotence=idempotent, linger_ms=2, **more)
    )
    number = 0
    while not work.stopping:
        partition, value = _sending(work, number)
        producer.produce(INPUT, value, partition=partition, on_delivery=partial(delivered, number))
        producer.poll(PAUSE_S)
        number += 1
    producer.flush(PATIENCE_S)


async def ours(work: Work) -> None:
    number = 0
    open_: set[asyncio.Task[None]] = set()

    async def follow(number: int, delivery: Delivery) -> None:
        where = await delivery
        work.journal.note("acked", partition=where.partition, number=number, offset=where.offset)

    async with OurProducer(work.bootstrap, linger_ms=2) as producer:
        while not work.stopping:
            partition, value = _sending(work, number)
            task = asyncio.ensure_future(
                follow(number, producer.send(INPUT, value, partition=partition))
            )
            open_.add(task)
            task.add_done_callback(open_.discard)
            await asyncio.sleep(PAUSE_S)
            number += 1
        await asyncio.wait_for(asyncio.gather(*open_), PATIENCE_S)


def main() -> None:
    work = Work(*sys.argv[1:])
    work.journal.note("begins", idempotent=work.variant != "plain")
    if work.variant == "ours":
        asyncio.run(ours(work))
    else:
        confluent(work)
    work.journal.note("ends")


if __name__ == "__main__":
    main()
