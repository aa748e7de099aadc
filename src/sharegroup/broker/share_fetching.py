"""Acquiring records for one ShareFetch: which partitions, how many records, how many bytes, and
when to wait.

Partitions are taken in the session's rotated order. Each is read and acquired under its fetch lock;
one that another request is reading is skipped. Record batches are never cut: the answer carries
whole batches, and the acquired ranges say which offsets count (Kafka classes SharePartitionManager
and DelayedShareFetch).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sharegroup.broker.share_partitions import LedSharePartition
from sharegroup.model.errors import KafkaError, OffsetOutOfRange
from sharegroup.model.ids import SharePartitionKey, TopicIdPartition
from sharegroup.model.log import PartitionLog
from sharegroup.share.ranges import AcquiredRange
from sharegroup.share.session import ShareSession
from sharegroup.wire.batch import batch_bounds, size_through

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker

READ_BYTES_MIN: Final = 65_536
"""The least we read at once: below it a read costs its call, not its bytes."""

READ_BYTES_UNKNOWN: Final = 1 << 20
"""Read at first, before we know how large a partition's records are."""


@dataclass(slots=True)
class FetchedPartition:
    """What one partition contributes to the answer."""

    error: KafkaError | None = None
    records: bytes | memoryview = b""
    acquired: Sequence[AcquiredRange] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchWish:
    """What one ShareFetch asks for.

    Bytes and records are limits for the whole request.
    """

    group_id: str
    member_id: str
    partitions: Sequence[TopicIdPartition]
    bytes_max: int
    bytes_min: int
    wait_ms: int
    records_max: int
    batch_size: int
    strict: bool
    without_records: bool
    session: ShareSession


class ShareFetching:
    """Reads and acquires for the share fetches of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._bytes_per_offset: dict[SharePartitionKey, float] = {}

    async def fetch(self, wish: FetchWish) -> dict[TopicIdPartition, FetchedPartition]:
        """Records for ``wish``; waits up to its time for at least ``bytes_min`` bytes, an error or
        the end."""
        if wish.records_max <= 0 or wish.bytes_max <= 0 or not wish.partitions:
            return {}
        until = asyncio.get_running_loop().time() + wish.wait_ms / 1000
        with self._broker.waiters.watch(wish.partitions) as waiter:
            while True:
                last_look = asyncio.get_running_loop().time() >= until or self._broker.stopping
                if wish.bytes_min <= 1 or last_look or await self._enough(wish):
                    fetched = await self._look(wish)
                    if fetched or last_look:
                        return fetched
                await waiter.wait(until)
                if not self._in_session(wish):
                    return {}

    def _in_session(self, wish: FetchWish) -> bool:
        """Whether the session still is the member's: nobody may acquire after it has ended."""
        return wish.session is self._broker.sessions.get(wish.group_id, wish.member_id)

    async def _enough(self, wish: FetchWish) -> bool:
        """Whether ``bytes_min`` bytes could be read from the next fetch offsets (or something is
        wrong)."""
        total = 0
        for key in wish.partitions:
            try:
                led = await self._led(wish, key)
                offset = led.core.next_fetch_offset()
                if offset < led.log.high_watermark:
                    total += len((await led.log.read(offset, wish.bytes_min)).data)
            except KafkaError:
                return True
        return total >= wish.bytes_min

    async def _look(self, wish: FetchWish) -> dict[TopicIdPartition, FetchedPartition]:
        """One pass over the partitions; only those with records or an error are in the result."""
        fetched: dict[TopicIdPartition, FetchedPartition] = {}
        records_left = wish.records_max
        bytes_each = max(1, wish.bytes_max // len(wish.partitions))
        for key in wish.partitions:
            if records_left <= 0:
                break
            try:
                led = await self._led(wish, key)
                part = await self._acquire(wish, led, bytes_each, records_left)
            except KafkaError as error:
                fetched[key] = FetchedPartition(error=error)
                continue
            if part is not None:
                fetched[key] = part
                records_left -= sum(r.last - r.first + 1 for r in part.acquired)
        return fetched

    async def _led(self, wish: FetchWish, key: TopicIdPartition) -> LedSharePartition:
        log = self._broker.topics.log_by_id(key)
        share_key = SharePartitionKey(wish.group_id, key.topic_id, key.partition)
        return await self._broker.share_partitions.get(share_key, log)

    async def _acquire(
        self, wish: FetchWish, led: LedSharePartition, bytes_max: int, records_max: int
    ) -> FetchedPartition | None:
        """Read and acquire from one share partition, under its fetch lock; None when there is
        nothing."""
        settings = self._broker.share_partitions.delivery_settings(wish.group_id)
        offset = led.core.next_fetch_offset()
        if led.fetching or offset >= led.log.high_watermark or not led.core.can_acquire(settings):
            return None
        led.fetching = True
        try:
            data = await self._read(led, offset, bytes_max, records_max)
            if not data or led.fenced or not self._in_session(wish):
                return None
            bounds = batch_bounds(data)
            acquisition = led.core.acquire(
                wish.member_id,
                bounds,
                fetch_offset=offset,
                records_max=records_max,
                batch_size=wish.batch_size,
                strict=wish.strict,
                now_ms=self._broker.clock.monotonic_ms(),
                settings=settings,
            )
        except OffsetOutOfRange:
            await self._log_start_moved(led)
            return None
        finally:
            led.fetching = False
        if not acquisition.ranges:
            return None
        self._broker.share_partitions.schedule(led)
        self._bytes_per_offset[led.key] = len(data) / (bounds[-1][1] - bounds[0][0] + 1)
        records: bytes | memoryview = b""
        if not wish.without_records:
            size = size_through(data, acquisition.ranges[-1].last)
            records = data if size == len(data) else memoryview(data)[:size]
        return FetchedPartition(records=records, acquired=acquisition.ranges)

    async def _read(
        self, led: LedSharePartition, offset: int, bytes_max: int, records_max: int
    ) -> bytes:
        """Read about as much as ``records_max`` records take, by the size of those read last."""
        per_offset = self._bytes_per_offset.get(led.key)
        enough = READ_BYTES_UNKNOWN if per_offset is None else int(per_offset * records_max * 1.25)
        bytes_max = min(bytes_max, max(READ_BYTES_MIN, enough))
        return (await led.log.read(offset, bytes_max)).data

    async def _log_start_moved(self, led: LedSharePartition) -> None:
        log: PartitionLog = led.log
        change = led.core.log_start_moved(log.log_start_offset)
        if change is not None:
            await self._broker.share_partitions.persist([(led, change)])
