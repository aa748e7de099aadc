"""The driver's side of a stream: one member of the share group, for as long as the query runs.

It acquires ranges, records them in the :class:`Ledger`, renews their locks in the background, and
acknowledges a batch as soon as Spark shows that it is finished. All of it runs on one event
loop; :class:`ShareStreamReader` calls it from Spark's thread.

A batch is settled when Spark passes its offset as ``start`` of ``latestOffset``: then its results
are committed. Acknowledgements that the broker does not confirm stay in the ledger as done, and go
into the next offset. When such a record is delivered again, it is acknowledged and not processed.
While Spark works on a batch the driver acquires the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from sharegroup.client.addresses import Address
from sharegroup.client.cluster import Cluster
from sharegroup.client.core.acknowledgements import AckType
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.ack_files import Inbox, make_inbox
from sharegroup.spark.options.stream import ShareOptions
from sharegroup.spark.ranges import size
from sharegroup.spark.source.acquiring import FEW_RECORDS, Targets
from sharegroup.spark.source.advice import Advice
from sharegroup.spark.source.available_now import AvailableNow
from sharegroup.spark.source.claiming import make_claims, make_ledger, open_claims
from sharegroup.spark.source.commit_watch import CommitWatch
from sharegroup.spark.source.group_view import GroupView
from sharegroup.spark.source.lag import Lag
from sharegroup.spark.source.ledger import Decided
from sharegroup.spark.source.lost_locks import still_wanted
from sharegroup.spark.source.membership import Membership, join, make_membership, reach
from sharegroup.spark.source.offsets import BatchOffset
from sharegroup.spark.source.progress import Progress
from sharegroup.spark.source.subscription import Subscription
from sharegroup.spark.source.throttled_task import ThrottledTask
from sharegroup.spark.source.unanswered import check_answered

log = logging.getLogger("sharegroup.spark")

OFFSET_MAX: Final = 2**63 - 1
CLOSE_MS: Final = 1_500
"""Spark does not wait for a source that stops."""


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
        self._subscription = Subscription(self._cluster, options)
        self._ledger = make_ledger(options)
        self._inbox = make_inbox(options)
        self._claims = make_claims(options)
        self._membership: Membership | None = None
        self._progress: Progress | None = None
        self._advice = Advice(options)
        self._current = BatchOffset()  # the newest offset that Spark has
        self._replayed = BatchOffset(), BatchOffset()  # of another process; its part to process
        self._settled = self._inherited = 0
        self._silent: tuple[BatchOffset, Decided] | None = None  # a batch without any answer
        self._untold = False  # an ending run settled a batch that no progress has shown
        self._given_at = 0.0
        self._targets: Targets | None = None
        self._run: AvailableNow | None = None
        self._locks_per_partition: int | None = None
        self._watch = CommitWatch(
            self._inbox, lambda: self._subscription.names, self._settle_committed
        )
        self._turn = asyncio.Lock()  # requests for Spark, prefetching and renewal take turns
        self._lag = Lag(self._group, self._subscription, self._ledger)
        age_s = options.metadata_max_age_ms / 1000
        self._topics = ThrottledTask(self._look_at_topics, age_s, "share-topics")
        self._configs = ThrottledTask(self._look_at_configs, float("inf"), "share-configs")

    # --- Spark's calls ----------------------------------------------------------------------------

    async def connect(self) -> None:
        """Reach the cluster and find the topics; once.

        Raises:
            BootstrapError: no broker answered within seconds; it names the addresses.
            ConfigError: there is no such topic.
        """
        if not self._subscription.topics:
            await reach(self._cluster)
            await self._subscription.find()

    async def set_targets(self) -> None:
        """Limit this run to the records that are in the log now (Trigger.AvailableNow)."""
        await self.connect()
        self._targets = await self._group.end_offsets(self._subscription.topics)

    async def latest_offset(self, start: BatchOffset, limit: int | None) -> BatchOffset:
        """Settle everything up to ``start``, then acquire the next batch.

        Returns:
            ``start`` itself when there is nothing to read now. A run with an end
            (Trigger.AvailableNow) ends with an empty batch, whose progress shows that the batches
            before it are settled.

        Raises:
            Unanswered: no record of the batch before has an answer.
            FolderTaken: another query uses ``ackLocation``.
        """
        now = asyncio.get_running_loop().time
        if self._inbox is not None and start.sequence == 0:
            return await self._opening(self._inbox)
        await self._join(start)
        membership = self._joined()
        membership.prefetcher.end()
        self._watch.end()
        began = now()
        if self._given_at and not membership.locks.possible:
            self._advice.batch_time(began - self._given_at, membership.member.lock_timeout_ms)
        async with self._turn:
            await self._settle(start)
        if self._silent is not None:
            batch, decided = self._silent
            leaders = self.leaders(tuple(batch.ranges))
            await asyncio.to_thread(check_answered, batch, decided, leaders, self._options)
            self._silent = None
        settled = now()
        most = await membership.acquirer.collect(limit, self._is_over)
        self._given_at = now()
        if self._untold and not self._ledger.ready_count(self._targets):
            await self._lag.now()
        after = self._offset_after(start, most, self._given_at - settled, settled - began)
        if after is not start and after.ranges:
            self._given(start, after, limit)
        self._lag.refresh()
        self._topics.ask()
        return after

    async def replay(self, end: BatchOffset) -> BatchOffset:
        """Spark runs the batch ``end``, perhaps again. If another process acquired it, take it
        over.

        Returns:
            The part of it to process.

        Raises:
            LostLocks: the group has finished some of its records meanwhile (``onLostLocks`` fail).
        """
        await self.connect()
        if self._inbox is not None:  # before the sink of the batch looks for it
            await self._inbox.open({*self._subscription.names, *end.topics.values()})
        async with self._turn:
            if end.sequence > self._current.sequence:
                if end.group_id == self._options.group_id:
                    policy = self._options.on_lost_locks
                    self._replayed = end, await still_wanted(end, self._group, policy)
                self._adopt(end)
        replayed, wanted = self._replayed
        return wanted if replayed == end else end

    async def settle(self, end: BatchOffset) -> None:
        """The batch ``end`` is committed; usually ``latest_offset(end)`` has settled it already."""
        self._advice.committed(end.sequence)
        if self._membership is None or end.sequence < self._current.sequence:
            return
        async with self._turn:
            await self._settle(end)

    async def close(self) -> None:
        """Release the records that Spark was never given, and leave the group.

        The records of a batch under way are not released, on purpose: the batch will be replayed,
        so no other member should process it. The broker frees its locks when they expire or when
        the connection ends.
        """
        for background in (self._lag, self._topics, self._configs):
            background.stop()
        try:
            if self._membership is not None:
                await self._leave(self._membership)
            await self._cluster.close()
        finally:
            if self._inbox is not None:
                self._inbox.close()
            if self._claims is not None:
                self._claims.close()

    def leaders(self, partitions: Sequence[TopicIdPartition]) -> dict[TopicIdPartition, Address]:
        """The addresses of the leaders of these partitions, as far as they are known."""
        metadata = self._cluster.metadata
        nodes = {p: metadata.nodes.get(metadata.leader(p) or 0) for p in partitions}
        return {p: node.address for p, node in nodes.items() if node is not None}

    def statistics(self) -> dict[str, Any] | None:
        """Numbers for the query's progress (``sources[].latestOffset``)."""
        if self._progress is None:
            return None
        return self._progress.report(len(self._joined().member.assignment))

    # --- joining and leaving ----------------------------------------------------------------------

    async def _opening(self, inbox: Inbox) -> BatchOffset:
        """The empty first batch of a query in explicit mode: mistakes in the sink show before any
        record is acquired."""
        await self.connect()
        await inbox.open(self._subscription.names)
        inbox.discard(self._subscription.names)
        self._current = BatchOffset(sequence=1, group_id=self._options.group_id)
        return self._current

    async def _join(self, start: BatchOffset) -> None:
        if self._progress is None:
            await self.connect()
        if self._inbox is not None:
            await self._inbox.open(self._subscription.names)
        if self._progress is not None:
            return
        known = self._current if self._current.sequence else start
        await open_claims(self._claims, self._ledger, known)
        member_id = known.member_id if known.group_id == self._options.group_id else None
        self._membership = make_membership(
            self._cluster,
            self._subscription,
            self._ledger,
            self._turn,
            self._options,
            member_id or None,
            self._inbox,
            self._claims,
        )
        self._membership.acquirer.targets = self._targets
        await join(self._membership, self._group, self._subscription, not known.member_id)
        if self._claims is not None:
            await self._look_at_configs()
            few = self._locks_per_partition or FEW_RECORDS
            self._membership.acquirer.few = min(FEW_RECORDS, few)
        self._progress = Progress(self._ledger.statistics, self._membership.locks, self._lag)

    async def _leave(self, membership: Membership) -> None:
        member = membership.member
        self._watch.end()
        await self._watch.check(self._current.sequence)
        membership.prefetcher.stop()
        membership.locks.stop()
        membership.holds.stop()
        in_progress = self._claims is None and self._ledger.statistics().in_batch > 0
        if membership.claimer is not None:
            await membership.claimer.finish()
        for partition, ranges in self._ledger.spare().items():
            for first, last in ranges:
                member.acknowledge(partition, first, last, bytes([AckType.RELEASE]))
        if in_progress:
            await member.commit()
        await member.close(release=not in_progress, timeout_ms=CLOSE_MS)

    def _adopt(self, offset: BatchOffset) -> None:
        self._current = offset
        self._inherited = offset.sequence
        self._subscription.topics.update(offset.topics)
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
        """Spark has committed the batch: acknowledge it, once. Never raises for lost locks."""
        if finished.sequence > self._current.sequence:
            self._adopt(finished)
        elif finished.sequence < self._current.sequence:
            self._ledger.take_back()  # Spark asks again from an older offset: it lost the newer one
            self._current = finished
        if finished.sequence <= self._settled or not finished.ranges:
            return
        self._settled = finished.sequence
        membership = self._joined()
        inherited = finished.sequence == self._inherited
        decided = await membership.settling.finish(self._subscription.topics, inherited=inherited)
        if decided is not None:
            self._without_answers(finished, decided, inherited=inherited)
        if membership.claimer is not None:
            await membership.claimer.settled(finished)
        membership.holds.look()

    def _without_answers(self, batch: BatchOffset, decided: Decided, *, inherited: bool) -> None:
        """No record of the batch has an answer: make Spark's next call fail, unless ``defaultAck``
        is set. A batch of an earlier run only warns: the program may be corrected by now."""
        if self._options.default_ack is not None:
            return
        if inherited:
            log.warning("no record of the last batch of the run before has an answer: released")
        else:
            self._silent = batch, decided

    async def _settle_committed(self, sequence: int) -> None:
        """Settle a batch that Spark has committed before Spark calls. While we waited for our turn
        Spark may have called and got a later batch: that one is not finished, so do nothing."""
        async with self._turn:
            if sequence == self._current.sequence:
                await self._settle(self._current)

    # --- acquiring --------------------------------------------------------------------------------

    async def _is_over(self, idle_s: float) -> bool:
        """Whether to tell Spark that there is nothing; called when a fetch brought nothing."""
        if self._targets is None:
            return True
        if self._run is None:
            member = self._joined().member
            self._run = AvailableNow(self._targets, member, self._group, self._subscription)
        held = {partition: size(ranges) for partition, ranges in self._ledger.held().items()}
        return await self._run.is_read(held, idle_s)

    def _offset_after(
        self, start: BatchOffset, most: int, took_s: float, settle_s: float
    ) -> BatchOffset:
        ranges = self._ledger.take(most, self._targets)
        if self._progress is None or not (ranges or self._untold):
            return start
        self._untold = self._targets is not None and bool(ranges)
        done = self._ledger.done()
        names = {**self._ledger.topics, **self._subscription.topics}
        ids = {partition.topic_id for partition in (*ranges, *done)}
        self._current = BatchOffset(
            sequence=start.sequence + 1,
            group_id=self._options.group_id,
            member_id=self._joined().member.member_id,
            topics={i: names[i] for i in ids if i in names},
            ranges=ranges,
            done=done,
            claims=self._ledger.position,
            numbers=self._progress.numbers(took_s, settle_s),
        )
        return self._current

    def _given(self, start: BatchOffset, batch: BatchOffset, limit: int | None) -> None:
        """Spark works on the batch from now on; start to acquire the next one.

        Prefetching waits until this process has finished a batch: a query that fails in its first
        batch, again and again, would otherwise use up deliveries of records that it never works
        on. There is no prefetching without renewal: locks begin before Spark works on the batch.
        """
        self._watch.begin(batch.sequence)
        membership = self._joined()
        lasting = membership.locks.possible or membership.claimer is not None
        if self._options.prefetch and lasting and self._settled:
            membership.prefetcher.begin(limit)
        if start.sequence:
            self._advice.superseded(start.sequence)
        if limit is None or batch.records < limit:
            self._configs.ask()
            self._advice.locks(batch, limit, self._locks_per_partition)

    # --- looking around ---------------------------------------------------------------------------

    async def _look_at_topics(self) -> None:
        """A pattern may match other topics now; forget what is left of a deleted topic."""
        gone = await self._subscription.refresh()
        names, member = self._subscription.names, self._joined().member
        if names and sorted(names) != list(member.topics):
            member.subscribe(names)
        for partition, ranges in self._ledger.locked().items():
            if partition.topic_id in gone:
                self._ledger.lost(partition, ranges)
        for partition in self._ledger.done():
            if partition.topic_id in gone:
                self._ledger.passed(partition, OFFSET_MAX)

    async def _look_at_configs(self) -> None:
        try:
            self._locks_per_partition = await self._group.locks_per_partition()
        except KafkaError as error:
            log.info("how many locks the group may hold is not known: %s", error)

    def _joined(self) -> Membership:
        assert self._membership is not None, "not joined"
        return self._membership
