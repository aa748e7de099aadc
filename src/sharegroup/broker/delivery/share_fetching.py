"""Acquiring records for one ShareFetch: which partitions, how many records, how many bytes, and
when to wait.

Partitions are taken in the session's rotated order. Each is read and acquired under its fetch lock.
A partition that another request is reading is skipped; the other request offers it again when it
has read. Record batches are never cut: the answer carries whole batches, and the acquired ranges
say which offsets are acquired (Kafka classes SharePartitionManager and DelayedShareFetch).

The byte limit is divided evenly over the partitions that have something to read. The record limit
is divided only for a request that wants no record bytes. All other requests take records from as
few partitions as possible, which keeps the answer and its acknowledgement small. As in a plain
fetch, the first batch of an answer is sent even when it exceeds the limits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.delivery.class_loading import load_classes
from sharegroup.broker.delivery.expiring import archive_expired
from sharegroup.broker.delivery.following import follow_all
from sharegroup.broker.delivery.found_batches import (
    HEADERS_ALONE_MIN,
    FoundBatches,
    Records,
    aborted_in,
    found_in,
)
from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.delivery.looking_ahead import look_ahead
from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.broker.delivery.record_looks import Read
from sharegroup.broker.delivery.scheduling import let_rest
from sharegroup.broker.delivery.withheld import withheld
from sharegroup.model.errors import (
    CoordinatorNotAvailable,
    CorruptMessage,
    KafkaError,
    OffsetNotAvailable,
    OffsetOutOfRange,
)
from sharegroup.model.ids import SharePartitionKey, TopicIdPartition
from sharegroup.share.ranges import AcquiredRange
from sharegroup.share.session import BrokerShareSession

logger = logging.getLogger("sharegroup.broker")

READ_BYTES_MIN: Final = 65_536
"""Smallest read: below this size a read costs its call, not its bytes."""

READ_BYTES_UNKNOWN: Final = 1 << 20
"""Size of the first read of a partition, before the size of its records is known."""


@dataclass(slots=True)
class FetchedAnswer:
    """What one partition contributes to the answer."""

    error: KafkaError | None = None
    records: Records = b""
    acquired: Sequence[AcquiredRange] = ()
    ordered: bool = False
    """The records come in order per key."""


Fetched = dict[TopicIdPartition, FetchedAnswer]


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
    session: BrokerShareSession
    access: Access


class _Ready(NamedTuple):
    """A partition with something to read: from ``offset`` to ``end_offset`` (exclusive)."""

    key: TopicIdPartition
    led: LedSharePartition
    offset: int
    end_offset: int
    committed: bool
    """The group reads committed."""
    expires: bool
    """Records of the group may expire."""
    scheduled: bool
    """Records of the group may have to wait for the time in their header."""

    @property
    def looks(self) -> bool:
        """Records are looked at before they are acquired."""
        return self.expires or self.scheduled or self.led.core.order.needs_keys


class _Share(NamedTuple):
    """One partition's share of the rest of a request's limits."""

    records_max: int
    bytes_max: int
    first: bool
    """The answer is still empty: its first batch is sent whatever its size."""


class ShareFetching:
    """Reads and acquires for the share fetches of one broker."""

    def __init__(self, parts: DeliveryParts) -> None:
        self._parts = parts

    async def fetch(self, wish: FetchWish) -> Fetched:
        """Acquire records for ``wish``. Waits up to ``wait_ms`` for at least ``bytes_min`` bytes or
        for an error that the member does not know yet.
        """
        if wish.records_max <= 0 or wish.bytes_max <= 0 or not wish.partitions:
            return {}
        loop = asyncio.get_running_loop()
        started = loop.time()
        until = started + wish.wait_ms / 1000
        changes = self._parts.waiters.changes
        fetched = await self._look(wish, last_look=wish.wait_ms <= 0)
        if wish.wait_ms > 0 and not _ends_wait(wish, fetched):
            found = await self._wait(wish, until, changes)
            if found is None:
                return {}
            fetched = found
        self._count(wish, fetched, loop.time() - started)
        return fetched

    async def _wait(self, wish: FetchWish, until: float, changes: int) -> Fetched | None:
        """Look again at each change until the loop time ``until``, and at once if a change came
        since ``changes`` were counted. None if the session has ended."""
        loop = asyncio.get_running_loop()
        waiters = self._parts.waiters
        left = partial(self._is_left, wish)
        with waiters.watch(wish.partitions, wish.session.connection, wish.group_id) as waiter:
            changed = waiters.changes != changes
            while True:
                if not changed:
                    await waiter.wait(until)
                    if not self._in_session(wish):
                        return None
                changed = False
                last_look = loop.time() >= until or waiters.closed
                fetched = await self._look(wish, last_look=last_look)
                waiter.pass_on(left)
                if last_look or _ends_wait(wish, fetched):
                    return fetched

    def _is_left(self, wish: FetchWish, key: TopicIdPartition) -> bool:
        """Whether another member of the group should look at this partition now."""
        if self._parts.rates.is_empty(wish.group_id):
            return False
        led = self._parts.share_partitions.find(SharePartitionKey(wish.group_id, *key))
        return led is None or led.fenced or self._parts.share_partitions.may_take_now(led)

    def _count(self, wish: FetchWish, fetched: Fetched, seconds: float) -> None:
        """Count a finished fetch, for metrics."""
        meters, counters = self._parts.meters, self._parts.counters
        for topic_id in wish.session.topic_ids:
            if self._parts.topics.name_of(topic_id) is not None:
                meters.topic(topic_id).share_fetch_requests += 1
        acquired = 0
        for key, part in fetched.items():
            if part.error is None:
                acquired += 1
                meters.topic(key.topic_id).share_fetch_bytes += len(part.records)
                continue
            counters.add("share_fetch_errors", part.error.name)
            if self._parts.topics.name_of(key.topic_id) is not None:
                meters.topic(key.topic_id).share_fetch_failures += 1
        if acquired:
            group = meters.group(wish.group_id)
            group.acquire_seconds.observe(seconds)
            group.fetch_percent.observe(100 * acquired / len(wish.partitions))
        elif not fetched:
            meters.share_fetches_expired += 1

    def _may_acquire(self, wish: FetchWish, led: LedSharePartition) -> bool:
        leads = not led.fenced and self._parts.share_partitions.may_deliver()
        return leads and self._in_session(wish)

    def _in_session(self, wish: FetchWish) -> bool:
        """Whether this is still the member's session: after its end nothing may be acquired."""
        return wish.session is self._parts.sessions.get(wish.group_id, wish.member_id)

    async def _look(self, wish: FetchWish, *, last_look: bool) -> Fetched:
        """One pass over the partitions; the result has only partitions with records or an error."""
        fetched: Fetched = {}
        ready = await self._ready(wish, fetched)
        if not ready or not (last_look or await self._enough(wish, ready)):
            return fetched
        limit = self._parts.share_partitions.delivery_settings(wish.group_id).rate
        if limit is None:
            self._parts.rates.end_limit(wish.group_id)
            await self._acquire_all(wish, ready, fetched, wish.records_max)
            return fetched
        granted = self._parts.rates.reserve(wish.group_id, limit, wish.records_max)
        try:
            # No more than that: not to the end of a batch.
            await self._acquire_all(replace(wish, strict=True), ready, fetched, granted)
        finally:
            self._parts.rates.give_back(
                wish.group_id, granted - sum(map(_records_of, fetched.values()))
            )
        return fetched

    async def _acquire_all(
        self, wish: FetchWish, ready: Sequence[_Ready], fetched: Fetched, records_left: int
    ) -> None:
        """Acquire up to ``records_left`` records; ``fetched`` gets records and errors."""
        bytes_each = max(1, wish.bytes_max // len(ready))
        first = True
        for place, each in enumerate(ready):
            if records_left <= 0:
                break
            records_max = records_left
            if wish.without_records:  # a large batch, to be worked on in parallel
                records_max = -(-records_left // (len(ready) - place))
            try:
                part = await self._acquire(wish, each, _Share(records_max, bytes_each, first))
            except OffsetNotAvailable:  # a cluster's new leader does not know yet what is there
                continue
            except KafkaError as error:
                fetched[each.key] = FetchedAnswer(error=error)
                continue
            if part is not None:
                first = False
                fetched[each.key] = part
                records_left -= _records_of(part)

    async def _ready(self, wish: FetchWish, fetched: Fetched) -> list[_Ready]:
        """The partitions to read now; errors of the others go to ``fetched``."""
        partitions = self._parts.share_partitions
        settings = partitions.delivery_settings(wish.group_id)
        committed = partitions.reads_committed(wish.group_id)
        ready = []
        found = await self._led(wish)
        logs = [led.log for led in found if isinstance(led, LedSharePartition)]
        await follow_all(self._parts.waiters, logs)
        for key, led in zip(wish.partitions, found, strict=True):
            if isinstance(led, KafkaError):
                rests = partitions.rests(SharePartitionKey(wish.group_id, *key))
                if not (rests and isinstance(led, CoordinatorNotAvailable)):
                    fetched[key] = FetchedAnswer(error=led)
                continue
            offset = led.core.next_fetch_offset(wish.member_id)
            end = led.log.last_stable_offset if committed else led.log.high_watermark
            room = not led.crowded and led.core.can_acquire(settings, wish.member_id)
            if offset < end and room:
                led.passed_by |= led.fetching
                if not led.fetching:
                    rules = (settings.expiry is not None, settings.scheduled)
                    ready.append(_Ready(key, led, offset, end, committed, *rules))
        return ready

    async def _led(self, wish: FetchWish) -> list[LedSharePartition | KafkaError]:
        """The share partitions of ``wish``; partitions not loaded yet are loaded concurrently."""
        find = self._parts.share_partitions.find
        keys = [SharePartitionKey(wish.group_id, *key) for key in wish.partitions]
        found: list[LedSharePartition | KafkaError | None] = list(map(find, keys))
        no = withheld(self._parts.topics, wish.access, wish.session, wish.partitions)
        if no:
            found = [no.get(key, led) for key, led in zip(wish.partitions, found, strict=True)]
        missing = [at for at, led in enumerate(found) if led is None]
        if missing:
            loads = await asyncio.gather(*(self._load(keys[at]) for at in missing))
            for at, led in zip(missing, loads, strict=True):
                found[at] = led
        return [led for led in found if led is not None]

    async def _load(self, key: SharePartitionKey) -> LedSharePartition | KafkaError:
        try:
            log = self._parts.topics.log_by_id(TopicIdPartition(key.topic_id, key.partition))
            return await self._parts.share_partitions.get(key, log)
        except KafkaError as error:
            return error

    async def _enough(self, wish: FetchWish, ready: Sequence[_Ready]) -> bool:
        """Whether ``bytes_min`` bytes can be read; also true if a read fails."""
        if wish.bytes_min <= 1:
            return True
        total = 0
        for each in ready:
            try:
                read = await each.led.log.read(
                    each.offset, wish.bytes_min, end_offset=each.end_offset
                )
            except KafkaError:
                return True
            total += len(read.data)
        return total >= wish.bytes_min

    async def _acquire(self, wish: FetchWish, ready: _Ready, share: _Share) -> FetchedAnswer | None:
        """Read and acquire from one share partition, under its fetch lock; None: nothing."""
        led = ready.led
        led.passed_by |= led.fetching
        if led.fetching or not self._may_acquire(wish, led):
            return None
        led.fetching = True
        now_s = asyncio.get_running_loop().time
        locked = now_s()
        try:
            ready = await self._looked_ahead(wish, ready)
            ready, found = await self._read(wish, ready, share)
            if not found:
                return None
            aborted = await aborted_in(led.log, ready.offset, found, committed=ready.committed)
            bounds: Sequence[tuple[int, int]] = found.walk.bounds
            if ready.looks:
                bounds = await self._look_at_records(ready, found, aborted)
            settings = self._parts.share_partitions.delivery_settings(wish.group_id)
            if not self._may_acquire(wish, led):
                return None
            acquisition = led.core.acquire(
                wish.member_id,
                bounds,
                fetch_offset=ready.offset,
                records_max=share.records_max,
                batch_size=wish.batch_size,
                strict=wish.strict,
                aborted=aborted,
                now_ms=self._parts.clock.monotonic_ms(),
                settings=settings,
                tenant_rates=self._parts.rates.of_tenants(wish.group_id, settings),
            )
        except OffsetOutOfRange:
            await self._parts.share_partitions.follow_log_start(led)
            return None
        finally:
            self._unlock(led, now_s() - locked)
        self._parts.share_partitions.schedule(led)
        if not acquisition.ranges:
            order, offset = led.core.order, led.core.next_fetch_offset(wish.member_id)
            if offset > ready.offset or (order.reads_ahead and offset != ready.offset):
                # All records that were read were passed over: a next look reads on after them.
                self._parts.share_partitions.wake(led)
                if ready.looks:
                    await asyncio.sleep(0)  # many records may be passed over: let others come in
            return None
        led.bytes_per_offset = found.bytes_per_offset
        led.bytes_per_batch = found.bytes_per_batch
        ranges = acquisition.ranges
        led.meter.count_acquired(ranges)
        records: Records = b""
        if not wish.without_records:
            records = self._acquired_records(led, found, ranges)
        ordered = led.core.order.in_order
        return FetchedAnswer(records=records, acquired=ranges, ordered=ordered)

    async def _looked_ahead(self, wish: FetchWish, ready: _Ready) -> _Ready:
        """Where records come by class: know what lies near before the next record is chosen."""
        core = ready.led.core
        if core.order.reads_ahead:
            await look_ahead(self._parts, ready.led, committed=ready.committed)
            ready = ready._replace(offset=core.next_fetch_offset(wish.member_id))
        return ready

    async def _look_at_records(
        self, ready: _Ready, found: FoundBatches, aborted: Sequence[tuple[int, int]]
    ) -> Sequence[tuple[int, int]]:
        """Load the keys of a group whose records come by key, archive what has expired, and let
        rest what is not due. Returns the bounds of the batches that may be acquired."""
        led = ready.led
        if led.core.order.needs_keys:
            await load_classes(self._parts, led, found, fetch_offset=ready.offset, aborted=aborted)
        bounds: Sequence[tuple[int, int]] = found.walk.bounds
        read = Read(found.data, found.walk, aborted, ready.offset)
        if ready.expires:
            bounds = await archive_expired(self._parts, led, read)
        if ready.scheduled:
            bounds = await let_rest(self._parts, led, read, bounds)
        return bounds

    def _acquired_records(
        self, led: LedSharePartition, found: FoundBatches, ranges: Sequence[AcquiredRange]
    ) -> Records:
        """The batches of an answer. Where records come by key, other members may hold all records
        of many batches between the first and the last range, and many records of each batch: only
        the acquired records are picked."""
        if led.core.order.needs_keys:
            wanted = [(first, last) for first, last, _ in ranges]
            return self._parts.picker.picked(found.data, found.walk, wanted)
        return found.between(ranges[0].first, ranges[-1].last)

    def _unlock(self, led: LedSharePartition, seconds: float) -> None:
        """Give the fetch lock back. If a fetch found it taken meanwhile, wake waiting fetches."""
        led.fetching = False
        led.meter.locks += 1
        led.meter.lock_seconds += seconds
        if led.passed_by:
            led.passed_by = False
            self._parts.share_partitions.wake(led)

    async def _read(
        self, wish: FetchWish, ready: _Ready, share: _Share
    ) -> tuple[_Ready, FoundBatches | None]:
        """Find about as many bytes as ``records_max`` records take, by the size of the last read.
        None or no batches: there is nothing to read, or the first batch is too large for the room
        left in the answer.

        Also returns ``ready``, with its offset moved past damaged records.
        """
        per_offset = ready.led.bytes_per_offset
        enough = READ_BYTES_UNKNOWN
        if per_offset is not None:
            enough = int(per_offset * share.records_max * 1.25)
        bytes_max = min(share.bytes_max, max(READ_BYTES_MIN, enough))
        log = ready.led.log
        stored = ready.led.bytes_per_batch >= HEADERS_ALONE_MIN and not _needs_bytes(ready)
        while True:
            ready = self._behind_damage(wish, ready)
            if ready.offset >= ready.end_offset:
                return ready, None
            offset, end_offset = ready.offset, ready.end_offset
            try:
                read = await log.read(offset, bytes_max, end_offset=end_offset, stored=stored)
            except CorruptMessage:
                if log.after_damage(ready.offset) == ready.offset:
                    raise
                continue  # this read has found new damage
            found = found_in(read)
            if found is not None and not found.holds_records:
                if not self._may_acquire(wish, ready.led):
                    return ready, None
                ready = self._behind_gap(wish, ready, found)
                continue
            if found is not None:
                fits = share.first or len(found) <= share.bytes_max
                return ready, found if fits else None
            stored = False

    def _behind_damage(self, wish: FetchWish, ready: _Ready) -> _Ready:
        """Archive damaged records at the next offset, so that they do not hold back later ones.
        (In Kafka consumers reject records whose checksum fails.)
        """
        led, partitions = ready.led, self._parts.share_partitions
        while ready.offset < ready.end_offset:
            last = min(led.log.after_damage(ready.offset), ready.end_offset) - 1
            if last < ready.offset:
                break
            led.meter.damaged += last - ready.offset + 1
            logger.error("%s: offsets %d to %d are damaged, its group skips them",
                         led.key, ready.offset, last)  # fmt: skip
            partitions.persist_soon(led, led.core.damaged(ready.offset, last))
            ready = ready._replace(offset=led.core.next_fetch_offset(wish.member_id))
        return ready

    def _behind_gap(self, wish: FetchWish, ready: _Ready, found: FoundBatches) -> _Ready:
        """Pass over offsets that compaction has emptied: up to the end there is no batch, or there
        are only empty batches, kept for their producers. A later batch that shows the gap may never
        come."""
        led = ready.led
        last = found.walk.end_offset - 1 if found else ready.end_offset - 1
        self._parts.share_partitions.persist_soon(led, led.core.compacted(ready.offset, last))
        return ready._replace(offset=led.core.next_fetch_offset(wish.member_id))


def _ends_wait(wish: FetchWish, fetched: Fetched) -> bool:
    """Whether the answer goes out now: it has records, or an error that the member does not know.

    A fetch with known errors only keeps waiting, so that the member does not retry at once.
    """
    errors = [key for key, part in fetched.items() if part.error is not None]
    return len(errors) < len(fetched) or not all(map(wish.session.knows_error, errors))


def _records_of(part: FetchedAnswer) -> int:
    return sum(one.last - one.first + 1 for one in part.acquired)


def _needs_bytes(ready: _Ready) -> bool:
    """Whether batches must be read as bytes: groups by key, expiry and schedules look at the
    records, and a group that reads committed at the control batches."""
    return ready.committed or ready.looks
