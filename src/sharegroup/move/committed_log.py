"""The committed records of a partition, batch by batch: without markers, and without what aborted
transactions wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.client.records.hidden import hidden_ranges
from sharegroup.cooperative.intervals import holds
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import AbortedTransaction
from sharegroup.move.letters import Change
from sharegroup.move.side import lane_of
from sharegroup.records.batches import bounds_of
from sharegroup.records.pure_codec import Fields
from sharegroup.records.record_codec import records_in
from sharegroup.upstream.raw_log import COMMITTED, EARLIEST, LATEST, RawLog
from sharegroup.wire.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    BatchHeader,
    check_crc,
    parse_header,
)

FETCH_BYTES: Final = 4 * 1024 * 1024
WAIT_MS: Final = 500


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """One batch with records, as the log has it.

    Attributes:
        first: records of the batch before this offset are not meant.
        change: what the copy has in place of a record; None: the record.
    """

    header: BatchHeader
    data: memoryview
    first: int
    change: Change | None = None

    @property
    def whole(self) -> bool:
        """Whether another log can have the batch as it is: no record is missing in it, and its
        timestamps are its records' own."""
        header = self.header
        return (
            self.change is None
            and self.first <= header.base_offset
            and header.record_count == header.last_offset_delta + 1
            and not header.attributes & (LOG_APPEND_TIME | DELETE_HORIZON)
        )

    def records(self) -> list[Fields]:
        """Its records, as the copy has them.

        Raises:
            KafkaError: the batch is damaged.
        """
        found = [one for one in records_in(self.header, self.data) if one[0] >= self.first]
        return found if self.change is None else list(map(self.change, found))


class CommittedLog:
    """Reads one partition; errors that pass are waited for.

    Args:
        change: what a copy has in place of a record; None: the record.
    """

    def __init__(
        self, cluster: Cluster, where: TopicPartition, change: Change | None = None
    ) -> None:
        self.where = where
        self._change = change
        self._cluster = cluster
        self._log = RawLog(cluster, where, lane_of(where))

    async def bounds(self) -> tuple[int, int, int]:
        """Where the log begins, where its committed part ends, and where it ends."""

        async def asked() -> tuple[int, int, int]:
            offset = self._log.offset
            return await offset(EARLIEST), await offset(LATEST, COMMITTED), await offset(LATEST)

        return await retrying(self._cluster, asked, self._cluster.request_timeout_ms)

    async def batches(self, first: int, end: int) -> AsyncIterator[list[CommittedBatch]]:
        """The batches with records from ``first`` on, up to ``end``, which is a committed end.

        Raises:
            KafkaError: the partition cannot be read, or is damaged.
        """
        at = first
        while at < end:
            found, at = await retrying(
                self._cluster, partial(self._read, at), self._cluster.request_timeout_ms
            )
            yield [one for one in found if one.header.base_offset < end]

    async def _read(self, at: int) -> tuple[list[CommittedBatch], int]:
        """Some batches from ``at`` on, and the offset after them.

        Raises:
            CorruptMessage: there is none, or it is damaged.
        """
        answer = await self._log.read(at, FETCH_BYTES, wait_ms=WAIT_MS, isolation=COMMITTED)
        data = bytes(answer.records or b"")
        aborted = [
            AbortedTransaction(one.producer_id, one.first_offset)
            for one in answer.aborted_transactions or ()
        ]
        hidden, _ = hidden_ranges(data, aborted, check_crcs=False)
        aborts = tuple(hidden)
        found: list[CommittedBatch] = []
        after = at
        for first, last, batch in bounds_of(memoryview(data)):
            header = parse_header(batch)
            check_crc(batch)
            after = last + 1
            is_data = header.record_count and not header.attributes & CONTROL
            if is_data and last >= at and not holds(aborts, first):
                found.append(CommittedBatch(header, batch, at, self._change))
        if after <= at:
            raise CorruptMessage(f"{self.where} cannot be read at offset {at}")
        return found, after
