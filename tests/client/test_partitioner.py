"""The partition of a key is the one that Java's producer takes."""

from __future__ import annotations

import random

import pytest

from sharegroup.client.producer.partitioner import StickyPartitioner, murmur2, partition_of_key

# From Kafka's UtilsTest, as signed 32-bit numbers.
JAVA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "java_hash"), JAVA_HASHES.items())
def test_murmur2_agrees_with_java(key: bytes, java_hash: int) -> None:
    assert murmur2(key) == java_hash & 0xFFFFFFFF
    assert partition_of_key(key, 7) == (java_hash & 0x7FFFFFFF) % 7


def test_records_without_a_key_stay_together_for_a_batch() -> None:
    sticky = StickyPartitioner(1_000, random.Random(1))
    chosen = [sticky.next_partition(100, 1_000_000) for _ in range(30)]
    assert len(set(chosen)) == 3
    assert chosen[:10] == [chosen[0]] * 10
