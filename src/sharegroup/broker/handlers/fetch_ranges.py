"""What a fetch reads of the partitions for which it has key ranges (KIP-X).

A fetch that waits looks at new data only: what held nothing for it is not read again. Its answer
says how far it has come, so that the next fetch begins there.
"""

from __future__ import annotations

from sharegroup.broker.delivery.range_reading import (
    ANSWER_BYTES_MAX,
    Allowance,
    RangeRead,
    checked_ranges,
)
from sharegroup.broker.parts import BrokerParts
from sharegroup.cooperative.intervals import Interval, normal
from sharegroup.model.errors import TopicRangeFetchNotAllowed
from sharegroup.model.log import PartitionLog
from sharegroup.wire.messages.fetch import AbortedTransaction, FetchPartition, PartitionData
from sharegroup.wire.messages.ranges import Range


class RangeFetch:
    """Of one request, however often it looks."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._allowance: Allowance | None = None
        self._reached: dict[int, int] = {}
        self._holes: dict[int, list[Interval]] = {}

    @property
    def spent(self) -> bool:
        """It may look at no more of the log: the answer goes out."""
        return self._allowance is not None and self._allowance.spent

    def begins_at(self, at: int, partition: FetchPartition) -> int:
        """Where the request's partition number ``at`` is read from now."""
        return self._reached.get(at, partition.fetch_offset)

    async def read(
        self,
        at: int,
        log: PartitionLog,
        partition: FetchPartition,
        part: PartitionData,
        room: tuple[int, bool],
    ) -> None:
        """Read into ``part``, whose offsets are set, as is the list of aborted transactions if the
        request wants it.

        Args:
            at: the partition's number in the request.
            room: bytes in the answer, and whether the first batch goes out even so.

        Raises:
            InvalidRequest: the ranges are none.
            TopicRangeFetchNotAllowed: the topic is not fetched by ranges.
            CorruptMessage, KafkaStorageError: as ``PartitionLog.read``.
        """
        configs, name = self._parts.configs, log.topic_partition.topic
        ranges = checked_ranges(partition.key_ranges)
        if not configs.topic_flag(name, "accept.range.fetch"):
            raise TopicRangeFetchNotAllowed
        if self._allowance is None:
            most = configs.broker.integer("max.bytes.fetcher.filtering")
            self._allowance = Allowance(most)
        committed = part.aborted_transactions is not None
        begin = self.begins_at(at, partition)
        wanted = RangeRead(
            offset=begin,
            end_offset=part.last_stable_offset if committed else part.high_watermark,
            ranges=ranges,
            bytes_max=min(room[0], ANSWER_BYTES_MAX),
            must=room[1],
            values=configs.topic_flag(name, "reserve.message.value.range.fetch"),
        )
        if wanted.bytes_max > 0 or wanted.must:
            await self._parts.range_reading.read(log, wanted, self._allowance)
        part.read_up_to = wanted.offset
        holes = self._holes.setdefault(at, [])
        holes += wanted.holes
        part.without_records = [Range(*each) for each in normal(holes)]
        part.records = wanted.data
        if not part.records:
            self._reached[at] = wanted.offset
        elif committed:
            aborted = log.aborted_transactions(begin, wanted.offset)
            part.aborted_transactions = [AbortedTransaction(*each) for each in aborted]
