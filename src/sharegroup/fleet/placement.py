"""Which state partition keeps the state of a partition's share groups.

All groups of one partition of a topic have it in one state partition, since clients find the leader
of a partition by Metadata, which names no group. (Kafka spreads the groups of a partition over its
coordinators, and its leaders ask these.)
"""

from __future__ import annotations

from uuid import UUID
from zlib import crc32


def state_partition(topic_id: UUID, partition: int, count: int) -> int:
    """Of ``count`` state partitions, the one for a partition of a topic: the same one in every
    version, for the state lies there."""
    return crc32(topic_id.bytes + partition.to_bytes(4, "big")) % count
