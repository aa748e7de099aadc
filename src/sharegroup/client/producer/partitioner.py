"""Which partition a record goes to: as Java's producer decides, so that mixed producers agree
on a key's partition.
"""

from __future__ import annotations

import random
import struct
from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


@lru_cache(maxsize=65_536)
def murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2 with Kafka's seed, as an unsigned 32-bit number.

    The cache is for streams with few keys. If every key is new, its look-up costs a tenth of the
    hash.
    """
    size = len(data)
    h = _SEED ^ size
    whole = size & ~3
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        k = k * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = h * _M & _MASK ^ k
    if whole < size:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition of a key (Kafka class BuiltInPartitioner, ``partitionForKey``)."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Records without a key stay on one partition until ``batch_size`` bytes went there, then go to
    another (KIP-794): full batches rather than many small ones.
    """

    def __init__(self, batch_size: int, choice: random.Random) -> None:
        self._batch_size = batch_size
        self._choice = choice
        self._partition = -1
        self._left = 0

    def next_partition(self, size: int, partition_count: int) -> int:
        """The partition of the next record, which has ``size`` bytes."""
        if self._left <= 0 or self._partition >= partition_count:
            self._partition = self._choice.randrange(partition_count)
            self._left = self._batch_size
        self._left -= size
        return self._partition
