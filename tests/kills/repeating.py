"""Sends the same message ids over and over, as a producer does that does not know what has arrived.

Variants: ``plain`` (librdkafka, not idempotent, a batch for each record), ``ours`` (large batches)
or ``transactions``, of which some are aborted and sent again.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from confluent_kafka import Producer

from sharegroup.client import BootstrapError
from sharegroup.client import Producer as OurProducer
from sharegroup.model.errors import SharegroupError
from sharegroup.records.message_ids import MESSAGE_ID
from tests.kills.working import PATIENCE_S, Work, pause

TOPIC = "once"
IDS = 2000
"""Of the variants without transactions, which share them."""
PER_PASS = 100
PER_TRANSACTION = 5
ABORTED = 0.4
PACE_S = 0.001


def plain(work: Work) -> None:
    producer = Producer(work.settings(enable_idempotence=False, linger_ms=0, acks="all"))
    while not work.stopping:
        first = work.random.randrange(IDS - PER_PASS)
        for number in range(first, first + PER_PASS):

            def delivered(error: Any, message: Any, number: int = number) -> None:
                if error is None:
                    work.journal.note("acked", name=str(number), offset=message.offset())

            headers: list[Any] = [(MESSAGE_ID, str(number).encode())]
            value = f"{work.journal.name}.{number}".encode()
            producer.produce(TOPIC, value, headers=headers, on_delivery=delivered)
            producer.flush(PATIENCE_S)
        pause(PACE_S)


async def connected(work: Work) -> OurProducer:
    """A producer of ours that has reached the broker, which may be dead for longer than a producer
    waits for it at its start."""
    while True:
        producer = OurProducer(work.bootstrap, compression="gzip")
        try:
            await producer.start()
        except BootstrapError:
            if work.stopping:
                raise
        else:
            return producer


async def ours(work: Work) -> None:
    async with await connected(work) as producer:
        while not work.stopping:
            first = work.random.randrange(IDS - PER_PASS)
            numbers = range(first, first + PER_PASS)
            sent = [
                await producer.enqueue(TOPIC, f"{work.journal.name}.{one}", message_id=str(one))
                for one in numbers
            ]
            for number, delivery in zip(numbers, sent, strict=True):
                try:
                    where = await delivery
                except SharegroupError as error:
                    work.journal.note("failed", name=str(number), why=str(error))
                else:
                    work.journal.note("acked", name=str(number), offset=where.offset)


def transactions(work: Work) -> None:
    producer = Producer(work.settings(transactional_id=work.journal.who, linger_ms=0))
    producer.init_transactions(PATIENCE_S)
    number = 0
    while not work.stopping:
        names = [f"t{one}" for one in range(number, number + PER_TRANSACTION)]
        aborts = work.random.random() < ABORTED
        producer.begin_transaction()
        for name in names:
            value = f"{work.journal.name}.{name}".encode()
            producer.produce(TOPIC, value, headers=[(MESSAGE_ID, name.encode())])
        producer.flush(PATIENCE_S)
        if aborts:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
            work.journal.note("committed", names=names)
            number = max(0, number + work.random.choice((0, PER_TRANSACTION, PER_TRANSACTION)))
        pause(PACE_S)


def main() -> None:
    work = Work(*sys.argv[1:])
    work.journal.note("begins")
    if work.variant == "ours":
        asyncio.run(ours(work))
    else:
        plain(work) if work.variant == "plain" else transactions(work)
    work.journal.note("ends")


if __name__ == "__main__":
    main()
