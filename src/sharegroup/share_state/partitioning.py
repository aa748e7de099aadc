"""Which partition of the state topic holds a share partition's state."""

from __future__ import annotations

from functools import lru_cache

from sharegroup.model.ids import SharePartitionKey

_KEYS_CACHED = 65_536
"""Share partitions whose result is cached; computing one takes some microseconds."""


@lru_cache(maxsize=_KEYS_CACHED)
def partition_for(key: SharePartitionKey, partitions: int) -> int:
    """Partition of ``__share_group_state`` for ``key``, as Kafka chooses it.

    Java's ``String.hashCode`` of ``group:topicId:partition``, absolute as in Kafka class Utils
    (the one number without a positive counterpart becomes 0), modulo ``partitions``.
    """
    return abs_java(java_string_hash(str(key))) % partitions


def java_string_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 code units, a signed 32-bit number."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def abs_java(number: int) -> int:
    """Kafka's ``Utils.abs`` of a signed 32-bit number."""
    return 0 if number == -(1 << 31) else abs(number)


def group_partition(group_id: str, partitions: int) -> int:
    """Partition of ``__consumer_offsets`` for a group, as Kafka chooses it."""
    return abs_java(java_string_hash(group_id)) % partitions
