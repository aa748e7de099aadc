"""What tests of dead letters have in common: letters made by hand, and what stands in topics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from sharegroup.client import Admin, Consumer, ConsumerRecord, OffsetSpec, Producer
from sharegroup.client.core.record import Headers
from sharegroup.model.ids import TopicPartition
from sharegroup.testing.local_broker import LocalBroker
from tests.client.working import WAIT_S, fresh

PREFIX = "__dlq.errors."


def said(group: str, topic: str, partition: int, offset: int, **more: object) -> Headers:
    """The added headers, as Apache Kafka 4.4 writes them; underscores of ``more`` are dots."""
    names: dict[str, object] = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "group": group,
        "delivery.count": 5,
        "message": "Offset rejected by client.",
        **{name.replace("_", "."): text for name, text in more.items()},
    }
    return [(PREFIX + name, str(text).encode()) for name, text in names.items()]


def jobs_and_letters(
    kafka: LocalBroker, *, partitions: int = 2, group: str | None = None
) -> tuple[str, str, str]:
    """A topic, its dead-letter topic, and a group that names it."""
    topic, dead, group = fresh("jobs"), fresh("dlq.dead"), group or fresh("workers")
    kafka.create_topic(topic, partitions)
    kafka.create_topic(dead, partitions)
    kafka.configure_group(group, errors_deadletterqueue_topic_name=dead)
    return topic, dead, group


async def write_letters(
    kafka: LocalBroker, dead: str, group: str, topic: str, numbers: Iterable[int], **more: object
) -> None:
    """Letters with copies, as our broker writes them: the even ones of partition 0."""
    async with Producer(kafka.bootstrap, batch_size=100_000) as producer:
        for number in numbers:
            headers = said(group, topic, number % 2, number, timestamp=1_000 + number, **more)
            await producer.enqueue(
                dead,
                str(number),
                key=f"k{number % 3}",
                headers=[("own", b"%d" % number), *headers],
                partition=number % 2,
            )


async def read_all(
    kafka: LocalBroker, topic: str, partitions: Sequence[int] = (0, 1)
) -> list[ConsumerRecord]:
    """All committed records, in the order of each partition."""
    wheres = [TopicPartition(topic, number) for number in partitions]
    async with (
        Admin(kafka.bootstrap) as admin,
        Consumer(
            bootstrap_servers=kafka.bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer,
    ):
        ends = await admin.list_offsets(wheres, OffsetSpec.LATEST)
        consumer.assign(wheres)
        found: list[ConsumerRecord] = []
        async with asyncio.timeout(WAIT_S):
            while any([await consumer.position(*at) < ends[at].offset for at in wheres]):
                found += await consumer.poll(50)
    return found


async def values(kafka: LocalBroker, topic: str) -> list[int]:
    """The values of :func:`write_letters`, sorted."""
    return sorted(int(one.value) for one in await read_all(kafka, topic))
