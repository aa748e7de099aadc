"""The driver's side of a stream: one member of the share group, for as long as the query runs.

It acquires ranges, records them in the :class:`Ledger`, renews their locks in the background, and
acknowledges a batch as soon as Spark shows that it is finished (:class:`Settlement`). While Spark
works on a batch the driver acquires the next one. All of it runs on one event loop;
:class:`ShareStreamReader` calls it from Spark's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from sharegroup.client.core import key_ranges
from sharegroup.client.network.addresses import Address
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.options.stream import ShareOptions
from sharegroup.spark.source.group_view import GroupQuestions, Offsets
from sharegroup.spark.source.holding.acquiring import FEW_RECORDS
from sharegroup.spark.source.membership import DriverMembership, join, leave, make_membership, reach
from sharegroup.spark.source.offsets import BatchOffset
from sharegroup.spark.source.settling.newest_batch import Settlement
from sharegroup.spark.source.subscription import StreamTopics
from sharegroup.spark.source.telling.reporting import Reporting
from sharegroup.spark.source.telling.same_group import SameGroup
from sharegroup.spark.source.throttled_task import ThrottledTask

OFFSET_MAX: Final = 2**63 - 1


class ShareDriver:
    """See the module. Not thread-safe: all methods run on one loop, one at a time."""

    def __init__(self, options: ShareOptions) -> None:
        self._options = options
        self._cluster = Cluster(
            options.bootstrap_servers,
            client_id=options.client_id,
            request_timeout_ms=options.request_timeout_ms,
            allow_auto_create_topics=False,
            security=options.security,
        )
        self._group = GroupQuestions(self._cluster, options)
        self._subscription = StreamTopics(self._cluster, options)
        self._settlement = Settlement(options, self._subscription)
        self._reporting = Reporting(
            options, self._group, self._subscription, self._settlement.ledger
        )
        self._same_group = SameGroup(options)
        self._targets: Offsets | None = None  # the ends of a run with Trigger.AvailableNow
        self._membership: DriverMembership | None = None
        age_s = options.metadata_max_age_ms / 1000
        self._topics = ThrottledTask(self._look_at_topics, age_s, "share-topics")

    # --- Spark's calls ----------------------------------------------------------------------------

    async def connect(self) -> None:
        """Reach the cluster and find the topics; once.

        Raises:
            BootstrapError: no broker answered within seconds; the text names the addresses.
            ConfigError: there is no such topic.
        """
        if not self._subscription.topics:
            await reach(self._cluster)
            await self._subscription.find()
            self._same_group.watch()

    async def set_targets(self) -> None:
        """Limit this run to the records that are in the log now (Trigger.AvailableNow)."""
        await self.connect()
        self._targets = await self._group.end_offsets(self._subscription.topics)

    async def latest_offset(self, start: BatchOffset, limit: int | None) -> BatchOffset:
        """Settle all batches up to ``start``, then acquire the next batch.

        Returns:
            ``start`` itself when there is nothing to read now. A run with an end
            (Trigger.AvailableNow) ends with an empty batch, whose progress shows that the batches
            before it are settled.

        Raises:
            Unanswered: no record of the previous batch has an answer.
            FolderTaken: another query uses ``ackLocation``.
        """
        now = asyncio.get_running_loop().time
        settlement = self._settlement
        if settlement.inbox is not None and start.sequence == 0:
            await self.connect()
            return await settlement.opening()
        membership = await self._joined(start)
        membership.prefetcher.end()
        began = now()
        self._reporting.asked(membership)
        await settlement.settle(start, is_newest=True)
        await settlement.check_answered(self.leaders)
        settled = now()
        most = await membership.acquirer.collect(limit)
        self._reporting.collected()
        took_s = now() - settled
        if membership.run.untold and not settlement.ledger.ready_count(membership.run.targets):
            await self._reporting.lag.now()  # the closing batch: its progress is the run's last
        after = self._offset_after(start, most, membership, (took_s, settled - began))
        if after.ranges and after is not start:
            self._given(start, after, membership, limit)
        self._reporting.lag.refresh()
        self._topics.ask()
        return after

    async def replay(self, end: BatchOffset) -> BatchOffset:
        """Spark runs the batch ``end``, perhaps again: see :meth:`Settlement.replay`."""
        await self.connect()
        return await self._settlement.replay(end, self._group)

    async def settle(self, end: BatchOffset) -> None:
        """The batch ``end`` is committed; usually ``latest_offset(end)`` has settled it already."""
        self._reporting.advice.committed(end.sequence)
        await self._settlement.settle(end)

    async def close(self) -> None:
        """Leave the group; the records of a batch under way stay locked: see :func:`leave`."""
        self._reporting.stop()
        self._topics.stop()
        self._same_group.close()
        try:
            if self._membership is not None:
                await leave(self._membership, self._settlement)
            await self._cluster.close()
        finally:
            self._settlement.close()

    def leaders(self, partitions: Sequence[TopicIdPartition]) -> dict[TopicIdPartition, Address]:
        """The addresses of the leaders of these partitions, as far as they are known."""
        metadata = self._cluster.metadata
        nodes = {p: metadata.nodes.get(metadata.leader(p) or 0) for p in partitions}
        return {p: node.address for p, node in nodes.items() if node is not None}

    @property
    def fetches_by_key(self) -> bool:
        """Whether the brokers are able to send only the records of some keys (KIP-X)."""
        return key_ranges.FEATURE in self._cluster.features

    async def statistics(self) -> dict[str, Any] | None:
        """Numbers for the query's progress (``sources[].latestOffset``). They are of one moment,
        because nothing else runs on the loop meanwhile."""
        if self._membership is None:
            return None
        return self._reporting.statistics(len(self._membership.member.assignment))

    # --- steps ------------------------------------------------------------------------------------

    async def _joined(self, start: BatchOffset) -> DriverMembership:
        """Join the group, the first time; ``start`` is the newest offset of the checkpoint."""
        reporting, settlement = self._reporting, self._settlement
        if reporting.progress is None:
            await self.connect()
        await settlement.open_inbox()
        if self._membership is not None and reporting.progress is not None:
            return self._membership
        known = await settlement.load(start)
        member_id = known.member_id if known.group_id == self._options.group_id else None
        membership = self._membership = make_membership(
            self._cluster,
            self._group,
            self._subscription,
            settlement,
            self._options,
            member_id or None,
            self._targets,
        )
        await join(membership, self._group, self._subscription, not known.member_id)
        if membership.claimer is not None:
            await reporting.look_at_configs()
            few = reporting.locks_per_partition or FEW_RECORDS
            membership.acquirer.few = min(FEW_RECORDS, few)
        reporting.begin(membership)
        return membership

    def _offset_after(
        self,
        start: BatchOffset,
        most: int,
        membership: DriverMembership,
        seconds: tuple[float, float],
    ) -> BatchOffset:
        ranges = self._settlement.ledger.take(most, membership.run.targets)
        progress = self._reporting.progress
        if progress is None or not (ranges or membership.run.untold):
            return start
        membership.run.given(has_records=bool(ranges))
        numbers = progress.numbers(*seconds)
        return self._settlement.given(start, ranges, membership.member.member_id, numbers)

    def _given(
        self,
        start: BatchOffset,
        batch: BatchOffset,
        membership: DriverMembership,
        limit: int | None,
    ) -> None:
        """Spark works on the batch from now on; start to acquire the next one.

        Prefetching waits until this process has finished a batch: a query that fails in its first
        batch, again and again, would otherwise use up deliveries of records that it never works
        on. Without renewal there is no prefetching, because the locks of prefetched records begin
        before Spark works on them.
        """
        lasting = membership.locks.possible or membership.claimer is not None
        if self._options.prefetch and lasting and self._settlement.has_settled:
            membership.prefetcher.begin(limit)
        self._reporting.given(start, batch, limit)

    async def _look_at_topics(self) -> None:
        """Subscribe to the topics that a pattern matches now, and forget the records of deleted
        topics."""
        gone = await self._subscription.refresh()
        names, ledger = self._subscription.names, self._settlement.ledger
        assert self._membership is not None, "not joined"
        member = self._membership.member
        if names and sorted(names) != list(member.topics):
            member.subscribe(names)
        for partition, ranges in ledger.locked().items():
            if partition.topic_id in gone:
                ledger.lost(partition, ranges)
        for partition in ledger.done():
            if partition.topic_id in gone:
                ledger.passed(partition, OFFSET_MAX)
