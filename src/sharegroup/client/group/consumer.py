"""The consumer: reads the records of topics in order, alone or as a member of a consumer group.

::

    async with Consumer("orders", group_id="billing", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            print(record.partition, record.offset, record.value)

A group shares out the partitions among its members and remembers how far it has come with each
partition: the committed offset. A record counts as done when the application asks for the next one.
Records that are done are committed every five seconds, when partitions are given up, and at the
end.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Generic, Literal, Self

from sharegroup.client.closing import ended, finish
from sharegroup.client.core.committed_offsets import as_partition
from sharegroup.client.core.key_ranges import Assignment, ranges_given
from sharegroup.client.core.positions import Positions
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.core.record import ConsumerRecords, K, V
from sharegroup.client.core.setting_checks import check_positive, check_topics
from sharegroup.client.errors import IllegalState
from sharegroup.client.group.loops import RecordLoop
from sharegroup.client.group.parts import Parts
from sharegroup.client.group.polling import Asking
from sharegroup.client.group.rebalancing import RebalanceCallback
from sharegroup.client.group.settings import (
    ReadSettings,
    is_committed,
    member_settings,
    reset_timestamp,
)
from sharegroup.client.metrics import Metrics
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.records.decode import decoding_of
from sharegroup.client.security.properties import SecuritySettings
from sharegroup.client.wakeup import WakeupCall
from sharegroup.model.errors import ConfigError

log = logging.getLogger("sharegroup.client")


class Consumer(Asking[K, V], Generic[K, V]):
    """Reads topics. In ``Consumer[K, V]``, K and V are the types that the deserializers return.

    Args:
        topics: the subscription; :meth:`subscribe` changes it, :meth:`assign` takes its place.
        group_id: the consumer group. None: no group; partitions come from :meth:`assign`, and
            nothing is committed.
        bootstrap_servers: ``host:port,…`` or a list.
        group_protocol: ``consumer`` (KIP-848; the broker shares out the partitions) or
            ``classic``. If the broker does not have ``consumer``, the consumer falls back to
            ``classic``, and logs that.
        group_instance_id: a static member's name (KIP-345): closed and started again within the
            session time-out, it keeps its partitions.
        group_remote_assignor: for ``consumer``: ``uniform`` or ``range``; None: the broker's own.
        partition_assignment_strategy: for ``classic``: any of ``range``, ``roundrobin``,
            ``sticky`` and ``cooperative-sticky``, the best first. All members must have one in
            common.
        auto_offset_reset: where to begin in a partition that has no committed offset, or whose log
            does not have that offset any more: ``earliest``, ``latest``, ``by_duration:PT1H``, or
            ``none`` for an error.
        enable_auto_commit: commit the records that are done every ``auto_commit_interval_ms``.
        isolation_level: ``read_committed`` leaves out the records of aborted transactions, and
            of transactions under way.
        max_poll_records: the most records that a poll returns.
        max_poll_interval_ms: the member leaves the group when the application does not ask for
            records for this long.
        session_timeout_ms, heartbeat_interval_ms: for ``classic``; with ``consumer``, the broker's
            settings apply.
        fetch_min_bytes, fetch_max_wait_ms: how many bytes a broker waits for, and how long.
        max_partition_fetch_bytes: the most bytes of one partition in a fetch.
        metadata_max_age_ms: how often new partitions, and topics of a pattern, are looked for.
        key_ranges: share a partition with other members of the group by the keys of its records
            (KIP-X), when there are more members than partitions. Each key's records come to one
            member, in order. The group then commits ranges of offsets; the broker must be
            `sharegroup serve`, and the topic must have ``accept.range.fetch``.
        cooperative: share a partition with other members, whatever the keys: the broker gives each
            record to one of them (KIP-X). Needs what ``key_ranges`` needs, and ``consumer``.
        max_num_ranges_to_commit: with ``key_ranges`` or ``cooperative``, commit as soon as more
            ranges than these are to be committed.
        key_deserializer, value_deserializer: turn bytes into the application's objects; null stays
            None.
        security: TLS and SASL: a :class:`~sharegroup.client.Security`, or the properties of Java's
            clients or librdkafka for them; None: PLAINTEXT.
        cluster: connections to share with other clients; :meth:`close` does not close them.
    """

    def __init__(
        self,
        *topics: str,
        group_id: str | None = None,
        bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092",
        group_protocol: Literal["consumer", "classic"] = "consumer",
        group_instance_id: str | None = None,
        group_remote_assignor: str | None = None,
        partition_assignment_strategy: Sequence[str] = ("range", "cooperative-sticky"),
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        max_poll_records: int = 500,
        max_poll_interval_ms: int = 300_000,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 52_428_800,
        fetch_max_wait_ms: int = 500,
        max_partition_fetch_bytes: int = 1_048_576,
        check_crcs: bool = True,
        client_id: str = "sharegroup",
        client_rack: str | None = None,
        request_timeout_ms: int = 30_000,
        metadata_max_age_ms: int = 300_000,
        allow_auto_create_topics: bool = True,
        key_ranges: bool = False,
        cooperative: bool = False,
        max_num_ranges_to_commit: int = 10_000,
        security: SecuritySettings = None,
        cluster: Cluster | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        if group_id == "" or (topics and group_id is None):
            raise ConfigError("group_id is missing: name the consumer group")
        self._cluster = cluster or Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            allow_auto_create_topics=allow_auto_create_topics,
            security=security,
            jitter=jitter,
        )
        self._max_poll_records = check_positive("max_poll_records", max_poll_records)
        self._auto_commit_ms = check_positive("auto_commit_interval_ms", auto_commit_interval_ms)
        self._commits = enable_auto_commit and group_id is not None
        self._group_id, self._topics, self._owns_cluster = group_id, topics, cluster is None
        self._positions = Positions(reset_timestamp(auto_offset_reset))
        read = ReadSettings(
            min_bytes=fetch_min_bytes,
            max_bytes=fetch_max_bytes,
            partition_bytes=max_partition_fetch_bytes,
            max_wait_ms=fetch_max_wait_ms,
            committed=is_committed(isolation_level),
            rack_id=client_rack or "",
        )
        member = member_settings(
            group_id=group_id or "",
            protocol=group_protocol,
            instance_id=group_instance_id,
            rack_id=client_rack,
            assignor=group_remote_assignor,
            assignors=partition_assignment_strategy,
            times_ms=(session_timeout_ms, heartbeat_interval_ms, max_poll_interval_ms),
            sharing=(key_ranges, cooperative, max_num_ranges_to_commit),
        )
        self._decoding = decoding_of(check_crcs, key_deserializer, value_deserializer)
        check_topics(topics)
        self._read_committed = read.committed
        self._plug_in(
            Parts(
                self._cluster,
                self._positions,
                group_id,
                read=read,
                member=member,
                decoding=self._decoding,
                metadata_max_age_ms=metadata_max_age_ms,
                commits=self._commits,
            )
        )
        self._wakeup = WakeupCall()
        self._pattern: str | re.Pattern[str] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = False
        self._closing: asyncio.Task[None] | None = None

    def _plug_in(self, parts: Parts) -> None:
        self._parts, self._news, self._metrics = parts, parts.news, parts.metrics
        self._member, self._identity = parts.member, parts.identity
        self._fetcher, self._reader, self._lookup = parts.fetcher, parts.reader, parts.lookup
        self._committer, self._rebalancing = parts.committer, parts.rebalancing

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect, and begin to join the group; ``async with`` and the first :meth:`poll` do it by
        themselves. Partitions are assigned during polls.

        Raises:
            BootstrapError: no broker could be reached.
            KafkaError: the group's coordinator could not be reached.
        """
        self._check_usable()
        if not self._started:
            await self._cluster.start()
            self._loop = asyncio.get_running_loop()
            self._clock = self._loop.time
            self._started = True
        if (self._topics or self._pattern is not None) and not self._member.runs:
            self._cluster.watch(self._topics)
            await self._member.choose_protocol()
            self._member.subscribe(self._topics, self._pattern)
            self._member.start()
        if self._commits:
            self._committer.start(self._auto_commit_ms)

    async def close(self, *, timeout_ms: int = 30_000) -> None:
        """Commit the records that were returned, if commits are automatic; give up the partitions
        (which calls ``on_revoked``), leave the group and disconnect; all in at most ``timeout_ms``.
        A second call does nothing. After an exception in ``async with``, the record in work is not
        committed.

        If the caller is cancelled, the close has two more seconds; then the cancellation goes on.
        """
        if not self.closed:
            self._reader.asked()
        await self._finish(timeout_ms)

    async def _finish(self, timeout_ms: int) -> None:
        if self._closing is None:
            closing = self._close(timeout_ms)
            self._closing = asyncio.create_task(closing, name="consumer-close")
            self._closing.add_done_callback(lambda _: self._cut())  # the close may not have begun
            self._news.set()
        elif self._closing.done():
            return
        await finish(self._closing)

    async def _close(self, timeout_ms: int) -> None:
        try:
            if self._started and self._group_id is not None:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._give_up(timeout_ms)
        except TimeoutError:
            log.warning(
                "group %r: the consumer could not say good-bye within %d ms: its partitions are"
                " free when its session times out, and what was not committed comes again",
                self._group_id,
                timeout_ms,
            )
        finally:
            await ended(self._cut())

    async def _give_up(self, timeout_ms: int) -> None:
        """Commit, tell the application, and leave the group."""
        try:
            if self._commits:
                await self._committer.commit_done(timeout_ms)
            if self._member.runs:
                await self._rebalancing.give_up()
        finally:
            if self._member.runs:
                await self._member.leave(timeout_ms)

    def _cut(self) -> list[asyncio.Task[Any]]:
        """Abort everything without telling the group. Returns the cancelled tasks, which are about
        to end."""
        ending = self._parts.cut()
        if self._owns_cluster:
            ending += self._cluster.cut()
        return ending

    def __del__(self) -> None:
        if getattr(self, "_loop", None) is None or self.closed:
            return
        warnings.warn(
            f"a Consumer of group {self._group_id!r} was not closed: write "
            "`async with Consumer(...)`, or await its close()",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )
        self._forsake()

    def _forsake(self) -> None:
        """Abort without telling the group, from any thread, because nobody closed this consumer."""
        loop, self._loop = self._loop, None  # nothing is left to close, or to warn of
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._cut)

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
            await self._finish(30_000)

    @property
    def closed(self) -> bool:
        """The consumer has been closed, or is being closed."""
        return self._closing is not None

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
        self._check_usable()
        check_topics(topics)
        if self._group_id is None:
            raise IllegalState("without group_id there is no subscription: call assign()")
        if not self._member.runs and self._positions.assigned:
            raise IllegalState("partitions were assigned by assign(): call unsubscribe() first")
        if bool(topics) == (pattern is not None):
            raise IllegalState("name topics, or give a pattern; unsubscribe() ends it")
        rebalancing = self._rebalancing
        rebalancing.on_assigned = on_assigned
        rebalancing.on_revoked, rebalancing.on_lost = on_revoked, on_lost
        self._topics, self._pattern = topics, pattern
        if self._member.runs:
            self._cluster.watch(topics)
            self._member.subscribe(topics, pattern)

    def assign(self, partitions: Assignment) -> None:
        """Read exactly these partitions, or only the given :class:`KeyRange`s of each, instead of
        those that the group would assign. With a ``group_id``, reading begins at the group's
        committed offsets, which :meth:`commit` moves.

        Raises:
            IllegalState: there is a subscription.
            ValueError: there is no such key range.
        """
        self._check_usable()
        if self._topics or self._pattern is not None:
            raise IllegalState("topics are subscribed: call unsubscribe() first")
        wanted = {as_partition(where): own for where, own in ranges_given(partitions).items()}
        self._rebalancing.drop(self._positions.assigned - wanted.keys())
        self._cluster.watch({where.topic for where in wanted})
        self._positions.add(sorted(wanted), from_group=self._group_id is not None)
        for where, own in wanted.items():
            self._positions.read_ranges(where, own)

    async def unsubscribe(self) -> None:
        """Give up all partitions and leave the group; as :meth:`close`, without disconnecting."""
        self._check_usable()
        self._reader.asked()
        if self._started and self._group_id is not None:
            await self._give_up(self._cluster.request_timeout_ms)
        self._rebalancing.drop(self._positions.assigned)
        self._topics, self._pattern = (), None

    @property
    def subscription(self) -> tuple[str, ...]:
        """The subscribed topics; without the topics that match a pattern."""
        return tuple(self._topics)

    @property
    def group_protocol(self) -> str:
        """The protocol that this member uses: ``consumer`` or ``classic``."""
        return self._member.protocol

    def group_metadata(self) -> MemberIdentity:
        """This member's identity now, for ``Producer.send_offsets``.

        Raises:
            IllegalState: there is no group.
        """
        return self._identity.known()

    def metrics(self) -> Metrics:
        """Kafka's consumer metrics over the last 30 to 60 seconds: (group, name) → value. An
        average without samples is NaN.
        """
        return self._metrics.read()

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
        return await self._poll(timeout_ms / 1000)

    def __aiter__(self) -> RecordLoop[K, V]:
        """An endless loop over records. A record is done when the loop asks for the next one."""
        return RecordLoop(self)

    def wakeup(self) -> None:
        """End the waiting :meth:`poll`, or else the next one, with :class:`Wakeup`. Nothing is
        lost.
        """
        self._wakeup.ring()

    # --- inside -----------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self.closed:
            raise IllegalState("the consumer is closed")
