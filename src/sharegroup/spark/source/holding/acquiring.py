"""Acquires records into the ledger, request by request, until a batch is full.

This module decides how much one request asks for, and when a batch is closed. The waiting happens
at the broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from sharegroup.client.core.fetched import FetchedPartition, Lease
from sharegroup.client.share.share_member import ShareMember
from sharegroup.cooperative.intervals import size
from sharegroup.model.errors import UnknownServerError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.options.stream import ShareOptions
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.holding.acknowledging import Acknowledging
from sharegroup.spark.source.holding.available_now import AvailableNow
from sharegroup.spark.source.holding.claiming import Claimer
from sharegroup.spark.source.holding.ledger import Ledger
from sharegroup.spark.source.holding.lock_renewal import LOCK_MS_DEFAULT, LockRenewal
from sharegroup.spark.source.holding.outage import Outage
from sharegroup.spark.source.holding.record_sizes import RecordSizes
from sharegroup.spark.source.offsets import Done
from sharegroup.spark.source.subscription import StreamTopics

log = logging.getLogger("sharegroup.spark")

FETCH_BYTES: Final = 50 * 1024 * 1024
"""The most bytes of records that one request may acquire. Apache Kafka sends them too, and we
discard them."""
SAMPLE_BYTES: Final = 1024 * 1024
"""The most bytes to acquire while the size of records is not known; these records are measured."""
WAITS_PER_LOCK: Final = 6
REFUSED_SECONDS: Final = 20.0
RETRY_SECONDS: Final = 0.2
COLLECT_SECONDS: Final = 5.0
"""A batch is closed after this time even if more could be acquired."""
FEW_RECORDS: Final = 500
"""A request that brings fewer records, and far fewer bytes than it asked for, has brought all
available ones: another request would only cost time. In claim mode the group's lock limit may also
be the reason."""


class Came(NamedTuple):
    """What one request brought."""

    new: int
    """Records that Spark may have."""
    acquired: int
    """All records, also those that were done already: the queue was not empty."""
    is_all: bool
    """Whether so few came that no more are available now."""


class Acquirer:
    """See the module. Every request takes its turn with the other uses of ``member``.

    Attributes:
        few: see ``FEW_RECORDS``.
    """

    def __init__(
        self,
        member: ShareMember,
        ledger: Ledger,
        acknowledging: Acknowledging,
        claimer: Claimer | None,
        locks: LockRenewal,
        run: AvailableNow,
        subscription: StreamTopics,
        outage: Outage,
        turn: asyncio.Lock,
        options: ShareOptions,
    ) -> None:
        self.few = FEW_RECORDS
        self._member = member
        self._ledger = ledger
        self._acknowledging = acknowledging
        self._claimer = claimer
        self._locks = locks
        self._run = run
        self._subscription = subscription
        self._outage = outage
        self._turn = turn
        self._options = options
        self._sizes = RecordSizes()
        self._leases: dict[TopicIdPartition, Lease] = {}
        self._refused_since = 0.0

    @property
    def ready(self) -> int:
        """How many records are ready for the next batch."""
        return self._ledger.ready_count(self._run.targets)

    @property
    def _wait_ms(self) -> int:
        """How long a request may wait at the broker: renewals have to wait for its answer."""
        lock_ms = self._member.lock_timeout_ms or LOCK_MS_DEFAULT
        return min(self._options.poll_timeout_ms, lock_ms // WAITS_PER_LOCK)

    def most_records(self) -> int:
        """How many records may be held at once: ``maxAcquiredRecords``, ``maxAcquiredBytes``."""
        by_bytes = self._sizes.records_in(self._options.max_acquired_bytes)
        return min(self._options.max_acquired_records, by_bytes)

    async def collect(self, limit: int | None) -> int:
        """Acquire until ``limit`` records are ready or no more come at once; wait for the first.

        Returns:
            How many records the batch may have.

        Raises:
            NetworkException: no broker has answered for too long.
        """
        loop = asyncio.get_running_loop()
        started = last_came = loop.time()
        # In a run with an end, ask at once whether the end is reached, before waiting for more.
        wait_ms = self._wait_ms if self._run.targets is None else 0
        while True:
            self._forget_lost_locks()
            most = min(limit or self.most_records(), self.most_records())
            ready = self.ready
            late = loop.time() - started > COLLECT_SECONDS and not self._takes_its_time(limit)
            if ready >= most or (ready and late):
                return most
            async with self._turn:
                came = await self.fetch(most - ready, 0 if ready else wait_ms)
            # While no broker answers, time without records is no sign that all has been read.
            if came.new or self._outage.is_on:
                last_came = loop.time()
            if not came.acquired:
                self._outage.check()
            wait_ms = self._wait_ms
            if self._run.targets is None and came.acquired:
                if came.is_all and self.ready:
                    return most
                continue  # records that were done already may stand before new ones
            if not came.new and (ready or await self._run.is_over(loop.time() - last_came)):
                return most

    async def fetch(self, count: int, wait_ms: int) -> Came:
        """Send one request, in the caller's turn.

        Raises:
            KafkaError: a partition or the group refuses for good.
        """
        self._forget_lost_locks()
        before = self.ready
        known = self._sizes.is_known
        fetched = await self._fetched(count, wait_ms, known)
        await self._take_in(fetched)
        if self._acknowledging.may_repeat:
            await self.catch_up()
            await self._acknowledging.repeat()
        if self._claimer is not None:
            await self._claimer.claim(self._run.targets)
        counts = [size(part.acquired) for part in fetched]
        acquired = sum(counts)
        bounded = max(counts, default=0) >= self._half_share()
        is_all = known and acquired < self.few and not bounded
        return Came(new=self.ready - before, acquired=acquired, is_all=is_all)

    async def catch_up(self) -> None:
        """Take in the records of fetches under way, in the caller's turn. (Their callers have not
        waited for them.) If locks were lost, they may bring records of the batch, or held records,
        again, and the ledger recognises these only until they are acknowledged. So call this before
        an acknowledgement, also before one is repeated: while the first one was not answered, the
        partition's next leader may have acquired its records for this member once more."""
        fetched = await self._member.last_fetched()
        # A refusal for good is left out: the next fetch gets it too, and raises it.
        await self._take_in([part for part in fetched if part.error is None])

    def _takes_its_time(self, limit: int | None) -> bool:
        """Whether a batch is collected until it is as large as asked for, however long that takes:
        claimed records have no locks that run out."""
        return self._claimer is not None and (limit is not None or self._run.targets is not None)

    def _half_share(self) -> int:
        """A request that brings so many records of one partition may have been bounded by its
        bytes. Brokers divide these by the partitions, and leave out a batch that does not fit."""
        in_bytes = self._sizes.records_in(self._most_bytes(True))
        return in_bytes // (2 * max(1, len(self._member.assignment)))

    def _most_bytes(self, known: bool) -> int:
        """The most bytes to ask for; ``known``: whether the size of records is."""
        return min(FETCH_BYTES if known else SAMPLE_BYTES, self._options.max_acquired_bytes)

    async def _fetched(self, count: int, wait_ms: int, known: bool) -> list[FetchedPartition]:
        """One fetch. While a topic in it is being deleted, Apache Kafka answers a fetch with
        UNKNOWN_SERVER_ERROR, until the group has taken the topic away from this member. So this
        error is retried for some time."""
        try:
            fetched = await self._member.fetch(
                max_records=count,
                max_bytes=self._most_bytes(known),
                max_wait_ms=wait_ms,
                without_records=known,
            )
        except UnknownServerError as error:
            now = asyncio.get_running_loop().time()
            self._refused_since = self._refused_since or now
            if now - self._refused_since > REFUSED_SECONDS:
                raise
            log.info("a fetch was refused, and is tried again: %s", error)
            await asyncio.sleep(RETRY_SECONDS)
            return []
        self._refused_since = 0.0
        return fetched

    async def _take_in(self, fetched: Iterable[FetchedPartition]) -> None:
        again: dict[TopicIdPartition, list[Done]] = {}
        for part in fetched:
            partition = TopicIdPartition(part.topic_id, part.partition)
            again[partition] = self._taken_in(partition, part)
        if again:  # the answer has told how long locks last
            self._locks.start()
        if any(again.values()):
            await self._acknowledging.acknowledge(again)

    def _taken_in(self, partition: TopicIdPartition, part: FetchedPartition) -> list[Done]:
        if part.error is not None:
            raise part.error
        self._forget_lost_locks()  # before these records come in, whose locks have a new lease
        self._leases[partition] = part.lease
        if part.topic:
            self._subscription.topics[part.topic_id] = part.topic
        self._sizes.saw(part.topic_id, part.records)
        return self._ledger.acquired(partition, [Acquired(*one) for one in part.acquired])

    def _forget_lost_locks(self) -> None:
        """The locks of a lost session are gone, and those at a broker that leads the partition no
        more: forget the ready records, which are delivered again. The batch goes on without
        locks."""
        moved = self._member.has_moved
        lost = [
            one for one, lease in self._leases.items() if lease.lost or moved(one, lease.node_id)
        ]
        if not lost:
            return
        held = self._ledger.locked()
        for partition in lost:
            del self._leases[partition]
            self._ledger.lost(partition, held.get(partition, ()))
