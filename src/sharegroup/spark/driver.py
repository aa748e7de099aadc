"""The driver's side of a stream: one member of the share group, for as long as the query runs.

Acquires ranges, remembers them in the :class:`Ledger`, keeps their locks alive in the background,
and acknowledges a batch as soon as Spark shows that it is finished. All of it runs on one event
loop; :class:`ShareStreamReader` calls it from Spark's thread.

A batch is settled when Spark passes its offset as ``start`` of ``latestOffset``: then its results
are committed. What the broker does not confirm stays in the ledger as done, goes into the next
offset, and is acknowledged, not processed, when it comes again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sharegroup.client.addresses import Address
from sharegroup.client.cluster import Cluster
from sharegroup.client.share_member import ShareMember
from sharegroup.model.errors import (
    ConfigError,
    RetriableError,
    UnknownTopicOrPartition,
)
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.group import GroupView
from sharegroup.spark.ledger import Ledger
from sharegroup.spark.locks import LOCK_MS_DEFAULT, LockKeeper
from sharegroup.spark.offsets import Acquired, BatchOffset, Done
from sharegroup.spark.options import ShareOptions
from sharegroup.spark.settling import Settling

log = logging.getLogger("sharegroup.spark")

FETCH_BYTES: Final = 50 * 1024 * 1024
"""What one request may acquire. Apache Kafka sends the bytes along, and we throw them away."""
INT_MAX: Final = 2**31 - 1
COLLECT_SECONDS: Final = 5.0
"""A batch is closed after this time even though more could be acquired."""
ASSIGNMENT_SECONDS: Final = 15.0
"""A member that still has no partitions after this time is one too many."""
OUTAGE_SECONDS: Final = 300.0
"""How long a running query waits for a broker that is away."""
CLOSE_MS: Final = 1_500
"""Spark does not wait for a source that stops."""


class Seat(NamedTuple):
    """A member of the group, and those who work with it."""

    member: ShareMember
    settling: Settling
    locks: LockKeeper


class ShareDriver:
    """See the module. Not thread-safe: all methods run on one loop, one at a time."""

    def __init__(self, options: ShareOptions) -> None:
        self._options = options
        self._cluster = Cluster(
            options.bootstrap_servers,
            client_id=options.client_id,
            request_timeout_ms=options.request_timeout_ms,
            allow_auto_create_topics=False,
        )
        self._group = GroupView(self._cluster, options)
        self._ledger = Ledger()
        self._seat: Seat | None = None
        self._current = BatchOffset()  # the newest offset that Spark has
        self._settled = 0
        self._topics: dict[UUID, str] = {}
        self._targets: dict[TopicIdPartition, int] | None = None
        self._turn = asyncio.Lock()  # Spark's calls and the renewal take turns
        self._out_since: float | None = None

    # --- Spark's calls ----------------------------------------------------------------------------

    async def connect(self) -> None:
        """Reach the cluster and find the topics.

        Raises:
            BootstrapError: no broker answered; it names the addresses.
            ConfigError: there is no such topic.
        """
        await self._cluster.start()
        for name in self._options.topics:
            try:
                topic = await self._cluster.topic(name)
            except UnknownTopicOrPartition:
                servers = self._options.bootstrap_servers
                raise ConfigError(
                    f"there is no topic {name!r} at {servers}: create it, or correct subscribe"
                ) from None
            self._topics[topic.topic_id] = name

    async def set_targets(self) -> None:
        """What is in the log now is all that this run may read (Trigger.AvailableNow)."""
        await self.connect()
        self._targets = await self._group.end_offsets(self._topics)

    async def latest_offset(self, start: BatchOffset, limit: int | None) -> BatchOffset:
        """Settle everything up to ``start``, then acquire the next batch.

        Returns:
            ``start`` itself when there is nothing to read now.
        """
        count = min(limit or INT_MAX, self._options.max_acquired_records)
        await self._join(start)
        async with self._turn:
            await self._settle(start)
        try:
            await self._collect(count)
            self._out_since = None
        except RetriableError as error:
            self._outage(error)
        return self._offset_after(start, count)

    async def replay(self, end: BatchOffset) -> None:
        """Spark runs the batch ``end`` again that another process acquired: take it over."""
        async with self._turn:
            if end.sequence > self._current.sequence:
                self._adopt(end)

    async def settle(self, end: BatchOffset) -> None:
        """The batch ``end`` is committed."""
        if self._seat is not None:
            async with self._turn:
                await self._settle(end)

    async def close(self) -> None:
        """Give back what Spark never saw, and go.

        A batch under way is not given back on purpose: it will be replayed, so nobody else should
        work on it; the broker frees its locks when they expire or with the connection.
        """
        if self._seat is not None:
            member = self._seat.member
            self._seat.locks.stop()
            in_progress = self._ledger.statistics().in_batch > 0
            for partition, ranges in self._ledger.ready().items():
                for first, last in ranges:
                    member.acknowledge(partition, first, last, b"\x02")
            if in_progress:
                await member.commit()
            await member.close(release=not in_progress, timeout_ms=CLOSE_MS)
        await self._cluster.close()

    def leaders(self, partitions: Sequence[TopicIdPartition]) -> dict[TopicIdPartition, Address]:
        """Where the leaders of these partitions are, as far as it is known."""
        metadata = self._cluster.metadata
        nodes = {p: metadata.nodes.get(metadata.leader(p) or 0) for p in partitions}
        return {p: node.address for p, node in nodes.items() if node is not None}

    def statistics(self) -> dict[str, Any]:
        """Numbers for the query's progress (``sources[].latestOffset``)."""
        now = self._ledger.statistics()
        return {
            "inFlight": now.in_batch,
            "prefetched": now.ready,
            "unconfirmed": now.unconfirmed,
            "redelivered": now.redelivered,
            "renewed": self._seat.locks.renewed if self._seat else 0,
            "partitions": len(self._seat.member.assignment) if self._seat else 0,
        }

    # --- joining ----------------------------------------------------------------------------------

    async def _join(self, start: BatchOffset) -> None:
        if self._seat is not None:
            return
        await self.connect()
        known = self._current if self._current.sequence else start
        await self._group.prepare(is_new_query=known.sequence == 0)
        member_id = known.member_id if known.group_id == self._options.group_id else None
        member = ShareMember(
            self._cluster,
            self._options.group_id,
            member_id=member_id or None,
            subscribed_topics=self._options.topics,
        )
        await member.start()
        self._seat = Seat(
            member,
            Settling(member, self._group, self._ledger),
            LockKeeper(member, self._ledger, self._turn),
        )

    def _adopt(self, offset: BatchOffset) -> None:
        self._current = offset
        if offset.group_id == self._options.group_id:
            self._ledger.adopt(offset)
        elif offset.sequence:
            log.warning(
                "the checkpoint is of group %s, the query now reads from group %s: nothing of the "
                "last batch is acknowledged",
                offset.group_id,
                self._options.group_id,
            )

    # --- acknowledging ----------------------------------------------------------------------------

    async def _settle(self, finished: BatchOffset) -> None:
        """The batch is committed in Spark: acknowledge it, once. Never raises for lost locks."""
        if finished.sequence > self._current.sequence:
            self._adopt(finished)
        elif finished.sequence < self._current.sequence:
            self._ledger.take_back()  # Spark asks again from an older offset: it lost the newer one
            self._current = finished
        if finished.sequence <= self._settled:
            return
        self._settled = finished.sequence
        await self._joined().settling.acknowledge(self._ledger.finished())
        await self._joined().settling.forget_passed(self._topics)

    # --- acquiring --------------------------------------------------------------------------------

    async def _collect(self, limit: int) -> None:
        """Acquire until ``limit`` records are ready or no more come at once; wait for the first."""
        loop = asyncio.get_running_loop()
        started = last_came = loop.time()
        # With an end in sight, ask at once whether it is reached, before waiting for more.
        wait_ms = self._options.poll_timeout_ms if self._targets is None else 0
        while True:
            ready = self._ledger.ready_count(self._targets)
            if ready >= limit or (ready and loop.time() - started > COLLECT_SECONDS):
                return
            async with self._turn:
                came = await self._fetch(limit - ready, 0 if ready else wait_ms)
            if came:
                last_came = loop.time()
            elif ready or await self._is_over(loop.time() - last_came):
                return
            wait_ms = self._options.poll_timeout_ms

    async def _is_over(self, idle_s: float) -> bool:
        """Nothing is ready and a fetch brought nothing: whether to tell Spark so."""
        if self._targets is None:
            return True
        assigned = self._joined().member.assignment
        if not assigned:  # Apache Kafka assigns a little after a member has joined
            return idle_s > ASSIGNMENT_SECONDS
        targets = {p: end for p, end in self._targets.items() if p in assigned}
        lock_s = (self._joined().member.lock_timeout_ms or LOCK_MS_DEFAULT) / 1000
        return await self._group.is_drained(self._topics, targets, idle_s, lock_s)

    async def _fetch(self, count: int, wait_ms: int) -> bool:
        """One fetch; whether it brought anything."""
        member = self._joined().member
        bare = member.can_acquire_without_records
        fetched = await member.fetch(
            max_records=count,
            max_bytes=FETCH_BYTES,
            max_wait_ms=wait_ms,
            without_records=bare,
        )
        again: dict[TopicIdPartition, list[Done]] = {}
        came = False
        for part in fetched:
            partition = TopicIdPartition(part.topic_id, part.partition)
            if part.error is not None:
                raise part.error
            self._topics[part.topic_id] = part.topic
            came = came or bool(part.acquired)
            ranges = [Acquired(*one) for one in part.acquired]
            again[partition] = self._ledger.acquired(partition, ranges)
        if came:  # now it is known how long locks last
            self._joined().locks.start()
        await self._joined().settling.acknowledge(again)
        return came

    def _offset_after(self, start: BatchOffset, count: int) -> BatchOffset:
        ranges = self._ledger.take(count, self._targets)
        if not ranges:
            return start
        done = self._ledger.done()
        ids = {partition.topic_id for partition in (*ranges, *done)}
        self._current = BatchOffset(
            sequence=start.sequence + 1,
            group_id=self._options.group_id,
            member_id=self._joined().member.member_id,
            topics={i: self._topics[i] for i in ids if i in self._topics},
            ranges=ranges,
            done=done,
        )
        return self._current

    def _outage(self, error: RetriableError) -> None:
        """A broker is away: the query waits, up to a limit."""
        now = asyncio.get_running_loop().time()
        if self._out_since is None:
            self._out_since = now
            log.warning("no records for now: %s", error)
        elif now - self._out_since > OUTAGE_SECONDS:
            raise error

    def _joined(self) -> Seat:
        assert self._seat is not None, "not joined"
        return self._seat
