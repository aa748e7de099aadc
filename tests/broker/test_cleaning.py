"""Compacted topics: what is refused and cleaned, and what readers and share groups see then."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from sharegroup import ShareConsumer
from sharegroup.broker.server import Broker
from sharegroup.storage.partition_log import LocalPartitionLog
from sharegroup.wire import apis
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    encode_batch,
    parse_headers,
    with_records,
)
from sharegroup.wire.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from sharegroup.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker.running import run
from tests.broker.share_wire import TIMEOUT_MS, TOPIC, connect, until
from tests.foreign.share_reader import receive, share_consumer

KEY_BYTES = 1 << 20
INVALID_TIMESTAMP, INVALID_RECORD, CORRUPT = 32, 87, 2
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "4000",
    "min.cleanable.dirty.ratio": "0.0",
}


async def topic(broker: Broker, port: int, **configs: str) -> UUID:
    connection = await connect(port)
    given = [CreatableTopicConfig(name, value) for name, value in configs.items()]
    request = CreateTopicsRequest([CreatableTopic(TOPIC, 1, -1, configs=given)])
    answer = await connection.send(apis.CREATE_TOPICS, request, timeout_ms=TIMEOUT_MS)
    assert answer.topics[0].error_code == 0, answer
    connection.close()
    found = broker.parts.topics.find(TOPIC)
    assert found is not None
    return found.topic_id


async def produce(port: int, topic_id: UUID, *batches: bytes) -> list[int]:
    """The error codes."""
    connection = await connect(port)
    codes = []
    for batch in batches:
        data = [PartitionProduceData(0, batch)]
        request = ProduceRequest(None, -1, 1000, [TopicProduceData(TOPIC, topic_id, data)])
        answer = await connection.send(apis.PRODUCE, request, timeout_ms=TIMEOUT_MS)
        codes.append(answer.responses[0].partition_responses[0].error_code)
    connection.close()
    return codes


def keyed(number: int) -> bytes:
    """Three records; only that of key "c" of the last batch and few others outlive a cleaning."""
    records = [(b"a", b"%d" % number * 100), (b"b%d" % (number % 4), b"b"), (b"c", b"%d" % number)]
    return encode_batch(records, timestamp_ms=1_700_000_000_000)


def offsets_of_librdkafka(server: str, last: int) -> list[int | None]:
    """What its share consumer receives, up to an offset."""
    offsets: list[int | None] = []
    with share_consumer(server, "librdkafka", TOPIC, explicit=False) as consumer:
        while last not in offsets:
            offsets += [message.offset() for message in receive(consumer)]
    return offsets


def log_of(broker: Broker) -> LocalPartitionLog:
    log = broker.parts.topics.log(TOPIC, 0)
    assert isinstance(log, LocalPartitionLog)
    return log


def test_readers_and_share_groups_skip_what_was_cleaned(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic(broker, port, **COMPACTED)
        assert set(await produce(port, topic_id, *map(keyed, range(100)))) == {0}
        log = log_of(broker)
        assert await broker.parts.store.clean(broker.parts.clock.wall_ms(), KEY_BYTES)
        assert 0 < log.cleaning.first_dirty < 300
        server = f"127.0.0.1:{port}"
        plain = AIOKafkaConsumer(bootstrap_servers=server, auto_offset_reset="earliest")
        await plain.start()
        try:
            plain.assign([TopicPartition(TOPIC, 0)])
            offsets, last = [], {}
            while 299 not in offsets:
                record = await plain.getone()
                offsets.append(record.offset)
                last[record.key] = record.value
        finally:
            await plain.stop()
        assert offsets == sorted(set(offsets))
        assert len(offsets) < 100
        assert last == {b"a": b"99" * 100, b"c": b"99", **{b"b%d" % n: b"b" for n in range(4)}}
        shared = []
        async with ShareConsumer(
            TOPIC, group_id="workers", auto_offset_reset="earliest", bootstrap_servers=server
        ) as consumer:
            async for one in consumer:
                shared.append(one.offset)
                if one.offset == 299:
                    await consumer.commit()
                    break
        assert shared == offsets
        [led] = broker.parts.share_partitions.all()
        assert led.core.start_offset == 300
        broker.parts.configs.set_group(
            "librdkafka", {"share.auto.offset.reset": "earliest"}, validate_only=False
        )
        foreign = await asyncio.to_thread(offsets_of_librdkafka, server, offsets[-1])
        assert foreign == offsets

    run(tmp_path, scenario)


def test_it_happens_by_itself(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic(broker, port, **COMPACTED)
        await produce(port, topic_id, *map(keyed, range(100)))
        await until(lambda: log_of(broker).cleaning.first_dirty > 0)

    run(tmp_path, scenario, "log.cleaner.backoff.ms=1")


def test_a_record_without_a_key_is_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic(broker, port, **COMPACTED)
        bad = encode_batch([(b"k", b"v"), (None, b"v")], timestamp_ms=1)
        assert await produce(port, topic_id, bad) == [INVALID_RECORD]
        assert log_of(broker).log_end_offset == 0

    run(tmp_path, scenario)


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_stored_in_the_topics_codec(wanted: str, tmp_path: Path) -> None:
    codecs = {"uncompressed": 0, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic(broker, port, **{"compression.type": wanted})
        plain = encode_batch([(b"k", b"v" * 100)] * 3, timestamp_ms=1_700_000_000_000)
        large = encode_batch([(b"k", b"v" * 10_000)] * 3, timestamp_ms=1_700_000_000_000)
        batches = [plain, large]
        for codec in (GZIP, LZ4):
            [header] = parse_headers(plain)
            packed = header._replace(attributes=codec)
            batches.append(with_records(packed, compress(codec, plain[HEADER_BYTES:])))
        broken = plain[:-1] + b"x"
        assert await produce(port, topic_id, *batches, broken) == [0] * 4 + [CORRUPT]
        log = log_of(broker)
        data = (await log.read(0, 1 << 20)).data
        stored = parse_headers(data)
        assert {header.attributes & COMPRESSION_MASK for header in stored} == {codecs[wanted]}
        consumer = AIOKafkaConsumer(
            TOPIC, bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            values = [(await consumer.getone()).value for _ in range(12)]
        finally:
            await consumer.stop()
        assert values == [b"v" * 100] * 3 + [b"v" * 10_000] * 3 + [b"v" * 100] * 6

    run(tmp_path, scenario)


def test_records_of_the_wrong_time_are_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        limits = {"message.timestamp.before.max.ms": "60000"}
        limits["message.timestamp.after.max.ms"] = "30000"
        topic_id = await topic(broker, port, **limits)
        now_ms = broker.parts.clock.wall_ms()
        times = (now_ms - 90_000, now_ms - 30_000, now_ms + 10_000, now_ms + 60_000)
        batches = [encode_batch([(b"k", b"v")], timestamp_ms=time) for time in times]
        answers = await produce(port, topic_id, *batches)
        assert answers == [INVALID_TIMESTAMP, 0, 0, INVALID_TIMESTAMP]

    run(tmp_path, scenario)
