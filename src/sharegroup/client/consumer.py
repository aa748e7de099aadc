"""The share consumer: records of a share group, one by one or in batches, and what became of them.

::

    async with ShareConsumer("orders", group_id="billing") as consumer:
        async for record in consumer:
            print(record.value, record.delivery_count)

A record is accepted when the loop asks for the next one. Leave the loop in any other way, and the
record in work is released and delivered again, to whomever (:mod:`sharegroup.client.loops`).
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

from sharegroup.client.admin import Admin
from sharegroup.client.answering import Answering
from sharegroup.client.asking import GIVE_UP_S, Asking
from sharegroup.client.closing import ended, finish
from sharegroup.client.cluster import Cluster
from sharegroup.client.commit_callback import AckCallback, CommitCallback
from sharegroup.client.committer import Committer
from sharegroup.client.consumer_metrics import Metrics
from sharegroup.client.consumer_settings import check_group, check_positive, is_strict, mode_of
from sharegroup.client.core.holdings import Holdings
from sharegroup.client.decode import Decoding, decode_all
from sharegroup.client.errors import IllegalState
from sharegroup.client.fetcher import Fetcher, FetchSettings
from sharegroup.client.leaving import Leaving
from sharegroup.client.loops import ArrowLoop, BatchLoop, RecordLoop, asking_task
from sharegroup.client.metadata import PartitionNames
from sharegroup.client.receiver import Receiver
from sharegroup.client.record import K, Records, V
from sharegroup.client.running import Running
from sharegroup.client.share_member import ShareMember
from sharegroup.client.wakeup import WakeupCall
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition


class ShareConsumer(Answering, Asking, Running[K, V]):
    """A member of a share group (KIP-932); ``ShareConsumer[K, V]`` by its deserializers.

    Args:
        topics: what to subscribe to; :meth:`subscribe` may change it.
        group_id: the share group.
        auto_offset_reset: where a group that does not exist yet begins: ``earliest``, ``latest`` or
            ``by_duration:PT1H``. It becomes the group's config ``share.auto.offset.reset`` (which
            is ``latest`` when nobody sets it); a group that exists goes on where it is.
        bootstrap_servers: ``host:port,…`` or a list.
        key_deserializer, value_deserializer: made of bytes whatever the application wants; null
            stays None. Where one raises, the poll does (:class:`RecordDeserializationError`).
        acknowledgement_mode: ``implicit``: the next :meth:`poll`, or going round an ``async for``,
            accepts the records before; ``explicit``: the application calls :meth:`accept`,
            :meth:`release`, :meth:`reject` or :meth:`renew` for every record.
        acquire_mode: ``batch_optimized``: whole record batches, so that a poll may return more than
            ``max_poll_records``, and the next ones are fetched while the application works;
            ``record_limit``: never more, no prefetch, and one broker at a time.
        renew_locks: renew the locks of all records held, in the background, for as long as
            ``max_poll_interval_ms`` allows; needs Apache Kafka 4.2 or ours.
        max_poll_interval_ms: the member leaves the group when the application does not poll for so
            long, and joins again with the next poll.
        fetch_max_wait_ms: how long a broker may wait for ``fetch_min_bytes``. A :meth:`commit`
            waits behind a fetch.
        check_crcs: check the checksum of each batch.
        acknowledgement_commit_callback: called in :meth:`poll`, :meth:`commit` and :meth:`close`
            with ({partition: offset ranges}, error or None) for acknowledgements that are through.
        cluster: connections to share with others; it is not closed then. A connection answers in
            order: fetches of several consumers that wait on one of them wait for each other.
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
        cluster: Cluster | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        check_group(group_id)
        self._max_poll_records = check_positive("max_poll_records", max_poll_records)
        self._holdings = Holdings(mode_of(acknowledgement_mode))
        self._cluster = cluster or Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            jitter=jitter,
        )
        self._owns_cluster = cluster is None
        self._decoding = Decoding(check_crcs, key_deserializer, value_deserializer)
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
        self._clock: Callable[[], float] = float  # the loop's, from start() on

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect and join the group; ``async with`` and the first :meth:`poll` do it by
        themselves.

        Raises:
            BootstrapError: no broker could be reached.
            KafkaError: the group refused.
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
        """Send what is acknowledged, release the rest, leave the group. Nothing happens the
        second time. It takes at most ``timeout_ms``, and at most ``request_timeout_ms``; what is
        not through by then is cut: no task and no connection is left behind.

        Whoever is cancelled in here waits for that, for two seconds at most, and is cancelled then.
        """
        self._callback.check_outside()
        if self._closing is None:
            self._closed = True
            timeout_ms = min(timeout_ms, self._cluster.request_timeout_ms)
            closing = self._close(timeout_ms)
            self._closing = asyncio.create_task(closing, name="share-consumer-close")
            self._closing.add_done_callback(lambda _: self._cut())  # it may not even have begun
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
        """End all that is ours, without a word to the group; the tasks that end now."""
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
        """End without a word to the group, from any thread: nobody has closed this."""
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
        """The topics."""
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
        """How long a lock lasts, for whoever schedules renewals; None before the first fetch."""
        return self._member.lock_timeout_ms

    def metrics(self) -> Metrics:
        """Kafka's share consumer metrics, and those of :meth:`run`: (group, name) → value. An
        average of nothing is NaN.
        """
        worker = {} if self._worker is None else self._worker.read_metrics()
        return self._member.metrics.read() | worker

    def subscribe(self, *topics: str) -> None:
        """Replace the subscription. Records that are held stay held, and may be acknowledged."""
        self._check_usable()
        self._member.subscribe(topics)

    async def unsubscribe(self) -> None:
        """Send what is acknowledged, release the rest, leave the group; :meth:`subscribe` comes
        back.
        """
        self._check_usable()
        left_ms = await self._release_all(self._cluster.request_timeout_ms)
        await self._member.leave(timeout_ms=left_ms)
        self._callback.run()

    async def _release_all(self, timeout_ms: int) -> int:
        """Queue a last word on all that is held; how much of the time is left."""
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

        Records of one partition ascend in offset. In implicit mode the records of the poll before
        are accepted; in explicit mode each of them must have been acknowledged. While records are
        renewed, a poll returns these and no others. Whoever cancels a poll loses nothing.

        Raises:
            IllegalState: nothing is subscribed; or unacknowledged records in explicit mode, which
                stay acknowledgeable.
            CorruptRecordBatch: a damaged batch is rejected with the next poll; what came before it
                was returned before.
            RecordDeserializationError: a record is released with the next poll; as above.
            Wakeup: :meth:`wakeup` was called.
            KafkaError: the group or the broker refuses for good.
        """
        return await self._poll_records(timeout_ms / 1000)

    def __aiter__(self) -> RecordLoop[K, V]:
        """Records without end, one by one. In implicit mode a record is accepted when the loop asks
        for the next one, and released when the loop ends before. Ends when the consumer is closed.
        """
        return RecordLoop(self)

    def batches(self, timeout_ms: int = 1_000) -> BatchLoop[K, V]:
        """What :meth:`poll` returns, without end, and without the empty ones. In implicit mode
        a batch is accepted when the loop asks for the next one, and released when the loop ends
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
        """Arrow record batches without end, with the columns of the Spark source: key, value,
        topic, partition, offset, timestamp, [headers,] delivery_count. Acknowledged as those of
        :meth:`batches` are.

        Args:
            max_records: how many records a fetch asks for. It brings whole batches of the log, so
                that there may be up to a quarter more rows.
            include_headers: with the column headers.
            idle_timeout_ms: end when nothing has come for so long, counted from when the group has
                given partitions to this consumer; None: go on.

        Raises:
            ConfigError: NumPy or PyArrow is missing, or deserializers are set.
            IllegalState, CorruptRecordBatch, Wakeup, KafkaError: as :meth:`poll`. A consumer gives
                either records or Arrow batches.
        """
        wait_s = GIVE_UP_S if idle_timeout_ms is None else idle_timeout_ms / 1000
        return ArrowLoop(self, max_records, include_headers, wait_s)

    def wakeup(self) -> None:
        """End the :meth:`poll` or :meth:`commit` that waits, or else the next one, with
        :class:`Wakeup`. Nothing is lost by it. From another thread, use
        ``loop.call_soon_threadsafe``, or the synchronous consumer, whose ``wakeup`` may be called
        from anywhere. While :meth:`run` is under way it is :meth:`stop`.
        """
        if self._worker is not None:
            self._worker.stop()
        else:
            self._wakeup.ring()

    # --- sending ----------------------------------------------------------------------------------

    def commit(
        self, *, timeout_ms: int | None = None
    ) -> Coroutine[Any, Any, dict[TopicPartition, KafkaError | None]]:
        """Send what is acknowledged and await the outcome: per partition None, or why all of its
        failed. A failure is not raised: the records concerned come again.

        In implicit mode every record that was given is accepted first. Called in a loop's body that
        includes the record in work: call it when the work is done. Called by another task than the
        loop's, it leaves the record in work out. After the loop has ended there is none: it was
        released. Whoever cancels a commit loses the outcome, not the acknowledgements.

        Args:
            timeout_ms: an outcome that takes longer is RequestTimedOut; None: no limit but that of
                the requests themselves.

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
        """As :meth:`commit` without waiting; the outcome goes to the callback."""
        self._commit_async(asking_task())

    def _commit_async(self, asker: object) -> None:
        self._check_usable()
        self._callback.run()
        self._committer.queue_decided(in_work=self._leaving.may_accept_work(asker))
        self._committer.begin_renewals()
        self._committer.flush()

    def set_acknowledgement_commit_callback(self, callback: AckCallback | None) -> None:
        """Replace the callback; None: there is none."""
        self._check_usable()
        self._callback.replace(callback)

    # --- inside -----------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._closed:
            raise IllegalState("the consumer is closed")
        self._callback.check_outside()
