"""The share consumer: takes records of a share group, one by one or in batches, and acknowledges
them.

::

    async with ShareConsumer("orders", group_id="billing") as consumer:
        async for record in consumer:
            print(record.value, record.delivery_count)

A record is accepted when the loop asks for the next one. If the loop ends in any other way, the
record in work is released and delivered again, to any member
(:mod:`sharegroup.client.share.loops`).
"""

from __future__ import annotations

import asyncio
import random
import warnings
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

from sharegroup.client.admin.admin import Admin
from sharegroup.client.closing import ended, finish
from sharegroup.client.core.held_deliveries import Holdings
from sharegroup.client.core.record import K, Records, V
from sharegroup.client.core.setting_checks import check_positive, check_topics
from sharegroup.client.errors import IllegalState
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.metadata import PartitionNames
from sharegroup.client.records.decode import decode_all, decoding_of
from sharegroup.client.security.properties import SecuritySettings
from sharegroup.client.share.answering import Answering
from sharegroup.client.share.commit_callback import AckCallback, CommitCallback
from sharegroup.client.share.committer import Committer
from sharegroup.client.share.fetcher import Fetcher, FetchSettings
from sharegroup.client.share.loop_exits import Leaving
from sharegroup.client.share.loops import ArrowLoop, BatchLoop, RecordLoop, asking_task
from sharegroup.client.share.metrics import Metrics
from sharegroup.client.share.polling import GIVE_UP_S, Asking
from sharegroup.client.share.receiver import Receiver
from sharegroup.client.share.running import Running
from sharegroup.client.share.settings import check_group, is_strict, mode_of
from sharegroup.client.share.share_member import ShareMember
from sharegroup.client.wakeup import WakeupCall
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition


class ShareConsumer(Answering, Asking, Running[K, V]):
    """A member of a share group (KIP-932). In ``ShareConsumer[K, V]``, K and V are the types that
    the deserializers return.

    Args:
        topics: the subscription; :meth:`subscribe` changes it.
        group_id: the share group.
        auto_offset_reset: where the group begins if it does not exist yet: ``earliest``, ``latest``
            or ``by_duration:PT1H``. This sets the group's config ``share.auto.offset.reset``
            (default: ``latest``). A group that exists continues where it is.
        bootstrap_servers: ``host:port,…`` or a list.
        key_deserializer, value_deserializer: turn bytes into the application's objects; null stays
            None. If one raises, the poll raises :class:`RecordDeserializationError`.
        acknowledgement_mode: ``implicit``: the next :meth:`poll`, or the next step of an
            ``async for``, accepts the previous records; ``explicit``: the application calls
            :meth:`accept`, :meth:`release`, :meth:`reject` or :meth:`renew` for every record.
        acquire_mode: ``batch_optimized``: acquire whole record batches, so a poll may return more
            than ``max_poll_records``; the next batches are fetched while the application works.
            ``record_limit``: never more than ``max_poll_records``, no prefetch, one broker at a
            time.
        renew_locks: renew the acquisition locks of all held records in the background, for at most
            ``max_poll_interval_ms`` after a poll; needs Apache Kafka 4.2 or our broker.
        max_poll_interval_ms: the member leaves the group when the application does not poll for
            this long, and joins again with the next poll.
        fetch_max_wait_ms: how long a broker may wait for ``fetch_min_bytes``. A :meth:`commit`
            waits as well, if a fetch is under way on its connection.
        check_crcs: check the checksum of each batch.
        acknowledgement_commit_callback: called in :meth:`poll`, :meth:`commit` and :meth:`close`
            with ({partition: offset ranges}, error or None) for completed acknowledgements.
        security: TLS and SASL: a :class:`~sharegroup.client.Security`, or the properties of Java's
            clients or librdkafka for them; None: PLAINTEXT.
        cluster: connections to share with other clients; :meth:`close` does not close them. A
            connection answers in order, so waiting fetches of several consumers on one connection
            delay each other.
    """

    def __init__(
        self,
        *topics: str,
        group_id: str,
        bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092",
        auto_offset_reset: str | None = None,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        acknowledgement_mode: Literal["implicit", "explicit"] = "implicit",
        acquire_mode: Literal["batch_optimized", "record_limit"] = "batch_optimized",
        renew_locks: bool = False,
        max_poll_records: int = 500,
        max_poll_interval_ms: int = 300_000,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 52_428_800,
        fetch_max_wait_ms: int = 500,
        check_crcs: bool = True,
        client_id: str = "sharegroup",
        client_rack: str | None = None,
        request_timeout_ms: int = 30_000,
        acknowledgement_commit_callback: AckCallback | None = None,
        security: SecuritySettings = None,
        cluster: Cluster | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        check_group(group_id)
        check_topics(topics)
        self._max_poll_records = check_positive("max_poll_records", max_poll_records)
        self._holdings = Holdings(mode_of(acknowledgement_mode))
        self._cluster = cluster or Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            security=security,
            jitter=jitter,
        )
        self._owns_cluster = cluster is None
        self._decoding = decoding_of(check_crcs, key_deserializer, value_deserializer)
        self._group_id = group_id
        self._auto_offset_reset = auto_offset_reset
        self._names = PartitionNames(self._cluster.metadata)
        self._callback = CommitCallback(acknowledgement_commit_callback, self._names.of)
        self._member = ShareMember(
            self._cluster,
            group_id,
            rack_id=client_rack or None,
            subscribed_topics=topics,
            poll_interval_max_ms=check_positive("max_poll_interval_ms", max_poll_interval_ms),
            on_acknowledged=self._callback.note,
        )
        self._fetcher = Fetcher(
            self._member,
            FetchSettings(
                max_records=max_poll_records,
                max_bytes=fetch_max_bytes,
                min_bytes=fetch_min_bytes,
                max_wait_ms=fetch_max_wait_ms,
                strict=is_strict(acquire_mode),
                decode=partial(decode_all, decoding=self._decoding),
            ),
        )
        self._committer = Committer(self._holdings, self._member, self._callback)
        parts = (self._member, self._fetcher, self._holdings, self._committer)
        self._receiver = Receiver(*parts, self._callback, self._names)
        self._leaving = Leaving(self._holdings, self._committer, self._receiver)
        self._wakeup = WakeupCall()
        self._renew_locks = renew_locks
        self._lock_keeper: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._clock: Callable[[], float] = float  # the event loop's, from start() on

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect and join the group; ``async with`` and the first :meth:`poll` do it by
        themselves.

        Raises:
            BootstrapError: no broker could be reached.
            KafkaError: the group refused this member.
        """
        self._check_usable()
        if self._started:
            return
        self._leaving.start()
        if self._auto_offset_reset is not None:
            await self._begin_group_at(self._auto_offset_reset)
        self._clock = asyncio.get_running_loop().time
        await self._member.start()
        self._started = True
        if self._renew_locks:
            self._lock_keeper = asyncio.create_task(self._committer.keep_locks())

    async def _begin_group_at(self, reset: str) -> None:
        group, conditions = self._group_id, self._cluster.conditions
        try:
            await Admin(cluster=self._cluster).begin_group_at(group, reset)
        except KafkaError as error:
            if not error.retriable:
                conditions.begins(
                    ("auto_offset_reset", group),
                    "auto_offset_reset=%r cannot be set for the group %r (%s): correct it, or leave"
                    " it out and let somebody who may set the group's share.auto.offset.reset",
                    reset,
                    group,
                    error,
                )
            raise
        conditions.ends(("auto_offset_reset", group), "the group %r begins at %r", group, reset)

    async def close(self, *, timeout_ms: int = 30_000) -> None:
        """Send pending acknowledgements, release all other records, leave the group. A second call
        does nothing. The close takes at most ``timeout_ms`` and at most ``request_timeout_ms``;
        then it is aborted. No task and no connection is left behind.

        If the caller is cancelled, the close has two more seconds; then the cancellation goes on.
        """
        self._callback.check_outside()
        if self._closing is None:
            self._closed = True
            timeout_ms = min(timeout_ms, self._cluster.request_timeout_ms)
            closing = self._close(timeout_ms)
            self._closing = asyncio.create_task(closing, name="share-consumer-close")
            self._closing.add_done_callback(lambda _: self._cut())  # the close may not have begun
        elif self._closing.done():
            return
        try:
            await finish(self._closing)
        finally:
            self._callback.run()

    async def _close(self, timeout_ms: int) -> None:
        try:
            left_ms = await self._release_all(timeout_ms)
            await self._member.close(timeout_ms=left_ms)
        finally:
            await ended(self._cut())

    def _cut(self) -> list[asyncio.Task[Any]]:
        """Abort everything without telling the group. Returns the cancelled tasks, which are about
        to end."""
        self._closed = True
        self._leaving.stop()
        ending = [*self._committer.cut(), *self._fetcher.cut(), *self._member.cut()]
        if self._lock_keeper is not None:
            ending.append(self._lock_keeper)
        if self._owns_cluster:
            ending += self._cluster.cut()
        for task in ending:
            task.cancel()
        return ending

    def __del__(self) -> None:
        leaving = getattr(self, "_leaving", None)
        if leaving is None or leaving.loop is None or self._closed:
            return
        warnings.warn(
            f"a ShareConsumer of group {self._group_id!r} was not closed: write "
            "`async with ShareConsumer(...)`, or await its close()",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )
        self._forsake()

    def _forsake(self) -> None:
        """Abort without telling the group, from any thread, because nobody closed this consumer."""
        self._closed = True
        loop = self._leaving.loop
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
        await self.close()

    # --- subscription -----------------------------------------------------------------------------

    @property
    def subscription(self) -> tuple[str, ...]:
        """The subscribed topics."""
        return self._member.topics

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that the group has given to this consumer now, sorted."""
        named = (self._names.of(partition) for partition in self._member.assignment)
        return sorted(named)

    @property
    def member_id(self) -> str:
        """This consumer's name in the group."""
        return self._member.member_id

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long an acquisition lock lasts, to plan renewals; None before the first fetch."""
        return self._member.lock_timeout_ms

    def metrics(self) -> Metrics:
        """Kafka's share consumer metrics, and the metrics of :meth:`run`: (group, name) → value.
        An average without samples is NaN.
        """
        worker = {} if self._worker is None else self._worker.read_metrics()
        return self._member.metrics.read() | worker

    def subscribe(self, *topics: str) -> None:
        """Replace the subscription. Held records keep their locks and can be acknowledged."""
        self._check_usable()
        check_topics(topics)
        self._member.subscribe(topics)

    async def unsubscribe(self) -> None:
        """Send pending acknowledgements, release all other records, leave the group.
        :meth:`subscribe` joins again.
        """
        self._check_usable()
        left_ms = await self._release_all(self._cluster.request_timeout_ms)
        await self._member.leave(timeout_ms=left_ms)
        self._callback.run()

    async def _release_all(self, timeout_ms: int) -> int:
        """Queue a final acknowledgement for every held record. Returns the time left, in ms."""
        deadline = self._now() + timeout_ms / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                self._committer.queue(self._holdings.buffer(await self._fetcher.stop()))
                await self._committer.finish()
        self._committer.queue(self._holdings.release_all())
        return max(0, int((deadline - self._now()) * 1000))

    # --- receiving --------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1_000) -> Records[K, V]:
        """The next records; empty when there were none within ``timeout_ms``.

        Records of one partition ascend in offset. In implicit mode a poll accepts the records of
        the previous poll; in explicit mode each of them must have been acknowledged. While locks
        are being renewed, a poll returns only renewed records. Cancelling a poll loses nothing.

        Raises:
            IllegalState: nothing is subscribed; or, in explicit mode, some records are not
                acknowledged (they still can be).
            CorruptRecordBatch: a batch is damaged; the next poll rejects it. Earlier polls have
                returned the records before it.
            RecordDeserializationError: a deserializer failed; the next poll releases the record.
                Earlier polls have returned the records before it.
            Wakeup: :meth:`wakeup` was called.
            KafkaError: the group or the broker refuses for good.
        """
        return await self._poll_records(timeout_ms / 1000)

    def __aiter__(self) -> RecordLoop[K, V]:
        """An endless loop over records. In implicit mode a record is accepted when the loop asks
        for the next one, and released if the loop ends before. Ends when the consumer is closed.
        """
        return RecordLoop(self)

    def batches(self, timeout_ms: int = 1_000) -> BatchLoop[K, V]:
        """An endless loop over the results of :meth:`poll`, without the empty ones. In implicit
        mode a batch is accepted when the loop asks for the next one, and released if the loop ends
        before. Ends when the consumer is closed.
        """
        return BatchLoop(self, timeout_ms / 1000)

    def arrow_batches(
        self,
        *,
        max_records: int = 50_000,
        include_headers: bool = False,
        idle_timeout_ms: int | None = None,
    ) -> ArrowLoop:
        """An endless loop over Arrow record batches, with the columns of the Spark source: key,
        value, topic, partition, offset, timestamp, [headers,] delivery_count. They are acknowledged
        as the batches of :meth:`batches` are.

        Args:
            max_records: how many records a fetch asks for. A fetch returns whole batches of the
                log, so there may be up to a quarter more rows.
            include_headers: add the column headers.
            idle_timeout_ms: end after this long without records, counted from the first assignment
                of partitions; None: never.

        Raises:
            ConfigError: NumPy or PyArrow is missing, or deserializers are set.
            IllegalState, CorruptRecordBatch, Wakeup, KafkaError: as :meth:`poll`. One consumer
                returns either records or Arrow batches, not both.
        """
        wait_s = GIVE_UP_S if idle_timeout_ms is None else idle_timeout_ms / 1000
        return ArrowLoop(self, max_records, include_headers, wait_s)

    def wakeup(self) -> None:
        """End the waiting :meth:`poll` or :meth:`commit`, or else the next one, with
        :class:`Wakeup`. Nothing is lost. From another thread, use ``loop.call_soon_threadsafe``, or
        the synchronous consumer, whose ``wakeup`` may be called from any thread. During
        :meth:`run`, this is :meth:`stop`.
        """
        if self._worker is not None:
            self._worker.stop()
        else:
            self._wakeup.ring()

    # --- sending ----------------------------------------------------------------------------------

    def commit(
        self, *, timeout_ms: int | None = None
    ) -> Coroutine[Any, Any, dict[TopicPartition, KafkaError | None]]:
        """Send pending acknowledgements and await the outcome of each partition: None is success,
        an error means that all acknowledgements of the partition failed. Failures are not raised:
        their records are delivered again.

        In implicit mode, all records returned so far are accepted first. In a loop's body, that
        includes the record in work: commit when the work is done. A commit by another task leaves
        out the record in work. After the loop no record is in work: it was released. Cancelling a
        commit loses the outcome, not the acknowledgements.

        Args:
            timeout_ms: an outcome that takes longer is RequestTimedOut; None: only the time-out of
                each request applies.

        Raises:
            Wakeup: :meth:`wakeup` was called.
        """
        return self._commit(timeout_ms, asking_task())

    async def _commit(
        self, timeout_ms: int | None, asker: object
    ) -> dict[TopicPartition, KafkaError | None]:
        self._check_usable()
        self._callback.run()
        async with self._wakeup.answering():
            wait_s = None if timeout_ms is None else timeout_ms / 1000
            await self._leaving.generators_closed()
            in_work = self._leaving.may_accept_work(asker)
            outcomes = await self._committer.commit(wait_s, in_work=in_work)
        self._callback.run()
        return {self._names.of(partition): error for partition, error in outcomes.items()}

    def commit_async(self) -> None:
        """As :meth:`commit`, without waiting. The callback gets the outcome."""
        self._commit_async(asking_task())

    def _commit_async(self, asker: object) -> None:
        self._check_usable()
        self._callback.run()
        self._committer.queue_decided(in_work=self._leaving.may_accept_work(asker))
        self._committer.begin_renewals()
        self._committer.flush()

    def set_acknowledgement_commit_callback(self, callback: AckCallback | None) -> None:
        """Replace the callback; None removes it."""
        self._check_usable()
        self._callback.replace(callback)

    # --- inside -----------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._closed:
            raise IllegalState("the consumer is closed")
        self._callback.check_outside()
