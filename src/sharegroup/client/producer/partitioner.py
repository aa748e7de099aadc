"""Which partition a record goes to: as Java's producer decides, so that mixed producers agree
on a key's partition.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Final

from sharegroup.records import key_hashes

murmur2: Final = lru_cache(maxsize=65_536)(key_hashes.murmur2)
"""Kafka's hash of a key.

The cache is for streams with few keys. If every key is new, its look-up costs a tenth of the hash.
"""


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
