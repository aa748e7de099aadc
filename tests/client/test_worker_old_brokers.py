"""``ShareConsumer.run`` against several brokers, and against such as Apache Kafka 4.1."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.client import Record, ShareConsumer
from sharegroup.wire import apis
from tests.client.scripted_group import TOPIC, ScriptedGroup
from tests.client.working import run


@pytest.mark.parametrize("version", [1, 2])
def test_it_fetches_from_all_nodes(version: int, caplog: pytest.LogCaptureFixture) -> None:
    """Version 1 knows neither a limit of records nor renewals."""
    done: list[int] = []
    held: list[int] = []

    async def scenario() -> None:
        async with ScriptedGroup([1, 2, 3], records=30, at_once=5) as group:
            for node, server in group.nodes.items():
                server.handle(apis.SHARE_FETCH, group._on(node, group._fetch), (1, version))
            consumer = ShareConsumer(TOPIC, group_id="g", bootstrap_servers=group.bootstrap)

            async def handler(record: Record) -> None:
                metrics = consumer.metrics()
                held.append(int(metrics["share-worker-metrics", "waiting"]))
                await asyncio.sleep(0)
                done.append(record.partition)
                if len(done) == 90:
                    consumer.stop()

            await consumer.run(handler, concurrency=2, prefetch=2)
            assert {request.share_acquire_mode for _, request in group.fetches} == {version - 1}

    run(scenario)
    assert [done.count(partition) for partition in range(3)] == [30, 30, 30]
    assert ("a fetch may bring more records than there are slots" in caplog.text) == (version == 1)
    assert "the settings of g are not known" in caplog.text
    if version == 2:
        assert max(held) <= 4
