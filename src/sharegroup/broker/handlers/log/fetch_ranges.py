"""Reads the partitions of a fetch that have key ranges (KIP-X).

A fetch that waits looks at new data only: it does not read again records that were not for it. Its
answer says how far it has come, so that the next fetch begins there.
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
from sharegroup.model.errors import CorruptMessage, TopicRangeFetchNotAllowed
from sharegroup.model.log import ReadableLog
from sharegroup.wire.messages.fetch import AbortedTransaction, FetchPartition, PartitionData
from sharegroup.wire.messages.ranges import Range


class RangeFetch:
    """Reads for one request, which may look at the log several times while it waits."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._allowance: Allowance | None = None
        self._reached: dict[int, int] = {}
        self._holes: dict[int, list[Interval]] = {}
        self._at_damage = False

    @property
    def spent(self) -> bool:
        """Whether the request looks at the log no more, and is answered: it has used up its share
        of that, or has come to damage."""
        return self._at_damage or (self._allowance is not None and self._allowance.spent)

    def begins_at(self, at: int, partition: FetchPartition) -> int:
        """The offset from which partition number ``at`` of the request is read now."""
        return self._reached.get(at, partition.fetch_offset)

    async def read(
        self,
        at: int,
        log: ReadableLog,
        partition: FetchPartition,
        part: PartitionData,
        room: tuple[int, bool],
    ) -> None:
        """Read into ``part``. Its offsets must be set, and its list of aborted transactions if the
        request wants one.

        Args:
            at: the partition's number in the request.
            room: bytes left in the answer, and whether a first batch is sent even if it is larger.

        Raises:
            InvalidRequest: the ranges are invalid.
            TopicRangeFetchNotAllowed: the topic is not fetched by ranges.
            CorruptMessage: the log is damaged at the partition's fetch offset.
            KafkaStorageError: as ``ReadableLog.read``.
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
            try:
                await self._parts.range_reading.read(log, wanted, self._allowance)
            except CorruptMessage:
                # The client takes the error to be about the offset that it has asked for.
                if begin == partition.fetch_offset:
                    raise
                self._at_damage = True
        part.read_up_to = wanted.offset
        holes = self._holes.setdefault(at, [])
        holes += wanted.holes
        part.without_records = [Range(*each) for each in normal(holes)]
        part.records = wanted.data
        if not part.records:
            self._reached[at] = wanted.offset
        elif committed:
            aborted = await log.aborted_transactions(begin, wanted.offset)
            part.aborted_transactions = [AbortedTransaction(*each) for each in aborted]
