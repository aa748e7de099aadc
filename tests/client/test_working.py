"""What the tests of the client have in common does not depend on the time they take."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sharegroup.client import Admin, OffsetSpec, Producer
from sharegroup.model.ids import TopicPartition
from tests.broker.running import running
from tests.client.working import fresh, topic_with


def test_records_of_1970_stay_when_retention_runs_during_a_test(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (broker, port):
            bootstrap = f"127.0.0.1:{port}"
            kept, _ = await topic_with(bootstrap, 0)
            other = fresh("with-a-retention")
            where = [TopicPartition(name, 0) for name in (kept, other)]
            async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
                await admin.create_topics(other, partitions=1)
                for timestamp_ms in (5, None):  # retention closes a segment, then deletes it
                    for name in (kept, other):
                        await producer.send(name, b"x", timestamp_ms=timestamp_ms)
                    await broker._enforce_retention()
                found = await admin.list_offsets(where, OffsetSpec.EARLIEST)
            assert [found[one].offset for one in where] == [0, 1]

    asyncio.run(scenario())
