"""The lag of each share group: in records, and in seconds, which Kafka does not report.

The table covers every group and every partition with delivery state, even if no member reads it.
Times are of batches, see :meth:`~sharegroup.broker.delivery.next_record.NextRecords.time`. Each is
read once and kept until the offset moves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from sharegroup.broker.delivery.next_record import NextRecords
from sharegroup.broker.metrics.metric import Sample
from sharegroup.broker.metrics.table import Source, Table
from sharegroup.broker.parts import BrokerParts
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.log import ReadableLog


class PartitionLag(NamedTuple):
    """How far a group is behind in one partition."""

    oldest_seconds: float
    new_seconds: float
    records: int
    start_offset: int


LAG: Final = Table()
BY_PARTITION: Final[Source[PartitionLag]] = Source(LAG.metrics, ("group", "topic", "partition"))
"""Read in steps, by :class:`LagReader`: it waits for the logs."""

BY_PARTITION.gauge(
    "sharegroup_share_partition_oldest_unacknowledged_seconds",
    "Age of the oldest record that is not finished, delivered or not; 0 when there is none. Alert "
    "on it: it grows when records are stuck, even when nobody consumes.",
    lambda lag: lag.oldest_seconds,
    unit="seconds",
)
BY_PARTITION.gauge(
    "sharegroup_share_partition_lag_seconds",
    "Age of the next record that was never delivered; 0 when all have been.",
    lambda lag: lag.new_seconds,
    unit="seconds",
)
BY_PARTITION.gauge(
    "sharegroup_share_partition_lag_records",
    "Records not finished: end of the log − start offset − finished ones behind it (KIP-1226); "
    "markers and what compaction has left empty at the end of the log do not count.",
    lambda lag: lag.records,
    unit="records",
    kafka="DescribeShareGroupOffsets, lag (KIP-1226)",
)
BY_PARTITION.gauge(
    "sharegroup_share_partition_start_offset",
    "The lowest offset that is not finished.",
    lambda lag: lag.start_offset,
    kafka="DescribeShareGroupOffsets, start offset",
)


class LagReader:
    """Reads the table; caches the timestamps it has looked up."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._times: dict[tuple[SharePartitionKey, int], int] = {}
        """Timestamps by share partition and offset, as used by the last reading."""

    async def read(self) -> AsyncIterator[list[Sample]]:
        """The samples of this table, group by group."""
        kept, self._times = self._times, {}
        looks = NextRecords()
        async for keys in self._groups():
            samples: list[Sample] = []
            for topic, key in keys:
                samples += await self._partition(key, topic, kept, looks)
            yield samples

    async def _groups(self) -> AsyncIterator[list[tuple[str, SharePartitionKey]]]:
        """The share partitions of each group, with their topics: in a fleet those that this node
        leads, also of groups that another node has. A scrape loads no state: what is not loaded,
        as while it cannot be read, is left out."""
        if self._parts.other_nodes is not None:
            name_of = self._parts.topics.name_of
            for _, keys in groupby(self._parts.state.loaded_keys(), attrgetter("group_id")):
                named = ((name_of(key.topic_id), key) for key in keys)
                yield [(name, key) for name, key in named if name is not None]
            return
        views = self._parts.views.share_groups
        for line in views.groups():
            yield [
                (topic.topic, SharePartitionKey(line.group_id, topic.topic_id, partition))
                for topic in views.partitions(line.group_id)
                for partition in topic.partitions
            ]

    async def _partition(
        self,
        key: SharePartitionKey,
        topic: str,
        kept: dict[tuple[SharePartitionKey, int], int],
        looks: NextRecords,
    ) -> list[Sample]:
        """The samples of a share partition; empty if the group has not begun there."""
        try:
            log: ReadableLog = self._parts.topics.log(topic, key.partition)
            window = await self._parts.views.share_groups.window(key)
            if not window.begun:
                return []
            end = await self._parts.views.share_groups.records_end(key, log, looks)
            lag = PartitionLag(
                oldest_seconds=await self._age(key, log, window.start_offset, kept, looks),
                new_seconds=await self._age(key, log, window.end_offset, kept, looks),
                records=window.lag(end),
                start_offset=window.start_offset,
            )
        except KafkaError:
            return []  # a log out of service has its own metric
        return [*BY_PARTITION.samples(lag, key.group_id, topic, str(key.partition))]

    async def _age(
        self,
        key: SharePartitionKey,
        log: ReadableLog,
        offset: int,
        kept: dict[tuple[SharePartitionKey, int], int],
        looks: NextRecords,
    ) -> float:
        """Seconds since the record at ``offset``, or the first after it, was written."""
        now = await log.offsets()
        offset = max(offset, now.start)
        if offset >= now.high_watermark:
            return 0.0
        timestamp = kept.get((key, offset))
        if timestamp is None:
            timestamp = await looks.time(log, offset)
        if timestamp is None:
            return 0.0  # not kept: a record may still come at this offset
        self._times[key, offset] = timestamp
        return max(0, self._parts.clock.wall_ms() - timestamp) / 1000
