"""Arrow batches and answers for all of their rows, against our broker and Apache Kafka."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharegroup import sync
from sharegroup.arrow.schema import arrow_schema, column_names
from sharegroup.client import AckType, IllegalState, Producer, ShareConsumer, Wakeup
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicPartition
from tests.client.test_share_rules import lag_becomes
from tests.client.working import WAIT_S, run, topic_with
from tests.servers.running import RunningServer

KEYS = [b"k" * 300, b"", None]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def consumer_of(broker: RunningServer, topic: str, group: str, **settings: Any) -> ShareConsumer:
    settings = {"acknowledgement_mode": "explicit", **settings}
    return ShareConsumer(topic, group_id=group, bootstrap_servers=broker.bootstrap, **settings)


async def one_batch(broker: RunningServer, count: int) -> tuple[str, str]:
    """A new topic with the values ``0`` … ``count - 1`` in one record batch, which a broker gives
    whole, and a group that begins at its start.
    """
    topic, group = await topic_with(broker.bootstrap, 0)
    async with Producer(broker.bootstrap, linger_ms=60_000, batch_size=1 << 20) as producer:
        for number in range(count):
            await producer.enqueue(topic, b"%d" % number)
        await producer.flush()
    return topic, group


async def next_rows(consumer: ShareConsumer) -> pa.RecordBatch:
    async with asyncio.timeout(WAIT_S):
        return await anext(consumer.arrow_batches())


async def accept_until(consumer: ShareConsumer, count: int, **settings: Any) -> pa.Table:
    """The first ``count`` rows, each accepted, sorted by offset."""
    found: list[Any] = []
    async with asyncio.timeout(WAIT_S):
        async for batch in consumer.arrow_batches(**settings):
            found.append(batch)
            consumer.accept(batch)
            if sum(one.num_rows for one in found) >= count:
                break
    assert set((await consumer.commit()).values()) == {None}
    return pa.Table.from_batches(found).sort_by("offset")


def test_every_field_of_every_record_in_every_codec(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0, partitions=2)
        for codec in CODECS:
            async with Producer(broker.bootstrap, compression=codec) as producer:
                for key in KEYS:
                    for value in (codec.encode() * 99, b"", None):
                        await producer.enqueue(
                            topic,
                            value,
                            key=key,
                            partition=1,
                            timestamp_ms=1_700_000_000_123,
                            headers=[("h", b"1"), ("ä", None)],
                        )
        async with consumer_of(broker, topic, group) as consumer:
            rows = await accept_until(consumer, 45, include_headers=True)
        assert rows.schema == arrow_schema(column_names(include_headers=True))
        assert rows["offset"].to_pylist() == list(range(45))
        values = [value for c in CODECS for _ in KEYS for value in (c.encode() * 99, b"", None)]
        assert rows["value"].to_pylist() == values
        assert rows["key"].to_pylist() == [key for key in KEYS for _ in range(3)] * 5
        headers = [{"key": "h", "value": b"1"}, {"key": "ä", "value": None}]
        assert rows["headers"].to_pylist() == [headers] * 45
        assert rows["timestamp"].cast(pa.int64()).unique().to_pylist() == [1_700_000_000_123_000]
        for column, only in (("topic", topic), ("partition", 1), ("delivery_count", 1)):
            assert rows[column].unique().to_pylist() == [only]
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_in_implicit_mode_a_batch_is_accepted_when_the_next_is_asked_for(
    broker: RunningServer,
) -> None:
    async def scenario() -> None:
        topic, group = await one_batch(broker, 1_000)
        async with consumer_of(broker, topic, group, acknowledgement_mode="implicit") as consumer:
            batches = consumer.arrow_batches(max_records=300)
            sizes = [(await anext(batches)).num_rows for _ in range(3)]
            assert sizes == [250] * 3, "four equal parts of one batch of the log"
            with pytest.raises(IllegalState, match="implicit mode"):
                consumer.accept(await anext(batches))
        await lag_becomes(broker, group, 250)

    run(scenario)


def test_a_mask_accepts_and_releases(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 500, partitions=2)
        accepted: dict[int, int] = {}
        async with consumer_of(broker, topic, group) as consumer, asyncio.timeout(WAIT_S):
            async for batch in consumer.arrow_batches():
                frame = batch.to_pandas().astype({"value": int})
                good = (frame.value % 2 == 0) | (frame.delivery_count > 1)
                consumer.acknowledge(batch, good)
                accepted |= frame[good].set_index("value").delivery_count.to_dict()
                if len(accepted) == 500:
                    break
            assert set((await consumer.commit()).values()) == {None}
        assert accepted == {number: 1 + number % 2 for number in range(500)}
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_unanswered_rows_stay_pending(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await one_batch(broker, 20)
        async with consumer_of(broker, topic, group) as consumer:
            batches = consumer.arrow_batches()
            rows = await anext(batches)
            words = ["accept", None, "reject", "release"] * 5
            consumer.acknowledge(rows, words)
            consumer.reject(rows.slice(0, 1))  # the last word counts
            with pytest.raises(IllegalState, match="must be acknowledged"):
                await anext(batches)
            consumer.accept(rows.filter(pa.array([word is None for word in words])))
            again = await accept_until(consumer, 5)
            assert again["offset"].to_pylist() == list(range(3, 20, 4))
            assert again["delivery_count"].to_pylist() == [2] * 5
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_an_error_changes_nothing(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await one_batch(broker, 10)
        async with consumer_of(broker, topic, group) as consumer:
            batches = consumer.arrow_batches()
            rows = await anext(batches)
            offsets = rows["offset"].to_numpy()

            def places(by: int, name: str = topic, partition: int = 0) -> pa.Table:
                names, numbers = [name] * 10, [partition] * 10
                return pa.table({"topic": names, "partition": numbers, "offset": offsets + by})

            for table in (places(5), places(-1), places(0, "other"), places(0, topic, 3)):
                with pytest.raises(IllegalState, match="is not waiting for an acknowledgement"):
                    consumer.accept(table)
            with pytest.raises(ValueError, match="'maybe' is not an answer"):
                consumer.acknowledge(rows, ["accept"] * 9 + ["maybe"])
            with pytest.raises(ValueError, match="9 answers for 10 records"):
                consumer.acknowledge(rows, [True] * 9)
            with pytest.raises(ValueError, match="no column topic"):
                consumer.accept(rows.select(["offset"]))
            with pytest.raises(TypeError, match="int has no records"):
                consumer.accept(7)
            with pytest.raises(IllegalState, match="must be acknowledged"):
                await anext(batches)
            consumer.accept(places(0).to_pandas().sort_values("offset", ascending=False))
            await consumer.commit()
            with pytest.raises(IllegalState, match="is not waiting for an acknowledgement"):
                consumer.release(rows)
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_renewed_rows_are_returned_again(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await one_batch(broker, 10)
        async with consumer_of(broker, topic, group) as consumer:
            rows = await next_rows(consumer)
            consumer.acknowledge(rows, np.where(np.arange(10) % 3 == 0, "renew", "accept"))
            again = await next_rows(consumer)
            assert again["offset"].to_pylist() == [0, 3, 6, 9]
            assert again["delivery_count"].to_pylist() == [1] * 4
            consumer.acknowledge(again, AckType.RENEW)
            again = await next_rows(consumer)
            consumer.acknowledge(again)
            await consumer.commit()
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_leaving_the_loop_releases(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await one_batch(broker, 100)
        async with consumer_of(broker, topic, group) as consumer:
            rows = await next_rows(consumer)
            consumer.accept(rows.slice(0, 30), rows.slice(50))
        async with consumer_of(broker, topic, group) as consumer:
            again = await accept_until(consumer, 20)
            assert again["offset"].to_pylist() == list(range(30, 50))
            assert again["delivery_count"].to_pylist() == [2] * 20

    run(scenario)


def test_the_blocking_consumer_drains_and_ends_when_the_queue_is_idle(
    broker: RunningServer,
) -> None:
    topic, group = asyncio.run(topic_with(broker.bootstrap, 3_000, partitions=3))
    batches: list[pa.RecordBatch] = []
    with sync.ShareConsumer(topic, group_id=group, bootstrap_servers=broker.bootstrap) as consumer:
        for batch in consumer.arrow_batches(max_records=1_000):
            assert batch.num_rows <= 1_250
            batches.append(batch)
            if sum(one.num_rows for one in batches) == 3_000:
                consumer.commit()
                break
        assert list(consumer.arrow_batches(max_records=1_000, idle_timeout_ms=1)) == []
    values = pa.Table.from_batches(batches)["value"].cast(pa.string()).cast(pa.int64())
    assert sorted(values.to_pylist()) == list(range(3_000))
    asyncio.run(lag_becomes(broker, group, 0))


def test_the_blocking_consumer_acknowledges_batches(broker: RunningServer) -> None:
    topic, group = asyncio.run(one_batch(broker, 100))
    settings: dict[str, Any] = {"bootstrap_servers": broker.bootstrap, "group_id": group}
    with sync.ShareConsumer(topic, acknowledgement_mode="explicit", **settings) as consumer:
        batches = consumer.arrow_batches(include_headers=True)
        consumer.release(next(batches))
        batch = next(batches)
        assert batch["delivery_count"].to_pylist() == [2] * 100
        consumer.acknowledge(batch, pa.array(["accept", "reject"] * 50))
        assert consumer.commit() == {TopicPartition(topic, 0): None}
        threading.Timer(0.1, consumer.wakeup).start()
        with pytest.raises(Wakeup):
            next(batches)
    asyncio.run(lag_becomes(broker, group, 0))


def test_a_consumer_gives_records_or_batches(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await one_batch(broker, 10)
        async with consumer_of(broker, topic, group) as consumer:
            await accept_until(consumer, 10)
            with pytest.raises(IllegalState, match="gives Arrow batches: make another one for rec"):
                await consumer.poll()
            with pytest.raises(IllegalState, match="make another one for Arrow batches with head"):
                await anext(consumer.arrow_batches(include_headers=True))

    run(scenario)


# --- without a broker -----------------------------------------------------------------------------


def test_invalid_settings_are_refused() -> None:
    async def scenario() -> None:
        consumer = ShareConsumer("t", group_id="g", value_deserializer=bytes.decode)
        with pytest.raises(ConfigError, match="leave key_deserializer and value_deserializer out"):
            await anext(consumer.arrow_batches())
        consumer = ShareConsumer("t", group_id="g")
        with pytest.raises(ConfigError, match="max_records is 0"):
            await anext(consumer.arrow_batches(max_records=0))
        await consumer.close()
        with pytest.raises(IllegalState, match="closed"):
            await anext(consumer.arrow_batches())

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["numpy", "pyarrow"])
def test_a_missing_package_is_reported_with_the_extra_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [one for one in sys.modules if one.startswith("sharegroup.")]:
        if "arrow" in module:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    consumer = sync.ShareConsumer("t", group_id="g")
    with pytest.raises(ConfigError, match=rf"need {name}, .* pip install 'sharegroup\[arrow\]'"):
        next(consumer.arrow_batches())
    consumer.close()
