"""What topic configs say of compressed batches: levels, and the largest record inside."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.broker.server import Broker
from sharegroup.model.errors import InvalidRecord
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress
from tests.broker.by_hand import connect, produce, topic_with_records
from tests.broker.running import run
from tests.broker.share_wire import TOPIC
from tests.records.bad import of, packed
from tests.records.making import record

CODECS = {"gzip": GZIP, "lz4": LZ4, "zstd": ZSTD, "snappy": SNAPPY}
WORDS = b"".join(b"%d and %d; " % (n * n % 9973, n * 7919 % 61) for n in range(20_000))


@pytest.mark.parametrize(
    ("codec", "quick", "thorough"), [(GZIP, 1, 9), (LZ4, 9, 12), (ZSTD, 1, 12)]
)
def test_a_level_makes_batches_smaller(codec: int, quick: int, thorough: int) -> None:
    large, small = compress(codec, WORDS, quick), compress(codec, WORDS, thorough)
    assert len(small) < len(large)
    assert bytes(decompress(codec, large)) == bytes(decompress(codec, small)) == WORDS


def test_what_does_not_get_smaller_is_stored_at_every_level() -> None:
    noise = random.Random(1).randbytes(200_000)
    for level in (1, 9, 12):
        packed_up = compress(LZ4, noise, level)
        assert len(packed_up) < len(noise) + 50
        assert bytes(decompress(LZ4, packed_up)) == noise


def test_kafkas_default_level_of_lz4_is_the_fast_algorithm() -> None:
    assert compress(LZ4, WORDS, 9) == compress(LZ4, WORDS)
    assert compress(LZ4, WORDS, 17) == compress(LZ4, WORDS, 12), "there is no further one"
    assert compress(LZ4, WORDS, 8) != compress(LZ4, WORDS)


@pytest.mark.parametrize(("codec", "level"), [("lz4", "12"), ("zstd", "19"), ("gzip", "1")])
def test_a_topics_level_is_used(codec: str, level: str, tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        connection = await connect(port)
        sizes = []
        for configs in ({}, {f"compression.{codec}.level": level}):
            configs["compression.type"] = codec
            broker.parts.configs.set_topic(TOPIC, configs, validate_only=False)
            before = _bytes(broker)
            batch = of(SNAPPY, packed(SNAPPY, record(0, value=WORDS)), 1)
            assert await produce(connection, topic_id, batch) == 0
            sizes.append(_bytes(broker) - before)
        assert (sizes[1] > sizes[0]) is (codec == "gzip")
        assert sizes[1] != sizes[0]
        connection.close()

    run(tmp_path, scenario)


def _bytes(broker: Broker) -> int:
    return broker.parts.store.log_folder().sizes[TopicPartition(TOPIC, 0)]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("stored", ["producer", "zstd"])
def test_a_record_may_be_so_large_when_it_is_unpacked(
    codec: int, stored: str, tmp_path: Path
) -> None:
    largest = record(1, value=bytes(5_000))
    body_size = len(largest) - 2  # its length takes two bytes

    async def scenario(broker: Broker, port: int) -> None:
        topic_id: UUID = await topic_with_records(broker, port, 1)
        connection = await connect(port)
        records = record(0, value=b"small") + largest
        batch = of(codec, packed(codec, records), 2)
        for most, error in ((body_size, 0), (body_size - 1, InvalidRecord.code)):
            configs = {"max.decompressed.message.bytes": str(most), "compression.type": stored}
            broker.parts.configs.set_topic(TOPIC, configs, validate_only=False)
            assert await produce(connection, topic_id, batch) == error
        plain = of(0, records, 2)
        assert await produce(connection, topic_id, plain) == 0, "as in Kafka, compressed ones only"
        connection.close()

    run(tmp_path, scenario)
