"""The share consumer: records of a share group, one by one or in batches, and what became of them.

::

    async with ShareConsumer("orders", group_id="billing") as consumer:
        async for record in consumer:
            print(record.value, record.delivery_count)

A record is accepted when the loop asks for the next one. Leave the ``async with`` by an exception,
and whatever was not accepted is released and delivered again, to whomever.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar

from sharegroup.client.admin import Admin
from sharegroup.client.answering import Answering, arrow
from sharegroup.client.cluster import Cluster
from sharegroup.client.commit_callback import AckCallback, CommitCallback
from sharegroup.client.committer import Committer
from sharegroup.client.consumer_metrics import Metrics
from sharegroup.client.consumer_settings import check_group, check_positive, is_strict, mode_of
from sharegroup.client.core.holdings import Holdings, Iteration
from sharegroup.client.decode import Decoding, Deserializer, decode_all
from sharegroup.client.errors import IllegalState
from sharegroup.client.fetcher import Fetcher, FetchSettings
from sharegroup.client.receiver import Receiver
from sharegroup.client.record import Record, Records
from sharegroup.client.share_member import ShareMember
from sharegroup.client.wakeup import WakeupCall
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from sharegroup.client.arrow_batches import ArrowForm
    from sharegroup.client.arrow_decode import RecordBatch

_ITERATION_FLUSH_S: Final = 1.0
"""While an ``async for`` goes slowly through a batch, what it has accepted is sent this often."""
_YIELD_S: Final = 0.02
"""How long an ``async for`` whose body awaits nothing may keep the event loop from its other
work.
"""
GIVE_UP_S: Final = 365 * 86_400


T = TypeVar("T")


class ShareConsumer(Answering):
    """A member of a share group (KIP-932).

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
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
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
        self._callback = CommitCallback(acknowledgement_commit_callback, self._name_of)
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
        self._receiver = Receiver(
            self._member, self._fetcher, self._holdings, self._committer, self._callback
        )
        self._wakeup = WakeupCall()
        self._renew_locks = renew_locks
        self._form: str | None = None
        self._lock_keeper: asyncio.Task[None] | None = None
        self._started = self._polling = self._closed = False
        self._flush_at = self._yield_at = 0.0

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
        if self._auto_offset_reset is not None:
            admin = Admin(cluster=self._cluster)
            await admin.begin_group_at(self._group_id, self._auto_offset_reset)
        await self._member.start()
        self._started = True
        if self._renew_locks:
            self._lock_keeper = asyncio.create_task(self._committer.keep_locks())

    async def close(self, *, timeout_ms: int = 30_000) -> None:
        """Send what is acknowledged, release the rest, leave the group. Nothing happens the
        second time. It takes at most ``timeout_ms``, and at most ``request_timeout_ms``.
        """
        self._callback.check_outside()
        if self._closed:
            return
        self._closed = True
        try:
            if self._lock_keeper is not None:
                self._lock_keeper.cancel()
            left_ms = await self._release_all(min(timeout_ms, self._cluster.request_timeout_ms))
            await self._member.close(timeout_ms=left_ms)
            self._callback.run()
        finally:
            if self._owns_cluster:
                await self._cluster.close()

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
        named = (self._name_of(partition) for partition in self._member.assignment)
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
        """Kafka's share consumer metrics: (group, name) → value. An average of nothing is NaN."""
        return self._member.metrics.read()

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

    async def poll(self, timeout_ms: int = 1_000) -> Records:
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

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Records without end, one by one. In implicit mode a record is accepted when the next one
        is asked for. Ends when the consumer is closed.
        """
        now = asyncio.get_running_loop().time
        while not self._closed:
            iteration = self._holdings.iteration
            if iteration is None or iteration.exhausted:
                iteration = await self._next_iteration()
            for record in iteration.records[iteration.given :]:
                if now() > self._yield_at:
                    await self._give_way()
                if iteration is not self._holdings.iteration:
                    break  # a poll in the loop's body has taken the rest
                iteration.given += 1
                yield record

    async def batches(self, timeout_ms: int = 1_000) -> AsyncIterator[Records]:
        """What :meth:`poll` returns, without end, and without the empty ones. In implicit mode
        going round the loop accepts the whole batch. Ends when the consumer is closed.
        """
        while not self._closed:
            records = await self.poll(timeout_ms)
            if records:
                yield records

    async def arrow_batches(
        self,
        *,
        max_records: int = 50_000,
        include_headers: bool = False,
        idle_timeout_ms: int | None = None,
    ) -> AsyncIterator[RecordBatch]:
        """Arrow record batches without end, with the columns of the Spark source: key, value,
        topic, partition, offset, timestamp, [headers,] delivery_count. Acknowledged as records are.

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
        form = self._arrow_form(max_records, include_headers)
        wait_s = GIVE_UP_S if idle_timeout_ms is None else idle_timeout_ms / 1000
        while not self._closed:
            batch = await self._poll_arrow(form, wait_s)
            if batch is not None:
                yield batch
            elif self._member.assignment:
                return

    async def _next_iteration(self) -> Iteration:
        """The next batch for an iteration, however long it takes."""
        records = await self._poll_records(GIVE_UP_S)
        self._yield_at = self._now() + _YIELD_S
        self._flush_at = self._now() + _ITERATION_FLUSH_S
        return self._holdings.iterate(records)

    def wakeup(self) -> None:
        """End the :meth:`poll` or :meth:`commit` that waits, or else the next one, with
        :class:`Wakeup`. Nothing is lost by it. From another thread, use
        ``loop.call_soon_threadsafe``, or the synchronous consumer, whose ``wakeup`` may be called
        from anywhere.
        """
        self._wakeup.ring()

    async def _poll(self, wait_s: float, take: Callable[[], T]) -> T | None:
        self._check_usable()
        if not self._started:
            await self.start()
        if not self._member.topics:
            raise IllegalState("nothing is subscribed: name topics, or call subscribe()")
        if self._polling:
            raise IllegalState("another poll is under way: a consumer is for one task at a time")
        self._polling = True
        self._member.metrics.poll_begins()
        try:
            async with self._wakeup.answering():
                return await self._receiver.receive(take, wait_s)
        finally:
            self._polling = False
            self._member.metrics.poll_ends()

    async def _poll_records(self, wait_s: float) -> Records:
        self._give("records")
        return await self._poll(wait_s, self._take_records) or Records()

    def _take_records(self) -> Records:
        rest = self._holdings.rest()
        return rest or self._holdings.next_records(self._max_poll_records, self._now())

    def _arrow_form(self, max_records: int, include_headers: bool) -> ArrowForm:
        form: ArrowForm = arrow().ArrowForm(max_records, include_headers, self._decoding)
        self._give(form.name)
        return form

    async def _poll_arrow(self, form: ArrowForm, wait_s: float) -> RecordBatch | None:
        self._fetcher.settings = form.settings(self._fetcher.settings)
        return await self._poll(wait_s, lambda: form.take(self._holdings, self._now()))

    def _give(self, form: str) -> None:
        """What is fetched ahead is of one form."""
        self._check_usable()
        if self._form not in (None, form):
            raise IllegalState(f"this consumer gives {self._form}: make another one for {form}")
        self._form = form

    # --- sending ----------------------------------------------------------------------------------

    async def commit(
        self, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Send what is acknowledged and await the outcome: per partition None, or why all of its
        failed. A failure is not raised: the records concerned come again.

        In implicit mode every record that was given is accepted first, the one in work included.
        Whoever cancels a commit loses the outcome, not the acknowledgements.

        Args:
            timeout_ms: an outcome that takes longer is RequestTimedOut; None: no limit but that of
                the requests themselves.

        Raises:
            Wakeup: :meth:`wakeup` was called.
        """
        self._check_usable()
        self._callback.run()
        async with self._wakeup.answering():
            wait_s = None if timeout_ms is None else timeout_ms / 1000
            outcomes = await self._committer.commit(wait_s)
        self._callback.run()
        return {self._name_of(partition): error for partition, error in outcomes.items()}

    def commit_async(self) -> None:
        """As :meth:`commit` without waiting; the outcome goes to the callback."""
        self._check_usable()
        self._callback.run()
        self._committer.queue_decided()
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

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _name_of(self, partition: TopicIdPartition) -> TopicPartition:
        known = self._receiver.names.get(partition)
        if known is not None:
            return known
        name = self._cluster.metadata.name_of(partition.topic_id) or str(partition.topic_id)
        return TopicPartition(name, partition.partition)

    async def _give_way(self) -> None:
        """A long iteration lets the loop do its other work, and sends what it has accepted."""
        await asyncio.sleep(0)
        now = self._now()
        self._yield_at = now + _YIELD_S
        if now > self._flush_at and not self._closed:
            self._member.polled()
            self._flush_at = now + _ITERATION_FLUSH_S
            self._committer.queue_decided()
            self._committer.flush()
