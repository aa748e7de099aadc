"""From fetched bytes to deliveries: gaps, control records, damage, all codecs."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from crc32c import crc32c

from sharegroup.client.core.acknowledgements import UNDECIDED, AckType
from sharegroup.client.core.fetched import FetchedPartition, Lease, LockedRange
from sharegroup.client.core.record import delivery_of
from sharegroup.client.errors import CorruptRecordBatch, RecordDeserializationError
from sharegroup.client.records.decode import Decoding, decode_fetched
from sharegroup.wire.batch import CONTROL, stamp

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TIME_MS = 1_700_000_000_000


def batch(first: int, last: int, *, codec: int = 0, offsets: list[int] | None = None) -> bytearray:
    """Records at ``offsets`` (all by default) of a batch that spans ``first`` … ``last``."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for offset in range(first, last + 1) if offsets is None else offsets:
        builder.append(offset - first, TIME_MS + offset, b"k", b"v%d" % offset, [("h", b"1")])
    data = bytearray(builder.build())
    struct.pack_into(">i", data, 23, last - first)
    stamp(data, first, 0)
    return sealed(data)


def control(first: int) -> bytearray:
    data = batch(first, first)
    struct.pack_into(">h", data, 21, CONTROL)
    return sealed(data)


def sealed(data: bytearray) -> bytearray:
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


def fetched(records: bytes | bytearray, *acquired: tuple[int, int, int]) -> FetchedPartition:
    return FetchedPartition(
        topic="t",
        topic_id=UUID(int=1),
        partition=3,
        records=bytes(records),
        acquired=[LockedRange(*one) for one in acquired],
        error=None,
        lease=Lease(),
        lock_deadline=1.0,
    )


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_whole_batches_of_every_codec(codec: int) -> None:
    data = batch(0, 4, codec=codec) + batch(5, 9, codec=codec)
    deliveries = decode_fetched(fetched(data, (0, 4, 1), (5, 9, 3)))
    assert [d.types for d in deliveries] == [bytes([UNDECIDED]) * 5] * 2
    records = [record for d in deliveries for record in d.records]
    assert [r.offset for r in records] == list(range(10))
    last = records[-1]
    assert (last.topic, last.partition, last.key, last.value) == ("t", 3, b"k", b"v9")
    assert (last.timestamp, last.headers) == (TIME_MS + 9, [("h", b"1")])
    assert [r.delivery_count for r in records] == [1] * 5 + [3] * 5


def test_only_what_was_acquired_is_delivered() -> None:
    deliveries = decode_fetched(fetched(batch(0, 9), (7, 7, 1), (2, 3, 2)))
    assert [[r.offset for r in d.records] for d in deliveries] == [[2, 3], [7]]


def test_one_range_may_span_batches() -> None:
    [delivery] = decode_fetched(fetched(batch(0, 4) + batch(5, 9), (3, 7, 1)))
    assert [r.offset for r in delivery.records] == [3, 4, 5, 6, 7]
    assert delivery.types == bytes([UNDECIDED]) * 5


def test_offsets_without_a_record_are_gaps() -> None:
    data = batch(0, 4, offsets=[1, 3]) + control(5) + batch(8, 8)
    [delivery] = decode_fetched(fetched(data, (0, 8, 1)))
    assert [r.offset for r in delivery.records] == [1, 3, 8]
    gaps = [at for at, kind in enumerate(delivery.types) if kind == AckType.GAP]
    assert gaps == [0, 2, 4, 5, 6, 7]


def test_a_damaged_batch_is_rejected_and_the_others_are_not() -> None:
    damaged = batch(5, 9)
    damaged[-1] ^= 1
    data = batch(0, 4) + damaged + batch(10, 14)
    before, broken, after = decode_fetched(fetched(data, (2, 12, 1)))
    assert isinstance(broken.error, CorruptRecordBatch)
    assert (broken.error.partition.topic, broken.error.offset) == ("t", 5)
    assert "computed crc" in str(broken.error)
    assert (broken.first, broken.types) == (5, bytes([AckType.REJECT]) * 5)
    assert [r.offset for r in before.records] == [2, 3, 4]
    assert [r.offset for r in after.records] == [10, 11, 12]
    assert [d.types for d in (before, after)] == [bytes([UNDECIDED]) * 3] * 2
    assert all(delivery_of(r) is after for r in after.records)


def test_checksums_need_not_be_checked() -> None:
    damaged = batch(0, 4)
    damaged[17] ^= 1
    [delivery] = decode_fetched(fetched(damaged, (0, 4, 1)), Decoding(check_crcs=False))
    assert len(delivery.records) == 5


def test_damage_inside_a_valid_checksum_is_found_too() -> None:
    damaged = batch(0, 4, codec=CODECS["zstd"])
    damaged[61:] = bytes(len(damaged) - 61)
    [delivery] = decode_fetched(fetched(sealed(damaged), (0, 4, 1)))
    assert isinstance(delivery.error, CorruptRecordBatch)
    assert delivery.error.offset == 0
    assert delivery.records == []
    assert delivery.types == bytes([AckType.REJECT]) * 5


def test_acquired_records_that_were_not_sent_are_released() -> None:
    data = batch(0, 4) + batch(5, 9)[:-3]
    delivery, missing = decode_fetched(fetched(data, (0, 9, 1), (12, 13, 1)))
    assert [r.offset for r in delivery.records] == [0, 1, 2, 3, 4]
    assert delivery.types[5:] == bytes([AckType.RELEASE]) * 5
    assert missing.types == bytes([AckType.RELEASE]) * 2


def test_deserializers_make_keys_and_values() -> None:
    decoding = Decoding(
        key_deserializer=bytes.decode, value_deserializer=lambda data: int(data.removeprefix(b"v"))
    )
    [delivery] = decode_fetched(fetched(batch(0, 2), (0, 2, 1)), decoding)
    assert [(r.key, r.value) for r in delivery.records] == [("k", 0), ("k", 1), ("k", 2)]
    last = delivery.records[-1]
    assert (last.offset, last.timestamp, last.headers) == (2, TIME_MS + 2, [("h", b"1")])


def test_only_the_record_that_cannot_be_deserialized_is_released() -> None:
    def odd_fails(data: bytes) -> int:
        number = int(data.removeprefix(b"v"))
        return 1 // (1 - number % 2) and number

    decoding = Decoding(value_deserializer=odd_fails)
    deliveries = decode_fetched(fetched(batch(0, 3), (0, 3, 2)), decoding)
    assert [[r.offset for r in d.records] for d in deliveries] == [[0], [], [2], []]
    broken = deliveries[1]
    assert isinstance(broken.error, RecordDeserializationError)
    assert (broken.error.partition, broken.error.offset) == (("t", 3), 1)
    assert (broken.error.origin, broken.error.key, broken.error.value) == ("value", b"k", b"v1")
    assert isinstance(broken.error.__cause__, ZeroDivisionError)
    assert broken.types == bytes([AckType.RELEASE])
    assert [d.delivery_count for d in deliveries] == [2] * 4
