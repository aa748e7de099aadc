"""Times of records that no date can hold are never shown as another date."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from aiokafka import AIOKafkaProducer

from sharegroup import Admin, Consumer, Producer
from tests.client.working import fresh, run
from tests.servers.running import RunningServer

MICROSECONDS = 1_700_000_000_000_000
WRAPPED = 18_448_444_073_709_552
"""Times 1,000 it wraps in 64 bits, and is a day in 2023."""
LAST = 253_402_300_799_999
NEVER = str(2**63 - 1)


def test_a_time_that_is_no_date(broker: RunningServer) -> None:
    times = [1_700_000_000_123, LAST, LAST + 1, MICROSECONDS, WRAPPED]

    async def scenario() -> None:
        topic = fresh("times")
        async with Admin(broker.bootstrap) as admin:
            configs = {"message.timestamp.after.max.ms": NEVER}
            await admin.create_topics(topic, partitions=1, configs=configs)
        async with Producer(broker.bootstrap) as producer:
            for time in times:
                await producer.send(topic, b"x", timestamp_ms=time)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as other:
            await other.send_and_wait(topic, b"x", timestamp_ms=-1)
        async with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            consumer.assign([(topic, 0)])
            consumer.seek_to_beginning((topic, 0))
            records = []
            while len(records) <= len(times):
                records += await consumer.poll()
        assert [record.timestamp for record in records] == [*times, -1]
        assert records[0].time == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
        assert records[1].time == datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
        for record in records[2:-1]:
            with pytest.raises(ValueError, match=f"{record.timestamp} of {topic}-0@.*microseconds"):
                record.time  # noqa: B018
        with pytest.raises(ValueError, match=f"{topic}-0@5 has no timestamp"):
            records[-1].time  # noqa: B018

    run(scenario)
