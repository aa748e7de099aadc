"""The consumer: reads the records of topics in order, alone or as a member of a consumer group.

::

    async with Consumer("orders", group_id="billing", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            print(record.partition, record.offset, record.value)

A group shares out the partitions among its members and remembers how far it has come with each
partition: the committed offset. A record counts as done when the application asks for the next one.
Records that are done are committed every five seconds, when partitions are given up, and at the
end.

The consumer has its parts (:mod:`sharegroup.client.group`), and nothing but verbs.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Generic, Self, Unpack

from sharegroup.client.admin.descriptions import ListedOffset
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.key_ranges import Assignment, KeyRanges
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.core.record import ConsumerRecords, K, V
from sharegroup.client.core.shown_settings import shows
from sharegroup.client.group.calls import ConsumerCalls, consumer_calls
from sharegroup.client.group.loops import ArrowLoop, BatchLoop, RecordLoop
from sharegroup.client.group.offsets import Committed
from sharegroup.client.group.rebalancing import RebalanceCallback
from sharegroup.client.group.settings import CheckedConsumerSettings, ConsumerSettings
from sharegroup.client.metrics import Metrics
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.worker.key_pool import KeyPool, OnFailure, PoolSettings
from sharegroup.client.worker.retry import Backoff
from sharegroup.model.ids import TopicPartition


class Consumer(Generic[K, V]):
    """Reads topics. In ``Consumer[K, V]``, K and V are the types that the deserializers return.

    Args:
        topics: the subscription; :meth:`subscribe` changes it, :meth:`assign` takes its place.
        cluster: connections to share with other clients; :meth:`close` does not close them.
        settings: see :class:`~sharegroup.client.group.settings.ConsumerSettings`.

    Raises:
        ConfigError: a setting is wrong.
        TypeError: there is no such setting.
    """

    @shows(CheckedConsumerSettings)
    def __init__(
        self,
        *topics: str,
        cluster: Cluster | None = None,
        **settings: Unpack[ConsumerSettings[K, V]],
    ) -> None:
        self._calls: ConsumerCalls[K, V] = consumer_calls(topics, settings, cluster)
        self._parts, self._life = self._calls.parts, self._calls.life
        self._polling, self._offsets = self._calls.polling, self._calls.offsets
        self._subscription = self._calls.subscription

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect, and begin to join the group; ``async with`` and the first :meth:`poll` do it by
        themselves. Partitions are assigned during polls.

        Raises:
            BootstrapError: no broker could be reached.
            KafkaError: the group's coordinator could not be reached.
        """
        await self._life.start()

    async def close(self, *, timeout_ms: int = 30_000) -> None:
        """Commit the records that were returned, if commits are automatic; give up the partitions
        (which calls ``on_revoked``), leave the group and disconnect; all in at most ``timeout_ms``.
        A second call does nothing. After an exception in ``async with``, the record in work is not
        committed.

        If the caller is cancelled, the close has two more seconds; then the cancellation goes on.
        """
        await self._life.close(timeout_ms)

    def __del__(self) -> None:
        life = getattr(self, "_life", None)
        if life is None or not life.left_open:
            return
        warnings.warn(
            f"a Consumer of group {self._parts.settings.group_id!r} was not closed: write "
            "`async with Consumer(...)`, or await its close()",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )
        life.forsake()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        else:
            await self._life.finish(30_000)

    @property
    def closed(self) -> bool:
        """The consumer has been closed, or is being closed."""
        return self._life.closed

    # --- what to read -----------------------------------------------------------------------------

    def subscribe(
        self,
        *topics: str,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Replace the subscription. The group assigns partitions anew, during the next polls.

        Args:
            pattern: all topics whose whole name matches. Text goes to the broker, where it is an
                expression of RE2 (with the classic protocol it is compared here); a compiled
                pattern is compared with all topics here.
            on_assigned: called within :meth:`poll` with new partitions, before they are read: it
                is in time to :meth:`seek`.
            on_revoked: called within :meth:`poll` and :meth:`close` before partitions are given
                up: it is in time to :meth:`commit`.
            on_lost: called instead of ``on_revoked`` when other members may have the partitions
                already; None: ``on_revoked`` is called.

        Raises:
            IllegalState: there is no group, or partitions were assigned by :meth:`assign`.
        """
        self._subscription.subscribe(topics, pattern, on_assigned, on_revoked, on_lost)

    def assign(self, partitions: Assignment) -> None:
        """Read exactly these partitions, or only the given :class:`KeyRange`s of each, instead of
        those that the group would assign. With a ``group_id``, reading begins at the group's
        committed offsets, which :meth:`commit` moves.

        Raises:
            IllegalState: there is a subscription.
            ValueError: there is no such key range.
        """
        self._subscription.assign(partitions)

    async def unsubscribe(self) -> None:
        """Give up all partitions and leave the group; as :meth:`close`, without disconnecting."""
        await self._life.unsubscribe()

    @property
    def subscription(self) -> tuple[str, ...]:
        """The subscribed topics; without the topics that match a pattern."""
        return self._subscription.topics

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, sorted."""
        return self._subscription.assignment

    @property
    def key_ranges(self) -> dict[TopicPartition, KeyRanges]:
        """Partition → the key ranges that are read of it; without partitions read whole."""
        return self._subscription.key_ranges

    @property
    def group_protocol(self) -> str:
        """The protocol that this member uses: ``consumer`` or ``classic``."""
        return self._parts.member.protocol

    def group_metadata(self) -> MemberIdentity:
        """This member's identity now, for ``Producer.send_offsets``.

        Raises:
            IllegalState: there is no group.
        """
        return self._parts.identity.known()

    def metrics(self) -> Metrics:
        """Kafka's consumer metrics over the last 30 to 60 seconds: (group, name) → value. An
        average without samples is NaN.
        """
        return self._parts.metrics.read()

    # --- records ----------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1_000) -> ConsumerRecords[K, V]:
        """The next records; empty when there were none within ``timeout_ms``.

        Records of one partition ascend in offset. The records of the previous poll count as done
        now. Callbacks of :meth:`subscribe` run in here, for as long as they take. Cancelling a poll
        loses nothing.

        Raises:
            IllegalState: nothing is subscribed or assigned; or another poll is running.
            NoOffsetForPartition, OffsetOutOfRange: ``auto_offset_reset`` is ``none``.
            CorruptRecordBatch: a batch is damaged. The next poll goes on after it.
            RecordDeserializationError: a deserializer failed. The next poll raises it again, unless
                :meth:`seek` goes to an offset after the record.
            Wakeup: :meth:`wakeup` was called.
            KafkaError: the group or the broker refuses for good.
        """
        return await self._polling.poll_records(timeout_ms / 1000)

    def __aiter__(self) -> RecordLoop[K, V]:
        """An endless loop over records. A record is done when the loop asks for the next one."""
        return RecordLoop(self._polling, self)

    def batches(self, timeout_ms: int = 1_000) -> BatchLoop[K, V]:
        """An endless loop over the results of :meth:`poll`, without the empty ones."""
        return BatchLoop(self._polling, self, timeout_ms / 1000)

    def arrow_batches(
        self,
        *,
        max_records: int = 50_000,
        include_headers: bool = False,
        idle_timeout_ms: int | None = None,
    ) -> ArrowLoop:
        """An endless loop over Arrow record batches, each of one partition, with the columns key,
        value, topic, partition, offset, timestamp[, headers]. A batch is done when the loop asks
        for the next one.

        Args:
            max_records: the most rows of a batch.
            idle_timeout_ms: end after this long without records, counted from the first assignment
                of partitions; None: never.

        Raises:
            ConfigError: NumPy or PyArrow is missing, or deserializers are set.
            IllegalState: this consumer has given records in another form.
        """
        return ArrowLoop(self._polling, self, max_records, include_headers, idle_timeout_ms)

    def by_key(
        self,
        workers: int,
        *,
        max_in_flight: int | None = None,
        retry: Backoff | None = None,
        fatal: Sequence[type[Exception]] = (),
        on_failure: OnFailure[K, V] | None = None,
        commit_interval_s: float = 5.0,
        drain_s: float = 30.0,
    ) -> KeyPool[K, V]:
        """A pool that handles up to ``workers`` keys at once, each key's records one after the
        other; records without a key in any order. The pool commits the records that are done,
        even without ``enable_auto_commit``.

        Args:
            max_in_flight: the most records that the pool holds; None: ten for each worker. When it
                holds as many, it takes no more until half of them are done.
            retry: the pauses after a failure, and how often a record is tried; ``attempts=None``
                is five times. During a pause only the record's own key waits.
            fatal: exceptions after which a record is not tried again, as after ``Reject``.
            on_failure: called with a record that is given up and its error; when it returns, the
                record is done. None: the run ends with :class:`HandlerFailed`.
            commit_interval_s: the seconds between commits.
            drain_s: how many seconds running handlers may take when their partitions are given up,
                and at the end. After that time their records come again.

        Raises:
            ConfigError: an argument is invalid.
            IllegalState: there is no group.
        """
        settings = PoolSettings(
            workers=workers,
            max_in_flight=max_in_flight,
            retry=retry or Backoff(),
            fatal=fatal,
            commit_interval_s=commit_interval_s,
            drain_s=drain_s,
        )
        return KeyPool(self._calls, self, settings, on_failure)

    def wakeup(self) -> None:
        """End the waiting :meth:`poll`, or else the next one, with :class:`Wakeup`. Nothing is
        lost.
        """
        self._parts.wakeup.ring()

    # --- positions --------------------------------------------------------------------------------

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """The next record of this partition is the one at ``offset``.

        Raises:
            IllegalState: the partition is not assigned.
            ValueError: the offset is negative.
        """
        self._offsets.seek(topic, partition, offset)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go on at the first record of these partitions; without arguments, of all partitions."""
        self._offsets.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go on after the last record of these partitions; without arguments, of all partitions."""
        self._offsets.seek_to_end(*partitions)

    async def position(self, topic: str, partition: int) -> int:
        """The offset of the next record of this partition. Waits until it is known.

        Raises:
            IllegalState: the partition is not assigned.
            RequestTimedOut: the offset is not known after ``request_timeout_ms``.
        """
        return await self._offsets.position(topic, partition)

    def current_lag(self, topic: str, partition: int) -> int | None:
        """How many offsets lie between the next record of this partition and its end, as the last
        fetch saw it (Java: currentLag); None: not known yet. Asks no broker.

        Raises:
            IllegalState: the partition is not assigned.
        """
        return self._offsets.current_lag(topic, partition)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of these partitions until :meth:`resume`."""
        self._offsets.pause(*partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of these partitions again."""
        self._offsets.resume(*partitions)

    @property
    def paused(self) -> list[TopicPartition]:
        """The paused partitions, sorted."""
        return self._offsets.paused

    # --- committed offsets ------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Committed | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit, and wait until the group has the offsets.

        Args:
            offsets: offsets by partition; or, with ``key_ranges=True`` or ``cooperative=True``, one
                or several records, in any order. None: the positions after all records that were
                returned; in a loop's body, that includes the record in work. Records of a topic
                that was deleted and made anew since they were read are left out, and logged.

        Raises:
            IllegalState: single records were given without ``key_ranges=True`` or
                ``cooperative=True``; or offsets by partition with ``cooperative=True``.
            RebalanceInProgress, IllegalGeneration, UnknownMemberId, FencedMemberEpoch: this member
                has lost its partitions, or must give them up: the members that get them begin at
                the offsets that were committed before. Or a topic was deleted and made anew.
            UnknownTopicOrPartition: a topic was deleted. All other offsets are committed.
            KafkaError: the broker refuses, or could not be reached within ``timeout_ms``.
        """
        await self._offsets.commit(offsets, timeout_ms=timeout_ms)

    async def committed(
        self, *partitions: tuple[str, int]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offset in each of these partitions, with the single records that
        are committed after it (``ranges``); None: the group has committed nothing there.
        """
        return await self._offsets.committed(*partitions)

    # --- of the log -------------------------------------------------------------------------------

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """The first record of each partition that is not older than this time (ms since 1970);
        None: there is no such record.

        Raises:
            ValueError: a time is negative.
            UnknownTopicOrPartition: there is no such partition.
        """
        return await self._offsets.offsets_for_times(times)

    async def beginning_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """The offset of each partition's first record; without arguments, of all assigned
        partitions.

        Raises:
            UnknownTopicOrPartition: there is no such partition.
        """
        return await self._offsets.beginning_offsets(*partitions)

    async def end_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """The offset after each partition's last record that may be read: with
        ``read_committed``, the last one before the first transaction under way. Without arguments,
        of all assigned partitions.

        Raises:
            UnknownTopicOrPartition: there is no such partition.
        """
        return await self._offsets.end_offsets(*partitions)
