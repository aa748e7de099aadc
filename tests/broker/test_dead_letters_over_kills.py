"""The broker is killed while records are rejected, and loses what was not synced: each record has
its dead letter, with its cause."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from sharegroup.client import Admin, Consumer, Producer, ShareConsumer
from sharegroup.model.errors import KafkaError
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.working import WAIT_S

TOPIC, GROUP, LETTERS = "jobs", "workers", "dlq.jobs"
PARTITIONS, RECORDS, KILLS = 2, 600, 12
SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "10",
    "errors.deadletterqueue.topic.name": LETTERS,
    "errors.deadletterqueue.copy.record.enable": "true",
}


async def prepare(kafka: LocalBroker) -> None:
    async with Admin(kafka.bootstrap) as admin:
        await admin.create_topics(TOPIC, partitions=PARTITIONS)
        await admin.alter_configs("group", GROUP, SETTINGS)
    async with Producer(kafka.bootstrap) as producer:
        for number in range(RECORDS):
            await producer.enqueue(TOPIC, str(number), partition=number % PARTITIONS)


async def make_letters(kafka: LocalBroker) -> None:
    async with Admin(kafka.bootstrap) as admin:
        await admin.create_topics(
            LETTERS,
            partitions=PARTITIONS,
            configs={"errors.deadletterqueue.group.enable": "true"},
        )


def unfinished(kafka: LocalBroker) -> int:
    group = kafka.group(GROUP)
    return sum(group[TOPIC, at].lag for at in range(PARTITIONS))


async def reject_all(kafka: LocalBroker, rejected: asyncio.Event) -> None:
    """Reject every record, again and again where an answer got lost; ``rejected`` is set after each
    request."""
    async with ShareConsumer(
        TOPIC,
        group_id=GROUP,
        bootstrap_servers=kafka.bootstrap,
        acknowledgement_mode="explicit",
        max_poll_records=20,
    ) as consumer:
        while True:
            try:
                for record in await consumer.poll():
                    consumer.reject(record, reason=f"no {record.value.decode()}")
                await consumer.commit()
            except KafkaError:
                continue
            rejected.set()


async def letters(kafka: LocalBroker) -> dict[tuple[str, str], list[tuple[bytes, str]]]:
    """(partition, offset) → value and message of each letter."""
    found: dict[tuple[str, str], list[tuple[bytes, str]]] = defaultdict(list)
    async with Consumer(
        bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(LETTERS, at) for at in range(PARTITIONS)])
        async with asyncio.timeout(WAIT_S):
            while len(found) < RECORDS:
                for record in await consumer.poll():
                    said = {
                        name.removeprefix("__dlq.errors."): (value or b"").decode()
                        for name, value in record.headers
                    }
                    found[said["partition"], said["offset"]].append((record.value, said["message"]))
    return found


def test_no_record_is_given_up_without_its_letter() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka)
        rejected = asyncio.Event()
        rejecting = asyncio.create_task(reject_all(kafka, rejected))
        for kill in range(KILLS):
            rejected.clear()
            await rejected.wait()
            if kill == KILLS // 3:
                await make_letters(kafka)
            await asyncio.to_thread(kafka.kill)
            await asyncio.to_thread(kafka.start)
        while await asyncio.to_thread(unfinished, kafka):
            rejected.clear()
            await rejected.wait()
        rejecting.cancel()
        found = await letters(kafka)
        for (partition, offset), said in found.items():
            number = int(offset) * PARTITIONS + int(partition)
            assert set(said) == {(str(number).encode(), f"no {number}")}, (partition, offset)
        async with Admin(kafka.bootstrap) as admin:
            told = await admin.describe_record_states(GROUP)
        assert not [one for each in told.values() for one in each.given_up if one.archiving]

    with broker(configs={"auto.create.topics.enable": False}) as kafka:

        async def limited() -> None:
            async with asyncio.timeout(2 * WAIT_S):
                await scenario(kafka)

        asyncio.run(limited())
